"""Cells from files and simulated ones."""

import os
import tracemalloc
from pathlib import Path

import numpy as np
import pooch
import pytest
from scipy.spatial.distance import cdist

from rsgda import data

SHARED = Path(__file__).parents[2] / "shared" / "data"


@pytest.fixture
def own_data(request, monkeypatch):
    root = Path(os.environ.get("RSGDA_DATA") or SHARED)
    if not (root / request.param).exists():
        pytest.skip(f"{root} has no {request.param}; name a folder that has in RSGDA_DATA")
    monkeypatch.setenv("RSGDA_DATA", str(root))


def test_simulated_cells_have_known_pairs_and_one_world():
    cells = data.simulated_cells((300, 120), features=(11, 30), branches=4, seed=3)
    assert cells.x.shape == (300, 11)
    assert cells.y.shape == (120, 30)
    assert set(cells.x_types) == set(range(5))
    in_x, in_y = cells.pairs
    assert len(set(in_x)) == len(set(in_y)) == 120
    np.testing.assert_array_equal(cells.x_types[in_x], cells.y_types[in_y])
    # Both are counts, and a pair is one cell: what they see of it goes together.
    for counts in (cells.x, cells.y):
        assert np.issubdtype(counts.dtype, np.integer)
        assert counts.min() >= 0
    seen_x = np.arcsinh(cells.x[in_x] / 5)
    seen_y = np.log1p(1e4 * cells.y[in_y] / cells.y[in_y].sum(axis=1, keepdims=True))

    def explained(y):
        one = np.c_[np.ones(120), y - y.mean(axis=0)]
        fit = one @ np.linalg.lstsq(one, seen_x, rcond=None)[0]
        return 1 - np.sum((seen_x - fit) ** 2) / np.sum((seen_x - seen_x.mean(axis=0)) ** 2)

    shuffled = np.random.default_rng(0).permutation(120)
    assert explained(seen_y) > 0.6 > 0.4 > explained(seen_y[shuffled])


def test_simulated_cells_are_the_same_for_a_seed_and_differ_between_seeds():
    one, other = (data.simulated_cells((20, 30), features=(4, 5), seed=s) for s in (1, 1))
    np.testing.assert_array_equal(one.x, other.x)
    np.testing.assert_array_equal(one.pairs, other.pairs)
    assert np.any(data.simulated_cells((20, 30), features=(4, 5), seed=2).x != one.x)


def test_simulated_cells_take_the_memory_of_their_counts():
    tracemalloc.start()
    cells = data.simulated_cells((30_000, 40), features=(7, 3_000))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert cells.y.shape == (40, 3_000)
    assert peak < 60e6  # of all 30,000 cells the RNA would be 360 MB


def test_blocks_do_not_change_the_cells(monkeypatch):
    whole = data.simulated_cells((50, 40), features=(4, 9))
    monkeypatch.setattr("rsgda.data.simulated.BLOCK", 30)
    parts = data.simulated_cells((50, 40), features=(4, 9))
    np.testing.assert_array_equal(parts.x, whole.x)
    np.testing.assert_array_equal(parts.y, whole.y)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"sizes": (0, 3)}, "sizes"),
        ({"sizes": 5}, "sizes"),
        ({"features": (3,)}, "features"),
        ({"features": (3, 2.5)}, "features"),
        ({"branches": 0}, "branches"),
        ({"branches": 6}, "branches"),
        ({"seed": -1}, "seed"),
    ],
)
def test_simulated_cells_refuse(arguments, said):
    with pytest.raises(ValueError, match=f"`{said}`"):
        data.simulated_cells(**arguments)


@pytest.mark.parametrize(
    ("load", "folder"),
    [
        (data.cytof_pbmc, "cytof-pbmc"),
        (data.citeseq_pbmc, "citeseq-pbmc"),
        (data.snareseq, "snareseq"),
        (data.scgem, "scgem"),
    ],
)
def test_a_missing_file_is_told_where_to_go(load, folder, tmp_path, monkeypatch):
    monkeypatch.setenv("RSGDA_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(FileNotFoundError) as raised:
        load()
    assert str(tmp_path / folder) in str(raised.value)
    assert "come from" in str(raised.value)
    assert "fetching" not in str(raised.value)


@pytest.mark.parametrize(
    ("load", "file"),
    [
        (data.cytof_pbmc, "cytof-pbmc/cytof_z2yr_counts.npz"),
        (data.citeseq_pbmc, "citeseq-pbmc/10XPBMC_filtered_1000G.H5"),
    ],
)
def test_a_foreign_file_is_refused(load, file, tmp_path, monkeypatch):
    if load is data.citeseq_pbmc:
        pytest.importorskip("h5py", reason="needs the extra singlecell")
    monkeypatch.setenv("RSGDA_DATA", str(tmp_path))
    (tmp_path / file).parent.mkdir()
    (tmp_path / file).write_bytes(b"something else")
    with pytest.raises(ValueError, match="must hold"):
        load()


@pytest.mark.parametrize(
    "change",
    [
        {"markers": np.array(["a", "b"])},
        {"markers": np.array(["a", "b", "c", "d"])},
        {"celltype": np.array(["T"] * 9)},
        {"celltype": np.arange(4)},
        {"reference": np.arange(4)},
        {"query": np.array([["x", "y", "z"]])},
    ],
)
def test_arrays_that_do_not_belong_together_are_refused(change, tmp_path, monkeypatch):
    monkeypatch.setenv("RSGDA_DATA", str(tmp_path))
    (tmp_path / "cytof-pbmc").mkdir()
    held = {
        "reference": np.ones((4, 3), np.uint16),
        "query": np.ones((2, 3), np.uint16),
        "markers": np.array(["CD3", "CD45BC1", "CD4"]),
        "celltype": np.array(["T"] * 4),
    }
    file = tmp_path / "cytof-pbmc" / "cytof_z2yr_counts.npz"
    np.savez(file, **held)
    cells = data.cytof_pbmc()
    assert cells.counts.shape == (6, 2)
    assert cells.markers == ("CD3", "CD4")
    np.savez(file, **(held | change))
    with pytest.raises(ValueError, match="must hold reference, query, markers and celltype"):
        data.cytof_pbmc()


def test_a_damaged_file_in_the_cache_is_not_called_absent(tmp_path, monkeypatch):
    monkeypatch.delenv("RSGDA_DATA", raising=False)
    monkeypatch.setattr(pooch, "os_cache", lambda project: tmp_path / project)
    file = tmp_path / "rsgda" / "cytof-pbmc" / "cytof_z2yr_counts.npz"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"a part of it")
    with pytest.raises(FileNotFoundError, match="is not the file as published"):
        data.cytof_pbmc()


