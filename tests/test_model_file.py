"""Saved classifiers: they come back as they were, and nothing else is let in."""

import hashlib
import io
import json
import pickle
import random
import zipfile

import equinox as eqx
import jax
import numpy as np
import optax
import pytest
from sklearn.base import clone

import rsgda
from rsgda import _model_file as model_file
from rsgda.robust import RobustClassifier

X = np.random.default_rng(0).normal(size=(24, 3))
Y = np.array(["left", "middle", "right"])[np.digitize(X[:, 0] + X[:, 1], [-0.5, 0.5])]


def tiny(shape, classes, key):
    return rsgda.robust.mlp((*shape, 5, classes), key=key)


@pytest.fixture(scope="module")
def fitted():
    return RobustClassifier(network=tiny, epochs=20, gamma=2.0, box=(-9.0, 9.0)).fit(X, Y)


@pytest.fixture(scope="module")
def mlp(fitted):
    """One whose network has a name; what it was trained to is of no importance here."""
    classifier = clone(fitted).set_params(network="auto")
    classifier.__dict__ |= {name: v for name, v in vars(fitted).items() if name.endswith("_")}
    classifier.network_name_ = "mlp"
    classifier.settings_ = {**fitted.settings_, "network": "auto"}
    rng = np.random.default_rng(1)
    sizes = [(64, 3), (64,), (64, 64), (64,), (3, 64), (3,)]
    classifier.coefs_ = [rng.normal(size=size).astype(np.float32) for size in sizes]
    return classifier


def as_if_fitted_with(classifier, **parameters):
    other = clone(classifier).set_params(**parameters)
    other.__dict__ |= {name: v for name, v in vars(classifier).items() if name.endswith("_")}
    other.settings_ = {name: getattr(other, name) for name in classifier.settings_}
    return other


def some_loss(logits, label, label_smoothing):
    return rsgda.robust.cross_entropy(logits, label, label_smoothing)


def equal(one, other):
    return (
        str(one.get_params()) == str(other.get_params())
        and one.classes_.tolist() == other.classes_.tolist()
        and all(a.tobytes() == b.tobytes() for a, b in zip(one.coefs_, other.coefs_, strict=True))
        and all(np.array_equal(one.history_[n], other.history_[n]) for n in one.history_)
        and (one.n_iter_, one.status_, one.shape_) == (other.n_iter_, other.status_, other.shape_)
    )


def test_there_and_back(mlp, tmp_path):
    mlp.save(tmp_path / "a" / "model")
    loaded = RobustClassifier.load(str(tmp_path / "a" / "model"))
    np.testing.assert_array_equal(loaded.predict_proba(X), mlp.predict_proba(X))
    assert loaded.classes_.dtype == mlp.classes_.dtype
    assert loaded.n_features_in_ == 3
    assert {values.dtype for values in loaded.history_.values()} == {
        values.dtype for values in mlp.history_.values()
    }
    assert equal(loaded, mlp)
    assert not hasattr(loaded, "feature_names_in_")


@pytest.mark.parametrize(
    "classes",
    [
        np.array([False, True]),
        np.array([-3, 0, 2**60]),
        np.array([0.0, 1.0, 7.0], np.float32),
        np.array(["ä", "b\x00c", "c"], "U9"),
        np.array(["x", "y"], object),
        np.array([3, 9], np.uint8),
    ],
    ids=lambda classes: classes.dtype.str,
)
def test_labels_come_back(mlp, classes, tmp_path):
    classifier = clone(mlp)
    classifier.__dict__ |= {name: v for name, v in vars(mlp).items() if name.endswith("_")}
    classifier.classes_ = classes
    classifier.coefs_ = [*mlp.coefs_[:4], *[coef[: len(classes)] for coef in mlp.coefs_[4:]]]
    classifier.feature_names_in_ = np.array(["a", "b", "é"], object)
    classifier.save(tmp_path)
    loaded = RobustClassifier.load(tmp_path)
    assert loaded.classes_.dtype == classes.dtype
    assert loaded.classes_.tolist() == classes.tolist()
    assert loaded.feature_names_in_.tolist() == ["a", "b", "é"]


@pytest.mark.parametrize(
    ("parameters", "wanted"),
    [
        ({"gamma": float("inf"), "alpha": np.float64(0.5)}, {"gamma": float("inf"), "alpha": 0.5}),
        ({"algorithm": rsgda.ESGDA(m=3, alpha=0.1, eta=2.0)}, None),
        ({"algorithm": rsgda.SGDmax(delta=0.1, alpha=0.1, eta=2.0)}, None),
        ({"pixels": (0.0, 1.0), "loss": "double_softmax", "random_state": None}, None),
    ],
)
def test_parameters_come_back(mlp, parameters, wanted, tmp_path):
    as_if_fitted_with(mlp, **parameters).save(tmp_path)
    loaded = RobustClassifier.load(tmp_path).get_params()
    assert {name: loaded[name] for name in parameters} == (wanted or parameters)


