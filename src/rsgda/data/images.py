"""MNIST and Fashion-MNIST: 70,000 grey images of 28 × 28 pixels in ten classes."""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from rsgda.data.download import File, Source, locate
from rsgda.data.idx import read_idx

SIDE = 28
CLASSES = 10

MNIST = Source(
    title="MNIST",
    folder="mnist",
    mirrors=(
        "https://storage.googleapis.com/cvdf-datasets/mnist/",
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
    ),
    files=(
        File(
            "train-images-idx3-ubyte.gz",
            9_912_422,
            "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
        ),
        File(
            "train-labels-idx1-ubyte.gz",
            28_881,
            "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
        ),
        File(
            "t10k-images-idx3-ubyte.gz",
            1_648_877,
            "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
        ),
        File(
            "t10k-labels-idx1-ubyte.gz",
            4_542,
            "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
        ),
    ),
)

# Sizes and sums as TensorFlow Datasets lists them (url_checksums/fashion_mnist.txt).
FASHION = Source(
    title="Fashion-MNIST",
    folder="fashion-mnist",
    mirrors=(
        "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
    ),
    files=(
        File(
            "train-images-idx3-ubyte.gz",
            26_421_880,
            "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
        ),
        File(
            "train-labels-idx1-ubyte.gz",
            29_515,
            "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
        ),
        File(
            "t10k-images-idx3-ubyte.gz",
            4_422_102,
            "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
        ),
        File(
            "t10k-labels-idx1-ubyte.gz",
            5_148,
            "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
        ),
    ),
)


class Images(NamedTuple):
    """Images of n × height × width × channels in [0, 1], float32, and their classes, int32."""

    X_train: np.ndarray
    y_train: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


def mnist(*, progress: bool = False) -> Images:
    """Return MNIST: handwritten digits, 60,000 to train with and 10,000 to test.

    The files come from the folder `mnist` of the folder that the environment variable
    `RSGDA_DATA` names, else from the cache, else from a mirror, once.

    Args:
        progress: Show a bar on standard error while files are fetched.

    Raises:
        FileNotFoundError: If the files are nowhere: it says which to put where.
        ValueError: If a file is not what it should be.

    Source: LeCun, Bottou, Bengio and Haffner (1998), Gradient-based learning applied to document
    recognition.
    """
    return _images(MNIST, progress)


def fashion_mnist(*, progress: bool = False) -> Images:
    """Return Fashion-MNIST: articles of clothing, in the same format as `mnist`.

    The folder is `fashion-mnist`; all else is as for `mnist`.

    Args:
        progress: Show a bar on standard error while files are fetched.

    Raises:
        FileNotFoundError: If the files are nowhere: it says which to put where.
        ValueError: If a file is not what it should be.

    Source: Xiao, Rasul and Vollgraf (2017), Fashion-MNIST: a novel image dataset for benchmarking
    machine learning algorithms.
    """
    return _images(FASHION, progress)


def _images(source: Source, progress: bool) -> Images:
    train_images, train_labels, test_images, test_labels = locate(source, progress=progress)
    return Images(*_pair(train_images, train_labels), *_pair(test_images, test_labels))


def _pair(images: Path, labels: Path) -> tuple[np.ndarray, np.ndarray]:
    X, y = read_idx(images), read_idx(labels)
    _check(images, X, X.ndim == 3 and X.shape[1:] == (SIDE, SIDE), f"n × {SIDE} × {SIDE}")
    _check(labels, y, y.shape == X.shape[:1], f"{len(X)}, one for each image of {images}")
    if y.max() >= CLASSES:
        raise ValueError(f"{labels} must hold classes from 0 to {CLASSES - 1}, got {y.max()}.")
    return np.divide(X, 255, dtype=np.float32)[..., None], y.astype(np.int32)


def _check(path: Path, array: np.ndarray, fits: bool, shape: str) -> None:
    if not fits or array.dtype != np.uint8:
        came = " × ".join(map(str, array.shape))
        raise ValueError(f"{path} must hold {shape} of uint8, got {came} of {array.dtype}.")
