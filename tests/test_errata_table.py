"""The table of errata in docs/theory.md has a row for each, with a test or the word "reading"."""

import re
from pathlib import Path

from rsgda.reproduce.errata import ERRATA

ROOT = Path(__file__).resolve().parents[1]
ROW = re.compile(r"^\| (\d+) \|.*\| (?:\[test\]\(errata\.md#erratum-(\d\d)\)|(reading)) \|$")


def rows() -> dict[int, bool]:
    """The numbers in the table, and whether a test is linked."""
    table = (ROOT / "docs" / "theory.md").read_text(encoding="utf-8").partition("## Errata")[2]
    found = {}
    for line in table.splitlines():
        if re.match(r"\| \d", line):
            match = ROW.match(line)
            assert match, line
            assert match[2] is None or int(match[2]) == int(match[1]), line
            assert int(match[1]) not in found, line
            found[int(match[1])] = match[2] is not None
    return found


def numbers_tested() -> set[int]:
    names = "\n".join(path.read_text() for path in ROOT.glob("tests/test_errata_*.py"))
    return {int(number) for number in re.findall(r"^def test_erratum_(\d\d)_", names, re.M)}


def test_every_erratum_has_a_row():
    assert sorted(rows()) == list(range(1, 53))


def test_a_row_links_to_a_test_where_there_is_one():
    assert {number for number, linked in rows().items() if linked} == numbers_tested()


def test_the_page_prints_the_files_of_all_tests():
    page = (ROOT / "docs" / "errata.md").read_text(encoding="utf-8")
    printed = set(re.search(r"<!-- tests: (.*) -->", page)[1].split())
    holding = {
        f"tests/{path.name}"
        for path in ROOT.glob("tests/test_*.py")
        if re.search(r"^def test_erratum_\d\d_", path.read_text(), re.M)
    }
    assert printed == holding


def test_the_report_has_the_same_table():
    table = (ROOT / "docs" / "theory.md").read_text(encoding="utf-8").partition("## Errata")[2]
    written = [
        [cell.strip() for cell in line.strip("| ").split(" | ")][:4]
        for line in table.splitlines()
        if ROW.match(line)
    ]
    assert written == [[f"{e.number}", e.where, e.paper, e.right] for e in ERRATA]


def test_the_report_names_the_tests():
    for erratum in ERRATA:
        path = ROOT / "tests" / erratum.file
        named = re.findall(rf"^def test_erratum_{erratum.number:02d}_(\w+)", path.read_text(), re.M)
        assert tuple(named) == erratum.tests