def test_what_is_no_plain_data_is_named(mlp, tmp_path):
    algorithm = rsgda.ESGDA(m=15, alpha=optax.adam(1e-3), eta=1.0)
    as_if_fitted_with(mlp, algorithm=algorithm, loss=some_loss).save(tmp_path)
    loaded = RobustClassifier.load(tmp_path)
    np.testing.assert_array_equal(loaded.predict(X), mlp.predict(X))
    with pytest.raises(ValueError, match=r"`algorithm` must be .* got 'ESGDA\(m=15"):
        loaded.fit(X, Y)
    # Another loss than that of the fit is not certified in silence.
    with pytest.raises(ValueError, match=r"`loss` must be .* got 'some_loss'"):
        loaded.certificate(X, Y, 0.1)


def test_network_of_a_function(fitted, mlp, tmp_path):
    fitted.save(tmp_path / "own")
    with pytest.raises(ValueError, match="function 'tiny'; give it as `network`"):
        RobustClassifier.load(tmp_path / "own")
    loaded = RobustClassifier.load(tmp_path / "own", network=tiny)
    np.testing.assert_array_equal(loaded.predict_proba(X), fitted.predict_proba(X))
    mlp.save(tmp_path / "named")
    with pytest.raises(ValueError, match="`network` is for"):
        RobustClassifier.load(tmp_path / "named", network=tiny)


def test_unfitted(tmp_path):
    with pytest.raises(ValueError, match="not fitted"):
        RobustClassifier().save(tmp_path / "model")
    assert not (tmp_path / "model").exists()


# Where it is written


def test_a_model_is_replaced_whole_or_not_at_all(mlp, fitted, tmp_path, monkeypatch):
    mlp.save(tmp_path)
    write = model_file._write_aside

    def fails(file, content):
        if file.name == model_file.NOTE:
            raise OSError("no space left on device")
        write(file, content)

    monkeypatch.setattr(model_file, "_write_aside", fails)
    with pytest.raises(OSError, match="no space"):
        fitted.save(tmp_path)
    assert equal(RobustClassifier.load(tmp_path), mlp)
    monkeypatch.undo()
    fitted.save(tmp_path)
    assert equal(RobustClassifier.load(tmp_path, network=tiny), fitted)
    assert len(list(tmp_path.iterdir())) == 2  # nothing is left of the other


def test_other_folders_are_left_alone(mlp, tmp_path):
    (tmp_path / "thesis.tex").write_text("all I have")
    with pytest.raises(ValueError, match="new or empty folder"):
        mlp.save(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]
    with pytest.raises(ValueError, match="is a file"):
        mlp.save(tmp_path / "thesis.tex")


# What is refused


@pytest.fixture(scope="module")
def saved(mlp, tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved")
    mlp.save(folder)
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def load(tmp_path):
    """Write files and load them."""

    def loads(files):
        for path in tmp_path.iterdir():
            path.unlink()
        for name, content in files.items():
            (tmp_path / name).write_bytes(content)
        return RobustClassifier.load(tmp_path)

    return loads


def signed(saved, change, weights=None):
    """Files as somebody would make them who knows the format, hashes and all."""
    note = json.loads(saved[model_file.NOTE])
    name = note["model"]["weights"]["file"]
    content = saved[name] if weights is None else weights
    note["model"]["weights"] |= {
        "bytes": len(content),
        "sha256": hashlib.sha256(content).hexdigest(),
    }
    change(note)
    note["sha256"] = model_file._digest(note["model"])
    return {model_file.NOTE: json.dumps(note).encode(), name: content}


def nothing(note):
    pass


def test_signed_files_are_let_in(saved, load, mlp):
    assert equal(load(signed(saved, nothing)), mlp)


def test_missing(load, saved, tmp_path):
    with pytest.raises(ValueError, match="is none"):
        RobustClassifier.load(tmp_path / "nowhere")
    for name in saved:
        with pytest.raises(ValueError, match="no such file"):
            load({other: content for other, content in saved.items() if other != name})
    for path in (3, "", None):
        with pytest.raises(ValueError, match="`path` must be the path"):
            RobustClassifier.load(path)


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"[]", b"null", b'{"format": "other"}', b"\xff\xfe", b"[" * 100_000]
)
def test_foreign_json(load, saved, content):
    with pytest.raises(ValueError, match=r"damaged|not that of a saved classifier"):
        load(saved | {model_file.NOTE: content})


def test_newer(load, saved):
    with pytest.raises(ValueError, match="newer rsgda"):
        load(signed(saved, lambda note: note.update(version=2)))


