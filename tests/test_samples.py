"""Samples from files: three formats read alike, and what is wrong is said with its place."""

import gzip
import struct

import numpy as np
import pytest

from rsgda.data.samples import read_samples

CSV = "length,width,kind\n1.5,-2,oak\n\n3e2,4,elm\n"


def idx(array, code=0x08):
    return (
        bytes([0, 0, code, array.ndim])
        + struct.pack(f">{array.ndim}I", *array.shape)
        + (array.tobytes())
    )


@pytest.fixture
def put(tmp_path):
    """A function that writes a file and returns its path."""

    def write(name, content):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


@pytest.fixture
def pack(tmp_path):
    def write(**arrays):
        np.savez(tmp_path / "x.npz", **arrays)
        return tmp_path / "x.npz"

    return write


@pytest.mark.parametrize(
    "text",
    [
        CSV,
        "\ufeff" + CSV,
        CSV.replace(",", ";"),
        CSV.replace(",", "\t"),
        CSV.replace(",", " , "),
        CSV.replace("\n", "\r\n"),
        CSV.replace("length", '"length"'),
        CSV.rstrip("\n"),
    ],
)
def test_a_table_is_read_however_it_is_written(text, put):
    samples = read_samples(put("t.csv", text))
    np.testing.assert_array_equal(samples.X, [[1.5, -2], [300, 4]])
    assert samples.y.tolist() == ["oak", "elm"]
    assert samples.names == ("length", "width")
    assert samples.label == "kind"


def test_the_label_can_be_any_column(put):
    samples = read_samples(put("t.csv", "kind,a,b\nx,1,2\ny,3,4\n"), label="kind")
    np.testing.assert_array_equal(samples.X, [[1, 2], [3, 4]])
    assert samples.y.tolist() == ["x", "y"]
    assert samples.names == ("a", "b")


def test_a_table_needs_no_names(put):
    samples = read_samples(put("t.csv", "1,2,x\n3,4,y\n"))
    np.testing.assert_array_equal(samples.X, [[1, 2], [3, 4]])
    assert samples.names is None
    assert samples.label is None


@pytest.mark.parametrize(
    ("text", "names", "y"),
    [
        # As pandas writes numbers of columns and one name.
        ("0,1,target\n1,2,1\n3,4,0\n5,6,1\n", ("0", "1"), [1, 0, 1]),
        ("0,1,target\n1,2,1.5\n3,4,0\n5,6,1\n", ("0", "1"), ["1.5", "0", "1"]),
        ("0,1,2,kind\n1,2,3,a\n3,4,5,b\n5,6,7,a\n", ("0", "1", "2"), ["a", "b", "a"]),
        # Samples, as they may be.
        ("0,1,a\n1,2,a\n3,4,b\n", None, ["a", "a", "b"]),
        ("0,1,a\n1,2,c\n3,4,b\n", None, ["a", "c", "b"]),
        ("0,1,2,a\n1,2,3,a\n3,4,5,b\n", None, ["a", "a", "b"]),
        ("7,7,a\n1,2,0\n3,4,1\n", None, ["a", "0", "1"]),
        ("0,1,2,a\n", None, ["a"]),
        ("0,1,2\n1,2,1\n3,4,0\n", None, [2, 1, 0]),
    ],
)
def test_names_may_be_numbers_but_for_the_label(text, names, y, put):
    samples = read_samples(put("t.csv", text))
    assert samples.names == names
    assert samples.y.tolist() == y
    rows = [line.split(",")[:-1] for line in text.splitlines()[names is not None :]]
    np.testing.assert_array_equal(samples.X, np.array(rows, float))
    assert ("names" in samples.note) == (names is not None)


