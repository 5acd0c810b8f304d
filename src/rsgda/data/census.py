"""Adults of the 1994 census of the United States: who earns more than 50,000 dollars a year."""

import gzip
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rsgda.data.download import File, Source, locate

ADULT = Source(
    title="Adult",
    folder="adult",
    mirrors=(),
    files=(
        File(
            "adult.data.gz",
            439_363,
            "fb986d3609cdf068a1c234ed2695603b74c66c4be723467d9d69542024847442",
        ),
        File(
            "adult.test.gz",
            220_798,
            "74aa81a0e0880467a50de97be6ba8130df14a3ef8c0c3a14de2a9a997d068fbf",
        ),
    ),
    origin="the UCI Machine Learning Repository (archive.ics.uci.edu/dataset/2/adult), which has "
    "them without .gz, as they may lie here, too",
)
COLUMNS = (
    "age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation",
    "relationship", "race", "sex", "capital-gain", "capital-loss", "hours-per-week",
    "native-country", "income",
)  # fmt: skip
NUMBERS = ("age", "education-num", "capital-gain", "capital-loss", "hours-per-week")
# `education` says in words what `education-num` says; `fnlwgt` is a weight of the survey.
WORDS = (
    "workclass", "marital-status", "occupation", "relationship", "race", "sex", "native-country",
)  # fmt: skip
INCOMES = {"<=50K": 0, ">50K": 1}


class People(NamedTuple):
    """Rows of the census.

    Attributes:
        X: n × features, float32: numbers as they are, then a column of 0 and 1 for each word.
        y: 1 for an income of more than 50,000 dollars, else 0; int32.
        sex: "Female" or "Male".
        race: as the census has it.
    """

    X: np.ndarray
    y: np.ndarray
    sex: np.ndarray
    race: np.ndarray


class Adult(NamedTuple):
    """People to train with and to test, and what the columns of both `X` are.

    Attributes:
        train: 32,561 rows.
        test: 16,281 rows.
        columns: "age", …, and "sex=Female" and the like for words; "?" is a word of its own.
    """

    train: People
    test: People
    columns: tuple[str, ...]


def adult() -> Adult:
    """Return the Adult data: a table with groups, for classifiers that are to be fair to them.

    The files lie in the folder `adult` of the folder that the environment variable `RSGDA_DATA`
    names, or of the cache. They are not fetched. To leave out a column, ask `columns` for its
    place.

    Raises:
        FileNotFoundError: If they are in neither: it says where to put them.
        ValueError: If a file is not what it should be.

    Source: Becker and Kohavi (1996), Adult, UCI Machine Learning Repository, CC BY 4.0.
    """
    tables = [_read(path) for path in locate(ADULT)]
    words = {name: sorted(set(tables[0][name]) | set(tables[1][name])) for name in WORDS}
    columns = (*NUMBERS, *(f"{name}={word}" for name in WORDS for word in words[name]))
    train, test = (_people(table, words) for table in tables)
    return Adult(train, test, columns)


def _read(path: Path) -> dict[str, np.ndarray]:
    """Return the columns of a file as text; its lines end in a dot where people are tested."""
    try:
        with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
            lines = [line.strip().removesuffix(".") for line in file]
        rows = [line.split(", ") for line in lines if line and not line.startswith("|")]
        columns: dict[str, np.ndarray] = dict(zip(COLUMNS, np.array(rows).T, strict=True))
        for name in NUMBERS:
            columns[name] = columns[name].astype(np.float32)
        columns["income"] = np.array([INCOMES[word] for word in columns["income"]], np.int32)
    except Exception as error:  # a foreign file can fail in many ways
        raise ValueError(f"{path} must hold lines of {len(COLUMNS)} entries: {error}.") from error
    return columns


def _people(table: dict[str, np.ndarray], words: dict[str, list[str]]) -> People:
    numbers = [table[name] for name in NUMBERS]
    hot = [table[name] == word for name in WORDS for word in words[name]]
    X = np.stack([*numbers, *hot], axis=1, dtype=np.float32, casting="unsafe")
    return People(X, table["income"], table["sex"], table["race"])
