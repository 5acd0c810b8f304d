"""Matching cells: what is read, what is written, what guides it, and how it is saved."""

import anndata
import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import rsgda
from rsgda import singlecell as sc
from rsgda.singlecell.guidance import Guided
from rsgda.singlecell.matcher import Matcher

N, M = 60, 40
RNA = [sc.normalize_total(), sc.log1p(), sc.scale()]
CYTOMETRY = [sc.arcsinh(5.0), sc.scale()]
QUICK = {"hidden": (8,), "steps": 30, "source_steps": RNA, "target_steps": CYTOMETRY}


@pytest.fixture(scope="module")
def cells():
    return rsgda.data.simulated_cells((N, M), features=(5, 9))


def table(counts, types, name):
    return anndata.AnnData(
        counts.astype(np.float32),
        obs=pd.DataFrame(
            {"type": types.astype(str)}, index=[f"{name}{i}" for i in range(len(counts))]
        ),
        var=pd.DataFrame(index=[f"{name}-feature{i}" for i in range(counts.shape[1])]),
    )


@pytest.fixture
def source(cells):
    return table(cells.y, cells.y_types, "rna")


@pytest.fixture(scope="module")
def target(cells):
    return table(cells.x, cells.x_types, "cytof")


@pytest.fixture(scope="module")
def matcher(cells, target):
    return sc.match(
        table(cells.y, cells.y_types, "rna"), target, label_key="type", labels="type",
        shared=[("rna-feature0", "cytof-feature1"), ("rna-feature2", "cytof-feature0")], **QUICK,
    )  # fmt: skip


def by_hand(matcher):
    """The plan, source × target, from its potentials and costs written out."""
    solved = matcher.solved
    x, y, u, v = (np.asarray(part, float) for part in (solved.x, solved.y, solved.u, solved.v))
    labels, price = solved.cost.labels, solved.cost.price
    costs = np.sum((y[:, None, :-labels] - x[None, :, :-labels]) ** 2, axis=2)
    known = y[:, None, -labels:].sum(2) * x[None, :, -labels:].sum(2)
    alike = np.sum(y[:, None, -labels:] * x[None, :, -labels:], axis=2)
    costs += price * (known - alike)
    return np.exp((u[None, :] + v[:, None] - costs) / float(solved.epsilon)) / (len(x) * len(y))


def test_annotations(matcher, target):
    data = matcher.adata
    mapped = data.obsm["X_rsgda"]
    assert mapped.shape == (M, 5)
    assert mapped.dtype == np.float32
    plan = by_hand(matcher)
    of_source = plan / plan.sum(axis=1, keepdims=True)
    assert data.obs["rsgda_match"].tolist() == target.obs_names[of_source.argmax(axis=1)].tolist()
    np.testing.assert_allclose(data.obs["rsgda_confidence"], of_source.max(axis=1), rtol=1e-2)
    types = target.obs["type"].to_numpy()
    all_of = np.unique(types)
    shares = np.stack([of_source[:, types == each].sum(axis=1) for each in all_of], axis=1)
    np.testing.assert_allclose(data.obsm["rsgda_label_probabilities"], shares, atol=5e-3)
    assert data.uns["rsgda"]["labels"].tolist() == all_of.tolist()
    assert data.obs["rsgda_label"].tolist() == all_of[shares.argmax(axis=1)].tolist()
    np.testing.assert_allclose(data.obs["rsgda_label_confidence"], shares.max(axis=1), atol=5e-3)
    np.testing.assert_allclose(
        matcher.plan([3, 0], slice(5, 9)), plan[[3, 0], 5:9], rtol=2e-2, atol=1e-9
    )
    accuracy = np.mean(data.obs["rsgda_label"] == data.obs["type"])
    assert data.uns["rsgda"]["scores"]["label_accuracy"] == accuracy
    assert data.uns["rsgda"]["scores"]["confusion"]["matrix"].sum() == M
    assert set(data.uns["rsgda"]["settings"]) >= {"epsilon", "steps", "seed", "source", "versions"}
    assert len(data.uns["rsgda"]["history"]["W"]) == 10
    assert data.uns["rsgda"]["features"].tolist() == target.var_names.tolist()


def test_mapped_cells_are_in_the_targets_units(matcher, target):
    data = matcher.adata
    again = matcher.transform(data)
    np.testing.assert_allclose(again, data.obsm["X_rsgda"], rtol=1e-4, atol=1e-4)
    counts = np.asarray(target.X)
    # Undone: sinh of what is scaled back. The mean of the network's output is near the cells'.
    scaled = np.arcsinh(counts / 5)
    made = (np.arcsinh(again / 5) - scaled.mean(axis=0)) / scaled.std(axis=0)
    y = np.asarray(matcher.solved.y)[:, :5]
    np.testing.assert_allclose(made, y * float(matcher.outputs.spread), atol=1e-3)


