"""`sandlot/Terminal-v0`: families, shells, snapshots, judging and its enemies, on the backend that works here."""

from __future__ import annotations

import contextlib
import pickle
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sandlot.envs.core import EnvironmentFault, InvalidArgument, UnknownTask
from sandlot.envs.terminal.env import TerminalEnv
from sandlot.envs.terminal.export import export
from sandlot.envs.terminal.families import FAMILIES, LEVELS
from sandlot.envs.terminal.generator import generate
from sandlot.envs.terminal.scoring import RewardEmpty, RewardMissing, RewardUnreadable
from sandlot.envs.terminal.workspace import CannotPlay
from sandlot.sandboxes.errors import SandboxUnavailable

STEPS = 30


def task_id(family: str, level: int, seed: int = 0, split: str = "train") -> str:
    return f"terminal/gen1/{split}/{family}-{level}/{seed}"


@pytest.fixture(scope="module")
def env() -> Iterator[TerminalEnv]:
    found = TerminalEnv(backend="namespace", max_steps=STEPS)
    try:
        found.reset(seed=0)
    except SandboxUnavailable as error:
        pytest.skip(f"no sandbox here: {error}")
    yield found
    found.close()


@pytest.fixture(scope="module")
def impatient(env: TerminalEnv) -> Iterator[TerminalEnv]:
    """One that gives commands a second."""
    found = TerminalEnv(backend="namespace", timeout=1.0, max_steps=STEPS)
    yield found
    found.close()


def start(env: TerminalEnv, family: str = "permissions", level: int = 1, seed: int = 0) -> str:
    return env.reset(options={"task": task_id(family, level, seed)})[0]


def run(env: TerminalEnv, *commands: str) -> str:
    observation = ""
    for command in commands:
        observation = env.step(command)[0]
    return observation


def solve(env: TerminalEnv) -> tuple[str, float, bool, bool, dict[str, Any]]:
    """Plays the oracle to the end; returns the last step."""
    record = ("", 0.0, False, False, {"valid": False})
    for action in env.oracle():
        record = env.step(action)
        assert record[4]["valid"], action
    return record


# -- families -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", FAMILIES)
def test_the_oracle_solves_and_doing_nothing_does_not(env: TerminalEnv, family: str) -> None:
    for level in LEVELS:
        env.reset(options={"task": task_id(family, level, seed=level, split="valid_unseen")})
        _, reward, terminated, _, info = env.step("submit")
        assert (reward, terminated, info["success"]) == (0.0, True, False), (family, level)
        env.reset(options={"task": task_id(family, level, seed=level)})
        assert min(env.verify().values()) == 0.0, "nothing is done yet"
        _, reward, terminated, _, info = solve(env)
        assert (reward, terminated, info["success"], info["score"]) == (1.0, True, True, 1.0), (family, level)
        assert set(env.verify().values()) == {1.0}


def test_progress_rises_along_the_oracles_way() -> None:
    with_progress = TerminalEnv(backend="namespace", progress=True, family="sqlite", level=3, max_steps=STEPS)
    try:
        _, info = with_progress.reset(seed=1)
        found = [info["progress"], *(with_progress.step(action)[4]["progress"] for action in with_progress.oracle())]
    finally:
        with_progress.close()
    assert found == sorted(found) and found[0] < found[2] < found[-1] == 1.0


def test_the_oracle_goes_on_where_it_was(env: TerminalEnv) -> None:
    start(env, "git", 2)
    script = list(env.oracle())
    env.step(script[0])
    env.step("ls")
    assert list(env.oracle()) == script[1:]
    assert solve(env)[4]["success"]


# -- the shell ----------------------------------------------------------------------------------------------------


def test_state_lasts_from_command_to_command(env: TerminalEnv) -> None:
    start(env)
    run(env, "cd /tmp && X=5; export Y=6; f() { echo f $1; }; alias g='echo g'", "sleep 1000 &")
    assert run(env, "pwd; echo $X; bash -c 'echo $Y'; f 7; jobs -r | wc -l") == "/tmp\n5\n6\nf 7\n1"


def test_output_is_made_readable(env: TerminalEnv) -> None:
    start(env)
    assert run(env, r"printf '\033[31mred\033[0m \xff\xfe \0 \033]0;title\007end\n'") == "red �� � end"
    assert run(env, r"printf '10%%\r50%%\r100%%\ndone\r\n'") == "100%\ndone"
    assert run(env, "true") == "[no output]"
    assert run(env, "echo out; echo err >&2; false") == "out\nerr\n[exit code 1]"
    long = run(env, "yes | head -c 100000")
    assert long.endswith("[output cut after 8000 of 100000 bytes]") and len(long) < 8100


