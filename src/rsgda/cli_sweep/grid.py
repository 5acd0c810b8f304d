"""The file of a grid: read, checked, and multiplied out into problems and algorithms."""

import datetime
import importlib
import inspect
import itertools
import json
import math
import sys
import tomllib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import rsgda.algorithms.esgda
import rsgda.algorithms.extragradient
import rsgda.algorithms.optimistic
import rsgda.algorithms.rsgda
import rsgda.algorithms.sgda
import rsgda.algorithms.sgdmax
import rsgda.algorithms.tiada
from rsgda.cli_sweep.ready import READY
from rsgda.problem import Problem

KEYS = ("steps", "every", "seeds", "problems", "algorithms")
ALGORITHMS: dict[str, Any] = {
    "RSGDA": rsgda.algorithms.rsgda.RSGDA,
    "SGDA": rsgda.algorithms.sgda.SGDA,
    "ESGDA": rsgda.algorithms.esgda.ESGDA,
    "SGDmax": rsgda.algorithms.sgdmax.SGDmax,
    "TiAda": rsgda.algorithms.tiada.TiAda,
    "Extragradient": rsgda.algorithms.extragradient.Extragradient,
    "Optimistic": rsgda.algorithms.optimistic.Optimistic,
}
MOST_SEED = 2**32
EVERY = 1_000  # as in `sweep`
MOST_RUNS = 10**6  # which take hours to arrange and write down, however short they are

Given = dict[str, Any]


class Setting(NamedTuple):
    """A problem to run on.

    Attributes:
        name: in the table.
        fields: what it was made with.
        parts: the problem, theta, v and the record function or None.
    """

    name: str
    fields: Given
    parts: tuple[Problem, Any, Any, Any]


class Choice(NamedTuple):
    """An algorithm to run.

    Attributes:
        name: in the table.
        numbers: what it was made with.
        algorithm: itself.
    """

    name: str
    numbers: Given
    algorithm: Any


class Grid(NamedTuple):
    """All that a file asks for.

    Attributes:
        path: the file.
        content: what is written there, as JSON can hold it.
        steps: of each run.
        every: steps between two records.
        seeds: of the keys.
        settings: the problems.
        choices: the algorithms, which run on each problem with each seed.
    """

    path: Path
    content: Given
    steps: int
    every: int
    seeds: Sequence[int]
    settings: list[Setting]
    choices: list[Choice]


def read(path: Path) -> Grid:
    """Read a file; whatever is wrong in it is refused with its key, the wish and what came."""
    content = _parsed(path)
    door = _Door(path)
    door.known("", content, KEYS)
    steps = door.whole("steps", content.get("steps"), 1)
    every = door.whole("every", content.get("every", EVERY), 1)
    seeds = door.seeds(content.get("seeds"))
    problems, algorithms = (door.tables(name, content.get(name)) for name in KEYS[-2:])
    door.few(problems, algorithms, seeds)
    folder = str(path.absolute().parent)
    if folder not in sys.path:  # where one looks for modules that are named in the file
        sys.path.append(folder)
    choices = [
        made
        for place, table in enumerate(algorithms)
        for made in _choices(door, f"algorithms[{place}]", table)
    ]
    settings = [
        made
        for place, table in enumerate(problems)
        for made in _settings(door, f"problems[{place}]", table)
    ]
    door.once("algorithms", [(one.name, one.numbers) for one in choices])
    door.once("problems", [(one.name, one.fields) for one in settings])
    return Grid(path, _plain(content), steps, every, seeds, settings, choices)


def _parsed(path: Path) -> Given:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} must be a TOML file: {error}.") from error
    except OSError as error:
        raise OSError(f"{path} cannot be read: {error.strerror or error}.") from error


def _plain(content: Given) -> Given:
    return json.loads(json.dumps(content))