def test_an_h5ad_file_holds_it_all(matcher, tmp_path):
    matcher.adata.write_h5ad(tmp_path / "aligned.h5ad")
    back = anndata.read_h5ad(tmp_path / "aligned.h5ad")
    np.testing.assert_array_equal(back.obsm["X_rsgda"], matcher.adata.obsm["X_rsgda"])
    assert back.uns["rsgda"]["settings"]["steps"] == 30
    assert back.obs["rsgda_match"].astype(str).tolist() == matcher.adata.obs["rsgda_match"].tolist()


@pytest.mark.slow
def test_a_copy_leaves_the_source_alone(source, target):
    before = source.copy()
    matcher = sc.match(source, target, copy=True, **QUICK)
    assert "X_rsgda" in matcher.adata.obsm
    assert list(source.obsm) == list(before.obsm) == []
    assert source.obs.columns.tolist() == ["type"]
    matcher = sc.match(source, target, **QUICK)
    assert matcher.adata is source
    assert "X_rsgda" in source.obsm


@pytest.mark.slow
def test_arrays_sparse_layers_and_files_are_the_same(source, target, tmp_path):
    wanted = sc.match(source.X, target.X, **QUICK).transform(source.X)
    source.write_h5ad(tmp_path / "source.h5ad")
    sparse = anndata.AnnData(sp.csr_matrix(source.X), obs=source.obs, var=source.var)
    sparse.write_h5ad(tmp_path / "sparse.h5ad")
    layered = source.copy()
    layered.layers["counts"], layered.X = source.X, np.zeros_like(source.X)
    beside = source.copy()
    beside.obsm["X_counts"], beside.X = source.X, np.zeros_like(source.X)
    for given, options in [
        (sparse, {}),
        (layered, {"source_layer": "counts"}),
        (beside, {"source_obsm": "X_counts"}),
        (anndata.read_h5ad(tmp_path / "source.h5ad", backed="r"), {"copy": True}),
        (anndata.read_h5ad(tmp_path / "sparse.h5ad", backed="r"), {"copy": True}),
    ]:
        matcher = sc.match(given, target, **options, **QUICK)
        np.testing.assert_allclose(
            matcher.adata.obsm["X_rsgda"], wanted, rtol=2e-2, atol=2e-2, err_msg=repr(options)
        )


def test_new_cells(matcher, cells, source):
    new = source[:7].copy()
    place, confidence = matcher.match(new)
    assert place.shape == confidence.shape == (7,)
    label, all_of, shares = matcher.transfer(cells.x_types.astype(str), new)
    assert shares.shape == (7, len(all_of))
    np.testing.assert_allclose(shares.sum(axis=1), 1, rtol=1e-5)
    assert label.tolist() == all_of[shares.argmax(axis=1)].tolist()
    np.testing.assert_allclose(
        matcher.transform(new), matcher.adata.obsm["X_rsgda"][:7], rtol=1e-4, atol=1e-4
    )
    np.testing.assert_array_equal(matcher.transform(new[:, ::-1]), matcher.transform(new))
    with pytest.raises(
        ValueError, match="9 features of the source, 2 of which are not there: rna-feature0"
    ):
        matcher.transform(source[:, 2:])
    with pytest.raises(ValueError, match="the 9 features of the source"):
        matcher.transform(np.zeros((3, 8)))