@pytest.mark.parametrize("command", ["python3", "cat", "read x", "sqlite3", "bash", "git commit", "ssh-keygen"])
def test_programs_that_ask_get_no_answer(env: TerminalEnv, command: str) -> None:
    start(env)
    _, _, terminated, _, info = env.step(f"{command}; echo went on")
    assert not terminated and info["valid"] and "went on" in env._last[0]


def test_commands_that_do_not_end_are_ended(impatient: TerminalEnv) -> None:
    start(impatient)
    observation = run(impatient, "X=1; echo begun; sleep 100")
    assert observation.startswith("begun\n") and observation.endswith("[the command was ended after 1 seconds]")
    assert "[the command was ended after 1 seconds]" in run(impatient, "while :; do :; done")
    assert run(impatient, "echo again") == "again"


@pytest.mark.parametrize("command", ["exit 3", "exec true", "kill -9 $$", "set -e; false"])
def test_a_shell_that_ends_is_replaced(env: TerminalEnv, command: str) -> None:
    start(env)
    assert "[the shell ended; a new one was started]" in run(env, "cd /tmp", command)
    assert run(env, "echo $?; echo alive") == "0\nalive"


@pytest.mark.parametrize(
    "command",
    [
        "builtin() { sleep 1000; }",
        "declare() { echo lies; }; printf() { echo lies; }; alias() { exit; }",
        "trap 'echo trapped' DEBUG",
        "exec 200<&- 201>&-",
        "exec >/dev/null",
        "PATH=",
        "unset -f __status; readonly PWD",
        "rm -rf / 2>/dev/null",
    ],
)
def test_a_shell_that_was_rewritten_is_survived(impatient: TerminalEnv, command: str) -> None:
    start(impatient)
    impatient.step(command)
    _, _, terminated, _, info = impatient.step("submit")
    assert terminated and info["score"] == 0.0
    assert start(impatient)  # and the next episode is clean
    assert run(impatient, "echo clean") == "clean"


def test_empty_commands_are_refused_and_late_ones_too(env: TerminalEnv) -> None:
    start(env)
    before = env.step("pwd")[4]
    observation, _, _, _, info = env.step(" \n ")
    assert not info["valid"] and "submit" in observation and info["state_key"] == before["state_key"]
    short = TerminalEnv(backend="namespace", max_steps=1)
    try:
        start(short)
        assert short.step("true")[3]
        observation, reward, _, _, info = short.step("ls")
        assert not info["valid"] and "handed in" in observation and reward == 0.0
    finally:
        short.close()


def test_the_last_step_hands_the_work_in() -> None:
    solution = [action for action in generate("permissions", 1, 0).steps[0].solution.commands]  # type: ignore[union-attr]
    short = TerminalEnv(backend="namespace", max_steps=len(solution))
    try:
        start(short)
        for action in solution[:-1]:
            short.step(action)
        _, reward, terminated, truncated, info = short.step(solution[-1])
        assert (reward, terminated, truncated, info["success"]) == (1.0, False, True, True)
    finally:
        short.close()


# -- keys and snapshots -------------------------------------------------------------------------------------------


def test_keys_know_files_and_shell_but_no_times(env: TerminalEnv) -> None:
    start(env, "git", 1)
    keys = {env.step(command)[4]["state_key"]: command for command in ("true",)}
    for command in (
        *("touch new", "echo x > new", "chmod 600 new", "ln -s new link", "rm README.md"),
        *("cd /tmp", "X=1", "export X", "f() { :; }", "alias a=b", "set -u", "shopt -s nullglob", "umask 077"),
    ):
        key = env.step(command)[4]["state_key"]
        assert key not in keys, f"{command!r} leaves the key of {keys[key]!r}"
        keys[key] = command
    key = env.step("true")[4]["state_key"]
    assert env.step("ls -la / >/dev/null; touch /app/new; cd /app; cd /tmp")[4]["state_key"] != ""  # OLDPWD changed
    key = env.step("true")[4]["state_key"]
    for command in ("true", "touch /app/new", "cat /app/new", "git -C /app status >/dev/null"):
        assert env.step(command)[4]["state_key"] == key, command


