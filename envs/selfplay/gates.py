"""The gates: what a program must pass before it enters a pool.

They are asked in stages, from cheap to dear; the first stage at which something is wrong ends it, with all that is
wrong there. What a program does in here, however bad, is a finding and no error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from ..core.errors import InvalidArgument
from .grammar import Grammar
from .program import Program, ProgramError
from .reasons import ProgramFault, Reason, SolutionFault
from .runner import Cell, Moment, Runner, RunSettings, Solver
from .signature import Known, Signature, behaviour, likeness, structure
from .source import check_source
from .trial import Episode, Trial
from .verdict import Finding, Verdict
from .weak import Reader, WeakPolicy

IDLE = ("I am sorry, but I cannot help with that.",)
_PRIMES = (3, 14, 1_592, 6_535, 89_793, 23_846, 26_433, 83_279)
_SAMPLES = 8  # different constant policies


@dataclass(frozen=True)
class GateSettings:
    """How strict the gates are."""

    seeds: int = 6
    """Instances that the reference solution must solve, and that are compared."""
    walks: int = 4
    """Random episodes of each of two seeds that are played again."""
    episodes: int = 40
    """Random episodes that `chance` is measured on; a quarter of it for each constant policy."""
    chance: float = 0.1
    """The mean score that random actions must stay below."""
    constant: float = 0.21
    """The mean score that each constant policy must stay below: over ten episodes one may go right by luck, and two."""
    weak: int = 12
    """Episodes of the weak policy with the hint, and as many without."""
    gain: float = 0.1
    """By how much the hint must raise its mean score."""
    structure: float = 0.95
    """From this share of common code on, and where both also play in the same shape, it is a duplicate."""
    behaviour: float = 0.9
    """From this share of common observations on it is a duplicate."""
    seconds: float = 60.0
    """Of the wall clock for one program; a plain one needs less than one on a quiet machine."""
    run: RunSettings = field(default_factory=RunSettings)
    """What it may use."""

    def __post_init__(self) -> None:
        if not 2 <= self.seeds <= len(_PRIMES) or min(self.walks, self.episodes // 4, self.weak) < 1:
            raise InvalidArgument(f"GateSettings: seeds from 2 to {len(_PRIMES)}, walks, weak 1 and episodes 4 or more")


class Gates:
    """The gates with their sandboxes, for many programs; a context manager.

    Args:
        backend: the sandbox, as for `SelfPlayEnv`.
        settings: how strict.
        weak: the policy that the hint must help.
    """

    def __init__(
        self, backend: str = "auto", settings: GateSettings | None = None, weak: WeakPolicy | None = None
    ) -> None:
        self.settings = settings or GateSettings()
        self._weak = weak or Reader()
        self._cell, self._solving = Cell(backend, self.settings.run), Cell(backend, self.settings.run)

    def check(self, candidate: Program | Mapping[str, Any], known: Sequence[Known] = ()) -> Verdict:
        """Judge a program, or what should be one.

        Args:
            candidate: a program, or plain values as `Program.to_dict` gives them.
            known: what it must not be a near-duplicate of, as `Pool.known` gives it.

        Raises:
            EnvironmentFault: a sandbox broke; that says nothing of the program.
        """
        try:
            program = candidate if isinstance(candidate, Program) else Program.from_dict(candidate)
        except ProgramError as error:
            return Verdict("", (Finding(Reason.MANIFEST, f"{error}."),))
        findings = tuple(_text(program))
        if findings:
            return Verdict(program.id, findings)
        runner, solver = Runner(program, cell=self._cell), Solver(program, cell=self._solving)
        trial = Trial(program, runner, solver, self.settings.seconds)
        try:
            for stage in (self._start, self._play, self._repeat, self._solve, self._chance, self._hint):
                findings = _caught(stage, trial)
                if findings:
                    return Verdict(program.id, findings, trial.measures)
            signature = _signature(trial)
            return Verdict(program.id, tuple(self._novelty(program, signature, known)), trial.measures, signature)
        finally:
            runner.close()
            solver.close()

    def _start(self, trial: Trial) -> Iterator[Finding]:
        trial.runner.start()
        yield from ()

    def _play(self, trial: Trial) -> Iterator[Finding]:
        """Random episodes, and ones that always take the first or the last action that there is."""
        for seed in _PRIMES[:2]:
            for walk in range(self.settings.walks):
                trial.episodes.append(trial.play(seed, trial.random(trial.rng("walk", seed, walk))))
            if trial.episodes[-1].moments[0].actions is not None:
                trial.episodes.append(trial.play(seed, lambda moment: (moment.actions or ("",))[0]))
                trial.episodes.append(trial.play(seed, lambda moment: (moment.actions or ("",))[-1]))
        for episode in trial.episodes:
            yield from _endless(episode, trial.horizon)

    def _repeat(self, trial: Trial) -> Iterator[Finding]:
        clean = [episode for episode in trial.episodes if not episode.refused]
        for when, again in (("after other episodes", False), ("in another process", True)):
            if again:
                trial.runner.start()
            for episode in reversed(trial.episodes):
                found = trial.runner.replay(episode.seed, episode.actions)
                if found != episode.moments:
                    step = next((i for i, pair in enumerate(zip(found, episode.moments)) if pair[0] != pair[1]), 0)
                    reason = Reason.NONDETERMINISTIC if episode in clean else Reason.SNAPSHOT
                    was = _short(episode.moments[step])
                    yield Finding(
                        reason,
                        f"seed {episode.seed}, after {step} actions: played again {when} it shows "
                        f"{_short(found[step] if step < len(found) else None)}, before {was}.",
                    )
                    return
        yield from _branches(trial)
        yield from _states(trial.episodes)

    def _solve(self, trial: Trial) -> Iterator[Finding]:
        for seed in _PRIMES[: self.settings.seeds]:
            episode = trial.solve(seed)
            trial.solved.append(episode)
            if episode.refused or not episode.success:
                last = _short(episode.moments[-1])
                what = (
                    f"its action {episode.refused[0][1]!r:.80} is refused" if episode.refused else f"it ends at {last}"
                )
                yield Finding(
                    Reason.SOLUTION_FAILS,
                    f"seed {seed}: {what}, with a score of {episode.score:.3g} after {len(episode.actions)} actions.",
                )
                return
            yield from _endless(episode, trial.horizon)
        trial.measures["solution_steps"] = _mean([len(episode.actions) for episode in trial.solved])
        first, *others = trial.solved
        alike = _mean([trial.play(other.seed, trial.follow(first.actions)).score for other in others])
        trial.measures["same_actions"] = alike
        if alike > 0.5:
            yield Finding(
                Reason.SAME_INSTANCES, f"the actions that solve seed {first.seed} score {alike:.2f} on other seeds."
            )

    def _chance(self, trial: Trial) -> Iterator[Finding]:
        settings = self.settings
        seeds = [10_007 + 37 * number for number in range(settings.episodes)]
        few = seeds[: settings.episodes // 4]
        idle = [lambda moment: " ".join(moment.observation.split()), *(trial.follow([text] * 50) for text in IDLE)]
        for choose in idle:
            scores = [trial.play(seed, choose).score for seed in few[:3]]
            if max(scores) > 0:
                yield Finding(Reason.IDLE, f"it earns {max(scores):.3g}.")
        worst = 0.0
        for action in _constants(trial):
            score = _mean([trial.play(seed, lambda moment, action=action: action).score for seed in few])
            worst = max(worst, score)
            if score >= settings.constant:
                yield Finding(Reason.CONSTANT, f"always {action!r:.80} has a mean score of {score:.2f}.")
                break
        rng = trial.rng("chance", trial.program.id)
        random = _mean([trial.play(seed, trial.random(rng)).score for seed in seeds])
        trial.measures |= {"constant": worst, "random": random}
        if random >= settings.chance:
            yield Finding(
                Reason.RANDOM, f"they have a mean score of {random:.2f}; below {settings.chance:.2f} is allowed."
            )

    def _hint(self, trial: Trial) -> Iterator[Finding]:
        rules = trial.program.manifest.rules
        shown = [moment.observation for episode in trial.episodes for moment in episode.moments]
        scores: dict[bool, list[float]] = {True: [], False: []}

        def weak(moment: Moment) -> str:
            return self._weak.act(moment.observation, moment.actions, trial.grammar)

        for number in range(self.settings.weak):
            seed = 20_011 + 41 * number
            hint = trial.solver.hint(seed)
            if len(hint) > 12 and any(hint in text for text in (rules, *shown)):
                yield Finding(Reason.HINT_SHOWN, f"{hint!r:.80}.")
                return
            for hinted in scores:
                self._weak.start(rules, hint if hinted else "", trial.rng("weak", seed))
                scores[hinted].append(trial.play(seed, weak).score)
        hinted, plain = _mean(scores[True]), _mean(scores[False])
        trial.measures |= {"hinted": hinted, "plain": plain}
        if hinted - plain < self.settings.gain:
            yield Finding(
                Reason.HINT_USELESS,
                f"a weak policy, which looks for actions written in it word for word, scores {hinted:.2f} with it and "
                f"{plain:.2f} without; the difference must be {self.settings.gain:.2f}.",
            )

    def _novelty(self, program: Program, signature: Signature, known: Sequence[Known]) -> Iterator[Finding]:
        for other in known:
            if other.id == program.id:
                continue
            played = likeness(signature.behaviour, other.signature.behaviour)
            if played >= self.settings.behaviour:
                yield Finding(Reason.SAME_BEHAVIOUR, f"{played:.0%} of what it shows is as in {other.id}.")
                return
            code = likeness(signature.structure, other.signature.structure)
            shape = likeness(signature.shape, other.signature.shape)
            if code >= self.settings.structure and shape >= self.settings.behaviour:
                yield Finding(Reason.SAME_STRUCTURE, f"{code:.0%} of its code is that of {other.id}.")
                return

    def close(self) -> None:
        """End the sandboxes; a later check opens others."""
        self._cell.close()
        self._solving.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def check(
    candidate: Program | Mapping[str, Any],
    *,
    known: Sequence[Known] = (),
    weak: WeakPolicy | None = None,
    settings: GateSettings | None = None,
    backend: str = "auto",
) -> Verdict:
    """Judge one program in sandboxes of its own; see `Gates`."""
    with Gates(backend, settings, weak) as gates:
        return gates.check(candidate, known)


def _caught(stage: Callable[[Trial], Iterator[Finding]], trial: Trial) -> tuple[Finding, ...]:
    try:
        return tuple(stage(trial))
    except SolutionFault as fault:
        return (Finding(Reason.SOLUTION_BROKEN, f"{fault.reason}: {fault}."),)
    except ProgramFault as fault:
        return (Finding(fault.reason, f"{fault}."),)


def _text(program: Program) -> Iterator[Finding]:
    for problem in program.problems():
        yield Finding(Reason.MANIFEST, f"{problem}.")
    try:
        Grammar(program.manifest.actions)
    except ProgramError as error:
        yield Finding(Reason.MANIFEST, f"{error}.")
    for name, kind, source in (
        ("env.py", "Game", program.source),
        ("solution.py", "Solution", program.manifest.solution),
    ):
        for reason, message in check_source(source, kind):
            yield Finding(reason, f"{name}: {message}.")


def _endless(episode: Episode, horizon: int) -> Iterator[Finding]:
    if not episode.ended and len(episode.actions) >= horizon:
        yield Finding(Reason.ENDLESS, f"seed {episode.seed}: it goes on after {horizon} actions.")


def _branches(trial: Trial) -> Iterator[Finding]:
    """Back to the middle of an episode by replay, then on from there."""
    for episode in trial.episodes[:4]:
        half = len(episode.actions) // 2
        trial.runner.replay(episode.seed, episode.actions[:half])
        for action, moment in zip(episode.actions[half:], episode.moments[half + 1 :]):
            if trial.runner.step(action) != moment:
                yield Finding(
                    Reason.SNAPSHOT, f"seed {episode.seed}: after a replay of {half} actions it goes on otherwise."
                )
                return


def _states(episodes: Sequence[Episode]) -> Iterator[Finding]:
    """States that are told alike must show the same actions, and answer the same action alike."""
    listed: dict[Any, tuple[str, ...] | None] = {}
    answers: dict[Any, Moment] = {}
    for episode in episodes:
        score = 0.0
        for step, moment in enumerate(episode.moments):
            score += moment.reward
            if moment.state is None:
                return
            here = (episode.seed, moment.state, moment.terminated, round(score, 9))
            same = listed.setdefault(here, moment.actions) == moment.actions
            if step < len(episode.actions):
                after = episode.moments[step + 1]
                same = same and answers.setdefault((here, episode.actions[step]), after) == after
            if not same:
                yield Finding(Reason.STATE, f"seed {episode.seed}: two states are both {moment.state!r:.200}.")
                return


def _constants(trial: Trial) -> list[str]:
    """Actions that a constant policy could send: listed ones, else random ones and what the solution said."""
    listed = [name for episode in trial.solved for moment in episode.moments for name in moment.actions or ()]
    if not listed:
        rng = trial.rng("constant", trial.program.id)
        listed = [action for episode in trial.solved for action in episode.actions]
        listed += [trial.grammar.sample(rng) for _ in range(_SAMPLES)]
    common = sorted(set(listed), key=lambda name: (-listed.count(name), name))
    return common[:_SAMPLES]


def _signature(trial: Trial) -> Signature:
    traces = [
        [(m.observation, m.reward, m.terminated, -1 if m.actions is None else len(m.actions)) for m in episode.moments]
        for episode in (*trial.solved, *trial.episodes)
    ]
    return Signature(structure(trial.program.source), *behaviour(traces))


def _short(moment: Any) -> str:
    return "nothing" if not isinstance(moment, Moment) else repr(moment.observation[:120])


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
