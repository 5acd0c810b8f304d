"""The robust classifier: scikit-learn's contract, and what is its own."""

import copy
import io
import math
import subprocess
import sys
import time
import warnings

import jax
import jax.numpy as jnp
import jax.random as jr
import joblib
import numpy as np
import optax
import pytest
from sklearn import datasets
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import (
    GridSearchCV,
    StratifiedKFold,
    StratifiedShuffleSplit,
    train_test_split,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator, estimator_checks_generator

import rsgda
from rsgda.drive.checkpoint import Checkpoint
from rsgda.drive.solve import _advance
from rsgda.robust import RobustClassifier, presets, wrm
from rsgda.robust import classifier as classifier_module
from rsgda.robust.classifier_fit import Plain, Record, length
from rsgda.robust.classifier_network import ROWS, _forward

# One shape for most tests: what takes time is the compiler.
N, CLASSES = 60, 3
SHORT = {"epochs": 80, "batch_size": 32}


@pytest.fixture(scope="module")
def data():
    X, y = datasets.make_blobs(N, 4, centers=CLASSES, cluster_std=2.0, random_state=3)
    return StandardScaler().fit_transform(X), y


@pytest.fixture(scope="module")
def fitted(data):
    return RobustClassifier(**SHORT, p=0.25).fit(*data)


def same(one, other):
    return all(np.array_equal(a, b) for a, b in zip(one.coefs_, other.coefs_, strict=True))


# scikit-learn

# Each of these has a shape of its own to compile.
LONG = {
    "check_classifier_data_not_an_array", "check_classifiers_classes", "check_classifiers_train",
    "check_dont_overwrite_parameters", "check_dtype_object", "check_estimators_dtypes",
    "check_estimators_fit_returns_self", "check_estimators_nan_inf",
    "check_estimators_overwrite_params", "check_estimators_pickle",
    "check_f_contiguous_array_estimator", "check_fit2d_1feature", "check_fit_check_is_fitted",
    "check_fit_idempotent", "check_methods_sample_order_invariance",
    "check_methods_subset_invariance", "check_n_features_in", "check_n_features_in_after_fitting",
    "check_pipeline_consistency", "check_positive_only_tag_during_fit",
    "check_readonly_memmap_input",
}  # fmt: skip


def name(check):
    return getattr(check, "func", check).__name__


SHORT_CHECKS = [
    check
    for _, check in estimator_checks_generator(RobustClassifier(), mark=None)
    if name(check) not in LONG
]


# Some of their samples are large on purpose.
scale_is_no_news = pytest.mark.filterwarnings("ignore:`X` has a root mean square:UserWarning")


@scale_is_no_news
@pytest.mark.parametrize("check", SHORT_CHECKS, ids=name)
def test_scikit_learns_checks(check):
    check(RobustClassifier())


@pytest.mark.slow
@scale_is_no_news
def test_all_of_scikit_learns_checks():
    results = check_estimator(RobustClassifier(), on_skip=None)
    # What a check needs may not be installed; that is all that may keep it from passing.
    assert {result["status"] for result in results} <= {"passed", "skipped"}
    skipped = {result["check_name"] for result in results if result["status"] == "skipped"}
    assert skipped <= {"check_array_api_input", "check_classifier_data_not_an_array"}


@pytest.mark.slow
def test_search_in_a_pipeline_compiles_once(data):
    X, y = data
    grid = {
        "robustclassifier__gamma": [0.7, 2.6],
        "robustclassifier__alpha": [0.05, 0.2],
        "robustclassifier__p": [0.3, 0.5],
    }
    pipeline = make_pipeline(StandardScaler(), RobustClassifier(**SHORT, eta=2.0))
    before = _advance._cache_size(), _forward._cached._cache_size()
    search = GridSearchCV(pipeline, grid, cv=StratifiedKFold(2), refit=False, error_score="raise")
    search.fit(5 * X + 1, y)
    # Both folds have one size; the networks of `data` may have been compiled before.
    assert _advance._cache_size() <= before[0] + 1
    assert _forward._cached._cache_size() <= before[1] + 1
    assert search.best_score_ > 0.8
    assert len(set(search.cv_results_["mean_test_score"])) > 1  # the parameters arrive


def test_other_numbers_and_seeds_compile_nothing(data, fitted):
    before = _advance._cache_size()
    RobustClassifier(
        **SHORT | {"epochs": 3}, gamma=3.0, alpha=0.02, p=0.6, eta=1.0, label_smoothing=0.1,
        random_state=7,
    ).fit(*data)  # fmt: skip
    assert _advance._cache_size() == before


@pytest.mark.slow
def test_search_in_two_processes(data):
    search = GridSearchCV(RobustClassifier(**SHORT), {"gamma": [0.7, 2.6]}, cv=2, n_jobs=2)
    assert search.fit(*data).best_score_ > 0.8


def test_joblib_and_clone(data, fitted):
    file = io.BytesIO()
    joblib.dump(fitted, file)
    file.seek(0)
    np.testing.assert_array_equal(
        joblib.load(file).predict_proba(data[0]), fitted.predict_proba(data[0])
    )
    for preset in presets.values():
        assert clone(RobustClassifier(**preset)).get_params().keys() == fitted.get_params().keys()


@pytest.mark.parametrize(
    "labels",
    [["ham", "eggs", "spam"], [-7, 0, 3], [0.0, 1.0, 5.0], np.array(["b", "a", "c"], object)],
    ids=["str", "negative", "float", "object"],
)
def test_any_label(data, fitted, labels):
    X, y = data
    named = np.asarray(labels)[y]
    other = RobustClassifier(**SHORT, p=0.25).fit(X, named)
    assert other.classes_.tolist() == sorted(set(np.asarray(labels).tolist()))
    assert other.predict(X).dtype == named.dtype
    assert other.score(X, named) > 0.85
    if list(labels) == sorted(labels):  # then nothing but the names is another
        assert same(other, fitted)


# What it computes


def test_fit_is_rsgda_on_the_robust_problem(data):
    X, y = data[0].astype(np.float32), data[1]
    classifier = RobustClassifier(**SHORT, gamma=0.9, p=0.4, alpha=0.2).fit(X, y)
    key_start, key_run = jr.split(jr.key(np.random.RandomState(0).randint(2**31 - 1)))
    network = rsgda.robust.mlp((4, 64, 64, CLASSES), key=key_start)
    problem, theta, v = wrm(network, X, y, gamma=0.9, batch_size=32)
    result = rsgda.solve(
        problem, rsgda.RSGDA(p=0.4, alpha=0.2, eta=32 / (4 * 0.9)), theta, v, key=key_run,
        steps=classifier.n_iter_,
    )  # fmt: skip
    for got, wanted in zip(classifier.coefs_, jax.tree.leaves(result.theta), strict=True):
        np.testing.assert_array_equal(got, wanted)
    # The recorded objective is F of the problem at the end.
    F = problem.loss(result.theta, result.v, problem.data)
    np.testing.assert_allclose(classifier.history_["objective"][-1], F, rtol=1e-5)


def test_steps_are_found_where_nothing_is_said_of_them(data):
    X, y = data[0].astype(np.float32), data[1]
    classifier = RobustClassifier(**SHORT, gamma=0.9).fit(X, y)
    key_start, key_run = jr.split(jr.key(np.random.RandomState(0).randint(2**31 - 1)))
    network = rsgda.robust.mlp((4, 64, 64, CLASSES), key=key_start)
    problem, theta, v = wrm(network, X, y, gamma=0.9, batch_size=32)
    result = rsgda.solve(
        problem, rsgda.Auto(), theta, v, key=key_run, steps=classifier.n_iter_
    )  # fmt: skip
    for got, wanted in zip(classifier.coefs_, jax.tree.leaves(result.theta), strict=True):
        np.testing.assert_array_equal(got, wanted)
    # What is spent on looking around is part of the epochs.
    assert classifier.history_["epoch"][-1] == pytest.approx(80, abs=2)
    assert classifier.finds_steps
    for said in ({"p": 0.25}, {"alpha": 0.1}, {"eta": 9.0}, {"gamma": math.inf}):
        assert not RobustClassifier(**said).finds_steps
    assert not RobustClassifier(algorithm=rsgda.SGDA(alpha=0.1, eta=1.0)).finds_steps
    assert not RobustClassifier(per_batch=True).finds_steps


def test_history(fitted):
    history = fitted.history_
    assert all(isinstance(values, np.ndarray) for values in history.values())
    np.testing.assert_array_equal(history["gradients"], history["descents"] + history["ascents"])
    np.testing.assert_allclose(history["epoch"], history["gradients"] * 32 / N)
    assert history["epoch"][-1] == pytest.approx(80, abs=2)
    assert fitted.n_iter_ == history["step"][-1]
    assert fitted.status_ == "FINISHED"
    assert history["objective"][-1] < history["objective"][0] < 1.2


def test_robust_training_withstands_its_adversaries(data, plain, fitted):
    X, y = jnp.asarray(data[0], jnp.float32), data[1]

    @jax.jit
    def worst(network):
        def gain(v):
            logits = jax.nn.log_softmax(jax.vmap(network)(v))
            return -jnp.sum(logits[jnp.arange(N), y]) - jnp.float32(1.3) * jnp.sum((v - X) ** 2)

        step = lambda _, v: v + jnp.float32(0.1) * jax.grad(gain)(v)  # noqa: E731
        return gain(jax.lax.fori_loop(0, 200, step, X)) / N

    assert worst(fitted.network_) < worst(plain.network_)


@pytest.fixture(scope="module")
def plain(data):
    return RobustClassifier(**SHORT, gamma=math.inf).fit(*data)


def test_plain_training_has_the_same_descents(fitted, plain):
    np.testing.assert_array_equal(plain.history_["descents"], fitted.history_["descents"])
    np.testing.assert_array_equal(plain.history_["gradients"], fitted.history_["descents"])
    np.testing.assert_allclose(plain.history_["epoch"], plain.history_["descents"] * 32 / N)
    assert not plain.history_["ascents"].any()


def test_plain_training_by_hand(data):
    X, y = jnp.asarray(data[0], jnp.float32), data[1]
    network = rsgda.robust.mlp((4, 64, 64, CLASSES), key=jr.key(5))
    problem, theta, v = wrm(network, X, y, batch_size=32)
    algorithm, key, steps = Plain(p=0.25, alpha=0.2), jr.key(6), 30
    result = rsgda.solve(problem, algorithm, theta, v, key=key, steps=steps)

    @jax.jit
    def gradient(network, x, y):
        def mean(network):
            logits = jax.nn.log_softmax(jax.vmap(network)(x))
            return -jnp.mean(logits[jnp.arange(32), y])

        return jax.grad(mean)(network)

    for k in range(steps):
        coin, batch = jr.split(jr.fold_in(key, k))
        if jr.bernoulli(coin, jnp.asarray(0.25)):
            (rows,) = problem.draw(batch).arguments
            slope = gradient(network, rows["x"], rows["y"])
            network = jax.tree.map(lambda w, g: w - jnp.float32(0.2) * g, network, slope)
    for got, wanted in zip(jax.tree.leaves(result.theta), jax.tree.leaves(network), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=2e-5, atol=1e-6)
    np.testing.assert_array_equal(result.v, X)


def test_random_state(data, fitted):
    assert same(RobustClassifier(**SHORT, p=0.25).fit(*data), fitted)
    assert not same(RobustClassifier(**SHORT, p=0.25, random_state=1).fit(*data), fitted)


def test_predict_in_pieces(fitted):
    X = np.random.default_rng(0).normal(size=(2 * ROWS + 17, 4))
    logits = np.asarray(jax.vmap(fitted.network_)(jnp.asarray(X, jnp.float32)), np.float64)
    wanted = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    got = fitted.predict_proba(X)
    np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(got.sum(axis=1), 1, rtol=1e-14)
    np.testing.assert_array_equal(got[300:303], fitted.predict_proba(X[300:303]))
    np.testing.assert_array_equal(fitted.predict(X), fitted.classes_[got.argmax(axis=1)])


def test_a_fit_that_diverges(data):
    classifier = RobustClassifier(**SHORT, alpha=1e25)
    with pytest.warns(ConvergenceWarning, match="smaller `"):
        classifier.fit(*data)
    assert classifier.status_ == "DIVERGED"
    assert all(np.isfinite(coef).all() for coef in classifier.coefs_)
    assert classifier.predict(data[0]).shape == (N,)


def test_inputs_of_another_scale_do_not_diverge(data):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message="`X` has a root mean square")
        assert RobustClassifier(**SHORT).fit(300 * data[0] + 1000, data[1]).status_ == "FINISHED"