def test_a_snapshot_brings_back_files_and_shell(env: TerminalEnv) -> None:
    start(env)
    run(
        env,
        "cd /tmp && mkdir -p a/b && echo one > a/b/c && ln -s c a/b/d && chmod 500 a/b",
        "declare -A M=([x]=1 [y z]=$'two\\nlines'); A=(1 '2 3'); export E='é \"q\"'; readonly R=7; unset HOME",
        "f() { echo \"f: $*\"; }; alias ll='ls -l'; trap 'echo bye' USR1; set -u; shopt -s extglob; umask 027",
        "rm -rf /app; false",
    )
    here = env.restore(env.snapshot())
    stored = pickle.loads(pickle.dumps(env.snapshot()))
    ask = 'echo $?; pwd; cat a/b/c; readlink a/b/d; echo "${M[y z]}" ${A[1]} $E $R ${HOME-none}; f x; alias; umask'
    ask += "; ls /app"
    expected = env.step(ask)
    run(env, "cd /; rm -rf /tmp/a; unset M A; f() { :; }; mkdir /app")
    assert env.restore(stored) == here
    assert env.step(ask) == expected
    other = TerminalEnv(backend="namespace", max_steps=STEPS)
    try:
        assert other.restore(stored) == here
        assert other.step(ask) == expected
    finally:
        other.close()
    assert 'two\nlines 2 3 é "q" 7 none\nf: x' in expected[0]


def test_with_background_processes_the_commands_are_played_again(env: TerminalEnv) -> None:
    start(env)
    run(env, "(while :; do sleep 1000; done) & echo started", "echo x > /tmp/x")
    branch_key = env.step("true")[4]["state_key"]
    branch = env.snapshot()
    assert branch.state.saved.layer is None
    look = "for n in $(seq 200); do ps -e -o args= | grep -q '^sleep 1000' && break; sleep 0.05; done; "
    look += "ps -e -o args= | grep -c '^sleep 1000'; cat /tmp/x"
    assert env.step(look)[0] == "1\nx"
    start(env)
    assert env.restore(branch)[1]["state_key"] == branch_key
    assert env.step(look)[0] == "1\nx"


def test_a_replay_that_goes_elsewhere_is_a_fault(env: TerminalEnv) -> None:
    start(env)
    run(env, "sleep 1000 & head -c 8 /dev/urandom > /tmp/random")
    branch = env.snapshot()
    start(env)
    with pytest.raises(EnvironmentFault, match="did not lead to the same state"):
        env.restore(branch)


# -- judging and its enemies --------------------------------------------------------------------------------------

