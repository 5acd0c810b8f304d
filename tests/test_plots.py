"""Figures of plans: what is drawn is what the plans say."""

import io
import subprocess
import sys
import types

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.image import imread

import rsgda
from rsgda import plots, theory

EXACT = theory.Regularity(L=1.0, mu=0.1)


def plans(eps=0.1):
    return {
        "first": theory.exact(EXACT, eps=eps),
        "second": theory.exact(EXACT, eps=eps, main_text=True),
        "third": theory.almost_sure(EXACT),
    }


def line(axes, label):
    (found,) = [item for item in axes.lines if item.get_label() == label]
    return found


def test_curves_are_the_bounds():
    (axes,) = plots.bounds(plans()).axes
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    for name, plan in plans().items():
        ks, values = line(axes, name).get_data()
        np.testing.assert_allclose(values, plan.bound(ks))
        assert ks[0] == 1
        assert ks[-1] >= max(plan.steps or 0 for plan in plans().values())


def test_steps_and_eps_are_marked():
    (axes,) = plots.bounds(plans()).axes
    dots = {tuple(np.ravel(item.get_data())) for item in axes.lines if item.get_marker() == "o"}
    wanted = {(p.steps, p.bound(p.steps)) for p in plans().values() if p.steps}
    assert dots == {tuple(map(float, pair)) for pair in wanted}
    levels = [item for item in axes.lines if np.all(np.equal(item.get_ydata(), 0.1**2))]
    assert len(levels) == 1
    assert any("0.01" in text.get_text() for text in axes.texts)


def test_iterations_can_be_chosen():
    (axes,) = plots.bounds(plans(), ks=[30, 10, 20]).axes
    np.testing.assert_array_equal(line(axes, "first").get_xdata(), [10, 20, 30])
    # Steps that lie outside are not marked.
    assert not [item for item in axes.lines if item.get_marker() == "o"]


def test_plans_have_names():
    several = [theory.exact(EXACT), theory.exact(EXACT, main_text=True), theory.gda(EXACT)]
    (axes,) = plots.bounds(several).axes
    shown = {text.get_text() for text in axes.get_legend().get_texts()}
    assert shown == {"exact", "exact (2)", "GDA (Lin et al.)"}
    (axes,) = plots.bounds(theory.exact(EXACT)).axes
    assert len(axes.lines) == 1


def test_many_plans_can_be_told_apart():
    several = {str(i): theory.exact(EXACT) for i in range(12)}
    (axes,) = plots.bounds(several).axes
    looks = {(item.get_color(), str(item._dash_pattern)) for item in axes.lines}
    assert len(looks) == 12


@pytest.mark.slow
@pytest.mark.parametrize("names", ["ab", "abc", "abcdefghijklm"])
def test_curves_that_coincide_are_all_seen(names):
    """Two of them next to each other: both colours are in the picture, over its whole width."""
    others = {name: theory.exact(EXACT, p=0.01 + 0.07 * i) for i, name in enumerate(names[2:])}
    figure = plots.bounds({"a": theory.exact(EXACT), **others, "b": theory.exact(EXACT)})
    (axes,) = figure.axes
    first, second = line(axes, "a"), line(axes, "b")
    np.testing.assert_array_equal(first.get_data(), second.get_data())
    for item in axes.lines:
        if item not in (first, second):
            item.set_visible(False)
    axes.get_legend().remove()
    picture = imread(io.BytesIO(plots.saved(figure, "png")))[..., :3]
    for item in (first, second):
        near = np.abs(picture - to_rgb(item.get_color())).max(axis=-1) < 0.02
        columns = np.flatnonzero(near.any(axis=0))
        assert len(columns) > 0.1 * picture.shape[1]
        assert np.diff(columns).max() < 0.05 * picture.shape[1]


