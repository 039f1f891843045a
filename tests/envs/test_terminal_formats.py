"""The two task formats: every field that is read, every refusal, and what counts as a verdict."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sandlot.envs.core import InvalidArgument, MissingData, UnknownTask
from sandlot.envs.terminal import dockerfile, harbor, scoring, shims, terminal_bench
from sandlot.envs.terminal.fields import BadTask
from sandlot.envs.terminal.folders import FolderTasks, find_folders, load_task
from sandlot.envs.terminal.scoring import Verdict
from sandlot.envs.terminal.task import Artifact

CONFIGURED = os.environ.get("SANDLOT_TEST_DATA")
DATA = Path(CONFIGURED) if CONFIGURED else Path(__file__).parents[3] / "shared" / "data"
REAL = DATA / "terminal" / "tb1"
needs_data = pytest.mark.skipif(not REAL.is_dir(), reason=f"no Terminal-Bench tasks in {REAL} (SANDLOT_TEST_DATA)")


def write(folder: Path, **files: str) -> Path:
    """Files by path, "__" for "/" and "_dot_" for "."."""
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_dot_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def tb1(folder: Path, yaml: str = "instruction: Do it.\ndifficulty: easy\n", **files: str) -> Path:
    return write(folder, task_dot_yaml=yaml, tests__test_outputs_dot_py="def test_it(): pass\n", **files)


TOML = """
schema_version = "1.4"
multi_step_reward_strategy = "final"
artifacts = ["/app/out.txt", {source = "/app/logs", destination = "logs", exclude = ["*.tmp"]}]

[task]
name = "org/demo"

[metadata]
category = "demo"

[agent]
timeout_sec = 120.0

[verifier]
timeout_sec = 30
environment_mode = "separate"
[verifier.env]
TOKEN = "${TOKEN:-none}"
[[verifier.collect]]
command = "dump"

[environment]
docker_image = "debian:12"
cpus = 2
memory = "2G"
storage_mb = 100
workdir = "/work"
[environment.env]
MODE = "a"
[environment.healthcheck]
command = "true"
retries = 2

