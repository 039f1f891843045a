"""Speed and size of sandboxed programs: `python benchmarks/selfplay.py`; as root, with crun and Docker.

1. Steps/s of one program: in this process, in its sandbox (the runner; the whole environment with its keys), and with a
   container for each environment, to which every step is a command of its own: through our sandboxes, and with
   Docker's own package for Python, as it is usually done. Rounds take turns.
2. What starting costs: another program in the same sandbox, a fresh sandbox, a container with Docker's package.
3. Programs per second through the gates.
4. 64 programs live at once, played by turns: memory of our own processes for each, steps/s, and what is left.

A busy machine makes everything slower: trust the ratios, which come from the same rounds.
"""

from __future__ import annotations

import argparse
import json
import os
import runpy
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from rich.console import Console

from sandlot.envs.selfplay.env import SelfPlayEnv
from sandlot.envs.selfplay.gates import Gates
from sandlot.envs.selfplay.pool import starter
from sandlot.envs.selfplay.program import Program
from sandlot.envs.selfplay.runner import Moment, Runner
from sandlot.sandboxes import HostImage, Image, SandboxSpec, SyncSandbox
from sandlot.sandboxes.choose import make_sandbox
from sandlot.sandboxes.debian import base_folder
from sandlot.sandboxes.docker.client import connect
from sandlot.sandboxes.docker.daemon import PrivateDaemon
from sandlot.sandboxes.docker.images import import_rootfs
from sandlot.sandboxes.errors import EnvironmentFault, UserError

COUNTING = runpy.run_path(str(Path(__file__).with_name("sandboxes.py")))
"""The benchmark of the sandboxes, which counts processes, memory and traces."""
PLAIN = "container (Docker's package), a command each step"
STEP = """
import json, sys
exec(open("/tmp/env.py").read())
seed, actions = json.loads(sys.argv[1])
game = Game()
result = game.reset(seed)
for action in actions:
    result = game.step(action)
print(json.dumps(result))
"""


def longest() -> tuple[Program, int, list[str]]:
    """The starter program whose solution takes most steps, a seed, and the actions."""
    from sandlot.envs.selfplay.runner import Solver
    from sandlot.envs.selfplay.trial import Trial

    program = max((entry.program for entry in starter().values()), key=lambda program: program.manifest.horizon)
    with Runner(program) as runner, Solver(program) as solver:
        return program, 3, Trial(program, runner, solver, 60.0).solve(3).actions


def rate(play: Callable[[], int], seconds: float) -> float:
    """Steps/s of a function that plays some."""
    begin, steps = time.perf_counter(), 0
    while (took := time.perf_counter() - begin) < seconds:
        steps += play()
    return steps / took


def in_process(program: Program, seed: int, actions: list[str]) -> Callable[[], int]:
    """The program as ordinary code: what nobody should do with foreign code."""
    space: dict[str, Any] = {"__name__": "game"}
    exec(compile(program.source, "env.py", "exec"), space)

    def play() -> int:
        game = space["Game"]()
        game.reset(seed)
        for action in actions:
            if not game.step(action)[2]:
                game.actions()
            game.state()
        return len(actions)

    return play


def through(reset: Callable[[], Any], step: Callable[[str], Any], actions: list[str]) -> Callable[[], int]:
    def play() -> int:
        reset()
        for action in actions:
            step(action)
        return len(actions)

    return play


def by_commands(box: SyncSandbox, seed: int, actions: list[str]) -> Callable[[], int]:
    """A container for each environment, and a command in it for each step; the episode is played again up to there."""

    def play() -> int:
        for count in range(1, len(actions) + 1):
            request = json.dumps([seed, actions[:count]])
            assert box.exec(["python3", "-I", "-S", "-c", STEP, request]).exit_code == 0
        return len(actions)

    return play


@contextmanager
def plain_container() -> Iterator[Any]:
    """A container as Docker's package for Python makes it, with the usual limits, on the same image as ours."""
    client = connect()
    image = import_rootfs(client, base_folder())
    limits: dict[str, Any] = {"mem_limit": "256m", "pids_limit": 64, "cap_drop": ["ALL"], "network_mode": "none"}
    security = ["no-new-privileges"]
    container = client.containers.run(image, ["sleep", "3600"], detach=True, init=True, security_opt=security, **limits)
    try:
        yield container
    finally:
        container.remove(force=True)
        client.close()