@pytest.mark.parametrize(
    "change",
    [
        lambda model: model["shape"].__setitem__(0, 10**9),
        lambda model: model["shape"].__setitem__(0, -3),
        lambda model: model.update(shape=[10**9, 10**9, 10**9]),
        lambda model: model.update(shape="3"),
        lambda model: model["classes"].update(dtype="<U999999999"),
        lambda model: model["classes"].update(dtype="<i8"),
        lambda model: model["classes"].update(values=["left", "left", "right"]),
        lambda model: model["classes"].update(values=[["left"], "middle", "right"]),
        lambda model: model["classes"].update(values=["left"]),
        lambda model: model["parameters"].update(__class__="os.system"),
        lambda model: model["parameters"].update(algorithm={"algorithm": "system"}),
        lambda model: model["parameters"].update(pixels=[1, 0]),
        lambda model: model["fitted"].update(network_name_="os"),
        lambda model: model["fitted"].update(n_iter_="many"),
        lambda model: model.pop("fitted"),
        lambda model: model.update(feature_names=[1]),
        lambda model: model["weights"].update(file="../../etc/passwd"),
        lambda model: model["weights"].update(file=7),
        lambda model: model["weights"].update(bytes=-1),
        lambda model: model.pop("weights"),
    ],
)
def test_wrong_content(load, saved, change):
    with pytest.raises(ValueError, match=r"model\.json|weights|classifier of this version"):
        load(signed(saved, lambda note: change(note["model"])))


def packed(**arrays):
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def bomb(coefs):
    file = io.BytesIO()
    np.savez_compressed(file, **coefs | {"history.x": np.zeros(10**6)})
    return file.getvalue()


def lying(coefs):
    """An array that claims to be larger than memory."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, coef in coefs.items():
            member = io.BytesIO()
            np.save(member, coef)
            archive.writestr(f"{name}.npy", member.getvalue())
        header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (999999999999,), }\n"
        start = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little")
        archive.writestr("history.x.npy", start + header)
    return file.getvalue()


class Evil:
    def __reduce__(self):
        return pytest.fail, ("it was unpickled",)


@pytest.mark.parametrize(
    "make",
    [
        lambda coefs: b"not an archive",
        lambda coefs: packed(**{name: coef for name, coef in coefs.items() if name != "coef.2"}),
        lambda coefs: packed(**coefs | {"coef.0": np.zeros((64, 4), np.float32)}),
        lambda coefs: packed(**coefs | {"coef.0": coefs["coef.0"].astype(np.float64)}),
        lambda coefs: packed(**coefs | {"coef.6": np.zeros(3, np.float32)}),
        lambda coefs: packed(**coefs | {"history.x": np.array([Evil()], object)}),
        lambda coefs: packed(**coefs | {"coef.0": np.asfortranarray(coefs["coef.0"])}),
        lambda coefs: pickle.dumps(Evil()),
        bomb,
        lying,
    ],
)
def test_wrong_weights(load, saved, mlp, make):
    coefs = {f"coef.{i}": coef for i, coef in enumerate(mlp.coefs_)}
    with pytest.raises(ValueError, match="does not hold the weights"):
        load(signed(saved, nothing, make(coefs)))


def damaged(rng, content):
    """Return content with bits, bytes or whole parts that are not as they were."""
    content = bytearray(content)
    place = rng.randrange(len(content))
    kind = rng.randrange(6)
    if kind == 0:
        content[place] ^= 1 << rng.randrange(8)
    elif kind == 1:
        del content[place:]
    elif kind == 2:
        content[place:place] = rng.randbytes(rng.randint(1, 40))
    elif kind == 3:
        del content[place : place + rng.randint(1, 40)]
    elif kind == 4:
        content[place : place + 8] = bytes(8)
    else:
        other = rng.randrange(len(content))
        content[place : place + 20], content[other : other + 20] = (
            content[other : other + 20],
            content[place : place + 20],
        )
    return bytes(content)


def test_damaged_files_are_refused(load, saved, mlp):
    rng, refused = random.Random(0), 0
    for _ in range(600):
        name = rng.choice(sorted(saved))
        try:
            loaded = load(saved | {name: damaged(rng, saved[name])})
        except ValueError:
            refused += 1
        else:
            assert equal(loaded, mlp)  # a space more or less in the JSON does no harm
    assert refused > 500


def test_signed_nonsense_is_refused(load, saved):
    """Damage with the right hashes, as it gets past the first look."""
    rng = random.Random(1)
    (name,) = set(saved) - {model_file.NOTE}
    for _ in range(300):
        try:
            loaded = load(signed(saved, nothing, damaged(rng, saved[name])))
        except ValueError:
            continue
        shapes = [coef.shape for coef in loaded.coefs_]
        assert shapes == [(64, 3), (64,), (64, 64), (64,), (3, 64), (3,)]


def swapped(shape, classes, key):
    """Make a network with the weights of `tiny` and another function between them."""
    first, last = tiny(shape, classes, key).layers
    return eqx.nn.Sequential([first, eqx.nn.Lambda(jax.nn.relu), last])


def test_a_network_that_computes_something_else_is_refused(fitted, tmp_path):
    fitted.save(tmp_path)
    with pytest.raises(ValueError, match="does not compute what it did when it was saved"):
        RobustClassifier.load(tmp_path, network=swapped)
