"""What is the Docker backend's own: images, builds, labels, the reaper, and the daemon that tests start."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sandlot.sandboxes import DockerfileImage, DockerImage, HostImage, Limits, RootfsImage, SandboxSpec, SyncSandbox
from sandlot.sandboxes.docker import sandbox as module
from sandlot.sandboxes.docker.build import map_images
from sandlot.sandboxes.docker.client import connect
from sandlot.sandboxes.docker.daemon import PrivateDaemon
from sandlot.sandboxes.docker.host import adopt, can_adopt, find
from sandlot.sandboxes.docker.images import import_rootfs
from sandlot.sandboxes.docker.labels import EXPIRES, OWNER, left_over, own_labels
from sandlot.sandboxes.docker.reaper import reap
from sandlot.sandboxes.docker.sandbox import DockerSandbox
from sandlot.sandboxes.docker.scripts import KILL
from sandlot.sandboxes.errors import InvalidArgument, SandboxFault, SandboxUnavailable

if TYPE_CHECKING:
    from docker import DockerClient

MIB = 1 << 20


@pytest.fixture(scope="module")
def client(docker_url: str) -> Iterator[DockerClient]:
    client = connect(docker_url)
    yield client
    client.close()


@pytest.fixture(scope="module")
def image(docker_url: str, base_rootfs: Path) -> RootfsImage:
    return RootfsImage(base_rootfs)


@pytest.mark.docker
def test_the_container_is_hardened(client: DockerClient, image: RootfsImage) -> None:
    limits = Limits(memory=200 * MIB, pids=50, cpu=0.5, shm=MIB)
    with SyncSandbox(DockerSandbox(SandboxSpec(image=image, limits=limits, labels={"mine": "yes"}))) as box:
        assert isinstance(box.sandbox, DockerSandbox)
        found = client.containers.get(box.sandbox._container).attrs
    host = found["HostConfig"]
    assert (host["Memory"], host["MemorySwap"], host["PidsLimit"]) == (200 * MIB, 200 * MIB, 50)
    assert (host["NanoCpus"], host["ShmSize"], host["NetworkMode"]) == (500_000_000, MIB, "none")
    assert host["CapDrop"] == ["ALL"] and not host["CapAdd"] and not host["Privileged"]
    assert any(option.startswith("no-new-privileges") for option in host["SecurityOpt"])
    assert any('"ptrace"' in option for option in host["SecurityOpt"])
    assert found["Config"]["Labels"]["mine"] == "yes" and OWNER in found["Config"]["Labels"]
    assert int(found["Config"]["Labels"][EXPIRES]) > time.time() + 3600


@pytest.mark.docker
@pytest.mark.parametrize("direct", [True, False])
def test_output_never_falls_behind_the_report(
    image: RootfsImage, monkeypatch: pytest.MonkeyPatch, direct: bool
) -> None:
    """Short and long outputs, many times; a daemon elsewhere copies the two streams independently."""
    if not direct:
        monkeypatch.setattr(module, "can_adopt", lambda container: False)
    with SyncSandbox(DockerSandbox(SandboxSpec(image=image))) as box, box.shell() as shell:
        for number in range(150):
            assert shell.run(f"echo {number}").stdout == b"%d\n" % number
        for _ in range(5):
            assert shell.run("seq 20000", output_limit=MIB).stdout.endswith(b"19999\n20000\n")
        assert shell.run("printf 'no newline'").stdout == b"no newline"
        assert shell.run("seq 20000", output_limit=100).truncated
        if not direct:
            assert not box.capabilities.extra_fds
            assert shell.run("printf '0 0 hB /\\0' >&200; printf '\\0x\\0' >&202; false", timeout=5).exit_code == 1
            assert shell.run("cd /usr; sleep 600", timeout=1).timed_out and shell.cwd == "/usr"
            assert shell.run("exit 7", timeout=5).exit_code == 7
            assert shell.run("pwd").stdout == b"/usr\n"


@pytest.mark.docker
def test_only_pipes_of_the_containers_processes_are_opened(image: RootfsImage) -> None:
    with SyncSandbox(DockerSandbox(SandboxSpec(image=image))) as box:
        assert isinstance(box.sandbox, DockerSandbox)
        if not box.capabilities.extra_fds:
            pytest.skip("the daemon's processes cannot be looked into from here")
        container = box.sandbox.container
        assert can_adopt(container) and not can_adopt("0" * 64) and find("0" * 64, os.getpid()) is None
        with box.shell() as shell:
            inner = int(shell.run("sleep 60 5</etc/passwd 6<>/tmp/socket 7< <(sleep 60) & echo $!").stdout)
            pid = find(container, inner)
            assert pid is not None
            while not Path(f"/proc/{pid}/fd/7").exists():  # the shell opens them after it has told the number
                time.sleep(0.01)
            before = len(list(Path("/proc/self/fd").iterdir()))
            for number in (0, 5, 6, 40):  # a device, two files, nothing
                with pytest.raises(SandboxFault, match=r"no pipe|No such"):
                    adopt(container, pid, {7: os.O_RDONLY, number: os.O_RDONLY})
            with pytest.raises(SandboxFault, match="has just ended"):
                adopt("0" * 64, pid, {7: os.O_RDONLY})  # not that container's
            assert len(list(Path("/proc/self/fd").iterdir())) == before
            pidfd, opened = adopt(container, pid, {7: os.O_RDONLY})
            assert not os.get_blocking(opened[7])
            many = [os.dup(pidfd)]
            with contextlib.suppress(OSError):  # beyond what `select` can hold, where this process may have so many
                while many[-1] < 1100:
                    many.append(os.dup(pidfd))
                many += [*(found := adopt(container, pid, {7: os.O_RDONLY}))[1].values(), found[0]]
                assert found[0] > 1024
            for descriptor in (pidfd, opened[7], *many):
                os.close(descriptor)
        forged = "#!/tmp/bash\necho 1 >&2; while :; do /bin/sleep 1; done\n"  # says that it is PID 1
        box.exec("cp /bin/bash /tmp/bash")
        box.put(forged.encode(), "/bin/sh.new", mode=0o755)
        box.exec(["/bin/mv", "/bin/sh.new", "/bin/sh"])
        with pytest.raises(SandboxFault, match=r"no pipe|No such"):
            box.shell()
        assert len(list(Path("/proc/self/fd").iterdir())) <= before
        box.reset()
        assert box.exec("echo here").stdout == b"here\n"


@pytest.mark.docker
def test_several_users(image: RootfsImage) -> None:
    with SyncSandbox(DockerSandbox(SandboxSpec(image=image), multi_uid=True)) as box:
        assert box.capabilities.multi_uid
        box.exec("useradd -m bob && echo secret > /root/file && chmod 600 /root/file")
        assert box.exec("id -un; cat /root/file", user="bob").stdout == b"bob\n"
        assert box.exec("chown bob /root/file && stat -c %U /root/file").stdout == b"bob\n"
        with box.fork() as other:
            assert other.exec("stat -c %U /root/file").stdout == b"bob\n"
    with pytest.raises(InvalidArgument, match="multi_uid=True"):
        DockerSandbox(SandboxSpec(image=image, user="bob"))


@pytest.mark.docker
def test_the_writable_layer_is_bounded(image: RootfsImage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WATCH", 0.2)
    with SyncSandbox(DockerSandbox(SandboxSpec(image=image, limits=Limits(disk=20 * MIB)))) as box:
        result = box.exec("while :; do head -c 5000000 /dev/zero >> /tmp/full; sleep 0.05; done", timeout=120)
        assert result.exit_code == 137 and not result.timed_out


@pytest.mark.docker
def test_a_container_that_somebody_removes_is_a_fault(client: DockerClient, image: RootfsImage) -> None:
    with SyncSandbox(DockerSandbox(SandboxSpec(image=image))) as box:
        assert isinstance(box.sandbox, DockerSandbox)
        client.containers.get(box.sandbox._container).remove(force=True)
        with pytest.raises(SandboxFault):
            box.exec("true")
        with pytest.raises(SandboxFault):
            box.kill_all()


@pytest.mark.docker
def test_the_dead_are_reaped_and_the_living_are_not(client: DockerClient, image: RootfsImage) -> None:
    program = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from sandlot.sandboxes import RootfsImage, SandboxSpec, SyncSandbox\n"
        "from sandlot.sandboxes.docker.sandbox import DockerSandbox\n"
        "box = SyncSandbox(DockerSandbox(SandboxSpec(image=RootfsImage(Path(sys.argv[1]))))).start()\n"
        "print(box.sandbox._container, flush=True)\n"
        "os._exit(1)\n"  # no chance to clean up
    )
    done = subprocess.run([sys.executable, "-c", program, str(image.path)], capture_output=True, text=True, check=False)
    orphan = done.stdout.strip()
    assert orphan in {row["Id"] for row in client.api.containers()}, done.stderr
    with SyncSandbox(DockerSandbox(SandboxSpec(image=image))) as box:
        assert isinstance(box.sandbox, DockerSandbox)
        assert f"container {orphan[:12]}" in reap(client)
        left = {row["Id"] for row in client.api.containers(all=True)}
        assert orphan not in left and box.sandbox._container in left
        assert box.exec("echo here").stdout == b"here\n"


@pytest.mark.docker
def test_a_removed_volume_is_filled_again(client: DockerClient, image: RootfsImage) -> None:
    with SyncSandbox(DockerSandbox(SandboxSpec(image=image))) as box:
        box.exec("true")
    if not any(line.startswith("volume ") for line in reap(client, volumes=True)):
        pytest.skip("another sandbox uses the volume right now")
    with SyncSandbox(DockerSandbox(SandboxSpec(image=image))) as box:
        assert box.exec("echo here").stdout == b"here\n"
    assert not client.api.containers(all=True, filters={"status": "created"})


def test_labels_tell_the_dead_from_the_living() -> None:
    own = own_labels(100)
    assert not left_over(own) and left_over(own, now=time.time() + 101)
    machine, pid, started = own[OWNER].rsplit("/", 2)
    assert int(pid) == os.getpid()
    assert left_over({**own, OWNER: f"{machine}/{pid}/{int(started) - 1}"})  # the number is another process's now
    assert not left_over({**own, OWNER: f"elsewhere/{pid}/{int(started) - 1}"})  # cannot be judged from here
    assert not left_over({}) and not left_over({"com.example": "1"})


@pytest.mark.docker
def test_a_dockerfile_is_built_once_without_a_network(client: DockerClient, image: RootfsImage, tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text(
        "FROM python:3.12-slim AS first\nRUN echo built > /made\n"
        "FROM python:3.12-slim\nCOPY --from=first /made /made\nCOPY data /data\nWORKDIR /data\n"
        "RUN ! getent hosts example.org\n"
    )
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "file.txt").write_text("content")
    spec = SandboxSpec(image=DockerfileImage(tmp_path, {"python": image}))
    with SyncSandbox(DockerSandbox(spec)) as box:
        assert box.exec("cat /made /data/file.txt").stdout == b"built\ncontent"
    begin = time.monotonic()
    with SyncSandbox(DockerSandbox(spec)) as box:
        assert isinstance(box.sandbox, DockerSandbox)
        tag = box.sandbox._image
    assert tag in client.images.get(tag).tags and time.monotonic() - begin < 20
    (tmp_path / "Dockerfile").write_text("FROM python\nRUN echo said; false\n")
    with pytest.raises(InvalidArgument, match=r"(?s)does not build: .*said"), SyncSandbox(DockerSandbox(spec)):
        pass


@pytest.mark.docker
def test_images_that_are_not_there(docker_url: str, tmp_path: Path) -> None:
    with pytest.raises(SandboxUnavailable, match="docker pull none/such"):
        SyncSandbox(DockerSandbox(SandboxSpec(image=DockerImage("none/such:1")))).start()
    with pytest.raises(InvalidArgument, match="host's own programs"):
        SyncSandbox(DockerSandbox(SandboxSpec(image=HostImage()))).start()
    with pytest.raises(InvalidArgument, match="has no Dockerfile"):
        SyncSandbox(DockerSandbox(SandboxSpec(image=DockerfileImage(tmp_path)))).start()


def test_from_lines_are_mapped() -> None:
    text = "ARG X=1\nFROM --platform=linux/amd64 ubuntu:24.04 AS base\nRUN a\nfrom base\nFROM scratch\n"
    text += "FROM other@sha256:ab\n"
    mapped = map_images(text, {"ubuntu": "local:1", "other": "local:2"}).splitlines()
    assert mapped == ["ARG X=1", "FROM local:1 AS base", "RUN a", "from base", "FROM scratch", "FROM local:2"]
    assert map_images("FROM a\nFROM b:2", {"*": "c", "b:2": "d"}) == "FROM c\nFROM d\n"
    shimmed = map_images("FROM a", {}, shims=True).splitlines()
    assert shimmed[0] == "FROM a" and shimmed[1].startswith("COPY ") and shimmed[2].startswith("ENV PATH=")


@pytest.mark.docker
def test_our_daemon_leaves_nothing(docker_url: str) -> None:
    if reason := PrivateDaemon.why_not():
        pytest.skip(reason)
    daemon = PrivateDaemon(Path(tempfile.gettempdir()) / f"sandlot-test-{os.getpid()}")
    daemon.start()
    try:
        assert daemon.answers()
        supervisor = int((daemon.folder / "supervisor.pid").read_text())
    finally:
        daemon.stop()
    assert not daemon.answers() and not daemon.folder.exists() and not Path(f"/proc/{supervisor}").exists()
    assert daemon.folder.name not in Path("/proc/self/mountinfo").read_text()
    assert not list(Path("/sys/fs/cgroup").rglob(f"*{daemon.folder.name}*"))
    daemon.stop()  # twice is fine


def test_a_signal_for_what_has_just_ended_is_no_failure() -> None:
    """Else a shell that stops a command would take that for a broken image, and end everything."""
    ended = subprocess.Popen(["true"])
    ended.wait()
    for scope in ("process", "group", "session", "children"):
        command = ["/bin/sh", "-c", KILL, "sh", str(ended.pid), "9", scope, "0", "0"]
        assert subprocess.run(command, check=False).returncode == 0


@pytest.mark.docker
def test_a_daemon_that_hears_late_of_an_end(image: RootfsImage, monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy daemon closes the output first and has the exit code later: no reason to end everything."""
    with SyncSandbox(DockerSandbox(SandboxSpec(image=image))) as box, box.shell() as shell:
        assert isinstance(box.sandbox, DockerSandbox) and box.sandbox._client is not None
        api, generation = box.sandbox._client.api, box.sandbox.generation
        inspect, asked = api.exec_inspect, dict[str, int]()

        def late(identity: str) -> dict[str, object]:
            asked[identity] = asked.get(identity, 0) + 1
            return {**inspect(identity), "ExitCode": None} if asked[identity] < 4 else inspect(identity)

        monkeypatch.setattr(api, "exec_inspect", late)
        job = shell.run("sleep 4321 & echo $!").text.strip()
        assert shell.run("while :; do sleep 0.05; done", timeout=0.3).timed_out
        assert shell.run(f"kill -0 {job} && echo alive").stdout == b"alive\n"
        assert box.sandbox.generation == generation and max(asked.values()) >= 4


