"""heed.sklearn: scikit-learn's own checks, and sequences in its tools."""

import pickle
import sys

import numpy
import pytest

import heed

pytest.importorskip("sklearn")

from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import parametrize_with_checks

from heed import _laboratory
from heed.sklearn import SequenceClassifier, SequenceRegressor

SMALL = {"layers": 1, "width": 16, "lr": 0.01, "threads": 1}


def sequences(rows=40, steps=5):
    random = numpy.random.default_rng(2)
    y = numpy.arange(rows) % 2
    return random.normal(size=(rows, steps, 3)) + 2 * y[:, None, None], y


# Networks compute in float32, and sums over batches of other sizes are rounded elsewhere: by up to 2e-7, where the check allows 1e-7.
ROUNDED = {"check_methods_subset_invariance": "rows of other batches differ by rounding"}


@parametrize_with_checks(
    [SequenceClassifier(steps=100, **SMALL), SequenceRegressor(steps=100, **SMALL)], expected_failed_checks=lambda estimator: ROUNDED
)
def test_scikit_learns_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def fitted():
    return SequenceClassifier("gru", steps=60, **SMALL).fit(*sequences())


def test_it_answers_as_the_kept_folder_does(fitted, tmp_path):
    X, y = sequences()
    fitted.save(tmp_path / "model")
    told = heed.open_model(tmp_path / "model").predict(X)
    numpy.testing.assert_array_equal(fitted.predict_proba(X), told.probabilities)
    assert fitted.score(X, y) > 0.9 and fitted.predict(X).dtype == y.dtype
    assert told.form.classes == ("0", "1") and fitted.n_features_in_ == 3
    with pytest.raises(FileExistsError):
        fitted.save(tmp_path / "model")


def test_it_is_heed_train(fitted, tmp_path):
    """The same options give the same bits in the shell."""
    X, y = sequences()
    numpy.save(tmp_path / "X.npy", X)
    numpy.save(tmp_path / "y.npy", y)
    options = SMALL | {"encoder": "gru", "steps": 60, "validation_share": 0.1, "target": tmp_path / "y.npy", "out": tmp_path / "model"}
    _laboratory.run(["train", str(tmp_path / "X.npy"), *_laboratory.words_of(options)], show=False)
    assert (tmp_path / "model/model.safetensors").read_bytes() == fitted.files_["model.safetensors"]


def test_a_pickle_holds_the_folder(fitted):
    X, _ = sequences()
    again = pickle.loads(pickle.dumps(fitted))
    assert again.files_.keys() == {"config.json", "model.safetensors", "split.csv"}
    assert b"torch" not in pickle.dumps(fitted)
    numpy.testing.assert_array_equal(again.predict_proba(X), fitted.predict_proba(X))
    assert pickle.loads(pickle.dumps(clone(fitted))).get_params() == fitted.get_params()
    assert not hasattr(clone(fitted), "files_")


def test_other_lengths_are_answered_and_other_features_refused(fitted):
    X, _ = sequences(steps=9)
    assert fitted.predict(X[:2]).shape == (2,)
    with pytest.raises(ValueError, match=r"X: expected \[rows, steps, 3\] as in fit, got shape \[40, 9, 2\]"):
        fitted.predict(X[:, :, :2])
    with pytest.raises(ValueError, match=r"got shape \[40, 9\]"):
        fitted.predict(X[:, :, 0])
    with pytest.raises(ValueError, match="sequence '0', step 0, column 'feature 0': nan is not a finite number; fill it in, or train on data with gaps"):
        fitted.predict(numpy.full((1, 5, 3), numpy.nan))
    with pytest.raises(ValueError, match="infinity"):
        fitted.predict(numpy.full((1, 5, 3), numpy.inf))


def test_nan_is_a_gap():
    X, y = sequences()
    X[::4, 1, 2] = numpy.nan
    model = SequenceClassifier("gru", steps=60, **SMALL).fit(X, y)
    with pytest.warns(UserWarning, match="'feature 2' lacks 10 of 200 values, the first in row 0, step 1"):
        assert model.score(X, y) > 0.9
    assert model._model.form.gaps == ("feature 2",)


def test_what_heed_train_refuses_is_a_value_error():
    with pytest.raises(ValueError, match="encoder: 'gro' is unknown"):
        SequenceClassifier("gro", **SMALL).fit(*sequences())
    with pytest.raises(ValueError, match="got 1 class"):
        SequenceClassifier(**SMALL).fit(sequences()[0], numpy.zeros(40))


def test_parameters_are_options_of_heed_train():
    names = SequenceClassifier().get_params().keys() - {"random_state"}
    _laboratory.require_options("train", names, ())
    assert SequenceRegressor().get_params().keys() - {"random_state"} == names


def test_in_a_pipeline_a_search_and_cross_validation():
    X, y = sequences()
    model = make_pipeline(FunctionTransformer(numpy.tanh), SequenceClassifier("gru", steps=40, **SMALL))
    labels = numpy.array(["no", "yes"])[y]
    assert cross_val_score(model, X, labels, cv=2).min() > 0.8
    search = GridSearchCV(model, {"sequenceclassifier__encoder": ["gru", "convolution"]}, cv=2).fit(X, labels)
    assert search.best_score_ > 0.8 and set(search.predict(X[:4])) <= {"no", "yes"}


def test_numbers_of_sequences():
    X, _ = sequences(80)
    y = X.mean((1, 2)) * 100 - 7
    model = SequenceRegressor("convolution", steps=150, **SMALL).fit(X, y)
    assert model.score(X, y) > 0.9
    numpy.testing.assert_allclose(model.predict(X[:3]), model.predict(X)[:3], rtol=1e-4)


def test_without_scikit_learn_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn", None)
    for name in [name for name in sys.modules if name.startswith("sklearn.")] + ["heed.sklearn"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delattr(heed, "sklearn")
    with pytest.raises(ImportError, match="pip install scikit-learn"):
        heed.sklearn  # noqa: B018