def test_saved_and_loaded(matcher, source, tmp_path):
    matcher.save(tmp_path / "matcher")
    back = Matcher.load(tmp_path / "matcher")
    np.testing.assert_array_equal(back.transform(source), matcher.transform(source))
    np.testing.assert_array_equal(back.plan([1, 2], [3]), matcher.plan([1, 2], [3]))
    assert repr(back) == repr(matcher)
    assert back.history.keys() == matcher.history.keys()
    matcher.save(tmp_path / "matcher")  # is replaced
    (weights,) = (tmp_path / "matcher").glob("weights-*.npz")
    content = bytearray(weights.read_bytes())
    content[len(content) // 2] ^= 1
    weights.write_bytes(content)
    with pytest.raises(ValueError, match="damaged"):
        Matcher.load(tmp_path / "matcher")
    with pytest.raises(ValueError, match="cannot be read: there is no such file"):
        Matcher.load(tmp_path)


@pytest.mark.slow
def test_a_killed_run_continues(source, target, tmp_path):
    whole = sc.match(source, target, copy=True, **QUICK)
    part = sc.match(source, target, copy=True, checkpoint=tmp_path, **QUICK)
    again = sc.match(source, target, copy=True, checkpoint=tmp_path, **QUICK)
    for each in (part, again):
        np.testing.assert_array_equal(each.adata.obsm["X_rsgda"], whole.adata.obsm["X_rsgda"])


def test_the_guided_cost():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(5, 3)), rng.normal(size=(4, 3))
    of_x, of_y = np.array([0, 1, 1, -1, 0]), np.array([1, 0, -1, 1])
    hot = [np.eye(2)[labels] * (labels >= 0)[:, None] for labels in (of_x, of_y)]
    cost = Guided(2, 7.0)
    points = [jnp.asarray(np.c_[a, b]) for a, b in zip((x, y), hot, strict=True)]
    found = cost.matrix(points[0], cost.targets(points[1]))
    for i in range(5):
        for j in range(4):
            differ = of_x[i] >= 0 and of_y[j] >= 0 and of_x[i] != of_y[j]
            assert float(found[i, j]) == pytest.approx(np.sum((x[i] - y[j]) ** 2) + 7.0 * differ)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["pairs", "labels", "shared"])
def test_what_is_known_tells_cells_apart(how):
    cells = rsgda.data.simulated_cells((300, 300))
    to_x = np.argsort(cells.pairs[1])
    x = cells.x[cells.pairs[0][to_x]]
    types = cells.x_types[cells.pairs[0][to_x]]
    y = cells.y
    given = {"pairs": [[i, i] for i in range(0, 300, 15)], "labels": (cells.y_types, types)}
    if how == "shared":  # two markers that RNA shows, too
        y = np.c_[y, np.maximum(0, x[:, :6] + np.random.default_rng(0).normal(size=(300, 6)))]
        given["shared"] = [(str(200 + i), str(i)) for i in range(6)]
    options = {"source_steps": RNA, "target_steps": CYTOMETRY, "steps": 3_000, "paired": True}
    alone = sc.match(y, x, **options).scores["foscttm_mean"]
    guided = sc.match(y, x, **{how: given[how]}, **options).scores["foscttm_mean"]
    assert guided < min(0.25, alone - 0.1), (alone, guided)


@pytest.mark.parametrize(
    ("options", "wrong"),
    [
        ({"source_layer": "none"}, "`source_layer` must be one of"),
        ({"target_obsm": "X_pca"}, "`target_obsm` must be one of"),
        ({"source_layer": "a", "source_obsm": "b"}, "exclude each other"),
        ({"label_key": "celltype"}, r"`label_key` must be a column of obs, \['type'\]"),
        ({"labels": "celltype"}, "`labels` must be a column of obs"),
        ({"labels": (["a"] * M, ["b"] * N)}, "one label at least that both sides know"),
        ({"labels": (["a"], ["b"])}, "a label for each of 40 cells"),
        ({"shared": "names"}, "features that are called alike, and there are none"),
        ({"shared": "all"}, "`shared` must be pairs of names"),
        ({"shared": [("CD3E", "CD3")]}, "the source has no feature called 'CD3E'"),
        ({"pairs": [("rna1", "cytof999")]}, "the target has no cell called 'cytof999'"),
        ({"shared": 3}, "`shared` must be pairs of names"),
        ({"pairs": [[0, N]]}, "places in the target must be from 0 to 59, got 60"),
        ({"pairs": [[-1, 0]]}, "places in the source must be from 0 to 39, got -1"),
        ({"label_key": [""] * N}, "`label_key` must name labels of the target"),
        ({"source_steps": [sc.scale(), sc.highly_variable(3)]}, "must come before scale and pca"),
        ({"source_steps": [sc.highly_variable(3)]}, "wants logarithms of counts"),
        ({"pairs": []}, "`pairs` must be k × 2"),
        ({"paired": True}, "`paired` wants as many cells"),
        ({"epsilon": 0.0}, "`epsilon` must be"),
        ({"guide": -1.0}, "`guide` must be"),
        ({"steps": 0}, "`steps` must be"),
        ({"target_steps": [sc.pca(9)]}, "`target_steps`: `n_comps` must be at most 5"),
        ({"hidden": 8}, "`hidden` must be whole numbers"),
        ({"hidden": (8, 0)}, r"`hidden\[1\]` must be a whole number"),
    ],
)
def test_wrong_options(source, target, options, wrong):
    with pytest.raises(ValueError, match=wrong):
        sc.match(source, target, **(QUICK | options))
    assert list(source.obsm) == []