@pytest.mark.parametrize(
    ("labels", "found"),
    [
        (["1", "0"], [1, 0]),
        (["-3", "12"], [-3, 12]),
        (["01", "1"], ["01", "1"]),  # which are two classes
        (["1", "b"], ["1", "b"]),
        (["1.5", "2"], ["1.5", "2"]),
        (["none", "-"], ["none", "-"]),  # as of a treatment, or a charge
        (["9" * 30, "1"], ["9" * 30, "1"]),
    ],
)
def test_labels_are_whole_numbers_if_all_are(labels, found, put):
    samples = read_samples(put("t.csv", f"1,{labels[0]}\n2,{labels[1]}\n"))
    assert samples.y.tolist() == found


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ["is empty"]),
        ("\n \n", ["is empty"]),
        ("a,b,kind\n", ["no rows"]),
        ("a\n1\n", ["two columns"]),
        ("a,kind\n1,x\n,y\n", ["line 3", "'a'", "missing"]),
        ("a,kind\n1,x\nNaN,y\n", ["line 3", "'a'", "missing"]),
        ("a,b,kind\n1,2,x\n1,nan,y\n", ["line 3", "column 'b'", "missing"]),
        ("1,x\n\n2,y\ninf,x\n", ["line 4", "column 1", "'inf'"]),
        ("a,b,kind\n1,two,x\n", ["line 2", "'b'", "'two'", "--label"]),
        ("1,2,x\n,3,y\n", ["line 2", "column 1", "missing"]),
        ("1,,x\n1,3,y\n", ["line 1", "column 2", "missing"]),
        ("a,kind\n1,x\n2\n", ["line 3", "2 cells", "got 1"]),
        ("a,kind\n1,x\n2,\n", ["line 3", "no label"]),
        ("a,kind\n1,x\n\n2,NA\n", ["line 4", "no label but 'NA'"]),
        ("a,kind\n1,0\n2, nan\n", ["line 3", "no label but 'nan'"]),
        ("1,?\n2,x\n", ["line 1", "no label but '?'"]),
        (",0,1,2,target\n0,1,2,3,1\n1,2,3,4,0\n", ["column 1", "no name", "counts the rows"]),
        (",a,kind\n0,1,x\n", ["column 1", "no name"]),
        ("a,a,kind\n0,1,x\n", ["'a' twice"]),
        (b"a,kind\n1,\xff\n", ["UTF-8"]),
        ('a,kind\n1,"' + "x" * 200_000 + '"\n', ["field larger"]),
    ],
)
def test_what_is_wrong_in_a_table_is_said(text, words, put):
    with pytest.raises(ValueError, match=r"t\.csv") as caught:
        read_samples(put("t.csv", text))
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("kind,a,b\nx,1,2\ny,nan,2\n", ["line 3", "column 'a'", "missing"]),
        ("kind,a,b\nx,1,2\ny,2,-\n", ["line 3", "column 'b'", "missing"]),
        ("a,b\n1,2\n", ["'kind'", "'a', 'b'"]),
        ("1,2\n3,4\n", ["'kind'", "no names"]),
    ],
)
def test_what_is_wrong_beside_a_named_label_is_said(text, words, put):
    with pytest.raises(ValueError, match=r"t\.csv") as caught:
        read_samples(put("t.csv", text), label="kind")
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", ">f8", "int32", "bool"])
def test_arrays_are_read(dtype, pack):
    X = np.array([[0, 1, 1], [1, 0, 1]], dtype)
    samples = read_samples(pack(X=X, y=np.array(["b", "a"])))
    np.testing.assert_array_equal(samples.X, X)
    assert samples.X.dtype in (np.float32, np.float64)
    assert samples.y.tolist() == ["b", "a"]
    assert samples.note == ""


def test_labels_of_bytes_are_text(pack):
    assert read_samples(pack(X=np.eye(2), y=np.array([b"b", b"a"]))).y.tolist() == ["b", "a"]


def test_pixels_are_scaled_and_it_is_said(pack):
    X = np.arange(0, 255, dtype=np.uint8)[: 2 * 3 * 4].reshape(2, 3, 4) * 10
    samples = read_samples(pack(X=X, y=np.array([3, 5], np.uint8)))
    np.testing.assert_allclose(samples.X, X / 255, rtol=1e-6)
    assert samples.X.dtype == np.float32
    assert "255" in samples.note
    assert samples.y.dtype == np.int64


