"""What the robust classifier refuses, warns of, and does not let be changed after a fit."""

import equinox as eqx
import jax.random as jr
import numpy as np
import pytest
from sklearn import datasets
from sklearn.preprocessing import StandardScaler

import rsgda
from rsgda.robust import RobustClassifier

N = 60
SHORT = {"epochs": 4, "batch_size": 32}


@pytest.fixture(scope="module")
def data():
    X, y = datasets.make_blobs(N, 4, centers=3, cluster_std=2.0, random_state=3)
    return StandardScaler().fit_transform(X), y


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ({"gamma": -1.0}, "`gamma` must be a positive"),
        ({"gamma": "large"}, "`gamma` must be a positive"),
        ({"gamma": 1e300}, r"`gamma` must be at most 1e\+15, or infinity"),
        ({"p": 1.5}, "`p` must lie in"),
        ({"alpha": 0.0}, "`alpha` must be a positive"),
        ({"eta": -1.0}, "`eta` must be a positive"),
        ({"algorithm": "RSGDA"}, "`algorithm` must be"),
        ({"network": "resnet"}, "`network` must be 'auto'"),
        ({"network": "cnn"}, "`network` must be .* for rows of 4 features, got 'cnn'"),
        ({"network": rsgda.robust.mlp((4, 8, 3), key=jr.key(0))}, "got a Network"),
        ({"loss": "hinge"}, "`loss` must be"),
        ({"label_smoothing": 2.0}, "`label_smoothing` must lie"),
        ({"pixels": (1.0, 0.0)}, "`pixels` must be a pair"),
        ({"pixels": (0.0, 1.0)}, r"`X` must lie in \[0, 1\]"),
        ({"box": (-1.0, 1.0)}, "`X` must lie in `box`"),
        ({"per_batch": 1}, "`per_batch` must be True or False, got 1"),
        ({"early_stopping": "no"}, "`early_stopping` must be True or False, got 'no'"),
        ({"progress": "yes"}, "`progress` must be True or False, got 'yes'"),
        ({"batch_size": 0}, "`batch_size` must be a whole"),
        ({"epochs": 0}, "`epochs` must be a positive"),
        ({"early_stopping": True, "validation_fraction": 1.0}, "`validation_fraction` must lie"),
        ({"early_stopping": True, "n_iter_no_change": 0}, "`n_iter_no_change` must be a whole"),
        ({"random_state": "seed"}, "`random_state` must be a whole number .* got 'seed'"),
        ({"random_state": None, "checkpoint": "there"}, "`random_state` must be a number where"),
    ],
)
def test_wrong_parameters(data, wrong, match):
    with pytest.raises(ValueError, match=match):
        RobustClassifier(**SHORT | wrong).fit(*data)


def test_one_class(data):
    with pytest.raises(ValueError, match="at least two classes"):
        RobustClassifier().fit(data[0], np.ones(N))


@pytest.mark.slow
def test_a_refit_that_fails_leaves_the_last_one():
    X = np.random.default_rng(0).normal(size=(30, 4))
    y = (X[:, 0] > 0).astype(int)
    fitted = RobustClassifier(epochs=1).fit(X, y)
    before = fitted.predict(X)
    with pytest.raises(ValueError, match="`box`"):
        fitted.set_params(box=(0, 0.1)).fit(X[:, :2], y)
    np.testing.assert_array_equal(fitted.set_params(box=None).predict(X), before)


def test_a_network_with_other_logits_is_refused():
    def wide(shape, classes, key):
        return eqx.nn.MLP(shape[0], classes + 1, 8, 1, key=key)

    X = np.random.default_rng(0).normal(size=(30, 4))
    with pytest.raises(ValueError, match="one logit for each of the 2 classes, got 3"):
        RobustClassifier(network=wide).fit(X, np.arange(30) % 2)


def test_labels_without_an_order():
    X = np.random.default_rng(0).normal(size=(30, 4))
    y = np.array(["yes", "no", None] * 10, object)
    with pytest.raises(ValueError, match="`y` must hold labels that can be put in order"):
        RobustClassifier(epochs=1).fit(X, y)


