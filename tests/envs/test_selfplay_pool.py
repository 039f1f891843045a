"""The pool: what it keeps, what it forgets, what survives a crash, and what goes out and comes in as a folder."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from selfplay_programs import SOUND

from sandlot.envs.core import InvalidArgument, UnknownTask, make
from sandlot.envs.selfplay.grammar import Grammar
from sandlot.envs.selfplay.pool import FILE, STARTER, Pool, PoolError, starter
from sandlot.envs.selfplay.program import Lineage, Manifest, Program, ProgramError
from sandlot.envs.selfplay.reasons import Reason
from sandlot.envs.selfplay.signature import Signature
from sandlot.envs.selfplay.statistics import choose_memory, moving_mean, regret, statistics
from sandlot.envs.selfplay.tasks import ROLES, ProgramTasks, role_of, seeds
from sandlot.envs.selfplay.verdict import Finding, Verdict

SIGNATURE = Signature(frozenset({1, 2}), frozenset({3}), frozenset({4}))


def numbered(number: int, **lineage: object) -> Program:
    return replace(SOUND, source=f"{SOUND.source}\n# {number}\n", lineage=Lineage(**lineage))  # type: ignore[arg-type]


def passed(program: Program) -> Verdict:
    return Verdict(program.id, measures={"random": 0.0}, signature=SIGNATURE)


@pytest.fixture
def pool(tmp_path: Path) -> Pool:
    return Pool(tmp_path / "pool")


def test_programs_versions_and_retirement(pool: Pool) -> None:
    first, second = numbered(1), numbered(2)
    assert pool.version == 0
    assert pool.add(first, passed(first)) == first.id
    assert pool.add(second, passed(second), "test") == second.id
    assert pool.add(first, passed(first)) == first.id  # again: nothing changes
    assert pool.version == 2 and pool.ids() == [first.id, second.id]
    assert pool.ids("test") == [second.id] and pool.role(second.id) == "test"
    assert pool.get(first.id) == first and pool.measures(first.id) == {"random": 0.0}
    pool.retire(first.id, "solved")
    pool.retire(first.id, "again")
    assert pool.version == 3 and pool.ids() == [second.id] and pool.ids(retired=True) == [first.id, second.id]
    assert pool.ids(version=2) == [first.id, second.id] and pool.ids(version=1) == [first.id]
    assert pool.why_retired(first.id) == "solved" and pool.why_retired(second.id) is None
    assert [known.id for known in pool.known()] == [first.id, second.id]
    assert [entry.live for entry in pool.entries().values()] == [False, True]
    for wrong in (Verdict(first.id), Verdict("", (Finding(Reason.IDLE, "x"),)), passed(second)):
        with pytest.raises(InvalidArgument, match="has not passed"):
            pool.add(first, wrong)
    with pytest.raises(InvalidArgument, match="one of train"):
        pool.add(first, passed(first), "valid_seen")
    with pytest.raises(PoolError, match="no program 'abc'"):
        pool.get("abc")


def test_a_mark_brings_back_what_was(pool: Pool) -> None:
    first, second = numbered(1), numbered(2)
    pool.add(first, passed(first))
    pool.record(first.id, plain=[1.0])
    before = {name: list(pool.table(name)) for name in ("meta", "programs", "plays", "memory")}
    mark = pool.mark()
    pool.add(second, passed(second))
    pool.record(second.id, plain=[0.0], hinted=[1.0])
    pool.record(first.id, hinted=[1.0])
    pool.reject(None, Verdict("", (Finding(Reason.MANIFEST, "none"),)))
    pool.retire(first.id, "solved")
    pool.rewind(mark)
    assert {name: list(pool.table(name)) for name in before} == before
    pool.rewind(pool.mark())
    assert {name: list(pool.table(name)) for name in before} == before


def test_lineage(pool: Pool) -> None:
    grandparent = numbered(1)
    parent = numbered(2, parents=(grandparent.id, "elsewhere0"), operation="mutate", generation=1)
    child = numbered(3, parents=(parent.id,), designer="grammar", generation=2)
    for program in (grandparent, parent, child):
        pool.add(program, passed(program))
    assert pool.ancestors(child.id) == [parent.id, grandparent.id, "elsewhere0"]
    assert pool.get(child.id).lineage == child.lineage
    assert replace(child, lineage=Lineage()).id == child.id


def test_regret_and_potential_by_hand(pool: Pool) -> None:
    assert [regret(*pair) for pair in ((1, 1), (1, 0.5), (1, 0), (0, 0), (0.5, 0.6))] == [0, 0.5, 1, 0, 0]
    # decay .9: (.9 * (.9 * 0 + .1 * 0) + .1 * 1) / (1 - .9 ** 3) = .1 / .271; decay .99: .01 / .029701
    assert moving_mean([0, 0, 1], 0.9) == pytest.approx(0.1 / 0.271)
    assert statistics([(0, 0.0, 1), (0, 0.0, 1), (0, 1.0, 2)]).potential == pytest.approx(0.1 / 0.271 - 0.01 / 0.029701)
    program = numbered(1)
    pool.add(program, passed(program))
    assert pool.statistics(program.id).regret is None
    pool.record(program.id, hinted=[1, 1, 0, 1], policy_version=3)
    assert pool.statistics(program.id).feasible and pool.statistics(program.id).regret is None
    pool.record(program.id, plain=[0, 0.5], policy_version=4)
    found = pool.statistics(program.id)
    assert (found.hinted, found.plain, found.regret) == (0.75, 0.25, 0.5)
    assert (found.hinted_episodes, found.plain_episodes, found.policy_version) == (4, 2, 4)
    pool.record(program.id, plain=[1.0] * 64)  # the means forget what is older than 64 episodes
    assert pool.statistics(program.id).plain == 1.0 and pool.statistics(program.id).regret == 0.0
    with pytest.raises(InvalidArgument, match=r"\[0, 1\]"):
        pool.record(program.id, plain=[1.5])


def test_memory_for_the_designer(pool: Pool) -> None:
    programs = [numbered(n, designer="hand", generation=n) for n in range(6)]
    for program in programs[:4]:
        pool.add(program, passed(program))
    pool.record(programs[1].id, hinted=[1.0], plain=[0.0])
    pool.reject(programs[4], Verdict(programs[4].id, (Finding(Reason.IDLE, "too easy"), Finding(Reason.RANDOM, "x"))))
    pool.reject(None, Verdict("", (Finding(Reason.MANIFEST, "no source"),)))
    memory = pool.memory(3)
    # The one with regret, then the two latest.
    assert [(entry.program_id, entry.outcome) for entry in memory] == [
        (programs[1].id, "accepted"),
        (programs[4].id, "idle"),
        ("", "manifest"),
    ]
    assert memory[0].regret == 1.0 and memory[1].message == "too easy" and memory[1].generation == 4
    assert len(pool.memory(100)) == 6 and choose_memory([], 3) == []


def test_out_and_in(pool: Pool, tmp_path: Path) -> None:
    for number, role in enumerate(("train", "test", "valid_unseen")):
        program = numbered(number, designer="hand")
        pool.add(program, passed(program), role)
        pool.record(program.id, hinted=[1.0], plain=[0.25])
    pool.retire(numbered(0).id, "old")
    pool.reject(None, Verdict("", (Finding(Reason.MANIFEST, "no source"),)))
    folder = pool.export(tmp_path / "out")
    again = Pool.load(folder, tmp_path / "again")
    for table in ("meta", "programs", "plays", "memory"):
        assert list(again.table(table)) == list(pool.table(table))
    assert again.export(tmp_path / "out2") and _tree(tmp_path / "out2") == _tree(folder)
    with pytest.raises(PoolError, match="is there already"):
        pool.export(folder)
    with pytest.raises(PoolError, match="not empty"):
        Pool.load(folder, tmp_path / "again")
    path = folder / "programs" / "test" / f"{numbered(1).id}.toml"
    path.write_text(path.read_text().replace("Say the day", "Sing the day"))
    with pytest.raises(PoolError, match="was changed"):
        Pool.load(folder, tmp_path / "third")
    index = json.loads((folder / "pool.json").read_text())
    index["programs"][0]["role"] = "../../secret"
    (folder / "pool.json").write_text(json.dumps(index))
    with pytest.raises(PoolError, match="no role and id"):
        Pool.load(folder, tmp_path / "fifth")
    (folder / "pool.json").write_text("{}")
    with pytest.raises(PoolError, match="no exported pool"):
        Pool.load(folder, tmp_path / "fourth")


def _tree(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_what_is_no_pool(tmp_path: Path) -> None:
    with pytest.raises(PoolError, match="no pool at"):
        Pool.open(tmp_path / "nothing")
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / FILE).write_text("this is not a database, although it is a file of some length" * 20)
    with pytest.raises(PoolError):
        Pool(tmp_path / "bad")
    with Pool(tmp_path / "new") as newer:
        newer._connection().execute("update meta set format = 99")
    with pytest.raises(PoolError, match="format 99"):
        Pool(tmp_path / "new")


WRITER = """
import sys
from pathlib import Path
sys.path.insert(0, {tests!r})
from test_selfplay_pool import Pool, numbered, passed
with Pool(Path(sys.argv[1])) as pool:
    for number in range(100000):
        program = numbered(number)
        pool.add(program, passed(program))
        pool.record(program.id, hinted=[1.0] * 50, plain=[0.5] * 50)
        print(number, flush=True)