def by_plain_commands(container: Any, program: Program, seed: int, actions: list[str]) -> Callable[[], int]:
    """As `by_commands`, with Docker's package for Python."""
    write = ["python3", "-c", "import sys; open('/tmp/env.py', 'w').write(sys.argv[1])", program.source]
    assert container.exec_run(write).exit_code == 0

    def play() -> int:
        for count in range(1, len(actions) + 1):
            request = json.dumps([seed, actions[:count]])
            assert container.exec_run(["python3", "-I", "-S", "-c", STEP, request]).exit_code == 0
        return len(actions)

    return play


@contextmanager
def docker_daemon() -> Iterator[str]:
    """The reason why there is no Docker here, or "": the user's daemon, else one that is started meanwhile."""
    if not base_folder().is_dir():
        yield "there is no base image: sandlot sandbox base"
        return
    try:
        connect(timeout=10).close()
        yield ""
        return
    except (EnvironmentFault, UserError) as error:
        reason = str(error)
    daemon = PrivateDaemon(Path(f"/tmp/sandlot-selfplay-{os.getpid()}"))
    if why := daemon.why_not():
        yield f"{reason}; {why}"
        return
    before = os.environ.get("DOCKER_HOST")
    try:
        daemon.start()
        os.environ["DOCKER_HOST"] = daemon.url
        yield ""
    finally:
        daemon.stop()
        os.environ.pop("DOCKER_HOST", None)
        if before is not None:
            os.environ["DOCKER_HOST"] = before


def speeds(backend: str, rounds: int, seconds: float) -> dict[str, float]:
    """Medians of steps/s."""
    program, seed, actions = longest()
    found: dict[str, list[float]] = {}
    env = SelfPlayEnv(program=program, backend=backend)
    task = program.task_id(seed)
    with ExitStack() as stack:
        runner = stack.enter_context(Runner(program, backend))
        box = stack.enter_context(SyncSandbox(make_sandbox(backend, _spec(backend))))
        box.put(program.source.encode(), "/tmp/env.py")
        ways = {
            "in this process": in_process(program, seed, actions),
            f"sandbox ({backend}), runner": through(lambda: runner.reset(seed), runner.step, actions),
            f"sandbox ({backend}), environment": through(lambda: env.reset(options={"task": task}), env.step, actions),
            f"sandbox ({backend}), whole episodes": lambda: len(runner.replay(seed, actions)) - 1,
            f"container ({backend}), a command each step": by_commands(box, seed, actions),
        }
        if backend == "docker":
            container = stack.enter_context(plain_container())
            ways[PLAIN] = by_plain_commands(container, program, seed, actions)
        try:
            for _ in range(rounds):
                for name, play in ways.items():
                    found.setdefault(name, []).append(rate(play, seconds))
        finally:
            env.close()
    return {name: statistics.median(values) for name, values in found.items()}


def starts(backend: str, rounds: int) -> dict[str, float]:
    """Median milliseconds until the first observation."""
    programs = [entry.program for entry in starter().values()]
    env = SelfPlayEnv(pool=None, backend=backend)
    found: dict[str, list[float]] = {"another program, same sandbox": [], "a fresh sandbox": []}
    try:
        env.reset(options={"task": programs[0].task_id(_seed(programs[0]))})
        for program in programs[1 : rounds + 1]:
            begin = time.perf_counter()
            env.reset(options={"task": program.task_id(_seed(program))})
            found["another program, same sandbox"].append(time.perf_counter() - begin)
            begin = time.perf_counter()
            with Runner(program, backend) as runner:
                runner.reset(0)
                found["a fresh sandbox"].append(time.perf_counter() - begin)
            if backend == "docker":
                begin = time.perf_counter()
                with plain_container() as container:
                    by_plain_commands(container, program, 0, ["x"])
                    container.exec_run(["python3", "-I", "-S", "-c", STEP, json.dumps([0, []])])
                    found.setdefault(PLAIN, []).append(time.perf_counter() - begin)
    finally:
        env.close()
    return {name: statistics.median(values) * 1e3 for name, values in found.items()}