def test_the_curves_of_the_command_that_coincide_are_dashed_differently():
    r = theory.Regularity(L=1.0, mu=0.1, sigma=1.0)
    several = [theory.anytime(r), theory.precision(r, eps=0.1), theory.interpolation_almost_sure(r)]
    (axes,) = plots.bounds(several).axes
    drawn = [item for item in axes.lines if not item.get_label().startswith("_")]
    assert len({str(item._dash_pattern) for item in drawn}) == len(drawn) == 3


def test_iterations_beyond_64_bits_may_be_chosen():
    (axes,) = plots.bounds(plans(), ks=[2**70, 1]).axes
    assert line(axes, "first").get_xdata().tolist() == [1.0, 2.0**70]


def test_steps_beyond_64_bits_are_drawn():
    r = theory.Regularity(L=10.0, mu=0.1)
    plan = theory.anytime(r, eps=0.01)
    assert plan.steps > 2**63
    plots.bounds([plan])


@pytest.mark.parametrize(("descent", "ascent"), [(1.0, 1.0), (100.0, 1.0)])
def test_cost_has_its_minimum_marked(descent, ascent):
    best = theory.best_p(EXACT, eps=0.1, descent_cost=descent, ascent_cost=ascent)
    (axes,) = plots.cost(best).axes
    curve, dot = axes.lines
    np.testing.assert_array_equal(curve.get_data(), best.curve)
    assert np.ravel(dot.get_data()).tolist() == [best.p, best.cost]
    low, high = axes.get_ylim()
    assert low < best.cost < high
    assert axes.get_xlim()[0] < best.p < axes.get_xlim()[1]


def test_the_range_is_shaded_where_there_is_one():
    (axes,) = plots.cost(theory.best_p(EXACT, eps=0.1)).axes
    (band,) = axes.patches
    assert band.get_x() == pytest.approx(0.1)
    assert band.get_x() + band.get_width() == pytest.approx(0.5)
    narrow = theory.best_p(theory.Regularity(L=1.0, mu=0.9), eps=0.1)
    assert narrow.plan.p_range is None
    (axes,) = plots.cost(narrow).axes
    assert not axes.patches


def test_overview_has_both():
    figure = plots.overview(plans(), theory.best_p(EXACT, eps=0.1))
    assert [axes.get_xlabel() for axes in figure.axes] == [
        "k, iterations",
        "p, the probability of a descent",
    ]
    assert len(plots.overview(plans()).axes) == 1


def inner(gamma, phi, share=1.0, rho_hat=0.1):
    return types.SimpleNamespace(
        gamma=gamma, phi=phi, gap=0.01, share=share, rho_hat=rho_hat, attained=phi + gamma * rho_hat
    )


def certificate(*several, rho=0.5):
    share = max(at.share for at in several)
    return types.SimpleNamespace(
        rho=rho, inner=several, clean=0.4, n=30, share=share, curvature=None
    )


def test_a_certificate_is_drawn_at_its_best_gamma():
    found = certificate(inner(1.0, 0.8, rho_hat=0.3), inner(5.0, 0.5, rho_hat=0.02))
    attack = types.SimpleNamespace(cost=np.array([0.0, 0.2]), reached=np.array([0.4, 0.9]))
    (axes,) = plots.certificate(found, attack).axes
    rho, bound = line(axes, "certified: at most this\n(the best of 2 γ)").get_data()
    np.testing.assert_allclose(bound, np.minimum(rho + 0.81, 5 * rho + 0.51))
    assert (rho[0], rho[-1]) == (0, 0.5)
    np.testing.assert_allclose(
        line(axes, "strongest attack found").get_ydata(), 0.4 + 2.5 * np.minimum(rho, 0.2)
    )
    (dots,) = [item for item in axes.lines if item.get_marker() == "o"]
    np.testing.assert_allclose(np.transpose(dots.get_data()), [(0.3, 1.1), (0.02, 0.6)])
    assert not [item for item in axes.lines if "estimate" in item.get_label()]
    assert any("not moved: 0.4" in text.get_text() for text in axes.texts)