"""


def test_it_survives_being_killed(tmp_path: Path) -> None:
    """kill -9 from outside: every program that was reported is there, whole, and nothing is half there."""
    code = WRITER.format(tests=str(Path(__file__).parent))
    writer = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert writer.stdout is not None
    done = [int(writer.stdout.readline()) for _ in range(4)][-1]
    time.sleep(0.003)
    os.kill(writer.pid, signal.SIGKILL)
    writer.wait()
    writer.stdout.close()
    with Pool.open(tmp_path) as pool:
        ids = pool.ids()
        assert len(ids) >= done + 1 and pool.version == len(ids) == len(pool.memory(10**6))
        plays = [pool.statistics(name).hinted_episodes for name in ids]
        assert plays[: done + 1] == [50] * (done + 1) and set(plays) <= {0, 50}
        assert all(pool.get(name).id == name for name in ids)
        pool.add(numbered(-1), passed(numbered(-1)))  # it can be written on


def _change(pool: Pool) -> None:
    """Every kind of write."""
    pool.add(numbered(1), passed(numbered(1)))
    pool.record(numbered(1).id, hinted=[1.0] * 5, plain=[0.5] * 5)
    pool.retire(numbered(0).id, "solved")
    pool.reject(None, Verdict("", (Finding(Reason.MANIFEST, "no source"),)))


def _changed_until(path: Path, count: int) -> int:
    """The exit status of a process that changes the pool and kills itself before its statement number `count`."""
    pid = os.fork()
    if pid == 0:
        try:
            left = iter(range(count - 1))
            pool = Pool(path)
            pool._connection().set_trace_callback(
                lambda _: None if next(left, None) is not None else os.kill(os.getpid(), signal.SIGKILL)
            )
            _change(pool)
            os._exit(0)
        finally:
            os._exit(1)
    return os.waitpid(pid, 0)[1]


def test_a_crash_in_the_middle_of_any_write_leaves_it_before_or_after(tmp_path: Path) -> None:
    """The process kills itself at the first, second, ... statement that SQLite is about to run, until none is left."""
    told = []
    with Pool(tmp_path / "0") as pool:
        pool.add(numbered(0), passed(numbered(0)))
    for count in range(1, 200):
        shutil.copytree(tmp_path / "0", tmp_path / str(count))
        status = _changed_until(tmp_path / str(count), count)
        with Pool.open(tmp_path / str(count)) as after:
            ids = after.ids(retired=True)
            assert [after.get(name).id for name in ids] == ids
            assert after.version == len(ids) + (after.why_retired(numbered(0).id) is not None)
            played = after.statistics(numbered(1).id) if len(ids) == 2 else None
            episodes = (played.hinted_episodes, played.plain_episodes) if played else (0, 0)
            assert episodes in ((0, 0), (5, 5))
            told.append((len(ids), episodes[0], after.version, len(after.memory(99))))
            if os.WIFEXITED(status):
                assert os.WEXITSTATUS(status) == 0
                break
            if count % 8 == 0:
                _change(after)  # it can be written on
                assert after.version == 3
    assert told[-1] == (2, 5, 3, 3) and told == sorted(told)
    assert {(1, 0, 1, 1), (2, 0, 2, 2), (2, 5, 2, 2), (2, 5, 3, 2)} <= set(told)


def test_several_processes_and_threads(pool: Pool) -> None:
    pool.add(numbered(0), passed(numbered(0)))
    other = pickle.loads(pickle.dumps(pool))
    pid = os.fork()
    if pid == 0:
        try:
            for number in range(1, 6):
                pool.add(numbered(number), passed(numbered(number)))
            os._exit(0)
        finally:
            os._exit(1)
    for number in range(6, 11):
        other.add(numbered(number), passed(numbered(number)))
    assert os.waitpid(pid, 0)[1] == 0
    assert len(pool.ids()) == len(other.ids()) == 11 and pool.version == 11


def test_an_environment_sees_what_is_added(pool: Pool) -> None:
    first, later = numbered(1), numbered(2)
    pool.add(first, passed(first))
    with pytest.raises(InvalidArgument, match="no program for the split 'test'"):
        make("SelfPlay", split="test", pool=pool.path)
    env = make("SelfPlay", pool=pool.path)
    assert isinstance(env.tasks, ProgramTasks)
    try:
        with pytest.raises(UnknownTask, match="no program"):
            env.reset(options={"task": later.task_id(3)})
        pool.add(later, passed(later))
        assert env.reset(options={"task": later.task_id(3)})[1]["program"] == later.id
        pool.retire(later.id, "old")
        env.tasks.refresh()
        assert {env.tasks.at(index).params["program"] for index in (0, len(env.tasks) - 1)} == {first.id}
        plain, told = env.reset(options={"task": later.task_id(3)})
        hinted, info = env.reset(options={"task": env.tasks.hinted(env.task).id})
        assert plain == hinted and info["instruction"].startswith(told["instruction"])
        assert SOUND.manifest.hint in info["instruction"] and SOUND.manifest.hint not in told["instruction"]
        with pytest.raises(UnknownTask, match="of test"):
            env.reset(options={"task": first.task_id(9)})
    finally:
        env.close()


def test_one_program_by_id_file_or_folder(tmp_path: Path) -> None:
    some = next(iter(starter()))
    for program in (some, SOUND.save(tmp_path / "one.toml"), SOUND.save(tmp_path / "folder"), SOUND):
        for split in ("train", "valid_seen", "valid_unseen", "test"):
            env = make("SelfPlay", program=program, split=split)
            assert {int(task.id.split("/")[2]) % 10 for task in env.tasks.first(20)} <= {
                s % 10 for s in seeds(split, 7)
            }
            env.close()
    with pytest.raises(ProgramError, match="no program at"):
        make("SelfPlay", program="no/such/thing")
    broken = replace(SOUND, manifest=replace(SOUND.manifest, horizon=99))
    with pytest.raises(InvalidArgument, match="horizon is 99"):
        make("SelfPlay", program=broken)


def test_the_starter_pool_is_large_varied_and_cut_by_programs() -> None:
    entries = starter().values()
    assert len(entries) >= 40
    folders = [STARTER, *(STARTER / role for role in ROLES)]  # only what lies in packages is in the wheel
    assert all((folder / "__init__.py").is_file() for folder in folders)
    assert len({tag for entry in entries for tag in entry.program.manifest.mechanics}) >= 8
    assert {entry.role for entry in entries} == {"train", "valid_unseen", "test"}
    for split in ("train", "valid_seen", "valid_unseen", "test"):
        env = make("SelfPlay", split=split)
        drawn = {task.params["program"] for task in env.tasks.first(200)}
        assert {starter()[name].role for name in drawn} == {role_of(split)}
        env.close()


TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0\r"), max_size=60)


@settings(max_examples=60, deadline=None)
@given(source=TEXT, title=TEXT, hint=TEXT, horizon=st.integers(1, 50), tags=st.lists(TEXT, max_size=3))
def test_programs_survive_files(
    source: str, title: str, hint: str, horizon: int, tags: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    program = Program(source, Manifest(title, "r", "a", horizon, hint, "s\n'''", tuple(tags)), Lineage("d", ("p",)))
    folder = tmp_path_factory.mktemp("programs")
    assert Program.load(program.save(folder / "x.toml")) == program
    assert Program.load(program.save(folder / "x")) == program
    assert Program.from_dict(json.loads(json.dumps(program.to_dict()))) == program


@settings(max_examples=100, deadline=None)
@given(number=st.integers(0, 2**32), words=st.text("ab .", max_size=30))
def test_grammars_accept_what_they_make(number: int, words: str) -> None:
    import numpy as np

    grammar = Grammar("go <north|south east|s>\nput <text> into <a|b>\nanswer <-5..99>\nlook")
    action = grammar.sample(np.random.default_rng(number), words)
    assert grammar.accepts(action) and grammar.accepts(action.upper())
    assert not grammar.accepts(f"{action} ") and not grammar.accepts(f"x{action}")


@pytest.mark.parametrize(
    "text", ["", "go <", "go > x", "go <a|>", "go <9..1>", "go <1..>", "\n".join("abcdefghijklmnopqrstu")]
)
def test_what_is_no_grammar(text: str) -> None:
    with pytest.raises(ProgramError):
        Grammar(text)
