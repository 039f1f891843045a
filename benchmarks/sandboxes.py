"""Speed, size and cleanliness of the sandboxes: `python benchmarks/sandboxes.py`, as root, with Docker installed.

1. Interleaved rounds over every backend beside `docker run` with the hardened flags and `docker rm -f` + `run`: start,
   command, command in a persistent shell, reset, close. Medians, and how many times faster than Docker's command line.
2. 1,000 sandboxes of each daemonless backend opened and closed; processes, mounts, control groups, temporary files and
   descriptors before and after.
3. 32 live at once, each with an idle shell: private memory of our own process for each.

A busy machine makes everything slower: trust the ratios, which come from the same rounds.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import tempfile
import time
from collections import defaultdict
from pathlib import Path

from rich.console import Console
from rich.table import Table

from sandlot.sandboxes import Image, RootfsImage, Sandbox, SandboxSpec
from sandlot.sandboxes.choose import make_sandbox
from sandlot.sandboxes.debian import build_base
from sandlot.sandboxes.docker.daemon import PrivateDaemon
from sandlot.sandboxes.docker.images import import_rootfs

BACKENDS = {
    "namespace": ("namespace", {}),
    "oci (crun)": ("oci", {"runtime": "crun"}),
    "oci (runc)": ("oci", {"runtime": "runc"}),
    "docker": ("docker", {}),
}
HARDENED = (
    "--init --network none --cap-drop ALL --security-opt no-new-privileges --pids-limit 256 --memory 1g "
    "--memory-swap 1g --shm-size 64m --ulimit nofile=1024 --ulimit core=0"
)
COMMANDS = 50  # in a persistent shell, for one round


def milliseconds(begin: float) -> float:
    return (time.perf_counter() - begin) * 1e3


def docker_command_line(url: str, image: str) -> dict[str, float]:
    """What `docker run -d` with the hardened flags takes, and `docker rm -f` with another `run`."""
    environment = {**os.environ, "DOCKER_HOST": url}

    def docker(*arguments: str) -> str:
        done = subprocess.run(["docker", *arguments], env=environment, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    run = ["run", "-d", *HARDENED.split(), image, "sleep", "600"]
    begin = time.perf_counter()
    first = docker(*run)
    start = milliseconds(begin)
    begin = time.perf_counter()
    docker("exec", first, "true")
    command = milliseconds(begin)
    begin = time.perf_counter()
    docker("rm", "-f", first)
    second = docker(*run)
    reset = milliseconds(begin)
    begin = time.perf_counter()
    docker("rm", "-f", second)
    return {"start": start, "command": command, "reset": reset, "close": milliseconds(begin)}


async def one_round(sandbox: Sandbox) -> dict[str, float]:
    """One life of a sandbox."""
    begin = time.perf_counter()
    await sandbox.start()
    found = {"start": milliseconds(begin)}
    begin = time.perf_counter()
    assert (await sandbox.exec(["true"])).exit_code == 0
    found["command"] = milliseconds(begin)
    shell = await sandbox.shell()
    await shell.run("true")
    times: list[float] = []
    for _ in range(COMMANDS):
        begin = time.perf_counter()
        assert (await shell.run("echo here")).stdout == b"here\n"
        times.append(milliseconds(begin))
    found["in a shell"] = statistics.median(times)
    await shell.close()
    begin = time.perf_counter()
    await sandbox.reset()
    found["reset"] = milliseconds(begin)
    begin = time.perf_counter()
    await sandbox.close()
    found["close"] = milliseconds(begin)
    return found


async def rounds(image: Image, docker_image: str, url: str, count: int) -> dict[str, dict[str, list[float]]]:
    """Every backend in every round, after one that is not counted."""
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for number in range(count + 1):
        results = {"docker run, rm": docker_command_line(url, docker_image)}
        for name, (backend, arguments) in BACKENDS.items():
            where = {"url": url} if backend == "docker" else {}
            results[name] = await one_round(make_sandbox(backend, SandboxSpec(image=image), **arguments, **where))
        for name, times in results.items():
            for what, value in times.items():
                if number:
                    found[name][what].append(value)
    return found


def descendants() -> list[int]:
    """Processes that this one started, directly or not."""
    parents: dict[int, int] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
    family, grown = {os.getpid()}, True
    while grown:
        more = {pid for pid, parent in parents.items() if parent in family} - family
        grown, family = bool(more), family | more
    return sorted(family - {os.getpid()})


def traces() -> dict[str, int]:
    """What could be left of sandboxes of this process."""
    groups = [folder for folder, _, _ in os.walk("/sys/fs/cgroup") if f"sandlot-{os.getpid()}-" in folder]
    return {
        "processes": len(descendants()),
        "mounts": len(Path("/proc/self/mountinfo").read_text().splitlines()),
        "control groups": len(groups),
        "temporary files": sum(1 for _ in Path(tempfile.gettempdir()).rglob("*")),
        "descriptors": len(list(Path("/proc/self/fd").iterdir())),
    }


def left_over(before: dict[str, int], after: dict[str, int]) -> dict[str, int]:
    """What there is more of; what others of this process's children took with them is no trace of ours."""
    return {what: count - before[what] for what, count in after.items() if count > before[what]}