UNCLOSED = """
import sys
from pathlib import Path
from sandlot.sandboxes import RootfsImage, SandboxSpec, SyncSandbox
from sandlot.sandboxes.docker.sandbox import DockerSandbox

box = SyncSandbox(DockerSandbox(SandboxSpec(image=RootfsImage(Path(sys.argv[1]))))).start()
box.exec("sleep 1000 &")
print(box.sandbox.container)
"""


@pytest.mark.docker
def test_a_container_ends_with_a_program_that_did_not_close_it(client: DockerClient, image: RootfsImage) -> None:
    run = [sys.executable, "-c", UNCLOSED, str(image.path)]
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.strip()) == 64
    assert done.stdout.strip() not in {container.id for container in client.containers.list(all=True)}


INSIDE = """
from sandlot.sandboxes import Limits, SandboxSpec, SyncSandbox
from sandlot.sandboxes.namespace import NamespaceSandbox

with SyncSandbox(NamespaceSandbox(SandboxSpec(limits=Limits(memory=150 << 20)))) as box:
    box.exec("touch /made; cat /etc/shadow")
    box.reset()
    print(box.exec("id -u; cat /proc/self/uid_map; ls /made 2>&1 | wc -l").text.split())
"""


@pytest.mark.docker
@pytest.mark.parametrize("user", [0, 1000])
def test_namespaces_inside_a_container(client: DockerClient, image: RootfsImage, tmp_path: Path, user: int) -> None:
    """As docs/sandboxes.md tells people who run all of this in a container: as its root, which may mount nothing."""
    if shutil.which("docker") is None:
        pytest.skip("needs Docker's command line, whose option systempaths the SDK does not have")
    restricted = Path("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")
    if restricted.exists() and restricted.read_text().strip() != "0":
        pytest.skip("AppArmor takes the power out of user namespaces on this machine")
    import platformdirs

    import sandlot.sandboxes

    shutil.copytree(Path(sandlot.sandboxes.__file__).parent, tmp_path / "sandlot" / "sandboxes")
    shutil.copytree(Path(platformdirs.__file__).parent, tmp_path / "platformdirs")
    (tmp_path / "sandlot" / "__init__.py").touch()
    tmp_path.chmod(0o755)
    run = ["docker", "run", "--rm", "--network", "none", "--user", f"{user}:{user}", "--volume", f"{tmp_path}:/code:ro"]
    run += ["--env", "PYTHONPATH=/code", "--env", "HOME=/tmp"]
    program = [import_rootfs(client, image.path), "python3", "-B", "-c", INSIDE]
    allowed = [f"--security-opt={what}=unconfined" for what in ("seccomp", "apparmor", "systempaths")]
    done = subprocess.run([*run, *allowed, *program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(["0", "0", str(user or 64000), "1", "1"])
    refused = subprocess.run([*run, *program], capture_output=True, text=True, check=False)
    if refused.returncode:  # a daemon may allow namespaces by itself
        assert "SandboxUnavailable" in refused.stderr and "--security-opt seccomp=unconfined" in refused.stderr
