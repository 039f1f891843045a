"""Reading settings out of a task's TOML or YAML, with errors that name the file and the key."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..core.errors import InvalidArgument, UserError

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)i?B?", re.IGNORECASE)
_REQUIRED: Any = object()


class BadTask(UserError, ValueError):
    """A task folder that does not keep its format; the message names the file and the key."""


class Fields:
    """One table of a file. Every reader checks the type and says where it looked.

    Args:
        values: the table.
        file: the file's name, for messages.
        where: the table's own key ("" for the whole file).
    """

    def __init__(self, values: Any, file: Path | str, where: str = "") -> None:
        self._file, self._where = file, where
        if not isinstance(values, Mapping):
            raise BadTask(f"{file}: {where or 'the file'} must be a table, not {type(values).__name__}")
        self.values: Mapping[str, Any] = values

    def text(self, key: str, default: Any = _REQUIRED) -> Any:
        """A string."""
        return self._read(key, default, str, "a text")

    def number(self, key: str, default: Any = _REQUIRED, *, least: float = 0.0) -> Any:
        """A finite number, at least `least`."""
        value = self._read(key, default, (int, float), "a number")
        if value is not default and (isinstance(value, bool) or not math.isfinite(value) or value < least):
            raise self.error(key, f"must be a number of at least {least:g}, not {value!r}")
        return value

    def flag(self, key: str, default: bool = False) -> bool:
        """True or false."""
        return self._read(key, default, bool, "true or false")

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of strings; empty where the key is absent."""
        value = self._read(key, [], list, "a list")
        if not all(isinstance(item, str) for item in value):
            raise self.error(key, f"must be a list of texts, not {value!r}")
        return tuple(value)

    def choice(self, key: str, options: tuple[str, ...], default: Any = _REQUIRED) -> Any:
        """One of `options`."""
        value = self.text(key, default)
        if value is not default and value not in options:
            raise self.error(key, f"must be one of {', '.join(options)}, not {value!r}")
        return value

    def table(self, key: str) -> Fields:
        """A table; an empty one where the key is absent."""
        value = self.values.get(key)
        return Fields({} if value is None else value, self._file, self._name(key))

    def tables(self, key: str) -> list[Fields]:
        """A list of tables."""
        value = self._read(key, [], list, "a list of tables")
        return [Fields(item, self._file, f"{self._name(key)}[{number}]") for number, item in enumerate(value)]

    def environment(self, key: str, variables: Mapping[str, str]) -> dict[str, str]:
        """A table of texts in which `${NAME}` and `${NAME:-default}` are replaced from `variables`."""
        found = {}
        for name, value in self.table(key).values.items():
            if not isinstance(value, str | int | float) or isinstance(value, bool):
                raise self.error(f"{key}.{name}", f"must be a text, not {value!r}")
            found[name] = self._expand(f"{key}.{name}", str(value), variables)
        return found

    def megabytes(self, key: str) -> int | None:
        """A size such as "2G" or "512M"; None where the key is absent."""
        value = self.values.get(key)
        if value is None:
            return None
        match = _SIZE.fullmatch(str(value).strip())
        if match is None:
            raise self.error(key, f"must be a size such as '2G', not {value!r}")
        scale = {"": 2.0**-20, "K": 2.0**-10, "M": 1.0, "G": 2.0**10, "T": 2.0**20}[match[2].upper()]
        return max(1, round(float(match[1]) * scale))

    def error(self, key: str, problem: str) -> BadTask:
        """The error for a key of this table."""
        return BadTask(f"{self._file}: {self._name(key)} {problem}")

    def _name(self, key: str) -> str:
        return f"{self._where}.{key}" if self._where else key

    def _read(self, key: str, default: Any, kind: Any, words: str) -> Any:
        value = self.values.get(key)
        if value is None:
            if default is _REQUIRED:
                raise self.error(key, "is missing")
            return default
        if not isinstance(value, kind):
            raise self.error(key, f"must be {words}, not {value!r}")
        return value

    def _expand(self, key: str, value: str, variables: Mapping[str, str]) -> str:
        def replace(match: re.Match[str]) -> str:
            if match[1] in variables:
                return variables[match[1]]
            if match[2] is None:
                raise InvalidArgument(
                    f"{self._file}: {self._name(key)} uses ${{{match[1]}}}, which has no default: "
                    f"pass variables={{{match[1]!r}: ...}} (the environment of this process is not given to tasks)"
                )
            return match[2]

        return _VARIABLE.sub(replace, value)


def read_toml(path: Path) -> Fields:
    """The file's fields. Raises `BadTask` where it is no TOML."""
    import tomllib

    try:
        return Fields(tomllib.loads(path.read_text(encoding="utf-8")), path)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadTask(f"{path}: not valid TOML: {error}") from None


def load_yaml(path: Path) -> Any:
    """The file's content. Raises `BadTask` where it is no YAML, `MissingExtra` without PyYAML."""
    from ..core.errors import MissingExtra

    try:
        import yaml
    except ImportError:
        raise MissingExtra("PyYAML", "terminal") from None
    try:
        return yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise BadTask(f"{path}: not valid YAML: {' '.join(str(error).split())}") from None


def read_yaml(path: Path) -> Fields:
    """The file's fields."""
    return Fields(load_yaml(path), path)
