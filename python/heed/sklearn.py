"""Estimators of scikit-learn over sequences: SequenceClassifier and SequenceRegressor.

fit runs `heed train` in its own process; predict uses heed.open_model. This module imports scikit-learn.
"""

from __future__ import annotations

import numbers
import os
import pathlib
import tempfile
from typing import Any

import numpy

try:
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
    from sklearn.utils import check_array, check_random_state
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError as error:
    raise ImportError(f"heed.sklearn needs scikit-learn 1.6 or newer: pip install scikit-learn ({error})") from error

from . import _data_files, _laboratory
from .models import Answers, TableModel, open_model

__all__ = ["SequenceClassifier", "SequenceRegressor"]


class _SequenceEstimator(BaseEstimator):  # type: ignore[misc]
    n_features_in_: int
    """Features of a step; for a table [rows, steps] its steps, as scikit-learn counts features."""
    files_: dict[str, bytes]
    """Contents of the files that `heed train` wrote, by name. A pickle holds them, and unpickling opens them anew."""
    _goal: str

    def __init__(
        self,
        encoder: str = "attention",
        position: str | None = None,
        *,
        layers: int | None = None,
        heads: int | None = None,
        width: int | None = None,
        batch: int | None = None,
        steps: int | None = None,
        lr: float | None = None,
        longest: int | None = None,
        validation_share: float = 0.1,
        threads: int | None = None,
        random_state: Any = 0,
    ) -> None:
        """Arguments are options of `heed train` (`heed train --help`); None means its default.

        encoder           attention, convolution, dilated, rnn, gru, lstm ..
        position          positional scheme of attention: learned, rotary, relative ..
        layers, heads,
        width, batch      sizes
        steps, lr         of the training, and its learning rate
        longest           read only the last so many steps of longer sequences
        validation_share  share of the rows that choose the best state of the training; as many again test it, and the rest
                          trains
        threads           of the training; None: as many as this process may use
        random_state      an integer is --seed; with None or a RandomState fit draws one
        """
        self.__dict__.update({name: value for name, value in locals().items() if name != "self"})

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.input_tags.allow_nan = True
        return tags

    def _train(self, X: Any, labels: Any) -> None:
        """X: from _fitted_to. labels: numbers [rows]."""
        options = self.get_params(deep=False)
        state = options.pop("random_state")
        options["seed"] = state if isinstance(state, numbers.Integral) else check_random_state(state).randint(2**31 - 1)
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            data = _data_files.save_array(folder / "X.npy", X)
            options |= {"target": _data_files.save_array(folder / "y.npy", labels), "goal": self._goal, "out": folder / "model"}
            _laboratory.run(["train", str(data), *_laboratory.words_of(options), "--quiet"], show=False)
            self.files_ = {path.name: path.read_bytes() for path in sorted((folder / "model").iterdir())}
        self._open()

    def _open(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            self.save(pathlib.Path(name) / "model")
            model = open_model(pathlib.Path(name) / "model")
        assert isinstance(model, TableModel)
        self._model = model

    def _fitted_to(self, X: Any, y: Any) -> tuple[Any, Any]:
        """(X, y), checked, X as [rows, steps, features]; a table [rows, steps] has one feature."""
        self._extents = 3 if numpy.asarray(X).ndim == 3 else 2
        # One row to train, one to validate, one to test; NaN is a gap.
        rules: dict[str, Any] = {"ensure_min_samples": 3, "ensure_all_finite": "allow-nan"}
        rules["y_numeric"] = self._goal == "regression"
        if self._extents == 2:
            return tuple(validate_data(self, X, y, dtype=numpy.float64, **rules))
        X = check_array(X, dtype=numpy.float64, allow_nd=True, ensure_all_finite="allow-nan")
        _, y = validate_data(self, X.reshape(len(X), -1), y, **rules)
        self.n_features_in_ = X.shape[2]
        return X, y

    def _checked(self, X: Any) -> Any:
        """X for predict, checked: shaped as in fit, except for rows and, with three dimensions, steps."""
        if self._extents == 2:
            return validate_data(self, X, dtype=numpy.float64, reset=False, ensure_all_finite="allow-nan")
        X = check_array(X, dtype=numpy.float64, allow_nd=True, ensure_all_finite="allow-nan")
        if X.ndim != 3 or X.shape[2] != self.n_features_in_:
            raise ValueError(f"X: expected [rows, steps, {self.n_features_in_}] as in fit, got shape {list(X.shape)}")
        return X

    def _answers(self, X: Any) -> Answers:
        check_is_fitted(self)
        return self._model.predict(self._checked(X))

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Writes the model's folder, for `heed predict` and heed.open_model. There classes that are no whole numbers are
        named by their index in classes_. FileExistsError if the folder exists."""
        check_is_fitted(self)
        path = pathlib.Path(folder)
        path.mkdir(parents=True)
        for name, content in self.files_.items():
            (path / name).write_bytes(content)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in super().__getstate__().items() if name != "_model"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if hasattr(self, "files_"):
            self._open()


class SequenceClassifier(ClassifierMixin, _SequenceEstimator):  # type: ignore[misc]
    """Predicts the class of each sequence of X [rows, steps, features] with the encoder that you name.

        SequenceClassifier("gru", steps=500).fit(X, y).predict_proba(X)

    A table X [rows, steps] holds sequences of one feature. predict also takes other numbers of steps than fit, except for a
    table. NaN is a missing value: the last value before fills the gap, and an additional input marks it. predict raises
    ValueError for NaN in a feature that had none in fit.
    """

    classes_: numpy.typing.NDArray[Any]
    """[classes], sorted."""
    _goal = "classification"

    def fit(self, X: Any, y: Any) -> SequenceClassifier:
        """X: numbers [rows, steps, features] or [rows, steps]. y: classes [rows], two or more. ValueError for other arrays, and,
        with the message of `heed train`, for options that it refuses."""
        X, y = self._fitted_to(X, y)
        check_classification_targets(y)
        self.classes_, places = numpy.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"y: expected two classes or more, got 1 class, {self.classes_[0]!r}")
        self._train(X, y if y.dtype.kind in "iu" else places)
        return self

    def predict_proba(self, X: Any) -> numpy.typing.NDArray[numpy.float64]:
        """Probabilities [rows, classes], in the order of classes_."""
        probabilities = self._answers(X).probabilities
        assert probabilities is not None
        return probabilities

    def predict(self, X: Any) -> numpy.typing.NDArray[Any]:
        """The most probable class of each row."""
        places = self.predict_proba(X).argmax(1)
        answers: numpy.typing.NDArray[Any] = self.classes_[places]
        return answers


class SequenceRegressor(RegressorMixin, _SequenceEstimator):  # type: ignore[misc]
    """Predicts a number for each sequence of X [rows, steps, features]; see SequenceClassifier.

        SequenceRegressor("gru", steps=500).fit(X, y).predict(X)
    """

    _goal = "regression"

    def fit(self, X: Any, y: Any) -> SequenceRegressor:
        """X: numbers [rows, steps, features] or [rows, steps]. y: numbers [rows]. ValueError for other arrays, and, with the
        message of `heed train`, for options that it refuses."""
        X, y = self._fitted_to(X, y)
        self._train(X, y)
        return self

    def predict(self, X: Any) -> numpy.typing.NDArray[numpy.float64]:
        """The predicted number of each row."""
        values = self._answers(X).values
        assert values is not None
        return values