def judged(backend: str, count: int) -> float:
    """Programs per second through all gates."""
    programs = [entry.program for entry in starter().values()][:count]
    with Gates(backend) as gates:
        gates.check(programs[0])
        begin = time.perf_counter()
        assert all(gates.check(program).passed for program in programs)
        return len(programs) / (time.perf_counter() - begin)


def live(backend: str, count: int, steps: int) -> dict[str, Any]:
    """That many programs at once, played by turns."""
    programs = [entry.program for entry in starter().values()]
    with Runner(programs[0], backend) as runner:
        runner.reset(0)  # the process that starts sandboxes stays
    before, known = COUNTING["traces"](), set(COUNTING["descendants"]())
    runners = [Runner(programs[i % len(programs)], backend) for i in range(count)]
    try:
        begin = time.perf_counter()
        moments = [runner.reset(seed) for seed, runner in enumerate(runners)]
        started = time.perf_counter() - begin
        children = [pid for pid in COUNTING["descendants"]() if pid not in known]
        memory = sum(COUNTING["own_memory"](pid) for pid in children)
        begin, done = time.perf_counter(), 0
        while done < steps:
            for i, runner in enumerate(runners):
                actions = moments[i].actions
                found = runner.reset(done) if not actions else runner.step(actions[done % len(actions)])
                assert isinstance(found, Moment)
                moments[i] = found
                done += 1
        speed = done / (time.perf_counter() - begin)
    finally:
        for runner in runners:
            runner.close()
    time.sleep(0.5)
    return {
        "live": count,
        "start of all, s": started,
        "processes": len(children),
        "MB each": memory / count / 1e6,
        "steps/s of all": speed,
        "left": COUNTING["left_over"](before, COUNTING["traces"]()) or "nothing",
    }


def _seed(program: Program) -> int:
    return {"train": 0, "valid_unseen": 8, "test": 9}[starter()[program.id].role or "train"]


def _spec(backend: str) -> SandboxSpec:
    image: Image = HostImage()
    if backend == "docker":
        from sandlot.sandboxes.debian import base_image

        image = base_image(backend)
    return SandboxSpec(image=image)


def measured(backend: str, options: argparse.Namespace, console: Console) -> dict[str, Any]:
    """Everything about one backend, also printed."""
    found: dict[str, Any] = {"steps/s": speeds(backend, options.rounds, options.seconds)}
    found["first observation, ms"] = starts(backend, 4 * options.rounds)
    found["programs/s through the gates"] = judged(backend, options.programs)
    found["at once"] = live(backend, options.live, 20_000)
    console.print(f"[bold]{backend}[/]")
    base = found["steps/s"]["in this process"]
    for name, value in found["steps/s"].items():
        console.print(f"  {name}: {value:,.0f} steps/s ({value / base:.3f} of in-process)")
    for name, value in found["first observation, ms"].items():
        console.print(f"  {name}: {value:.1f} ms to the first observation")
    console.print(f"  gates: {found['programs/s through the gates']:.2f} programs/s")
    console.print(f"  {found['at once']}")
    return found


def main(arguments: list[str] | None = None) -> dict[str, Any]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backends", nargs="+", default=["namespace", "oci", "docker"])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0, help="of each way in each round")
    parser.add_argument("--programs", type=int, default=20, help="judged by the gates")
    parser.add_argument("--live", type=int, default=64)
    parser.add_argument("--json", type=Path, help="write all numbers there")
    options = parser.parse_args(arguments)
    console = Console(highlight=False, width=110)
    report: dict[str, Any] = {"load before": os.getloadavg()}
    with docker_daemon() if "docker" in options.backends else nullcontext("") as missing:
        for backend in options.backends:
            if backend == "docker" and missing:
                console.print(f"[bold]docker[/]\n  left out: {missing}")
                report[backend] = {"left out": missing}
            else:
                report[backend] = measured(backend, options, console)
    report["load after"] = os.getloadavg()
    console.print(f"load {report['load before']} before, {report['load after']} after")
    if options.json:
        options.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    return report


if __name__ == "__main__":
    main()