Y = np.array([0, 1])


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"X": np.eye(2)}, ["no array 'y'", "['X']", "savez"]),
        ({"X": np.array([[1, "a"], [2, 3]], object), "y": Y}, ["objects"]),
        ({"X": np.eye(2), "y": np.array([0, None])}, ["objects"]),
        ({"X": np.eye(2), "y": np.array(["a", "NaN"])}, ["y, sample 2", "no label but 'NaN'"]),
        ({"X": np.eye(2), "y": np.array([b"", b"a"])}, ["y, sample 1", "no label;"]),
        ({"X": np.zeros((2, 3, 8, 8)), "y": Y}, ["channels of images last", "moveaxis(X, 1, -1)"]),
        ({"X": np.zeros((3, 2)), "y": Y}, ["X has 3 samples, and y has 2 labels"]),
        ({"X": np.eye(2).astype(str), "y": Y}, ["X must hold numbers"]),
        ({"X": np.eye(2) * 1j, "y": Y}, ["X must hold numbers"]),
        ({"X": np.zeros(2), "y": Y}, ["n × features", "(2,)"]),
        ({"X": np.zeros((0, 3)), "y": np.zeros(0)}, ["(0, 3)"]),
        ({"X": np.zeros((2, 0)), "y": Y}, ["(2, 0)"]),
        ({"X": np.eye(2), "y": np.eye(2)}, ["one label a sample", "(2, 2)"]),
        ({"X": np.eye(2), "y": np.array([0, np.nan])}, ["label for each", "NaN"]),
        ({"X": np.array([[1, 2], [3, np.nan]]), "y": Y}, ["nan at [1, 1]", "leave such"]),
        ({"X": np.array([[1, np.inf], [3, 4]]), "y": Y}, ["inf at [0, 1]"]),
        ({"X": np.zeros((2, 3, 4), int), "y": Y}, ["uint8", "int64"]),
    ],
)
def test_what_is_wrong_in_arrays_is_said(arrays, words, pack):
    with pytest.raises(ValueError, match=r"x\.npz") as caught:
        read_samples(pack(**arrays))
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"X,y\n1,2\n", bytes(100)])
def test_a_file_that_is_no_archive_is_refused(content, put):
    with pytest.raises(ValueError, match=r"x\.npz must hold arrays X and y, but it is no archive"):
        read_samples(put("x.npz", content))


def test_an_archive_that_is_cut_is_refused(pack):
    path = pack(X=np.eye(50), y=np.arange(50))
    content = path.read_bytes()
    for size in range(0, len(content), 997):
        path.write_bytes(content[:size])
        with pytest.raises(ValueError, match=r"x\.npz must hold arrays X and y"):
            read_samples(path)


IMAGES = (np.arange(3 * 2 * 4, dtype=np.uint8) * 10).reshape(3, 2, 4)
NUMBERS = np.array([7, 0, 7], np.uint8)


@pytest.mark.parametrize("packed", [False, True])
def test_images_are_read_with_their_labels(packed, put):
    squeeze = gzip.compress if packed else bytes
    images, labels = put("images", squeeze(idx(IMAGES))), put("labels", squeeze(idx(NUMBERS)))
    samples = read_samples(images, labels=labels)
    np.testing.assert_allclose(samples.X, IMAGES / 255, rtol=1e-6)
    assert samples.y.tolist() == [7, 0, 7]
    assert "255" in samples.note


def test_labels_of_the_usual_name_are_found(put):
    images = put("t10k-images-idx3-ubyte.gz", gzip.compress(idx(IMAGES)))
    with pytest.raises(ValueError, match="--labels"):
        read_samples(images)
    put("t10k-labels-idx1-ubyte.gz", gzip.compress(idx(NUMBERS)))
    samples = read_samples(images)
    assert samples.y.tolist() == [7, 0, 7]
    assert "t10k-labels-idx1-ubyte.gz" in samples.note


@pytest.mark.parametrize(
    ("images", "labels", "words"),
    [
        (idx(NUMBERS), idx(IMAGES), ["exchange"]),
        (idx(IMAGES), idx(NUMBERS[:2]), ["3 samples", "2 labels"]),
        (idx(IMAGES), idx(IMAGES), ["one label a sample"]),
        (idx(IMAGES)[:-1], idx(NUMBERS), ["images", "IDX"]),
        (b"a,b\n1,2\n", idx(NUMBERS), ["images", ".npz, .csv or IDX"]),
        (idx(IMAGES), b"", ["labels", "is empty"]),
    ],
)
def test_what_is_wrong_in_images_is_said(images, labels, words, put):
    with pytest.raises(ValueError, match="images") as caught:
        read_samples(put("images", images), labels=put("labels", labels))
    for word in words:
        assert word in str(caught.value)


def test_files_that_are_not_there(tmp_path, put):
    with pytest.raises(FileNotFoundError, match=r"nothing\.csv"):
        read_samples(tmp_path / "nothing.csv")
    with pytest.raises(FileNotFoundError, match="no-labels"):
        read_samples(put("images", idx(IMAGES)), labels=tmp_path / "no-labels")
    with pytest.raises(ValueError, match="no regular file"):
        read_samples(tmp_path)


def test_what_belongs_to_another_format_is_refused(put, pack):
    with pytest.raises(ValueError, match="for IDX"):
        read_samples(put("t.csv", CSV), labels="labels")
    with pytest.raises(ValueError, match=r"can be one of a \.csv"):
        read_samples(pack(X=np.eye(2), y=Y), label="kind")