@pytest.mark.slow
def test_dates_are_labels_and_are_saved(tmp_path):
    X = np.random.default_rng(0).normal(size=(30, 4))
    y = np.array(["2021-03-01", "1969-12-31"], "datetime64[D]")[(X[:, 0] > 0).astype(int)]
    fitted = RobustClassifier(epochs=2).fit(X, y)
    fitted.save(tmp_path / "model")
    loaded = RobustClassifier.load(tmp_path / "model")
    assert loaded.classes_.dtype == y.dtype
    np.testing.assert_array_equal(loaded.classes_, np.unique(y))
    np.testing.assert_array_equal(loaded.predict(X), fitted.predict(X))


def test_samples_of_different_lengths():
    with pytest.raises(ValueError, match="`X` must hold samples of equal shape"):
        RobustClassifier().fit([[1.0, 2.0], [3.0]], [0, 1])


def test_too_few_samples_to_set_aside(data):
    y = np.arange(N) == 0
    with pytest.raises(ValueError, match=r"samples of each class .* got \[59, 1\] by class"):
        RobustClassifier(early_stopping=True).fit(data[0], y)


@pytest.mark.parametrize("times", [100.0, 0.01])
def test_samples_of_another_scale_are_warned_of(data, times):
    X, y = data
    with pytest.warns(UserWarning, match="root mean square of .* StandardScaler") as caught:
        RobustClassifier(**SHORT).fit(times * X, y)
    assert caught[0].filename == __file__


def test_samples_that_float32_cannot_square(data):
    with pytest.raises(ValueError, match="root mean square of at most"):
        RobustClassifier(**SHORT).fit(1e20 * data[0], data[1])


def other_mlp(shape, classes, key):
    return rsgda.robust.mlp((*shape, 7, classes), key=key)


@pytest.mark.slow
def test_what_is_set_after_a_fit_does_not_change_it(data, tmp_path):
    X, y = data
    X = (X - X.min()) / np.ptp(X)
    fitted = RobustClassifier(
        **SHORT, network=other_mlp, pixels=(-1.0, 1.0), box=(-1.0, 1.0), label_smoothing=0.2
    ).fit(X, y)
    chances, bound = fitted.predict_proba(X), fitted.certificate(X[:8], y[:8], 0.1, gamma=9.0).bound
    fitted.set_params(
        network="mlp", pixels=None, box=None, label_smoothing=0.0, loss="double_softmax", gamma=7.0
    )
    np.testing.assert_array_equal(fitted.predict_proba(X), chances)
    assert fitted.certificate(X[:8], y[:8], 0.1, gamma=9.0).bound == bound
    fitted.save(tmp_path)
    loaded = RobustClassifier.load(tmp_path, network=other_mlp)
    np.testing.assert_array_equal(loaded.predict_proba(X), chances)
    assert loaded.get_params()["pixels"] == (-1.0, 1.0)
    assert loaded.get_params()["gamma"] == 1.3


@pytest.mark.slow
def test_images_and_rows_are_not_mixed_up():
    images = np.random.default_rng(0).uniform(size=(24, 8, 8))
    with pytest.raises(ValueError, match=r"channels of images last, got \(24, 1, 8, 8\)"):
        RobustClassifier(**SHORT).fit(images[:, None], np.arange(24) % 2)
    fitted = RobustClassifier(**SHORT, pixels=(-1.0, 1.0)).fit(images, np.arange(24) % 2)
    with pytest.raises(ValueError, match=r"fitted on images, got \(24, 64\)"):
        fitted.predict(images.reshape(24, 64))
    # An adversary may leave the range of the pixels by a little; another scale does by far.
    assert fitted.predict(1.2 * images - 0.1).shape == (24,)
    with pytest.raises(ValueError, match=r"`X` must lie in \[0, 1\] where `pixels` is given"):
        fitted.predict(255 * images)