class _Door:
    """Refuses what is wrong, with the name of the file."""

    def __init__(self, path: Path):
        self.path = path

    def refusal(self, key: str, wish: str, came: Any) -> ValueError:
        return ValueError(f"{self.path}: `{key}` must be {wish}, got {_shown(came)}.")

    def known(self, where: str, table: Given, keys: Iterable[str]) -> None:
        for key in table:
            if key not in keys:
                raise ValueError(
                    f"{self.path}: `{where}{key}` is no key; there are {', '.join(keys)}."
                )

    def whole(self, key: str, value: Any, least: int) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise self.refusal(key, f"a whole number, at least {least}", value)
        return value

    def seeds(self, value: Any) -> Sequence[int]:
        wish = f"how many there are, or a list of different whole numbers from 0 to {MOST_SEED - 1}"
        if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= MOST_SEED:
            return range(value)
        if not isinstance(value, list) or not value:
            raise self.refusal("seeds", wish, value)
        whole = all(isinstance(seed, int) and not isinstance(seed, bool) for seed in value)
        if not whole or len(set(value)) < len(value) or not 0 <= min(value) <= max(value) < 2**32:
            raise self.refusal("seeds", wish, value)
        return value

    def tables(self, key: str, value: Any) -> list[Given]:
        if not isinstance(value, list) or not value or not all(isinstance(t, dict) for t in value):
            raise self.refusal(key, f"one or more tables, each under [[{key}]]", value)
        return value

    def few(self, problems: list[Given], algorithms: list[Given], seeds: Sequence[int]) -> None:
        """Refuse more runs than can be, before any of them is made."""
        counts = {
            name: sum(
                math.prod(max(1, len(value)) for value in table.values() if isinstance(value, list))
                for table in tables
            )
            for name, tables in (("problems", problems), ("algorithms", algorithms))
        } | {"seeds": len(seeds)}
        runs = math.prod(counts.values())
        if runs > MOST_RUNS:
            shown = " × ".join(f"{count:,} {name}" for name, count in counts.items())
            raise ValueError(
                f"{self.path} must ask for at most {MOST_RUNS:,} runs, got {shown} = {runs:,}; "
                "make several files of it."
            )

    def name(self, key: str, value: Any, wish: str) -> str:
        if not isinstance(value, str) or not value:
            raise self.refusal(key, wish, value)
        return value

    def product(self, where: str, table: Given) -> list[Given]:
        """Return all combinations of the values in lists."""
        for key, value in table.items():
            if value == []:
                raise self.refusal(f"{where}.{key}", "a value or a list of values", value)
            if _has_dates(value):
                raise self.refusal(f"{where}.{key}", "a number, a text or a list", value)
        lists = [value if isinstance(value, list) else [value] for value in table.values()]
        return [dict(zip(table, values, strict=True)) for values in itertools.product(*lists)]

    def once(self, key: str, made: list[tuple[str, Given]]) -> None:
        seen = set()
        for name, fields in made:
            one = name, _hashable(fields)
            if one in seen:
                given = ", ".join(f"{field} = {_shown(value)}" for field, value in fields.items())
                raise ValueError(f"{self.path}: `{key}` has {name} with {given} twice.")
            seen.add(one)

    def imported(self, key: str, name: str) -> Any:
        """Return what a text like "package.module:name" stands for."""
        module, _, inside = name.partition(":")
        try:
            return getattr(importlib.import_module(module), inside)
        except Exception as error:  # a module may raise whatever it likes
            raise ValueError(
                f"{self.path}: `{key}` must be something that can be imported, from installed "
                f"packages or from {self.path.absolute().parent}, but {name!r} led to "
                f"{type(error).__name__}: {error}"
            ) from error

    def called(self, key: str, make: Callable[..., Any], given: Given, keys: Given) -> Any:
        """Call with arguments by name; those that it does not take are refused."""
        try:
            taken = inspect.signature(make).parameters
        except (TypeError, ValueError) as error:
            raise self.refusal(key, "something that can be called", make) from error
        self.known(f"{key}.", given, [*keys, *taken])
        for name, parameter in taken.items():
            if name not in given and parameter.default is parameter.empty:
                raise ValueError(f"{self.path}: `{key}` lacks `{name}`.")
        try:
            return make(**given)
        except Exception as error:
            kind = "" if isinstance(error, ValueError) else f"{type(error).__name__}: "
            raise ValueError(f"{self.path}: `{key}`: {kind}{error}") from error


def _choices(door: _Door, where: str, table: Given) -> list[Choice]:
    wish = f'one of {", ".join(ALGORITHMS)}, or "package.module:Class"'
    name = door.name(f"{where}.name", table.get("name"), wish)
    if ":" in name:
        make = door.imported(f"{where}.name", name)
    elif name in ALGORITHMS:
        make = ALGORITHMS[name]
    else:
        raise door.refusal(f"{where}.name", wish, name)
    numbers = {key: value for key, value in table.items() if key != "name"}
    made = []
    for given in door.product(where, numbers):
        # A step may be a schedule or an optimiser, which a text names.
        values = {
            key: door.imported(f"{where}.{key}", value) if _names(value) else value
            for key, value in given.items()
        }
        algorithm = door.called(where, make, values, {"name": name})
        if not all(callable(getattr(algorithm, part, None)) for part in ("init", "step")):
            raise door.refusal(f"{where}.name", "a class with `init` and `step`", name)
        made.append(Choice(name, given, algorithm))
    return made


def _settings(door: _Door, where: str, table: Given) -> list[Setting]:
    wish = f'one of {", ".join(READY)}, or "package.module:function"'
    problem = door.name(f"{where}.problem", table.get("problem"), wish)
    name = door.name(f"{where}.name", table.get("name", problem), "a text")
    if ":" in problem:
        make = door.imported(f"{where}.problem", problem)
    elif problem in READY:
        make = READY[problem]
    else:
        raise door.refusal(f"{where}.problem", wish, problem)
    fields = {key: value for key, value in table.items() if key not in ("problem", "name")}
    made = []
    for given in door.product(where, fields):
        parts = door.called(where, make, given, {"problem": problem, "name": name})
        if not isinstance(parts, tuple) or len(parts) not in (3, 4):
            raise door.refusal(
                f"{where}.problem",
                "a function that returns (problem, theta, v) or (problem, theta, v, record)",
                parts,
            )
        if not isinstance(parts[0], Problem):
            raise door.refusal(
                f"{where}.problem", "a function that returns an rsgda.Problem first", parts[0]
            )
        made.append(Setting(name, given, (*parts, None)[:4]))  # pyright: ignore
    return made


def _names(value: Any) -> bool:
    return isinstance(value, str) and ":" in value


def _has_dates(value: Any) -> bool:
    if isinstance(value, (list, dict)):
        return any(map(_has_dates, value.values() if isinstance(value, dict) else value))
    return isinstance(value, (datetime.date, datetime.time))


def _hashable(value: Any) -> Any:
    """Return what is equal, and can be looked up, where values are."""
    if isinstance(value, dict):
        return frozenset((key, _hashable(inside)) for key, inside in value.items())
    return tuple(map(_hashable, value)) if isinstance(value, list) else value


def _shown(value: Any) -> str:
    return "nothing" if value is None else repr(value)