[solution.env]
KEY = "it's"
"""


def harbor_task(folder: Path, toml: str = TOML, **files: str) -> Path:
    return write(
        folder,
        task_dot_toml=toml,
        instruction_dot_md="Do it.\n",
        tests__test_dot_sh="true\n",
        solution__solve_dot_sh="echo done\n",
        **files,
    )


# -- Terminal-Bench 1 ---------------------------------------------------------------------------------------------


def test_tb1_fields(tmp_path: Path) -> None:
    yaml = (
        "instruction: |-\n  Make a file.\nauthor_name: A\nauthor_email: a@b.c\ndifficulty: hard\ncategory: files\n"
        "tags: [x]\nparser_name: pytest\nmax_agent_timeout_sec: 90\nmax_test_timeout_sec: 7.5\n"
        "disable_asciinema: true\nestimated_duration_sec: 5\n"
    )
    script = "#!/bin/bash\npytest\n"
    task = terminal_bench.load(
        tb1(tmp_path / "t", yaml, run__tests="", **{"run-tests_dot_sh": script, "solution_dot_sh": "touch x\n"})
    )
    step = task.steps[0]
    assert (task.name, step.instruction, step.timeout) == ("t", "Make a file.", 90)
    assert (step.verifier.timeout, step.verifier.result, step.verifier.mode) == (7.5, "pytest", "shared")
    assert {file.path: file.text for file in step.verifier.files}["run-tests.sh"] == script
    assert step.verifier.env["TEST_DIR"] == "/tests" and task.setting.env["TEST_DIR"] == "/tests"
    assert step.solution and step.solution.commands == ("bash /oracle/solution.sh",)
    assert (task.metadata["category"], task.metadata["tags"]) == ("files", ["x"])
    assert task.metadata["defaults"] == ("Dockerfile",)  # what the folder lacks


def test_tb1_listed_solution(tmp_path: Path) -> None:
    solution = "- command: cd /app\n- command: server\n  block: false\n  min_timeout_sec: 2\n- ls\n"
    task = terminal_bench.load(tb1(tmp_path / "t", **{"solution_dot_yaml": solution}))
    assert task.steps[0].solution and task.steps[0].solution.commands == ("cd /app", "server & sleep 2", "ls")


@pytest.mark.parametrize(
    ("yaml", "said"),
    [
        ("difficulty: easy\n", "task.yaml: instruction is missing"),
        ("instruction: 3\n", "task.yaml: instruction must be a text, not 3"),
        ("instruction: x\ndifficulty: brutal\n", "difficulty must be one of easy, medium, hard, unknown"),
        ("instruction: x\nmax_test_timeout_sec: soon\n", "max_test_timeout_sec must be a number, not 'soon'"),
        ("instruction: x\nmax_test_timeout_sec: -1\n", "max_test_timeout_sec must be a number of at least 0"),
        ("instruction: x\nparser_name: swebench\n", "parser_name is 'swebench'; only 'pytest'"),
        ("instruction: [\n", "not valid YAML"),
        ("- a\n", "the file must be a table, not list"),
    ],
)
def test_tb1_errors_name_file_and_key(tmp_path: Path, yaml: str, said: str) -> None:
    with pytest.raises(BadTask, match=r"task\.yaml") as error:
        terminal_bench.load(tb1(tmp_path / "t", yaml))
    assert said in str(error.value)


def test_tb1_without_tests(tmp_path: Path) -> None:
    with pytest.raises(MissingData, match="no files in tests/"):
        terminal_bench.load(write(tmp_path / "t", task_dot_yaml="instruction: x\n"))


@pytest.mark.parametrize(
    ("compose", "needs"),
    [
        ("services:\n  client:\n    build: .\n    command: [sleep]\n", ()),
        ("services:\n  client: {}\n  db:\n    image: postgres\n", ("compose services (db)",)),
        ("services:\n  client:\n    privileged: true\n", ("a privileged container",)),
        ("services:\n  client:\n    ports: ['80:80']\n", ("compose settings (ports)",)),
        ("services:\n  client:\n    network_mode: host\n", ("the host's network",)),
        ("services:\n  client:\n    volumes: [/var/run/docker.sock:/x]\n", ("the Docker socket",)),
        (
            "services:\n  client:\n    deploy: {resources: {reservations: {devices: [{capabilities: [gpu]}]}}}\n",
            ("a GPU",),
        ),
    ],
)
def test_compose_files(tmp_path: Path, compose: str, needs: tuple[str, ...]) -> None:
    task = terminal_bench.load(tb1(tmp_path / "t", **{"docker-compose_dot_yaml": compose}))
    assert task.setting.needs == needs


@needs_data
def test_real_tasks_load() -> None:
    folders = find_folders(REAL)
    assert len(folders) >= 4
    for folder in folders:
        task = load_task(folder)
        assert task.steps[0].instruction and task.steps[0].solution and not task.setting.needs
        if task.setting.dockerfile:
            assert dockerfile.read(task.setting.dockerfile).workdir == "/app"
    assert load_task(REAL / "hello-world").metadata["defaults"] == ("Dockerfile", "run-tests.sh")


# -- Harbor -------------------------------------------------------------------------------------------------------


def test_harbor_fields(tmp_path: Path) -> None:
    task = harbor.load(harbor_task(tmp_path / "t"), {"TOKEN": "secret"})
    step, setting = task.steps[0], task.setting
    assert (task.strategy, step.instruction, step.timeout) == ("final", "Do it.", 120.0)
    assert (setting.image, setting.workdir, setting.env) == ("debian:12", "/work", {"MODE": "a"})
    assert (setting.cpus, setting.memory_mb, setting.storage_mb) == (2, 2048, 100)  # 2 G = 2 * 1024 M
    assert setting.healthcheck and (setting.healthcheck.command, setting.healthcheck.retries) == ("true", 2)
    assert setting.healthcheck.interval == 5.0  # the format's default
    verifier = step.verifier
    assert (verifier.mode, verifier.timeout, verifier.env) == ("clean", 30, {"TOKEN": "secret"})
    assert verifier.collect[0].command == "dump" and verifier.collect[0].timeout == 60.0
    assert verifier.artifacts == (
        Artifact("/app/out.txt", "/app/out.txt"),
        Artifact("/app/logs", "/app/logs", ("*.tmp",)),
    )
    assert step.solution and step.solution.commands == ("(export KEY='it'\"'\"'s'; bash /solution/solve.sh)",)
    assert harbor.load(tmp_path / "t").steps[0].verifier.env == {"TOKEN": "none"}


def test_harbor_steps(tmp_path: Path) -> None:
    toml = (
        'version = "1.0"\n[verifier]\ntimeout_sec = 9\n[[steps]]\nname = "one"\nmin_reward = 0.5\n'
        '[[steps]]\nname = "two"\nmin_reward = {speed = 0.2}\nverifier = {timeout_sec = 3}\nartifacts = ["/x"]\n'
    )
    folder = harbor_task(
        tmp_path / "t",
        toml,
        steps__one__instruction_dot_md="First.",
        steps__one__workdir__setup_dot_sh="true\n",
        steps__two__instruction_dot_md="Second.",
        steps__two__tests__test_dot_sh="own\n",
        steps__two__solution__solve_dot_sh="own\n",
    )
    one, two = harbor.load(folder).steps
    assert (one.name, one.instruction, one.min_reward) == ("one", "First.", {"reward": 0.5})
    assert one.setup and [file.path for file in one.files] == ["setup.sh"]
    assert one.verifier.timeout == 9 and one.verifier.files[0].text == "true\n"  # the task's own
    assert (two.min_reward, two.verifier.timeout) == ({"speed": 0.2}, 3)
    assert two.verifier.files[0].text == "own\n" and two.verifier.artifacts == (Artifact("/x", "/x"),)
    assert two.solution and two.solution.files[0].text == "own\n"


@pytest.mark.parametrize(
    ("toml", "said"),
    [
        ('schema_version = "2.0"\n', "schema_version is '2.0'; versions up to 1.4"),
        ('version = "new"\n', "version is 'new'"),
        ("[verifier]\ntimeout_sec = true\n", "verifier.timeout_sec must be"),
        ('[verifier]\nenvironment_mode = "own"\n', "verifier.environment_mode must be one of shared, separate"),
        ('[environment]\nmemory = "much"\n', "environment.memory must be a size such as '2G'"),
        ("[environment.healthcheck]\nretries = 1\n", "environment.healthcheck.command is missing"),
        ('artifacts = ["out"]\n', "artifacts[0].source must be an absolute path"),
        ('multi_step_reward_strategy = "max"\n', "multi_step_reward_strategy must be one of mean, final"),
        ('[[steps]]\nname = "../x"\n', "steps[0].name must be the name of a folder"),
        ("steps = 3\n", "steps must be a list of tables"),
        ("[agent\n", "not valid TOML"),
    ],
)
def test_harbor_errors_name_file_and_key(tmp_path: Path, toml: str, said: str) -> None:
    with pytest.raises(BadTask) as error:
        harbor.load(harbor_task(tmp_path / "t", toml))
    assert said in str(error.value) and "task.toml" in str(error.value)


@pytest.mark.parametrize(
    ("toml", "needs"),
    [
        ("[environment]\ngpus = 1\n", "1 GPU(s)"),
        ('[environment]\nos = "windows"\n', "the operating system windows"),
        (
            '[environment]\nnetwork_mode = "allowlist"\nallowed_hosts = ["pypi.org"]\n',
            "a network allow-list (pypi.org)",
        ),
        ('[[environment.mcp_servers]]\nname = "x"\n', "MCP servers"),
        ('[verifier.environment]\ndocker_image = "x"\n', "a verifier image of its own"),
        ('[[verifier.collect]]\ncommand = "x"\nservice = "db"\n', "compose services (db)"),
    ],
)
def test_harbor_needs(tmp_path: Path, toml: str, needs: str) -> None:
    assert harbor.load(harbor_task(tmp_path / "t", toml)).setting.needs == (needs,)


def test_harbor_variables_are_never_taken_from_this_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_KEY", "of the host")
    folder = harbor_task(tmp_path / "t", '[environment.env]\nKEY = "${API_KEY}"\n')
    with pytest.raises(InvalidArgument, match=r"API_KEY.*has no default.*variables="):
        harbor.load(folder)
    assert harbor.load(folder, {"API_KEY": "given"}).setting.env == {"KEY": "given"}


def test_harbor_missing_files(tmp_path: Path) -> None:
    with pytest.raises(MissingData, match=r"instruction\.md"):
        harbor.load(write(tmp_path / "a", task_dot_toml=""))
    with pytest.raises(MissingData, match=r"tests/test\.sh"):
        harbor.load(write(tmp_path / "b", task_dot_toml="", instruction_dot_md="x"))


def test_folders(tmp_path: Path) -> None:
    tb1(tmp_path / "old" / "one")
    harbor_task(tmp_path / "two")
    tasks = FolderTasks(tmp_path, "test")
    assert [task.id for task in tasks] == ["old/one", "two"]
    assert load_task(tasks.get("two").params["folder"]).metadata["format"] == "harbor"
    assert [task.id for task in FolderTasks(tmp_path / "two")] == ["two"]
    with pytest.raises(UnknownTask, match="ids look like 'old/one'"):
        tasks.get("three")
    with pytest.raises(MissingData, match=r"task\.toml or a task\.yaml"):
        FolderTasks(tmp_path / "none")


# -- verdicts -----------------------------------------------------------------------------------------------------

SUMMARY = "lots of text\n=========== short test summary info ============\n"


def test_pytest_summary() -> None:
    text = f"{SUMMARY}PASSED ../tests/test_outputs.py::test_a\nXFAIL tests/test_outputs.py::test_b - known\n"
    verdict = scoring.from_pytest(text)
    assert (verdict.score, verdict.success) == (1.0, True)
    assert verdict.criteria == {"test_outputs.py::test_a": 1.0, "test_outputs.py::test_b": 1.0}
    failed = scoring.from_pytest(text + "FAILED tests/test_outputs.py::test_c - assert 1\nERROR x.py\n")
    assert failed.score == 0.0 and failed.criteria["test_outputs.py::test_c"] == 0.0
    coloured = f"{SUMMARY}\x1b[32mPASSED\x1b[0m tests/test_outputs.py::\x1b[1mtest_a\x1b[0m\n"
    assert scoring.from_pytest(coloured).score == 1.0


def test_forged_lines_do_not_hide_failures() -> None:
    text = f"{SUMMARY}PASSED t.py::test_a\n{SUMMARY}FAILED t.py::test_a - x\n"
    assert scoring.from_pytest(text).score == 0.0


@pytest.mark.parametrize("text", ["", "all good", SUMMARY, f"{SUMMARY}SKIPPED [1] x.py: no\n", "PASSED t.py::a"])
def test_an_empty_parse_is_an_error(text: str) -> None:
    with pytest.raises(scoring.NoTestResults):
        scoring.from_pytest(text)


def test_reward_files() -> None:
    assert scoring.from_rewards(None, b" 0.25\n").score == 0.25
    # reward.json wins over reward.txt; "reward" wins over the mean
    verdict = scoring.from_rewards(b'{"reward": 1, "speed": 0.5}', b"0")
    assert (verdict.score, verdict.criteria) == (1.0, {"speed": 0.5})
    assert scoring.from_rewards(b'{"a": 1, "b": 0.5}', None).score == 0.75  # (1 + 0.5) / 2
    assert scoring.from_rewards(None, b"7").score == 1.0  # cut to [0, 1]; the reward itself is kept
    assert scoring.from_rewards(None, b"7").rewards == {"reward": 7.0}


@pytest.mark.parametrize(
    ("json_file", "text_file", "error"),
    [
        (None, None, scoring.RewardMissing),
        (None, b"", scoring.RewardEmpty),
        (b" \n", b"1", scoring.RewardEmpty),
        (None, b"one", scoring.RewardUnreadable),
        (None, b"nan", scoring.RewardUnreadable),
        (None, b"\xff", scoring.RewardUnreadable),
        (b'{"reward": NaN}', None, scoring.RewardUnreadable),
        (b'{"reward": 1e999}', None, scoring.RewardUnreadable),
        (b'{"reward": true}', None, scoring.RewardUnreadable),
        (b'{"reward": "1"}', None, scoring.RewardUnreadable),
        (b"{}", None, scoring.RewardUnreadable),
        (b"[1]", None, scoring.RewardUnreadable),
        (b"[" * 100_000, None, scoring.RewardUnreadable),
    ],
)
def test_no_reward_is_an_error_of_its_own_kind(
    json_file: bytes | None, text_file: bytes | None, error: type[Exception]
) -> None:
    with pytest.raises(error):
        scoring.from_rewards(json_file, text_file)


def test_steps_combine() -> None:
    half, full = Verdict(0.5, {}, {}), Verdict(1.0, {}, {})
    assert scoring.combine((half, full), 2, "mean") == 0.75  # (0.5 + 1) / 2
    assert scoring.combine((half,), 2, "mean") == 0.25  # the second was not reached: (0.5 + 0) / 2
    assert scoring.combine((half, full), 2, "final") == 1.0
    assert scoring.combine((full,), 2, "final") == 0.0


# -- stand-ins and Dockerfiles ------------------------------------------------------------------------------------


def shim(*command: str, **env: str) -> subprocess.CompletedProcess[str]:
    program = Path(shims.__file__).with_name("shim_program.py")
    return subprocess.run(
        [sys.executable, "-E", str(program), *command], capture_output=True, text=True, env={**os.environ, **env}
    )


def test_shims_say_yes_to_what_is_there_and_no_to_what_is_not() -> None:
    assert shim("apt-get", "update").returncode == 0
    assert shim("apt-get", "install", "-y", "curl", "tmux", "bash").returncode == 0
    missing = shim("apt-get", "install", "-y", "no-such-package")
    assert missing.returncode == 100 and "no-such-package" in missing.stderr
    assert shim("pip", "install", "--no-cache-dir", "pytest==0.1", "pytest-json-ctrf").returncode == 0
    assert shim("uv", "add", "no_such_distribution==1").returncode == 1
    assert shim("uv", "init").returncode == 0
    installer = shim("curl", "-LsSf", "https://astral.sh/uv/0.7.13/install.sh")
    assert installer.returncode == 0 and ".local/bin/env" in installer.stdout
    assert shim("add-apt-repository", "ppa:x").returncode == 0


def test_shims_run_tools_with_the_python_of_the_image(tmp_path: Path) -> None:
    for command in (
        ("uv", "run", "--with", "x", "python", "-c"),
        ("uvx", "-p", "3.13", "-w", "pytest==8.4.1", "python3", "-c"),
        ("uv", "tool", "run", "python", "-c"),
    ):
        done = shim(*command, "print(6 * 7)")
        assert (done.returncode, done.stdout) == (0, "42\n"), command
    names = {file.path.rsplit("/", 1)[-1] for file in shims.shim_files()}
    assert names == {*shims.NAMES, "shim_program.py"}


def test_dockerfile_reading(tmp_path: Path) -> None:
    text = (
        '# syntax\nARG TAG=12\nFROM debian:${TAG} AS main\nENV A=1 B="two words"\nENV OLD form of it\n'
        "WORKDIR /app\nRUN one && \\\n    # comment inside\n    two\nWORKDIR sub\nCOPY <<EOF /x\nline\nEOF\n"
        'RUN ["echo", "a b"]\nEXPOSE 80\nCMD ["sleep"]\nUSER root\n'
    )
    recipe = dockerfile.read(write(tmp_path, Dockerfile=text) / "Dockerfile")
    assert (recipe.base, recipe.workdir, recipe.user, recipe.needs) == ("debian:12", "/app/sub", None, ())
    assert recipe.env == {"A": "1", "B": "two words", "OLD": "form of it"}
    assert [step.name for step in recipe.steps] == ["ENV", "ENV", "WORKDIR", "RUN", "WORKDIR", "COPY", "RUN"]
    assert " ".join(recipe.steps[3].value.split()) == "one && two"
    assert recipe.steps[5].body == "line\n"


def test_dockerfile_refusals(tmp_path: Path) -> None:
    text = "FROM a AS x\nFROM b\nCOPY --from=x /a /b\nADD https://x/y /z\n"
    recipe = dockerfile.read(write(tmp_path, Dockerfile=text) / "Dockerfile")
    assert recipe.needs == (
        "several build stages",
        "files of another image (COPY --from)",
        "a download while building (ADD)",
    )
    with pytest.raises(BadTask, match="line 2: no instruction 'FORM'"):
        dockerfile.read(write(tmp_path, Dockerfile="FROM a\nFORM b\n") / "Dockerfile")
    with pytest.raises(BadTask, match="no FROM"):
        dockerfile.read(write(tmp_path, Dockerfile="RUN x\n") / "Dockerfile")


def test_json_is_yaml(tmp_path: Path) -> None:
    """The exporter writes YAML values as JSON."""
    hard = 'colon: "quote" \\ # hash\nnew line é 🦊'
    task = terminal_bench.load(tb1(tmp_path / "t", f"instruction: {json.dumps(hard, ensure_ascii=False)}\n"))
    assert task.steps[0].instruction == hard