def test_wrong_cells(target):
    for wrong, words in [
        (np.zeros((0, 4)), "must have cells and features"),
        (np.full((3, 4), np.nan), "NaN or infinity in 12 places"),
        (sp.csr_matrix([[np.inf, 0.0]]), "NaN or infinity in 1 places"),
        (np.array([["a", "b"]]), "must be AnnData or an array of numbers"),
        ("cells.h5ad", "got 'cells.h5ad'; a file is read first"),
        (-np.ones((5, 4)), "normalize_total wants counts"),
    ]:
        with pytest.raises(ValueError, match=words):
            sc.match(wrong, target, **QUICK)


@pytest.mark.slow
def test_features_of_any_scale(cells):
    """The result does not depend on the units of the target."""
    options = {"hidden": (8,), "steps": 60}
    x, y = np.arcsinh(cells.x / 5.0), np.log1p(cells.y)
    one, other = sc.match(y, x, **options), sc.match(1e3 * y, 1e-3 * x, **options)
    np.testing.assert_allclose(
        1e3 * other.transform(1e3 * y), one.transform(y), rtol=0.05, atol=0.05
    )
    assert 1e6 * other.scores["W_eps"] == pytest.approx(one.scores["W_eps"], rel=0.02)


@pytest.mark.slow
def test_the_mapped_cells_come_nearer(cells):
    options = {"source_steps": RNA, "target_steps": CYTOMETRY, "hidden": (32,)}
    short, longer = (sc.match(cells.y, cells.x, steps=k, **options) for k in (1, 1_000))
    assert longer.scores["W_eps"] + longer.scores["W_eps_gap"] < 0.9 * short.scores["W_eps"]
    assert longer.scores["mixing"] > short.scores["mixing"]
    assert jax.tree.leaves(longer.network)[0].dtype == jnp.float32


def test_one_name_for_two_cells_is_no_pair(source, target):
    names = source.obs_names.to_numpy().copy()
    names[1] = names[0]
    source.obs_names = names
    with pytest.raises(ValueError, match="the source has several cells called 'rna0'"):
        sc.match(source, target, pairs=[("rna0", "cytof0")], **QUICK)


def test_an_epsilon_that_is_too_small_says_so(source, target):
    with pytest.raises((FloatingPointError, ValueError), match="epsilon"):
        sc.match(source, target, epsilon=1e-42, **QUICK)
    assert list(source.obsm) == []


def test_nothing_is_left_of_an_earlier_match(source, target):
    source.obs["rsgda_label"] = "old"
    source.obs["rsgda_label_confidence"] = 1.0
    source.obsm["rsgda_label_probabilities"] = np.ones((M, 1))
    sc.match(source, target, **QUICK)
    assert sorted(source.obs) == ["rsgda_confidence", "rsgda_match", "type"]
    assert list(source.obsm) == ["X_rsgda"]


def test_the_layer_that_was_matched_is_taken_again(source, target):
    layered = source.copy()
    layered.layers["counts"], layered.X = source.X, np.zeros_like(source.X)
    matcher = sc.match(layered, target, source_layer="counts", **QUICK)
    np.testing.assert_array_equal(matcher.transform(layered), matcher.transform(source.X))


def test_shared_features_are_prepared_as_all_are(source, target):
    """A sample that was sequenced twice as deep is the same cell, shared features included."""
    shared = [("rna-feature0", "cytof-feature1")]
    matcher = sc.match(source, target, shared=shared, **QUICK)
    deeper = source.copy()
    deeper.X = 2 * source.X
    np.testing.assert_allclose(matcher.points(deeper), matcher.points(source), rtol=1e-4, atol=1e-5)


def test_numbers_of_numpy_are_numbers(cells, tmp_path):
    options = {"hidden": (8,), "steps": 3, "seed": 2}
    odd = {"hidden": (np.int64(8),), "steps": np.int64(3), "seed": np.int32(2)}
    steps = {"source_steps": [sc.log1p(), sc.pca(np.int64(4))], "target_steps": [sc.arcsinh(5)]}
    odd_steps = steps | {"target_steps": [sc.arcsinh(np.float64(5))]}
    one, other = (sc.match(cells.y, cells.x, **each) for each in (options | steps, odd | odd_steps))
    other.save(tmp_path / "m")
    again = Matcher.load(tmp_path / "m")
    np.testing.assert_array_equal(again.transform(cells.y), one.transform(cells.y))


def test_cells_of_one_name_are_told_apart(source, target):
    lanes = target.copy()
    lanes.obs_names = ["x"] * N
    matcher = sc.match(source, lanes, **QUICK)
    lanes.obs_names_make_unique()
    place, _ = matcher.match()
    assert source.obs["rsgda_match"].tolist() == lanes.obs_names[place].tolist()