async def open_and_close(name: str, image: Image, count: int) -> tuple[dict[str, int], dict[str, int], float]:
    """Traces before and after, and seconds."""
    backend, arguments = BACKENDS[name]

    async def once() -> None:
        async with make_sandbox(backend, SandboxSpec(image=image), **arguments) as sandbox:
            await sandbox.exec(["true"])

    await once()  # the process that starts sandboxes stays
    before, begin = traces(), time.perf_counter()
    for _ in range(count):
        await once()
    return before, traces(), time.perf_counter() - begin


def own_memory(pid: int) -> int:
    """Bytes that a process shares with no other."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:  # it has just ended
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(("Private_Clean:", "Private_Dirty:")))


async def live_at_once(name: str, image: Image, count: int) -> tuple[float, float]:
    """Megabytes of private memory of our processes for one idle sandbox; milliseconds for a command in all at once."""
    backend, arguments = BACKENDS[name]
    known = set(descendants())
    boxes = [make_sandbox(backend, SandboxSpec(image=image), **arguments) for _ in range(count)]
    try:
        await asyncio.gather(*(box.start() for box in boxes))
        agents = [pid for pid in descendants() if pid not in known]  # PID 1 of each, and what an OCI container adds
        total = sum(own_memory(pid) for pid in agents)
        shells = await asyncio.gather(*(box.shell() for box in boxes))
        begin = time.perf_counter()
        results = await asyncio.gather(*(shell.run(f"echo {number}") for number, shell in enumerate(shells)))
        took = milliseconds(begin)
        assert [int(result.stdout) for result in results] == list(range(count))
    finally:
        await asyncio.gather(*(box.close() for box in boxes))
    return total / count / 1e6, took


def show(console: Console, found: dict[str, dict[str, list[float]]]) -> None:
    """The first part as a table."""
    baseline = found["docker run, rm"]
    table = Table(title="medians, ms (times faster than Docker's command line)", box=None, pad_edge=False)
    table.add_column("")
    columns = ("start", "command", "in a shell", "reset", "close")
    for column in columns:
        table.add_column(column, justify="right")
    for name, times in found.items():
        cells: list[str] = []
        for column in columns:
            if column not in times:
                cells.append("")
                continue
            value = statistics.median(times[column])
            ratio = statistics.median(baseline[column]) / value if column in baseline and times is not baseline else 0
            cells.append(f"{value:.2f}" + (f" ({ratio:.0f}x)" if ratio else ""))
        table.add_row(name, *cells)
    console.print(table)


def main(arguments: list[str] | None = None) -> dict[str, object]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--count", type=int, default=1000, help="sandboxes opened and closed, of each backend")
    parser.add_argument("--live", type=int, default=32, help="sandboxes live at once")
    parser.add_argument("--json", type=Path, help="write all numbers there")
    options = parser.parse_args(arguments)
    console = Console(highlight=False, width=110)
    image = RootfsImage(build_base())
    report: dict[str, object] = {"load before": os.getloadavg()}
    with tempfile.TemporaryDirectory(prefix="sandlot-bench-") as folder:
        tempfile.tempdir = folder  # so that what is left there is ours
        daemon = PrivateDaemon(Path(f"/tmp/sandlot-bench-{os.getpid()}"))
        daemon.start()
        try:
            import docker

            client = docker.DockerClient(base_url=daemon.url, timeout=300)
            name = import_rootfs(client, image.path)
            client.close()
            found = asyncio.run(rounds(image, name, daemon.url, options.rounds))
        finally:
            daemon.stop()
        show(console, found)
        report["rounds"] = found
        console.print()
        for name in ("namespace", "oci (crun)"):
            before, after, seconds = asyncio.run(open_and_close(name, image, options.count))
            console.print(f"{name}: {options.count} opened and closed in {seconds:.1f} s")
            console.print(f"  before {before}\n  after  {after}\n  left   {left_over(before, after) or 'nothing'}")
            memory, took = asyncio.run(live_at_once(name, image, options.live))
            console.print(
                f"  {options.live} live: {memory:.2f} MB each, a command in every shell at once {took:.1f} ms\n"
            )
            report[name] = {"before": before, "after": after, "seconds": seconds, "memory": memory, "all": took}
        tempfile.tempdir = None
    report["load after"] = os.getloadavg()
    console.print(f"load {report['load before']} before, {report['load after']} after")
    if options.json:
        options.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    return report


if __name__ == "__main__":
    main()
