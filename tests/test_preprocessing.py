"""Preprocessing of cells: each step by hand, sparse as dense, and back."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from rsgda import singlecell as sc
from rsgda.singlecell import preprocessing
from rsgda.singlecell.tables import Table

RNG = np.random.default_rng(0)
COUNTS = RNG.negative_binomial(1, 0.2, size=(40, 12)).astype(float) * RNG.integers(1, 9, size=12)
COUNTS[:, 3] = 0.0
COUNTS[5] = 0.0
NAMES = np.array([f"g{i}" for i in range(12)])


def fitted(steps, cells=COUNTS):
    return preprocessing.fit("source_steps", steps, Table(cells, np.arange(len(COUNTS)), NAMES))


def test_each_step_by_hand():
    total = COUNTS.sum(axis=1, keepdims=True)
    per_cell = 100 * COUNTS / np.where(total > 0, total, 1)
    made = fitted([sc.normalize_total(100.0)])[1]
    np.testing.assert_allclose(made, per_cell, rtol=1e-6)
    np.testing.assert_allclose(np.delete(made, 5, axis=0).sum(axis=1), 100, rtol=1e-5)
    np.testing.assert_allclose(fitted([sc.log1p()])[1], np.log(1 + COUNTS), rtol=1e-6)
    np.testing.assert_allclose(
        fitted([sc.arcsinh(3.0)])[1],
        np.log(COUNTS / 3 + np.sqrt((COUNTS / 3) ** 2 + 1)), rtol=1e-6, atol=1e-7,
    )  # fmt: skip
    scaled = fitted([sc.scale()])[1]
    kept = np.arange(12) != 3
    spread = np.where(COUNTS.std(axis=0) > 0, COUNTS.std(axis=0), 1)
    np.testing.assert_allclose(scaled, (COUNTS - COUNTS.mean(axis=0)) / spread, atol=1e-5)
    np.testing.assert_allclose(scaled[:, kept].std(axis=0), 1, rtol=1e-5)
    assert np.abs(fitted([sc.scale(max_value=1.5)])[1]).max() == pytest.approx(1.5)


def test_components_are_those_of_the_covariance():
    _, made = fitted([sc.pca(3)])
    values = np.linalg.eigvalsh(np.cov(COUNTS.T, ddof=0))[::-1][:3]
    np.testing.assert_allclose(made.var(axis=0), values, rtol=1e-4)


STEPS = [
    [sc.normalize_total(50.0), sc.log1p(), sc.scale()],
    [sc.arcsinh(5.0)],
    [sc.normalize_total(), sc.log1p(), sc.highly_variable(5), sc.scale(2.0), sc.pca(3)],
    [],
]


@pytest.mark.parametrize("steps", STEPS)
@pytest.mark.parametrize("kind", [sp.csr_matrix, sp.csr_array])
def test_sparse_is_dense(steps, kind):
    one, dense = fitted(steps)
    other, sparse = fitted(steps, kind(COUNTS))
    np.testing.assert_allclose(np.abs(sparse), np.abs(dense), rtol=1e-5, atol=1e-5)
    assert other.after.tolist() == one.after.tolist()
    assert dense.dtype == sparse.dtype == np.float32
    np.testing.assert_allclose(other.apply(kind(COUNTS[:7])), sparse[:7], rtol=1e-6, atol=1e-6)


def test_what_can_be_undone_is():
    done, made = fitted([sc.log1p(), sc.arcsinh(2.0), sc.scale(), sc.pca(12)])
    np.testing.assert_allclose(done.undo(made), COUNTS, rtol=1e-3, atol=1e-3)
    assert done.undone.tolist() == NAMES.tolist()
    # Points of fewer components are their nearest on the plane of these.
    done, made = fitted([sc.pca(4)])
    back = done.undo(made)
    left = COUNTS - back
    np.testing.assert_allclose((back - back.mean(axis=0)).T @ left, 0, atol=1e-1)
    # The library size is gone: what comes back are shares of it.
    done, made = fitted([sc.normalize_total(10.0), sc.highly_variable(4)])
    kept = done.learnt[1]["kept"]
    shares = 10 * COUNTS / np.maximum(COUNTS.sum(axis=1, keepdims=True), 1)
    np.testing.assert_allclose(done.undo(made), shares[:, kept], rtol=1e-5)
    assert done.undone.tolist() == NAMES[kept].tolist()


def test_dispersions_are_compared_with_those_of_like_mean():
    genes = 400
    mean = RNG.gamma(1, 2, size=genes) + 0.01
    variance = mean * np.exp(RNG.normal(size=genes))
    found = preprocessing.normalized_dispersion(mean, variance)
    # As scanpy does it, with pandas: equal classes of log(1 + mean), z-scores within each.
    table = pd.DataFrame({"level": np.log1p(mean), "d": np.log(variance / mean)})
    table["bin"] = pd.cut(table["level"], bins=20)
    grouped = table.groupby("bin", observed=True)["d"]
    spread, average = grouped.std(), grouped.mean()
    alone = spread.isna()
    spread[alone] = average[alone]
    average[alone] = 0
    wanted = (table["d"] - table["bin"].map(average).astype(float)) / table["bin"].map(
        spread
    ).astype(float)
    np.testing.assert_allclose(found, wanted, rtol=1e-10)


def test_a_gene_that_does_not_vary_is_not_chosen():
    done, made = fitted([sc.log1p(), sc.highly_variable(11)])
    assert "g3" not in done.after
    assert made.shape == (40, 11)


@pytest.mark.parametrize(
    ("steps", "wrong"),
    [
        (["log1p"], "`source_steps` must be a list of steps"),
        ([sc.log1p], "`source_steps` must be a list of steps"),
        (None, "`source_steps` must be a list of steps"),
        ([sc.scale(), sc.log1p()], "log1p wants counts, which are not negative"),
        ([sc.pca(13)], "`n_comps` must be at most 12"),
    ],
)
def test_wrong_steps(steps, wrong):
    with pytest.raises(ValueError, match=wrong):
        fitted(steps)


def test_wrong_numbers():
    for step, name in [
        (lambda: sc.normalize_total(0.0), "target_sum"),
        (lambda: sc.arcsinh(-5), "cofactor"),
        (lambda: sc.highly_variable(0), "n_top"),
        (lambda: sc.scale(0.0), "max_value"),
        (lambda: sc.pca(1.5), "n_comps"),
    ]:
        with pytest.raises(ValueError, match=f"`{name}` must be"):
            step()