@pytest.mark.parametrize("own_data", ["cytof-pbmc"], indirect=True)
def test_cytometry_has_counts_types_and_no_barcodes(own_data):
    cells = data.cytof_pbmc()
    assert cells.counts.shape == (159_594, 37) == (len(cells.types), len(cells.markers))
    assert not any("BC" in name for name in cells.markers)
    assert np.sum(cells.types != "") == 80_415


@pytest.mark.parametrize("own_data", ["citeseq-pbmc"], indirect=True)
def test_citeseq_pairs_rna_with_proteins(own_data):
    pytest.importorskip("h5py", reason="needs the extra singlecell")
    cells = data.citeseq_pbmc()
    assert cells.rna.shape == (6_661, 1_000)
    assert cells.protein.shape == (6_661, len(cells.proteins))
    assert np.isin(cells.types, ["B", "CD4 T", "CD8 T"]).sum() == 4_178
    # CD19 is a marker of B cells, CD3 of T cells: the order of the columns is right.
    level = {
        name: np.log1p(cells.protein[:, cells.proteins.index(name)]) for name in ("CD19", "CD3")
    }
    b, t = cells.types == "B", np.isin(cells.types, ["CD4 T", "CD8 T"])
    assert level["CD19"][b].mean() > level["CD19"][t].mean() + 1
    assert level["CD3"][t].mean() > level["CD3"][b].mean() + 1


@pytest.mark.parametrize("own_data", ["snareseq"], indirect=True)
def test_snareseq_pairs_chromatin_with_rna(own_data):
    cells = data.snareseq()
    assert cells.first.shape == (1_047, 19)
    assert cells.second.shape == (1_047, 10)
    assert sorted(set(cells.types)) == ["BJ", "GM", "H1", "K562"]
    # The types are those of the rows, in both views: neighbours have the same.
    for view in (cells.first / cells.first.sum(axis=1, keepdims=True), cells.second):
        near = np.argsort(cdist(view, view) + 1e9 * np.eye(len(view)), axis=1)[:, 0]
        assert np.mean(cells.types[near] == cells.types) > 0.8


@pytest.mark.parametrize("own_data", ["scgem"], indirect=True)
def test_scgem_pairs_expression_with_methylation(own_data):
    cells = data.scgem()
    assert cells.first.shape == (177, 34)
    assert cells.second.shape == (177, 27)
    near = np.argsort(cdist(cells.first, cells.first) + 1e9 * np.eye(177), axis=1)[:, 0]
    assert np.mean(cells.types[near] == cells.types) > 0.6


@pytest.mark.parametrize(
    ("load", "change"),
    [
        (data.snareseq, {"SNAREseq_rna_types.txt": "1\n2\n"}),
        (data.snareseq, {"SNAREseq_rna_types.txt": "1\n2\n9\n"}),
        (data.scgem, {"unioncom_type1.txt": "1\n2\n"}),
        (data.scgem, {"unioncom_GeneExpression.txt": "a b\n"}),
    ],
)
def test_views_that_do_not_belong_together_are_refused(load, change, tmp_path, monkeypatch):
    monkeypatch.setenv("RSGDA_DATA", str(tmp_path))
    for folder in ("snareseq", "scgem"):
        (tmp_path / folder).mkdir()
    for name in ("atac", "rna"):
        np.save(tmp_path / f"snareseq/SNAREseq_{name}_feat.npy", np.ones((3, 2)))
    (tmp_path / "snareseq/SNAREseq_rna_types.txt").write_text("1\n2\n3\n")
    for name in ("GeneExpression", "DNAmethylation"):
        (tmp_path / f"scgem/unioncom_{name}.txt").write_text("1 2\n3 4\n5 6\n")
    (tmp_path / "scgem/unioncom_type1.txt").write_text("1\n2\n3\n")
    assert load().first.shape == (3, 2)
    for name, content in change.items():
        (tmp_path / ("snareseq" if load is data.snareseq else "scgem") / name).write_text(content)
    with pytest.raises(ValueError, match="must hold the files of"):
        load()
