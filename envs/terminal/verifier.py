"""Judging an outcome: in a second sandbox, with tests and reward files that the agent has never seen."""

from __future__ import annotations

from ..core.errors import InvalidArgument
from .artifacts import Members, extract, folder, members, take
from .scoring import Verdict, from_pytest, from_rewards
from .shims import PATH_WITH_SHIMS, shim_files
from .task import PATH, TESTS, VERIFIER_LOGS, Artifact, Step, TerminalTask, Verifier
from .workspace import Workspace

MODES = ("auto", "clean", "shared", "live")
_OUTPUT = 1 << 20  # bytes of the verifier's output that are kept
_REWARD = 1 << 20  # bytes of a reward file


def judge(
    task: TerminalTask, step: Step, agent: Workspace, other: Workspace, *, mode: str = "auto", shims: bool = True
) -> Verdict:
    """The verdict on what lies in the agent's workspace.

    Args:
        task: the task.
        step: which of its steps is judged.
        agent: where the agent works. Only `live` changes anything there.
        other: a second workspace, in which it is judged.
        mode: "clean": a fresh sandbox gets the artifacts and nothing else of the agent's; "shared": a copy of the
            agent's files, without its processes; "live": the agent's own sandbox, processes and all; "auto": what the
            task says.
        shims: whether the offline stand-ins come first on the verifier's PATH.

    Raises:
        VerifierFault: there is no result (the episode is void).
        InvalidArgument: the backend cannot copy a sandbox, which "shared" needs.
    """
    verifier = step.verifier
    mode = verifier.mode if mode == "auto" else mode
    if mode == "live":
        return _verify(agent, verifier, shims, [], [])
    if mode == "shared":
        _copy(task, agent, other)
        _collect(other, verifier)
        return _verify(other, verifier, shims, [], [])
    source = agent
    if verifier.collect:  # these commands may change things: they run on a copy
        _copy(task, agent, other)
        _collect(other, verifier)
        source = other
    artifacts = verifier.artifacts or (Artifact(agent.workdir, agent.workdir),)
    taken = [member for artifact in artifacts for member in take(source.box, artifact) or ()]
    places = [artifact.destination for artifact in artifacts]
    other.begin(task, shell=False, files=not _covered(task, places))
    return _verify(other, verifier, shims, taken, places)


def _copy(task: TerminalTask, agent: Workspace, other: Workspace) -> None:
    if not agent.capable:
        raise InvalidArgument(f"the {agent.box.name} backend cannot copy a sandbox: use verifier='live' or 'clean'")
    snapshot = agent.box.snapshot()
    other.begin(task, shell=False, files=False)
    other.box.restore(snapshot)


def _collect(other: Workspace, verifier: Verifier) -> None:
    for collect in verifier.collect:
        other.box.exec(collect.command, cwd=other.workdir, timeout=collect.timeout, user=collect.user)


def _covered(task: TerminalTask, places: list[str]) -> bool:
    """Whether the artifacts take the place of every file that the task puts on its image."""
    return all(any(file.path.startswith(f"{place}/") for place in places) for file in task.setting.files)


def _verify(space: Workspace, verifier: Verifier, shims: bool, taken: Members, places: list[str]) -> Verdict:
    box = space.box
    found = [*taken, *(folder(path) for path in (TESTS, VERIFIER_LOGS, "/logs/agent", "/logs/artifacts"))]
    found += members(verifier.files, TESTS)
    found += members(shim_files()) if shims else []
    extract(box, found, remove=[*places, TESTS, "/logs"])
    path = PATH_WITH_SHIMS if shims else PATH
    result = box.exec(
        verifier.command,
        cwd=space.workdir if box.exec(["test", "-d", space.workdir], cwd="/").exit_code == 0 else "/",
        env={"PATH": path, "PYTHONDONTWRITEBYTECODE": "1", **verifier.env},
        user=verifier.user,
        timeout=verifier.timeout,
        output_limit=_OUTPUT,
        merge_stderr=True,
    )
    if result.timed_out:  # the agent's own doing more often than not: it fails, it is not tried again
        return Verdict(0.0, {}, {"in time": 0.0}, result.text, timed_out=True)
    if verifier.result == "pytest":
        return from_pytest(result.text)
    box.kill_all()
    files = []
    for name in ("reward.json", "reward.txt"):
        try:
            files.append(box.get(f"{VERIFIER_LOGS}/{name}", limit=_REWARD))
        except FileNotFoundError:
            files.append(None)
        else:
            break  # reward.json wins
    return from_rewards(files[0], files[-1] if len(files) == 2 else None, result.text)