@pytest.mark.slow
def test_clipped_batch_moves_each_adversary_as_far(data):
    """A hundred samples' worth of step on sixty is that of sixty, however it is given."""
    run = lambda **given: RobustClassifier(epochs=4, alpha=0.1, p=0.25, **given).fit(*data)  # noqa: E731
    clipped, whole = {"batch_size": 120}, {"batch_size": N}
    wanted = run(**whole, eta=6.0)
    assert same(run(**clipped, eta=12.0), wanted)
    given = rsgda.RSGDA(p=0.25, alpha=0.1, eta=12.0)
    assert same(run(**clipped, algorithm=given), wanted)


@pytest.mark.slow
def test_clipped_batch_with_schedules_and_optimisers(data):
    run = lambda **given: RobustClassifier(epochs=4, alpha=0.1, p=0.25, **given).fit(*data)  # noqa: E731
    clipped, whole = {"batch_size": 120}, {"batch_size": N}
    wanted = run(**whole, eta=6.0)
    for eta in (optax.constant_schedule(12.0), optax.sgd(12.0)):
        found = run(**clipped, eta=eta)
        for got, coef in zip(found.coefs_, wanted.coefs_, strict=True):
            np.testing.assert_allclose(got, coef, rtol=1e-4, atol=1e-6)
    # One that does not look at the size of its gradients is left as it is.
    one, other = run(**clipped, eta=optax.adam(0.1)), run(**whole, eta=optax.adam(0.1))
    for got, coef in zip(one.coefs_, other.coefs_, strict=True):
        np.testing.assert_allclose(got, coef, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize(
    ("algorithm", "per_batch", "steps"),
    [
        (rsgda.RSGDA(p=0.25, alpha=0.1, eta=1.0), False, 10 * 100),
        (rsgda.RSGDA(p=0.25, alpha=0.1, eta=1.0), True, 10 * 400),
        (rsgda.SGDA(alpha=0.1, eta=1.0), False, 10 * 50),
        (rsgda.ESGDA(m=4, alpha=0.1, eta=1.0), False, 10 * 20),
        (rsgda.ESGDA(m=4, alpha=0.1, eta=1.0), True, 10 * 100),
        (Plain(p=0.25, alpha=0.1), False, 10 * 100),
    ],
    ids=lambda value: str(value) if isinstance(value, bool) else type(value).__name__,
)
def test_ten_epochs(algorithm, per_batch, steps):
    long = length(algorithm, 10, n=1_600, batch_size=16, per_batch=per_batch)
    assert long.steps == steps
    assert long.every == steps / 10


def test_small_sets_have_enough_epochs():
    algorithm = rsgda.RSGDA(alpha=0.1, eta=1.0)
    assert length(algorithm, None, n=100, batch_size=100, per_batch=False) == (500, 10)
    assert length(algorithm, None, n=1_280, batch_size=128, per_batch=False) == (3000, 60)
    assert length(algorithm, None, n=128_000, batch_size=128, per_batch=False) == (20_000, 1000)


@pytest.mark.slow
def test_adversaries_of_a_minibatch(data):
    algorithm = rsgda.ESGDA(m=3, alpha=optax.adam(0.01), eta=5.0)
    classifier = RobustClassifier(**SHORT | {"epochs": 50}, algorithm=algorithm, per_batch=True)
    classifier.fit(*data)
    assert classifier.score(*data) > 0.85
    np.testing.assert_array_equal(
        classifier.history_["ascents"], 3 * classifier.history_["descents"]
    )


# Early stopping and checkpoints

STOPPING = {**SHORT, "epochs": 400, "early_stopping": True, "validation_fraction": 0.3}


@pytest.fixture(scope="module")
def stopped(data):
    return RobustClassifier(**STOPPING, n_iter_no_change=4).fit(*data)


def test_early_stopping_keeps_the_best(data, stopped):
    X, y = data
    seen = stopped.history_["validation_accuracy"]
    assert stopped.status_ == "STOPPED"
    assert stopped.history_["epoch"][-1] < 350
    # The most that were right, and the lowest loss among equals.
    best = np.lexsort((-stopped.history_["validation_loss"], seen))[-1]
    assert len(seen) == best + 1 + 4
    assert best > np.argmax(seen)
    random = np.random.RandomState(0)
    random.randint(2**31 - 1)
    _, aside = train_test_split(np.arange(N), test_size=0.3, stratify=y, random_state=random)
    assert stopped.score(X[aside], y[aside]) == pytest.approx(seen.max())
    chances = stopped.predict_proba(X[aside])[np.arange(len(aside)), y[aside]]
    assert -np.mean(np.log(chances)) == pytest.approx(
        stopped.history_["validation_loss"][best], rel=1e-4
    )


def test_a_fit_is_continued(data, stopped, tmp_path, monkeypatch):
    record, seen = Record.__call__, []

    def fails(self, problem, state):
        seen.append(int(state.step))
        if len(seen) == 5:
            raise RuntimeError("the light went out")
        return record(self, problem, state)

    monkeypatch.setattr(Checkpoint, "due", lambda self: True)
    monkeypatch.setattr(Record, "__call__", fails)
    classifier = RobustClassifier(**STOPPING, n_iter_no_change=4, checkpoint=tmp_path)
    with pytest.raises(RuntimeError, match="light"):
        classifier.fit(*data)
    with pytest.raises(NotFittedError):
        classifier.predict(data[0])
    seen[:] = range(9)
    classifier.fit(*data)
    assert min(seen[10:]) >= 20  # it did not begin again
    assert same(classifier, stopped)
    assert classifier.status_ == stopped.status_
    for name, values in stopped.history_.items():
        np.testing.assert_array_equal(classifier.history_[name], values)
    for other in ({"n_iter_no_change": 5}, {"gamma": 2.0}):
        with pytest.raises(rsgda.CheckpointMismatch, match="another run"):
            clone(classifier).set_params(**other).fit(*data)


PROGRAM = """
import sys, time, numpy as np
from rsgda.drive.checkpoint import Checkpoint
from rsgda.robust.classifier_fit import Record
from rsgda.robust import RobustClassifier
record, (run, model) = Record.__call__, sys.argv[1:]
def slowly(self, problem, state):
    time.sleep(0.1)
    return record(self, problem, state)
Record.__call__, Checkpoint.due = slowly, lambda self: True
X = np.random.default_rng(0).normal(size=(80, 3))
y = X[:, 0] + X[:, 1] ** 2 > 1
RobustClassifier(epochs=900, checkpoint=run).fit(X, y).save(model)
"""


@pytest.mark.slow
def test_a_fit_that_was_killed_is_continued(tmp_path):
    def command(run, model):
        return [sys.executable, "-c", PROGRAM, str(tmp_path / run), str(tmp_path / model)]

    killed = subprocess.Popen(command("run", "model"))
    end = time.monotonic() + 200
    while not any(int(path.name) >= 100 for path in (tmp_path / "run").glob("[0-9]*[0-9]")):
        assert time.monotonic() < end
        assert killed.poll() is None
        time.sleep(0.01)
    killed.kill()
    killed.wait()
    assert not (tmp_path / "model").exists()
    subprocess.run(command("run", "model"), check=True)
    subprocess.run(command("other", "whole"), check=True)  # this one nobody kills
    continued = RobustClassifier.load(tmp_path / "model")
    straight = RobustClassifier.load(tmp_path / "whole")
    assert same(continued, straight)
    np.testing.assert_array_equal(continued.history_["objective"], straight.history_["objective"])


# Images


@pytest.mark.slow
def test_images(data):
    X, y = datasets.load_digits(n_class=3, return_X_y=True)
    X = (X[:N] / 16).reshape(-1, 8, 8)
    classifier = RobustClassifier(epochs=300, batch_size=32, pixels=(-1.0, 1.0)).fit(X, y[:N])
    assert classifier.network_name_ == "cnn"
    assert classifier.score(X, y[:N]) > 0.9
    np.testing.assert_array_equal(classifier.predict(X[..., None]), classifier.predict(X))
    # Inputs are mapped before they reach the network.
    logits = jax.vmap(classifier.network_)(jnp.asarray(2 * X[..., None] - 1, jnp.float32))
    np.testing.assert_array_equal(classifier.predict(X), np.argmax(logits, axis=1))
    with pytest.raises(ValueError, match=r"images of \(8, 8, 1\)"):
        classifier.predict(X[:, :7])
    with pytest.raises(ValueError, match="X / 255"):
        classifier.fit((255 * X).astype(np.uint8), y[:N])
    with pytest.raises(ValueError, match=r"`X` must lie in \[0, 1\]"):
        classifier.fit(2 * X, y[:N])


@pytest.mark.slow
@pytest.mark.parametrize("name", presets)
def test_presets(name):
    rng = np.random.default_rng(0)
    y = np.arange(40) % 10
    X = rng.uniform(0, 0.3, (40, 28, 28))
    X[np.arange(40), 2 * y, :] = 1  # a line at a height
    settings = presets[name] | {"epochs": 3}
    classifier = RobustClassifier(**settings).fit(X, y)
    assert classifier.status_ == "FINISHED"
    assert classifier.network_name_ == settings["network"]
    assert classifier.predict_proba(X).shape == (40, 10)


# The certificate, and what is refused


def test_certificate_is_asked_for_the_network_and_its_loss(fitted, monkeypatch):
    asked = {}
    monkeypatch.setattr(classifier_module, "certificate", lambda *a, **k: asked.update(k, a=a))
    X, y = np.random.default_rng(0).uniform(size=(5, 4)), np.array(["z", "x", "x", "y", "z"])
    named = copy.deepcopy(fitted)
    named.settings_ |= {"pixels": (-1.0, 1.0), "label_smoothing": 0.1, "box": (-1, 1)}
    named.classes_ = np.array(["x", "y", "z"])
    named.certificate(X, y, 0.3, tol=1e-2)
    network, samples, codes, rho = asked.pop("a")
    assert codes.tolist() == [2, 0, 0, 1, 2]
    assert rho == 0.3
    np.testing.assert_allclose(samples, 2 * X - 1, rtol=1e-5, atol=1e-6)
    for got, wanted in zip(jax.tree.leaves(network), fitted.coefs_, strict=True):
        np.testing.assert_array_equal(got, wanted)
    assert asked == {
        "gamma": None, "curvature": None, "loss": "cross_entropy", "label_smoothing": 0.1,
        "box": (-1, 1), "tol": 1e-2, "max_gradients": 1000, "progress": False,
    }  # fmt: skip
    with pytest.raises(ValueError, match="labels of"):
        named.certificate(X, np.array(["z", "x", "x", "y", "q"]), 0.1)


@pytest.mark.slow
def test_certificate(data, fitted):
    X, y = data
    found = fitted.certificate(X, y, [0.0, 0.3], gamma=8.0)
    assert found.bound[1] > found.bound[0] >= found.clean
    # Samples that are moved by this much in the mean do not come above it.
    rng = np.random.default_rng(0)
    for _ in range(20):
        moved = rng.normal(size=X.shape)
        moved *= np.sqrt(0.3 * N / np.sum(moved**2))
        chances = fitted.predict_proba(X + moved)[np.arange(N), y]
        assert -np.mean(np.log(chances)) <= found.bound[1]


# The defaults


def difference(name, seeds, splitter):
    """Clean accuracy of robust less that of plain training, on held-out samples, in points."""
    X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    scores = {1.3: [], math.inf: []}
    for seed in seeds:
        split = splitter(seed).split(X, y)
        for (train, test), (gamma, found) in ((s, g) for s in split for g in scores.items()):
            model = make_pipeline(
                StandardScaler(), RobustClassifier(gamma=gamma, random_state=seed)
            )
            found.append(100 * model.fit(X[train], y[train]).score(X[test], y[test]))
            assert model[-1].status_ == "FINISHED"
    return np.mean(scores[1.3]) - np.mean(scores[math.inf])


def halves(seed):
    return StratifiedShuffleSplit(1, test_size=0.5, random_state=seed)


def folds(seed):
    return StratifiedKFold(5, shuffle=True, random_state=seed)


def share_of_three_tenths(seed):
    return StratifiedShuffleSplit(3, test_size=0.3, random_state=seed)


@pytest.mark.slow
def test_defaults_are_good_on_one_set():
    assert difference("wine", [20, 21], halves) > -2


@pytest.mark.slow
@pytest.mark.parametrize("splitter", [folds, share_of_three_tenths])
@pytest.mark.parametrize(
    ("name", "seeds"),
    # One sample of iris is two thirds of a point of all.
    [("iris", 8), ("wine", 3), ("breast_cancer", 3), ("digits", 2)],
)
def test_defaults_are_good(name, seeds, splitter):
    assert difference(name, range(40, 40 + seeds), splitter) > -2


def test_all_names_are_listed():
    from rsgda import robust

    assert "RobustClassifier" in dir(robust)
    for name in robust.__all__:
        assert getattr(robust, name) is not None