def test_an_estimate_is_no_certificate():
    found = certificate(inner(1.0, 0.4, share=0.9), inner(50.0, 0.5, rho_hat=9.0), rho=[0.0, 1])
    (axes,) = plots.certificate(found).axes
    # Gammas that certify fewer samples have no part in it, and no dot.
    rho, bound = line(axes, "certified: at most this").get_data()
    np.testing.assert_allclose(bound, 50 * rho + 0.51)
    assert not [item for item in axes.lines if item.get_marker() == "o"]
    found = certificate(inner(1.0, 0.4, share=2 / 3), inner(0.1, 0.4, share=0.5))
    (axes,) = plots.certificate(found).axes
    estimate = line(axes, "estimate, can be too small:\n20 of 30 certified")
    assert estimate.get_linestyle() == "--"
    np.testing.assert_allclose(estimate.get_ydata(), estimate.get_xdata() + 0.41)
    assert not any(item.get_label().startswith("certified") for item in axes.lines)


def test_a_proof_is_called_one():
    found = certificate(inner(1.0, 0.8))
    found.curvature = 1.5
    (axes,) = plots.certificate(found).axes
    assert line(axes, "proved: at most this").get_linestyle() == "-"


def curve(norm="l2", accuracy=(0.2, 0.9)):
    return types.SimpleNamespace(radii=[1.0, 0.0], accuracy=accuracy, norm=norm, n=1234)


def test_robust_accuracies_are_side_by_side():
    (axes,) = plots.robustness({"robust": curve(), "plain": curve(accuracy=(0.1, 0.95))}).axes
    np.testing.assert_allclose(line(axes, "robust").get_data(), [(0.0, 1.0), (90, 20)])
    np.testing.assert_allclose(line(axes, "plain").get_data(), [(0.0, 1.0), (95, 10)])
    assert axes.get_xlabel() == "radius of the attack, L2"
    assert "1,234" in axes.get_title("left")
    (axes,) = plots.robustness(curve("linf")).axes
    assert axes.get_xlabel() == "radius of the attack, L∞"


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: plots.certificate(3), "`certificate` must be what robust.certificate"),
        (lambda: plots.certificate(certificate(inner(1.0, 1.0)), 3), "`attack` must be what"),
        (lambda: plots.robustness(3), "must be what robust.robustness returned"),
        (lambda: plots.robustness({}), "`curves` must hold curves of one norm, got none"),
        (lambda: plots.robustness({"a": curve(), "b": curve("linf")}), "of one norm"),
        (lambda: plots.bounds([]), "`plans` must hold at least one"),
        (lambda: plots.bounds([3]), "`plans` must hold plans"),
        (lambda: plots.bounds(3), "`plans` must be a list"),
        (lambda: plots.bounds(plans(), ks=[0.5]), "`k` must be whole"),
        (lambda: plots.cost(3), "`best` must be what"),
        (lambda: plots.overview(plans(), 3), "`best` must be what"),
    ],
)
def test_wrong_input_is_named(call, words):
    with pytest.raises(ValueError, match=words):
        call()


@pytest.mark.parametrize(
    ("kind", "start"), [("png", b"\x89PNG"), ("pdf", b"%PDF"), ("svg", b"<?x")]
)
def test_equal_numbers_give_equal_files(kind, start):
    first, second = (plots.saved(plots.bounds(plans()), kind) for _ in range(2))
    assert first == second
    assert first.startswith(start)
    if kind == "png":
        assert imread(io.BytesIO(first))[..., :3].std() > 0.05, "an empty picture"


def test_no_window_is_opened():
    code = (
        "import sys, rsgda\n"
        "rsgda.plots.bounds([rsgda.theory.exact(rsgda.theory.Regularity(L=1.0, mu=0.1))])\n"
        "assert 'matplotlib.pyplot' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_the_module_is_public():
    assert rsgda.plots is plots
    assert "plots" in rsgda.__all__
