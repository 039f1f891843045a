"""ToolForm: fill in a booking form; the tool's errors say what is wrong."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ..core.tasks import Task
from ..core.text_env import Outcome
from .tasks import NumberedTasks, shuffled
from .toy import Toy, check_size

MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October")
NUMBERS = ("one", "two", "three", "four", "five", "six", "seven", "eight")
TOWNS = {
    "Lisbon": "LIS",
    "Vienna": "VIE",
    "Prague": "PRG",
    "Dublin": "DUB",
    "Madrid": "MAD",
    "Athens": "ATH",
    "Berlin": "BER",
    "Oslo": "OSL",
}
HOURS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven")


class Field(NamedTuple):
    """One field of the form for one value."""

    name: str
    phrase: str
    """How the request says it."""
    rule: str
    """What the tool demands."""
    right: str
    malformed: tuple[str, str, str]
    """Texts that break the rule."""
    other: tuple[str, str]
    """Texts that keep the rule and say something else."""


def _date(number: int) -> Field:
    day, month = number % 9 + 1, number // 9 % len(MONTHS) + 1
    right, swapped = f"2027-{month:02}-{day:02}", f"2027-{day:02}-{month:02}"
    if swapped == right:
        swapped = f"2027-{month:02}-{day + 10}"
    wrong = (f"{day} {MONTHS[month - 1]}", f"{day:02}/{month:02}/2027", f"{month}-{day}-27")
    return Field(
        "date", f"on {day} {MONTHS[month - 1]} 2027", "must be YYYY-MM-DD", right, wrong, (swapped, f"2028{right[4:]}")
    )


def _guests(number: int) -> Field:
    n, word = number % 8 + 1, NUMBERS[number % 8]
    wrong = (word, f"{n} guests", f"{n}.0")
    return Field("guests", f"for {word}", "must be a whole number in digits", f"{n}", wrong, (f"{n + 1}", f"{n + 2}"))


def _town(number: int) -> Field:
    names = list(TOWNS)
    name, second, third = (names[(number + step) % len(names)] for step in (0, 1, 3))
    wrong = (name, TOWNS[name].lower(), f"{TOWNS[name]}-1")
    return Field(
        "town", f"in {name}", "must be a code of three capitals", TOWNS[name], wrong, (TOWNS[second], TOWNS[third])
    )


def _time(number: int) -> Field:
    hour = number % len(HOURS) + 1
    wrong = (f"half past {HOURS[hour - 1]}", f"{hour}:30 pm", f"{hour + 12}.30")
    other = (f"{hour:02}:30", f"{hour + 11}:30")
    phrase = f"at half past {HOURS[hour - 1]} in the afternoon or evening"
    return Field("time", phrase, "must be HH:MM on the 24 hour clock", f"{hour + 12}:30", wrong, other)


# Field makers with how many values each has.
FIELDS = ((_date, 9 * len(MONTHS)), (_guests, 8), (_town, len(TOWNS)), (_time, len(HOURS)))


class ToolForm(Toy):
    """Set the fields of a booking form so that the tool accepts it and the request is met.

    ## Description
    A first success by chance is next to impossible (below 1 %), but every failed submission is answered with an
    error that says which field is wrong and why. Methods that read errors learn here where bare rewards are all zero.

    ## Action Space
    Text. `set <field> to <value>` for six values per field, and `submit`.

    ## Observation Space
    Text. The request, the form as filled in, and after `submit` the tool's errors.

    ## Starting State
    An empty form. A task is a request.

    ## Rewards
    1 on an accepted submission, else 0.

    ## Episode End
    Terminated on an accepted submission. Registered limit: 12 steps.

    ## Information
    `progress`: right fields / fields, known to the agent only after `submit` but given here for shaping. `admissible`:
    all values of all fields, and `submit`.

    ## Privileged Information
    `oracle()`: sets the fields that are not right, then submits. `hint()`: the next of these. `verify()`: per field.
    `optimal_value()`: 1.

    ## State Key
    The task, the values in the form and whether it was accepted.

    ## Arguments
    - `split`: "train", "valid_seen", "valid_unseen" or "test" (disjoint requests of the same kinds).
    - `fields` (3): 2 to 4 of date, guests, town, time, in this order.

    ## Source and Licence
    Written for this project; Apache-2.0.

    ## Version History
    - v0: first version.
    """

    def __init__(
        self, split: str = "train", *, fields: int = 3, max_steps: int | None = None, render_mode: str | None = None
    ) -> None:
        self.kinds = FIELDS[: check_size("fields", fields, 2, len(FIELDS))]
        count = 1
        for _, values in self.kinds:
            count *= values
        tasks = NumberedTasks(f"toolform-{fields}", count, self._request, split)
        super().__init__(tasks, max_steps=max_steps, render_mode=render_mode)

    def _request(self, number: int) -> dict[str, list[Field] | list[list[str]]]:
        fields = []
        for kind, values in self.kinds:
            number, value = divmod(number, values)
            fields.append(kind(value))
        return {"fields": fields, "values": [self._values(field) for field in fields]}

    def _values(self, field: Field) -> list[str]:
        return shuffled([field.right, *field.malformed, *field.other], field.name, field.right)

    def canonical(self, action: str) -> str:
        """The action with single spaces; case matters in values."""
        return " ".join(action.split())

    def start(self, task: Task) -> tuple[tuple[str, ...], bool]:
        """Empty fields, not accepted."""
        return ("",) * len(task.params["fields"]), False

    def describe(self) -> str:
        """The request and the form."""
        values, accepted = self.state
        if accepted:
            return "Accepted. The table is booked."
        form = "; ".join(f"{field.name} = {value or '(empty)'}" for field, value in zip(self._fields(), values))
        return f"{self._instruction()}\nForm: {form}."

    def actions(self) -> tuple[str, ...]:
        """All values of all fields, and `submit`."""
        listed = zip(self._fields(), self.task.params["values"])
        return (*(f"set {field.name} to {value}" for field, values in listed for value in values), "submit")

    def apply(self, action: str) -> Outcome:
        """Set a field or submit."""
        values, _ = self.state
        if action == "submit":
            errors = self._errors()
            self.state = (values, not errors)
            return Outcome("\n".join([*errors, self.describe()]), float(not errors), not errors)
        _, name, _, value = action.split(" ", 3)
        self.state = tuple(value if f.name == name else v for f, v in zip(self._fields(), values)), False
        return Outcome(self.describe())

    def _errors(self) -> list[str]:
        errors = []
        for field, value in zip(self._fields(), self.state[0]):
            if not value:
                errors.append(f"Error: {field.name} is missing, it {field.rule}.")
            elif value in field.malformed:
                errors.append(f"Error: {field.name} {field.rule}, not '{value}'.")
            elif value in field.other:
                errors.append(f"Error: {field.name} is well formed but '{value}' is not what was asked for.")
        return errors

    def oracle(self) -> Iterator[str]:
        """Set what is not right yet, then submit."""
        while not self._success():
            yield next(
                (f"set {f.name} to {f.right}" for f, value in zip(self._fields(), self.state[0]) if value != f.right),
                "submit",
            )

    def hint(self) -> str:
        """The next thing to do."""
        return "" if self._success() else f"Now {next(self.oracle())}."

    def verify(self) -> dict[str, float]:
        """Per field, whether it is right; and whether the form was accepted."""
        right = {f.name: float(value == f.right) for f, value in zip(self._fields(), self.state[0])}
        return right | {"accepted": float(self._success())}

    def optimal_value(self) -> float:
        """1: the request and the errors say all, and `fields + 1` steps do."""
        return 1.0

    def _fields(self) -> list[Field]:
        return self.task.params["fields"]

    def _success(self) -> bool:
        return self.state[1]

    def _progress(self) -> float:
        fields = self._fields()
        return sum(value == field.right for field, value in zip(fields, self.state[0])) / len(fields)

    def _instruction(self) -> str:
        return f"Book a table {' '.join(field.phrase for field in self._fields())}: fill in the form and submit it."
