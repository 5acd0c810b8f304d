"""MNIST as it is known, and what is refused in its place."""

import gzip
import hashlib
import os
from pathlib import Path

import numpy as np
import pooch
import pytest

from rsgda.data import fashion_mnist, mnist
from rsgda.data.images import MNIST

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"
NAMES = ["train-images-idx3-ubyte", "train-labels-idx1-ubyte",
         "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"]  # fmt: skip


def packed(array: np.ndarray, code: int = 0x08) -> bytes:
    sizes = np.array(array.shape, ">u4").tobytes()
    return bytes([0, 0, code, array.ndim]) + sizes + array.tobytes()


def write(folder: Path, arrays: list[np.ndarray], compressed: tuple[bool, ...]) -> None:
    folder.mkdir(exist_ok=True)
    for name, array, gz in zip(NAMES, arrays, compressed, strict=True):
        content = packed(array)
        (folder / (name + ".gz" * gz)).write_bytes(gzip.compress(content) if gz else content)


@pytest.fixture
def own(tmp_path, monkeypatch):
    """The user's folder; there is no cache and no network."""
    monkeypatch.setenv("RSGDA_DATA", str(tmp_path))
    monkeypatch.setattr(pooch, "os_cache", lambda project: tmp_path / "cache")
    monkeypatch.setattr(pooch, "retrieve", lambda url, **rest: pytest.fail(f"asked for {url}"))
    return tmp_path


@pytest.fixture
def arrays():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 256, (5, 28, 28), np.uint8)
    X[0, 0, :3] = 0, 51, 255
    y = np.array([3, 0, 9, 9, 1], np.uint8)
    return [X[:3], y[:3], X[3:], y[3:]]


@pytest.mark.parametrize("load", [mnist, fashion_mnist])
@pytest.mark.parametrize("compressed", [(True,) * 4, (False,) * 4, (True, False, False, True)])
def test_own_files_are_read(load, compressed, own, arrays):
    folder = "mnist" if load is mnist else "fashion-mnist"
    write(own / folder, arrays, compressed)
    images = load()
    assert images._fields == ("X_train", "y_train", "X_test", "y_test")
    assert images.X_train.shape == (3, 28, 28, 1)
    assert images.X_test.shape == (2, 28, 28, 1)
    assert images.X_train.dtype == images.X_test.dtype == np.float32
    assert images.y_train.dtype == images.y_test.dtype == np.int32
    assert images.y_train.tolist() == [3, 0, 9]
    assert images.y_test.tolist() == [9, 1]
    assert images.X_train[0, 0, :3, 0].tolist() == [0.0, np.float32(51 / 255), 1.0]
    np.testing.assert_allclose(images.X_test[..., 0], arrays[2] / 255, rtol=1e-7)


def test_a_part_of_the_files_is_not_filled_up(own, arrays):
    write(own / "mnist", arrays, (True,) * 4)
    (own / "mnist" / f"{NAMES[2]}.gz").unlink()
    with pytest.raises(FileNotFoundError, match=rf"has {NAMES[0]}.gz, but not {NAMES[2]}.gz\."):
        mnist()


@pytest.mark.parametrize("given", ["{home}/absent", "~/absent"])
def test_the_variable_must_name_a_folder(given, own, monkeypatch):
    monkeypatch.setenv("HOME", str(own))
    monkeypatch.setenv("RSGDA_DATA", given.format(home=own))
    with pytest.raises(ValueError, match=r"must name a folder, got .*absent") as caught:
        mnist()
    message = str(caught.value)
    assert all(f"\n    {name}.gz\n" in message for name in NAMES)
    assert f"into {own / 'absent' / 'mnist'}, or" in message


def test_the_folder_may_be_under_home(own, arrays, monkeypatch):
    monkeypatch.setenv("HOME", str(own))
    monkeypatch.setenv("RSGDA_DATA", "~/mine")
    (own / "mine").mkdir()
    write(own / "mine" / "mnist", arrays, (True,) * 4)
    assert mnist().y_train.tolist() == [3, 0, 9]


@pytest.mark.parametrize(
    ("number", "change", "message"),
    [
        (0, lambda X: X[:, :27], r"must hold n × 28 × 28 of uint8, got 3 × 27 × 28 of uint8"),
        (0, lambda X: X.reshape(3, -1), r"must hold n × 28 × 28 of uint8, got 3 × 784 of uint8"),
        (1, lambda y: y[:2], r"must hold 3, one for each image of .*, got 2 of uint8"),
        (2, lambda X: X[:1], r"must hold 1, one for each image of .*, got 2 of uint8"),
        (3, lambda y: y[:, None], r"must hold 2, one for each image of .*, got 2 × 1 of uint8"),
        (3, lambda y: y + 1, r"must hold classes from 0 to 9, got 10"),
    ],
)
def test_files_that_do_not_belong_together_are_refused(number, change, message, own, arrays):
    arrays[number] = change(arrays[number])
    write(own / "mnist", arrays, (False,) * 4)
    with pytest.raises(ValueError, match=message) as caught:
        mnist()
    blamed = 3 if number == 2 else number
    assert str(caught.value).startswith(str(own / "mnist" / NAMES[blamed]))


def test_other_types_are_refused(own, arrays):
    write(own / "mnist", arrays, (False,) * 4)
    (own / "mnist" / NAMES[1]).write_bytes(packed(arrays[1].astype(np.int8), 0x09))
    with pytest.raises(ValueError, match=r"must hold 3, .* got 3 of int8"):
        mnist()


@pytest.fixture
def real(monkeypatch):
    """The folder of the real files."""
    root = os.environ.get("RSGDA_DATA") or SHARED
    folder = Path(root, "mnist")
    if not folder.is_dir():
        pytest.skip(f"MNIST is not at {folder}; name its parent in RSGDA_DATA")
    monkeypatch.setenv("RSGDA_DATA", str(root))
    return folder


def test_mnist_as_it_is_known(real):
    images = mnist()
    assert images.X_train.shape == (60_000, 28, 28, 1)
    assert images.X_test.shape == (10_000, 28, 28, 1)
    assert images.y_train[:5].tolist() == [5, 0, 4, 1, 9]
    assert images.y_test[:5].tolist() == [7, 2, 1, 0, 4]
    counts = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert np.bincount(images.y_train).tolist() == counts
    counts = [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    assert np.bincount(images.y_test).tolist() == counts
    assert images.X_train.min() == 0
    assert images.X_train.max() == 1
    # The mean and the deviation that everybody normalises with.
    assert round(float(images.X_train.mean(dtype=np.float64)), 4) == 0.1307
    assert round(float(images.X_train.std(dtype=np.float64)), 4) == 0.3081


def test_the_sums_are_those_of_the_files(real):
    for file in MNIST.files:
        path = real / file.name
        if not path.exists():
            pytest.skip(f"{path} is there unpacked only")
        content = path.read_bytes()
        assert len(content) == file.size
        assert hashlib.sha256(content).hexdigest() == file.sha256
