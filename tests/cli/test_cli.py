"""The command line as a person uses it: what is printed, what is left on disk, what a mistake says."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import threading
import time
import tomllib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sandlot.cli import app
from sandlot.envs.core.errors import EnvironmentFault
from sandlot.envs.core.registry import REGISTRY, find, make
from sandlot.evaluate import Evaluation, as_trained
from sandlot.harness.runs import RunFolder
from sandlot.smoke import Result

SANDLOT = str(Path(sys.executable).with_name("sandlot"))


def run(*arguments: str, text: str | None = None):
    return CliRunner().invoke(app, list(arguments), input=text, env={"COLUMNS": "200", "NO_COLOR": "1"})


def ok(*arguments: str, text: str | None = None) -> str:
    result = run(*arguments, text=text)
    assert result.exit_code == 0, result.output
    return result.output


def the_run(root: Path) -> RunFolder:
    (folder,) = root.iterdir()
    return RunFolder(folder)


# -- list ---------------------------------------------------------------------------------------------------------


def test_list_shows_every_environment_with_its_summary() -> None:
    text = ok("list")
    for env_id, entry in REGISTRY.items():
        (line,) = [line for line in text.splitlines() if line.startswith(f"{env_id} ")]
        assert entry.family in line and str(entry.max_episode_steps) in line
    assert "A row of rooms behind each other" in text


def test_list_as_json_is_complete() -> None:
    rows = json.loads(ok("list", "--json"))
    assert {row["id"] for row in rows} == set(REGISTRY)
    assert all(row["summary"] for row in rows)
    assert [row["extra"] for row in rows if row["id"] == "sandlot/ALFWorld-v0"] == ["alfworld"]


# -- play ---------------------------------------------------------------------------------------------------------

# Seed 0 of KeyDoor; the right first action is found by asking for the hint.


def test_play_by_numbers_and_text_to_the_end() -> None:
    watched = ok("play", "KeyDoor", "--seed", "0", "--oracle", "--delay", "0")
    actions = [line[2:] for line in watched.splitlines() if line.startswith("> ")]
    assert "Solved. Return 1, score 1." in watched
    played = ok("play", "KeyDoor", "--seed", "0", text="\n".join(actions) + "\n")
    assert "Solved. Return 1, score 1." in played
    env = make("KeyDoor")
    _, info = env.reset(seed=0)
    number = info["admissible"].index(actions[0]) + 1
    assert re.search(rf"\b{number} {re.escape(actions[0])}\b", played)
    numbered = ok("play", "KeyDoor", "--seed", "0", text=f"{number}\n" + "\n".join(actions[1:]) + "\n")
    assert "Solved." in numbered


def test_undo_takes_back_state_and_steps() -> None:
    watched = ok("play", "KeyDoor", "--seed", "0", "--oracle", "--delay", "0")
    actions = [line[2:] for line in watched.splitlines() if line.startswith("> ")]
    wrong = "\n".join(["go on", "undo"] * 30)  # 30 refused steps taken back: the limit of 20 never bites
    assert "Solved." in ok("play", "KeyDoor", "--seed", "0", text=wrong + "\n" + "\n".join(actions) + "\n")


def test_commands_answer_and_leave() -> None:
    text = ok(
        "play", "KeyDoor", "--seed", "0", text="/help\n/hint\n/verify\n/undo\n/restart\n/nonsense\nquit\nnever read\n"
    )
    assert "a hint for this task" in text and re.search(r"0\.00  \w", text) and "nothing to undo" in text
    assert "Solved" not in text


def test_play_ends_quietly_with_the_input() -> None:
    assert "KeyDoor" not in run("play", "KeyDoor", "--seed", "0", text="").stderr


def test_play_starts_the_task_that_is_asked_for() -> None:
    first = ok("play", "Corridor", "--seed", "3", text="quit\n")
    task = re.search(r"task (\S+),", first)
    assert task is not None
    assert f"task {task[1]}," in ok("play", "Corridor", "--task", task[1], text="quit\n")


def test_control_characters_of_an_action_do_not_reach_the_terminal() -> None:
    assert "\x1b" not in ok("play", "Corridor", "--seed", "0", text="\x1b[2J evil\n/quit\n")


# -- smoke --------------------------------------------------------------------------------------------------------


def test_smoke_passes_on_a_toy_and_prints_the_table() -> None:
    text = ok("smoke", "--env", "Corridor", "--env", "Bandit", "--episodes", "3")
    assert re.search(r"sandlot/Corridor-v0\s+1\.00\s+0\.00\s+\d\.\d\d\s+5\.0\s+[\d,]+\s+ok", text)
    assert len([line for line in text.splitlines() if line.rstrip().endswith("ok")]) == 2


def test_smoke_fails_where_the_oracle_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(find("Corridor").load(), "oracle", lambda self: iter(()))
    result = run("smoke", "--env", "Corridor", "--env", "Bandit", "--episodes", "2")
    assert result.exit_code == 1
    assert "oracle has success 0.00, not 1.00" in result.output
    assert re.search(r"Bandit-v0 .* ok", result.output)


def test_smoke_goes_on_after_an_environment_that_crashes(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: object, task: object) -> str:
        raise EnvironmentFault("no server")

    monkeypatch.setattr(find("Corridor").load(), "_reset", broken)
    result = run("smoke", "--env", "Corridor", "--env", "Bandit", "--episodes", "2")
    assert result.exit_code == 1
    assert "no server" in result.output and re.search(r"Bandit-v0 .* ok", result.output)
    assert Result("x").problem == ""


# -- eval ---------------------------------------------------------------------------------------------------------


def test_eval_writes_a_run_folder(tmp_path: Path) -> None:
    text = ok("eval", "Corridor", "--policy", "oracle", "--tasks", "12", "--out", str(tmp_path), "-k", "rooms=4")
    # Wilson's interval for 12 of 12 at z = 1.96: low = (1 + z²/24 - z * sqrt(z²/576)) / (1 + z²/12)
    #   = (1 + 0.16007 - 0.16007) / 1.32013 = 0.75750
    assert "100.0%" in text and "75.7%" in text
    folder = the_run(tmp_path)
    assert str(folder.folder) in text
    config = tomllib.loads((folder.folder / "config.toml").read_text())["eval"]
    assert config["policy"] == "oracle" and config["arguments"] == {"rooms": 4} and config["tasks"] == 12
    (row,) = folder.metrics()
    assert row["success"] == 1.0 and row["episodes"] == 12 and row["turns"] == 3
    episodes = list(folder.trajectories())
    assert len(episodes) == 12 and all(episode.success for episode in episodes)
    assert len({episode.task.id for episode in episodes}) == 12 and {e.task.split for e in episodes} == {"valid_unseen"}
    page = (folder.folder / "report.html").read_text()
    assert "oracle on sandlot/Corridor-v0" in page and "100.0%" in page and "<script" not in page


def test_eval_repeats_itself(tmp_path: Path) -> None:
    for name in ("a", "b"):
        ok("eval", "Rooms", "--policy", "random", "--tasks", "8", "--seed", "5", "--out", str(tmp_path / name))
    first, second = (list(the_run(tmp_path / name).trajectories()) for name in ("a", "b"))
    key = lambda episode: episode.task.id  # noqa: E731
    assert [[turn.action for turn in e.turns] for e in sorted(first, key=key)] == [
        [turn.action for turn in e.turns] for e in sorted(second, key=key)
    ]


def test_ctrl_c_keeps_the_finished_episodes(tmp_path: Path) -> None:
    """A real process and a real signal, after some episodes of many are on disk."""
    command = [SANDLOT, "eval", "Corridor", "--policy", "random", "--tasks", "200000", "--out", str(tmp_path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and not list(tmp_path.glob("*/calls/trajectories.jsonl")):
            time.sleep(0.05)
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130
    assert err.strip() == "interrupted; what was finished is kept"
    folder = the_run(tmp_path)
    episodes = list(folder.trajectories())
    assert len(episodes) == folder.metrics()[0]["episodes"] > 0
    assert "Interrupted after" in (folder.folder / "report.html").read_text()
    assert str(folder.folder) in out


def test_eval_against_a_server(tmp_path: Path) -> None:
    """A server that answers in tags, with control characters and markup around the action."""

    class Server(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            prompt = asked["messages"][-1]["content"]
            first = re.search(r"Actions: ([^;]+)", prompt)
            text = f"\x1b[31m<b>thinking</b> <action>{first[1] if first else 'nothing'}</action>"
            answer = {"choices": [{"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}]}
            body = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    policy = f"openai:some-model@http://127.0.0.1:{server.server_port}/v1"
    arguments = ("--policy", policy, "--tasks", "4", "--list-actions", "--format", "tags", "--out", str(tmp_path))
    try:
        ok("eval", "Bandit", *arguments)
    finally:
        server.shutdown()
        server.server_close()
    episodes = list(the_run(tmp_path).trajectories())
    assert len(episodes) == 4 and not any(episode.void for episode in episodes)
    for episode in episodes:
        first = episode.turns[0]
        assert first.valid and first.action == (episode.first_info["admissible"] or ("",))[0]
        assert first.call.text.startswith("\x1b[31m<b>")
    page = (the_run(tmp_path).folder / "report.html").read_text()
    assert "&lt;b&gt;thinking" in page and "\x1b" not in page


def test_eval_of_a_saved_model(tmp_path: Path) -> None:
    """A small real language model, saved where `sandlot train` leaves it: in the folder `model` of a run."""
    pytest.importorskip("torch", reason="torch is not installed (extra: train)")
    from sandlot.harness.policies.hf import HFPolicy
    from sandlot.harness.policies.tiny import build_word_tokenizer, tiny_llama

    env = make("Bandit")
    observation, info = env.reset(seed=0)
    tokenizer = build_word_tokenizer([observation, info["instruction"], *(info["admissible"] or ())])
    model = tiny_llama(len(tokenizer), d_model=32, layers=1, heads=2)
    HFPolicy(model, tokenizer).save(tmp_path / "trained" / "model")
    out = tmp_path / "runs"
    ok("eval", "Bandit", "--policy", str(tmp_path / "trained"), "--decode", "trie", "--tasks", "6", "--out", str(out))
    episodes = list(the_run(out).trajectories())
    assert len(episodes) == 6
    for episode in episodes:
        for turn in episode.turns:
            assert turn.valid and len(turn.call.completion_ids) == len(turn.call.logprobs) > 1
            assert turn.call.allowed is not None and len(turn.call.allowed) == len(turn.call.completion_ids)


TRAINED = """
env = "sandlot/Corridor-v0"
model = "tiny"
decode = "choice"
temperature = 0.5
max_tokens = 5
env_kwargs = { rooms = 3, split = "train" }
history = { window = 0, brief = true }
"""


def test_a_run_plays_as_it_was_trained(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="torch is not installed (extra: train)")
    from sandlot.harness.policies.hf import HFPolicy
    from sandlot.harness.policies.tiny import build_word_tokenizer, tiny_llama

    observation, info = make("Corridor").reset(seed=0)
    tokenizer = build_word_tokenizer([observation, info["instruction"], *(info["admissible"] or ())])
    trained = tmp_path / "trained"
    HFPolicy(tiny_llama(len(tokenizer), d_model=32, layers=1, heads=2), tokenizer).save(trained / "model")
    (trained / "config.toml").write_text(TRAINED)
    out = tmp_path / "runs"
    ok("eval", "Corridor", "--policy", str(trained), "--tasks", "4", "--max-tokens", "7", "--out", str(out))
    config = the_run(out).config()["eval"]
    assert (config["decode"], config["temperature"], config["max_tokens"]) == ("choice", 0.5, 7)
    assert config["arguments"] == {"rooms": 3} and config["history"] == {"window": 0, "brief": True}
    episodes = list(the_run(out).trajectories())
    assert len(episodes) == 4 and {episode.task.split for episode in episodes} == {"valid_unseen"}
    assert max(len(episode.turns) for episode in episodes) > 2
    for episode in episodes:
        assert "of 3" in episode.first_observation
        for turn in episode.turns:
            assert turn.call.choices is not None and turn.call.temperature == 0.5
            assert len(turn.call.context.messages) == 1


def test_what_is_asked_for_goes_before_what_was_trained_with(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(TRAINED)
    run_folder = str(tmp_path)
    asked = Evaluation(
        "corridor", run_folder, decode="trie", temperature=0.0, history={"window": 2}, arguments={"verbs": 3}
    )
    plan = as_trained(asked)
    assert (plan.decode, plan.temperature, plan.max_tokens) == ("trie", 0.0, 5)
    assert plan.history == {"window": 2, "brief": True} and plan.arguments == {"rooms": 3, "verbs": 3}
    assert as_trained(plan) == plan
    elsewhere = as_trained(Evaluation("Bandit", run_folder))
    assert (elsewhere.arguments, elsewhere.decode) == ({}, "choice")
    plain = as_trained(Evaluation("Corridor", "oracle"))
    assert (plain.decode, plain.temperature, plain.max_tokens, plain.history) == ("free", 0.0, 64, {})


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ('model = "tabular"', "trained a tabular policy, which is not kept"),
        ('model = "tiny"', "finish the run with `sandlot train --resume"),
        ('[eval]\npolicy = "oracle"', "not a run of `sandlot train`"),
        ("model = ", "no readable config.toml"),
    ],
)
def test_a_run_without_a_model_is_one_line(config: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(config)
    result = run("eval", "Corridor", "--policy", str(tmp_path), "--out", str(tmp_path / "runs"))
    assert result.exit_code == 2
    (line,) = result.stderr.strip().splitlines()
    assert line.startswith("error: ") and says in line
    assert not (tmp_path / "runs").exists()


def test_eval_says_when_nothing_could_be_played(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: object, task: object) -> str:
        raise EnvironmentFault("no server")

    monkeypatch.setattr(find("Corridor").load(), "_reset", broken)
    result = run("eval", "Corridor", "--tasks", "3", "--out", str(tmp_path))
    assert result.exit_code == 1
    (line,) = result.stderr.strip().splitlines()
    assert line == "failed: no episode could be played; the first failed with EnvironmentFault: no server"
    assert the_run(tmp_path).metrics()[0]["void"] == 3


# -- mistakes -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("play", "KeyDor"), "did you mean sandlot/KeyDoor-v0"),
        (("eval", "no such thing"), "`sandlot list` shows all"),
        (("smoke", "--env", "KeyDor"), "did you mean sandlot/KeyDoor-v0"),
        (("play", "KeyDoor", "--task", "zzz"), "no task 'zzz'; ids look like"),
        (("play", "KeyDoor", "-k", "colour=red"), "no argument 'colour'; it takes split,"),
        (("play", "KeyDoor", "-k", "doors"), "not of the form key=value"),
        (("play", "Corridor", "-k", "rooms=many"), "rooms"),
        (("eval", "KeyDoor", "--split", "tset"), "no split 'tset'; choose from"),
        (("eval", "KeyDoor", "--policy", "gpt"), "no policy 'gpt'; use oracle, random, noop"),
        (("eval", "KeyDoor", "--policy", "openai:model"), "openai:MODEL@http"),
        (("eval", "KeyDoor", "--decode", "beam"), "decode must be free, trie or choice, not 'beam'"),
        (("eval", "KeyDoor", "--format", "xml"), "xml"),
        (("eval", "KeyDoor", "--history", "windw=2"), "a history has no 'windw'; it has window, brief"),
        (("eval", "KeyDoor", "--history", "window=-1"), "window must be a number of turns, 0 or more, not -1"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(arguments: tuple[str, ...], says: str, tmp_path: Path) -> None:
    extra = ("--out", str(tmp_path / "runs")) if arguments[0] == "eval" else ()
    result = run(*arguments, *extra)
    assert result.exit_code == 2, result.output
    (line,) = result.stderr.strip().splitlines()
    assert line.startswith("error: ") and says in line
    assert not (tmp_path / "runs").exists()


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("a file, not a folder")
    result = run("eval", "Corridor", "--tasks", "2", "--out", str(tmp_path / "runs"))
    assert result.exit_code == 2
    (line,) = result.stderr.strip().splitlines()
    assert "cannot write" in line and str(tmp_path / "runs") in line and "--out" in line


def test_a_folder_without_a_model_is_one_line(tmp_path: Path) -> None:
    result = run("eval", "Corridor", "--policy", str(tmp_path), "--out", str(tmp_path / "runs"))
    assert result.exit_code == 2
    (line,) = result.stderr.strip().splitlines()
    assert "holds no model" in line


def test_the_console_script_reports_mistakes_too() -> None:
    done = subprocess.run([SANDLOT, "play", "KeyDor"], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.startswith("error: no environment 'KeyDor'") and "Traceback" not in done.stderr


def test_version() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+\n", ok("--version"))


@pytest.mark.parametrize("command", ["", "list", "play", "smoke", "eval"])
def test_help_teaches(command: str) -> None:
    text = run(*command.split(), "--help").output
    assert "Usage" in text
    if command in ("", "play", "eval"):
        assert f"sandlot {command or 'list'} " in text