CHEAT = (
    "mkdir -p /logs/verifier && echo '{\"reward\": 1}' > /logs/verifier/reward.json && "
    "echo 1 > /logs/verifier/reward.txt"
)
ATTACKS = {
    "reward written before": CHEAT,
    "tests replaced before": "mkdir -p /tests && echo 'echo 1' > /tests/test.sh && cp /tests/test.sh "
    "/tests/test_outputs.py",
    "python replaced": f"mkdir -p /usr/local/bin; printf '#!/bin/sh\\n{CHEAT}\\n' > /usr/local/bin/python3; "
    "chmod +x /usr/local/bin/python3; cp /usr/local/bin/python3 /usr/bin/python3; PATH=/usr/local/bin:$PATH",
    "sitecustomize": "mkdir -p /usr/lib/python3/dist-packages; for d in /app $(python3 -c 'import site; "
    "print(*site.getsitepackages())'); do mkdir -p $d; echo 'import os; os._exit(0)' > $d/sitecustomize.py; "
    "cp $d/sitecustomize.py $d/json.py; done",
    "variables": "export PYTHONPATH=/app PYTHONSTARTUP=/app/x.py BASH_ENV=/app/x LD_PRELOAD=/app/x.so; "
    f"echo '{CHEAT}' > /app/x; echo 'export PATH=/app' > /root/.bashrc",
    "daemon": f"(while :; do {CHEAT}; done) >/dev/null 2>&1 & (setsid sh -c 'while sleep 0.01; do {CHEAT}; done' &)",
    "links out": "rm -rf /app/*; ln -s /tests /app/tests; ln -s /logs/verifier /app/out; ln -s / /app/root; "
    "mkfifo /app/pipe",
    "the folder itself": "cd /; rm -rf /app; ln -s /tests /app",
    "nothing left": "cd /; rm -rf /app",
    "huge": "head -c 200M /dev/zero > /app/huge",
    "unreadable": "chmod 000 /app/*; chmod 000 /app",
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_attacks_on_the_verifier_come_to_nothing(env: TerminalEnv, attack: str) -> None:
    start(env, "logs", 1)
    run(env, ATTACKS[attack])
    _, reward, terminated, _, info = env.step("submit")
    assert (reward, terminated, info["score"]) == (0.0, True, 0.0)


@pytest.mark.parametrize("attack", ["reward written before", "tests replaced before", "variables", "daemon"])
def test_attacks_do_not_spoil_honest_work(env: TerminalEnv, attack: str) -> None:
    start(env, "permissions", 1)
    run(env, ATTACKS[attack].replace("/app", "/tmp"))
    assert solve(env)[4]["success"]


def test_the_agent_never_sees_tests_or_solution(env: TerminalEnv) -> None:
    start(env, "logs", 2)
    env.verify()
    assert run(
        env, "ls -A /tests /solution /oracle /logs /opt 2>/dev/null | grep -v ':$' | tr -d '\\n'"
    ) == "[exit code 1]" or ("test" not in env._last[0] and "solve" not in env._last[0])
    gold = generate("logs", 2, 0).secrets[0]
    everything = run(env, "cat /app/* /app/*/* /tmp/* /root/.* 2>/dev/null; env; ps -e -o args=")
    assert gold not in everything


# -- folders ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["harbor", "terminal-bench"])
def test_exported_tasks_come_back_and_score_the_same(form: str, tmp_path: Path, base_rootfs: Path) -> None:
    for family, level in (("text", 1), ("git", 3), ("permissions", 3), ("service", 1)):
        export(generate(family, level, 5), tmp_path, form)
    with pytest.raises(InvalidArgument, match="exists"):
        export(generate("text", 1, 5), tmp_path, form)
    played = TerminalEnv(
        source=tmp_path, split="test", backend="namespace", image=str(base_rootfs), max_steps=STEPS, timeout=60
    )
    try:
        assert len(played.tasks) == 4
        for task in played.tasks:
            played.reset(options={"task": task.id})
            assert played.step("submit")[1] == 0.0, task.id
            played.reset(options={"task": task.id})
            _, reward, terminated, _, info = solve(played)
            assert (reward, terminated, info["success"]) == (1.0, True, True), task.id
    finally:
        played.close()


def harbor(folder: Path, toml: str = "", test: str = "echo 1 > /logs/verifier/reward.txt\n", **files: str) -> Path:
    for name, text in {
        "task.toml": toml,
        "instruction.md": "Do it.",
        "tests/test.sh": test,
        **{name.replace("__", "/").replace("_dot_", "."): text for name, text in files.items()},
    }.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def play(folder: Path, *commands: str, **arguments: Any) -> tuple[list[tuple[str, float, bool]], dict[str, Any]]:
    played = TerminalEnv(source=folder, backend="namespace", max_steps=STEPS, **arguments)
    try:
        info = played.reset(seed=0)[1]
        records = []
        for command in commands:
            observation, reward, terminated, _, info = played.step(command)
            records.append((observation, reward, terminated))
        return records, {**info, "criteria": played.verify()}
    finally:
        played.close()


@pytest.mark.parametrize(
    ("test", "error"),
    [
        ("true\n", RewardMissing),
        (": > /logs/verifier/reward.txt\n", RewardEmpty),
        ("echo nan > /logs/verifier/reward.txt\n", RewardUnreadable),
        ("echo 1 > /logs/verifier/reward.txt; echo '{' > /logs/verifier/reward.json\n", RewardUnreadable),
    ],
)
def test_no_reward_voids_the_episode(tmp_path: Path, test: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        play(harbor(tmp_path / "t", test=test), "submit")


def test_an_exit_code_is_no_reward_and_too_much_time_is_none(tmp_path: Path) -> None:
    records, info = play(harbor(tmp_path / "a", test="echo 0.5 > /logs/verifier/reward.txt; exit 1\n"), "submit")
    assert records[-1][1:] == (0.5, True) and info["score"] == 0.5 and not info["success"]
    slow = harbor(tmp_path / "b", "[verifier]\ntimeout_sec = 0.5\n", "echo 1 > /logs/verifier/reward.txt; sleep 100\n")
    assert play(slow, "submit")[0][-1][1:] == (0.0, True)


STEPPED = """
multi_step_reward_strategy = "{strategy}"
[[steps]]
name = "one"
min_reward = 0.5
[[steps]]
name = "two"
"""


def stepped(folder: Path, strategy: str) -> Path:
    check = "if [ -f /app/{0} ]; then echo 1; else echo 0.25; fi > /logs/verifier/reward.txt\n"
    return harbor(
        folder,
        STEPPED.format(strategy=strategy),
        steps__one__instruction_dot_md="Make one.",
        steps__one__tests__test_dot_sh=check.format("one"),
        steps__one__solution__solve_dot_sh="touch /app/one\n",
        steps__two__instruction_dot_md="Make two.",
        steps__two__tests__test_dot_sh=check.format("two"),
        steps__two__solution__solve_dot_sh="touch /app/two\n",
        steps__two__workdir__setup_dot_sh="test -f /app/one && touch /app/ready\n",
    )


def test_steps_share_the_sandbox_and_the_reward(tmp_path: Path) -> None:
    folder = stepped(tmp_path / "t", "mean")
    records, info = play(folder, "touch one", "submit", "ls; touch two", "submit")
    assert [record[1] for record in records] == [0.0, 0.5, 0.0, 0.5]  # each of two steps gives half
    assert records[1][0].startswith("Make two.") and records[2][0] == "one\nready"
    assert info["success"] and records[-1][2]
    records, info = play(folder, "submit")
    assert records[-1] == ("The work was handed in.", 0.125, True)  # (0.25 + 0) / 2, and the way ends below 0.5
    records, info = play(stepped(tmp_path / "f", "final"), "touch one", "submit", "submit")
    assert [record[1] for record in records] == [0.0, 0.0, 0.25] and info["score"] == 0.25
    oracle = TerminalEnv(source=folder, backend="namespace", max_steps=STEPS)
    try:
        oracle.reset(seed=0)
        found = solve(oracle)
        assert found[2] and found[4]["success"]
    finally:
        oracle.close()


def test_verifier_modes(tmp_path: Path) -> None:
    test = (
        "n=0; for f in /app/a /etc/b /tmp/collected; do [ -f $f ] && n=$((n+1)); done\n"
        'ps -e -o args= | grep -q \'[s]leep 4321\' && n=$((n+10)); echo "{\\"n\\": $n}" > /logs/verifier/reward.json\n'
    )
    folder = harbor(tmp_path / "t", '[[verifier.collect]]\ncommand = "touch /tmp/collected"\n', test)
    work = ("touch /app/a /etc/b; sleep 4321 & true",)

    def seen(mode: str) -> float:
        played = TerminalEnv(source=folder, backend="namespace", verifier=mode, max_steps=STEPS)
        try:
            played.reset(seed=0)
            run(played, *work)
            played.step("submit")
            return dict(played._verdicts[-1].rewards)["n"]
        finally:
            played.close()

    assert seen("shared") == seen("auto") == 3  # all files, no process
    assert seen("clean") == 1  # the working directory only
    assert seen("live") == 12  # the agent's own sandbox: both files and the process; nothing is collected first


def test_artifacts(tmp_path: Path) -> None:
    toml = (
        'artifacts = ["/var/out.txt", {source = "/srv/data", exclude = ["*.tmp"]}]\n'
        '[verifier]\nenvironment_mode = "separate"\n'
    )
    test = "ls /app /var/out.txt /srv/data 2>/dev/null | tr '\\n' ' '; echo 1 > /logs/verifier/reward.txt\n"
    played = TerminalEnv(source=harbor(tmp_path / "t", toml, test), backend="namespace", max_steps=STEPS)
    try:
        played.reset(seed=0)
        run(played, "touch /app/a /var/out.txt; mkdir /srv/data; touch /srv/data/keep /srv/data/x.tmp")
        played.step("submit")
        assert played._verdicts[0].output.split() == ["/var/out.txt", "/app:", "/srv/data:", "keep"]
    finally:
        played.close()


def test_the_verifiers_path_has_the_stand_ins_and_the_agents_has_not(tmp_path: Path) -> None:
    test = "set -e; apt-get update; command -v uv | grep sandlot; echo 1 > /logs/verifier/reward.txt\n"
    records, info = play(harbor(tmp_path / "t", test=test), "command -v uv || ls /opt/sandlot 2>&1 | wc -l", "submit")
    assert info["success"] and "/opt/sandlot" not in records[0][0].replace("ls: cannot access '/opt/sandlot'", "")


def test_healthcheck_and_setup_come_first(tmp_path: Path) -> None:
    toml = '[environment.healthcheck]\ncommand = "test -d /app"\nretries = 1\ninterval_sec = 0\n'
    assert play(harbor(tmp_path / "a", toml), "submit")[1]["success"]
    with pytest.raises(EnvironmentFault, match="did not become healthy"):
        play(harbor(tmp_path / "b", toml.replace("/app", "/nowhere")), "submit")


@pytest.mark.parametrize(
    ("toml", "said"),
    [
        ("[environment]\ngpus = 2\n", r"2 GPU\(s\)"),
        ('[environment]\nnetwork_mode = "allowlist"\n', "a network allow-list"),
        ('[agent]\nuser = "bob"\n', "the user bob"),
    ],
)
def test_what_a_backend_cannot_give_is_refused_with_the_reason(tmp_path: Path, toml: str, said: str) -> None:
    with pytest.raises(CannotPlay, match=f"t needs {said}.*namespace backend"):
        play(harbor(tmp_path / "t", toml), "submit")


DOCKERFILE = """
FROM debian:12
ARG WORD=built
ENV GREETING="hello $WORD"
WORKDIR /work
COPY data/ ./data/
COPY --chmod=755 tool /usr/local/bin/
RUN echo "$GREETING" > made && \\
    tool > ran
RUN apt-get update && apt-get install -y bash
ENV PATH=/opt/bin:$PATH
"""


def test_a_dockerfile_is_carried_out(tmp_path: Path, base_rootfs: Path) -> None:
    folder = harbor(
        tmp_path / "t",
        environment__Dockerfile=DOCKERFILE,
        environment__data__one_dot_txt="1\n",
        environment__tool="#!/bin/sh\necho ran in $(pwd)\n",
    )
    ask = "pwd; cat made ran data/one.txt; echo $GREETING; ls /opt; echo ${PATH%%l/*}"
    records, _ = play(folder, ask, image=str(base_rootfs))
    assert records[0][0] == "/work\nhello built\nran in /work\n1\nhello built\n/opt/bin:/usr/loca"
    records, _ = play(folder, "pwd; ls; echo $GREETING", image="host", image_map={"t": str(base_rootfs)})
    assert records[0][0] == "/work\nhello built"  # an image that is said to be built already
    broken = harbor(tmp_path / "b", environment__Dockerfile="FROM x\n\nRUN echo why; exit 3\n")
    with pytest.raises(Exception, match=r"Dockerfile: line 3: RUN failed \(3\): why"):
        play(broken, "true", image=str(base_rootfs))


# -- options ------------------------------------------------------------------------------------------------------


def test_menu() -> None:
    menu = TerminalEnv(family="permissions", level=2, commands="menu", backend="namespace", max_steps=STEPS)
    try:
        _, info = menu.reset(seed=3)
        first = info["admissible"]
        assert first[0] == "ls -l" and first[-1] == "submit" and len(first) == 2 + 5 * 2  # two files are named
        assert not menu.step("rm -rf /")[4]["valid"]
        more = menu.step("ls -l")[4]["admissible"]
        assert len(more) == 2 + 5 * 5  # five files are seen
        info = solve(menu)[4]
        assert info["success"] and info["admissible"] == ()
        with pytest.raises(InvalidArgument, match="has no menu"):
            menu.reset(options={"task": task_id("git", 1)})
    finally:
        menu.close()


@pytest.mark.parametrize(
    "wrong",
    [
        {"backend": "chroot"},
        {"commands": "some"},
        {"verifier": "none"},
        {"timeout": 0},
        {"output": 10},
        {"source": "/nowhere", "family": "git"},
        {"family": "cooking"},
    ],
)
def test_wrong_arguments(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        TerminalEnv(**wrong)


def test_wrong_ids(env: TerminalEnv) -> None:
    with pytest.raises(UnknownTask):
        env.reset(options={"task": "terminal/gen1/train/permissions-9/1"})


def test_nothing_is_left(tmp_path: Path) -> None:
    before = set(Path("/proc").glob("[0-9]*")) if shutil.which("true") else set()
    played = TerminalEnv(backend="namespace", max_steps=STEPS)
    played.reset(seed=0)
    pid = int(run(played, "sleep 987654 & echo $!"))
    assert pid > 0
    played.close()
    played.close()
    commands = b""
    for path in set(Path("/proc").glob("[0-9]*")) - before:
        with contextlib.suppress(OSError):  # others end meanwhile
            commands += path.joinpath("cmdline").read_bytes()
    assert b"987654" not in commands
