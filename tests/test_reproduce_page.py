"""The report of `rsgda reproduce`: what it says, and how it looks in a real browser."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from browser import PROGRAM, Browser

from rsgda.reproduce import page, registry
from rsgda.reproduce.captions import CAPTIONS
from rsgda.reproduce.claims import CLAIMS
from rsgda.reproduce.deciding import NOT_RUN, UNTESTED, combined, decided, weight
from rsgda.reproduce.effects import over_seeds, ratio_over_seeds
from rsgda.reproduce.errata import ERRATA
from rsgda.reproduce.formula import mathml
from rsgda.reproduce.outcome import FAILS, HOLDS, OPEN, PARTLY, Effect, Finding

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "results"
needs_chromium = pytest.mark.skipif(
    PROGRAM is None, reason="there is no chromium; `apt-get install chromium` brings it"
)


def findings_of(folder):
    """The findings of all manifests."""
    return {
        name: [
            Finding(each["about"], each["numbers"], each["verdict"])
            for each in json.loads((folder / name / "manifest.json").read_text())["findings"]
        ]
        for name in registry.TARGETS
    }


def test_every_claim_finds_what_decides_it():
    found = findings_of(RESULTS)
    for claim in CLAIMS:
        assert bool(claim.by) != bool(claim.because), claim.name
        for target, begins in claim.by:
            assert any(f.about.startswith(begins) for f in found[target]), (claim.name, begins)
        assert set(claim.errata) <= {erratum.number for erratum in ERRATA}
    assert len({claim.name for claim in CLAIMS}) == len(CLAIMS)
    # All findings on the paper are asked for by a claim; what is left is ours.
    ours = {(target, f.about) for target, f in page.beside(found)}
    assert {target for target, _ in ours} <= {
        "fig1",
        "fig2",
        "fig3",
        "floor",
        "paired",
        "generation",
    }
    assert all("certified" in about for target, about in ours if target in ("fig1", "fig2"))


@pytest.mark.parametrize(
    ("verdicts", "verdict"),
    [
        ([HOLDS, HOLDS], HOLDS),
        ([HOLDS, OPEN], PARTLY),
        ([HOLDS, FAILS], PARTLY),
        ([PARTLY, FAILS], PARTLY),
        ([FAILS, OPEN], FAILS),
        ([OPEN, OPEN], OPEN),
    ],
)
def test_findings_together(verdicts, verdict):
    assert combined(verdicts) == verdict


def test_an_interval_with_no_effect_in_it_decides_nothing():
    wide = Effect("x", 1.0, -0.5, 2.5, 3, against=0.0)
    sure = Effect("x", 1.0, 0.5, 1.5, 3, against=0.0)
    assert weight(Finding("a", "", HOLDS, wide)) == OPEN
    assert weight(Finding("a", "", FAILS, wide)) == OPEN
    assert weight(Finding("a", "", HOLDS, sure)) == HOLDS
    # Where likeness is claimed there is nothing to exclude.
    assert weight(Finding("a", "", HOLDS, Effect("x", 0.0, -1.0, 1.0, 3))) == HOLDS
    assert weight(Finding("a", "", "they appear")) == FAILS


def test_what_was_not_run_is_said():
    by_name = {each.claim.name: each for each in decided({"toy": [Finding("RSGDA(p", "", HOLDS)]})}
    assert by_name["like-esgda-in-practice"].verdict == HOLDS
    assert (by_name["figure-1"].verdict, by_name["figure-1"].missing) == (NOT_RUN, ["fig1"])
    assert by_name["bias"].verdict == UNTESTED


def test_intervals_are_students():
    values = np.array([1.0, 2.0, 4.0])
    found = over_seeds(values, "x", against=0.0)
    # scipy.stats.t.interval(0.95, 2, loc=7/3, scale=sem)
    np.testing.assert_allclose(
        [found.value, found.low, found.high], [7 / 3, -1.4613, 6.1279], atol=1e-4
    )
    assert found.unsure
    assert over_seeds(values[:1], "x") is None
    assert over_seeds(np.array([1.0, np.nan]), "x") is None
    ratio = ratio_over_seeds(np.exp(values), "x")
    np.testing.assert_allclose(np.log([ratio.low, ratio.high]), [found.low, found.high])


def test_formulas_are_read_and_unknown_ones_refused():
    assert mathml(r"\frac12 x_i^2") == (
        "<math><mfrac><mn>1</mn><mn>2</mn></mfrac>"
        "<msubsup><mi>x</mi><mrow><mi>i</mi></mrow><mrow><mn>2</mn></mrow></msubsup></math>"
    )
    for wrong, words in (
        (r"\foo", "not known"),
        ("x^", "ends"),
        ("{x", "not closed"),
        ("x}", "many"),
    ):
        with pytest.raises(ValueError, match=words):
            mathml(wrong)


@pytest.fixture(scope="module")
def text():
    return page.page(RESULTS)


def test_the_committed_report_is_what_the_results_come_to(text):
    stripped, kept = (
        re.sub(r"base64,[^\"]*", "", each)
        for each in (text, (RESULTS / page.REPORT).read_text(encoding="utf-8"))
    )
    assert stripped == kept
    assert len(text) < 3e6


def test_the_report_has_everything(text):
    for claim in CLAIMS:
        assert f'id="claim-{claim.name}"' in text
    for erratum in ERRATA:
        assert f'id="erratum-{erratum.number}"' in text
        for name in erratum.tests:
            assert f"test_erratum_{erratum.number:02d}_{name}" in text
    assert set(CAPTIONS) == set(registry.TARGETS)
    for name in registry.TARGETS:
        assert f'id="target-{name}"' in text
    for words in (
        "95 % interval",
        "seeds, paired",
        "jaxlib",
        "rsgda reproduce fig4 --scale standard",
    ):
        assert words in text
    assert "Not run in this folder" not in text
    assert "<script" not in text
    assert not re.search(r"(src|href)=\"(https?:)?//", text)


def test_a_folder_of_one_target_has_a_report(tmp_path):
    (tmp_path / "toy").mkdir()
    for path in (RESULTS / "toy").iterdir():
        (tmp_path / "toy" / path.name).write_bytes(path.read_bytes())
    text = page.page(tmp_path)
    assert "Not run in this folder: theory, fig1" in text
    assert text.count("not run</span>") > 20
    (tmp_path / "toy" / "toy.png").unlink()
    (tmp_path / "toy" / "toy.csv").write_text("x\n1\n")
    text = page.page(tmp_path)
    assert "toy/toy.png is not there" in text
    assert "another checksum" in text
    assert "cannot be re-derived: toy.csv lacks algorithm" in text


@pytest.fixture
def browser(tmp_path):
    found = Browser(tmp_path / "profile")
    yield found
    found.close()


SEEN = """(() => {
  const images = [...document.images];
  const links = [...document.links].map(a => a.getAttribute('href'));
  return {
    images: images.length,
    drawn: images.filter(i => i.complete && i.naturalWidth > 300 && i.clientWidth > 200).length,
    inside: links.filter(l => l.startsWith('#')).length,
    lost: links.filter(l => l.startsWith('#') && !document.getElementById(l.slice(1))),
    files: links.filter(l => !l.startsWith('#')),
    wide: document.documentElement.scrollWidth - window.innerWidth,
    math: document.querySelectorAll('math').length,
    page: getComputedStyle(document.body).backgroundColor,
    text: getComputedStyle(document.body).color,
  };
})()"""


def bright(colour):
    return sum(map(int, re.findall(r"\d+", colour)[:3])) / 3


@needs_chromium
def test_it_renders_in_a_browser(browser, text):
    report = RESULTS / page.REPORT
    browser.open(report)
    seen = browser.run(SEEN)
    assert seen["images"] == seen["drawn"] == len(registry.TARGETS) + 1  # fig3 has two
    assert seen["lost"] == []
    assert seen["inside"] > 100
    assert len(seen["files"]) > 30
    assert [file for file in seen["files"] if not (RESULTS / file).is_file()] == []
    assert seen["math"] > 80
    assert browser.complaints() == []
    assert bright(seen["page"]) > 230
    assert bright(seen["text"]) < 60
    assert seen["wide"] <= 0
    # A fold opens without a script, and a link leads to its claim.
    browser.run("document.querySelector('details').open = true")
    browser.run("document.querySelector('.index a').click()")
    assert browser.run("location.hash") == "#claim-one-step"
    assert browser.run(
        "Math.abs(document.querySelector('#claim-one-step').getBoundingClientRect().top) < 50"
    )


@pytest.mark.slow
@needs_chromium
@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [320, 390, 768])
def test_it_is_readable_on_a_phone_in_light_and_dark(browser, width, dark):
    browser.open(RESULTS / page.REPORT, width=width, height=800, dark=dark, phone=True)
    browser.run("document.querySelectorAll('details').forEach(d => d.open = true)")
    seen = browser.run(SEEN)
    assert seen["wide"] <= 0
    assert (bright(seen["page"]) < 60) == dark
    assert (bright(seen["text"]) > 200) == dark
    assert browser.complaints() == []
    small = browser.run(
        "[...document.querySelectorAll('p, li, td')].filter(e => e.textContent.trim() && "
        "parseFloat(getComputedStyle(e).fontSize) < 13).length"
    )
    assert small == 0
