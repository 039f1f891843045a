"""Why a program is not accepted, or failed while it was played: one code for each, with what it means."""

from __future__ import annotations

from enum import StrEnum


class Reason(StrEnum):
    """A reason code. `stage` says when it is looked for, `meaning` what it says and how to mend it."""

    stage: str
    meaning: str

    def __new__(cls, code: str, stage: str, meaning: str) -> Reason:
        """An enum member that is its code."""
        member = str.__new__(cls, code)
        member._value_ = code
        member.stage = stage
        member.meaning = meaning
        return member

    MANIFEST = "manifest", "text", "A part is missing, empty, too long or of the wrong type, or the grammar is none."
    SYNTAX = "syntax", "text", "A source does not parse, or defines no class with the methods that are needed."
    IMPORT = "import", "text", "It imports a module that is not allowed."
    NAME = "name", "text", "It uses a name or an attribute that reaches out of a plain program."
    START = "start", "start", "It fails while it is loaded, before any episode."
    EXCEPTION = "exception", "play", "It raises something else than a ValueError, which is how to refuse an action."
    TIMEOUT = "timeout", "play", "A request takes longer than allowed: an endless or very long loop."
    MEMORY = "memory", "play", "It wants more memory than allowed."
    OUTPUT = "output", "play", "An answer is larger than allowed."
    DIED = "died", "play", "Its process ended."
    PROTOCOL = "protocol", "play", "It wrote into the pipe to its host, or what it answers is no answer."
    OBSERVATION = "observation", "play", "An observation is not a printable, non-empty text within the length."
    REWARD = "reward", "play", "A reward is not a number from 0 to 1, or an episode's rewards add up to more than 1."
    TERMINATED = "terminated", "play", "`terminated` is not True or False."
    ACTIONS = "actions", "play", "`actions()` lists none, too many, twice the same, or what its grammar refuses."
    REFUSAL = "refusal", "play", "A listed action is refused, or a refused action changes the state."
    NONDETERMINISTIC = (
        "nondeterministic",
        "repeat",
        "The same seed and actions give another episode: next time, "
        "after other episodes, or in another process (the order of sets, state outside of `self`).",
    )
    STATE = "state", "repeat", "`state()` is the same for two states that go on differently."
    ENDLESS = "endless", "repeat", "An episode does not end within the horizon."
    SAME_INSTANCES = "same_instances", "repeat", "Different seeds give the same instance."
    SNAPSHOT = "snapshot", "repeat", "Replaying the actions does not bring an episode back."
    SOLUTION_BROKEN = "solution_broken", "solve", "The reference solution fails to start or to answer."
    SOLUTION_FAILS = "solution_fails", "solve", "The reference solution does not succeed on every seed."
    IDLE = "idle", "chance", "Doing nothing, or sending back what is shown, earns something."
    CONSTANT = "constant", "chance", "Sending always the same action succeeds too often."
    RANDOM = "random", "chance", "Random actions succeed too often."
    HINT_SHOWN = "hint_shown", "hint", "The hint stands in the rules or in an observation."
    HINT_USELESS = "hint_useless", "hint", "A weak policy does not do better with the hint than without it."
    SAME_STRUCTURE = "same_structure", "novelty", "The code of a known program with other words."
    SAME_BEHAVIOUR = "same_behaviour", "novelty", "It plays like a known program."


class ProgramFault(Exception):
    """A program failed; `reason` says how. The sandbox held."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class SolutionFault(ProgramFault):
    """The reference solution failed: `reason` is what it did, as for a program."""


def table() -> str:
    """All codes as a Markdown table, for the documentation."""
    rows = [f"| `{reason}` | {reason.stage} | {reason.meaning} |" for reason in Reason]
    return "\n".join(["| code | stage | what it says |", "| --- | --- | --- |", *rows])
