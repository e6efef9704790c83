"""heed.study: runs `heed study` on a frame, an array or a file."""

from __future__ import annotations

import functools
import html
import importlib
import importlib.util
import json
import os
import pathlib
from typing import Any

from . import _data_files, _laboratory
from .models import CountsModel, TableModel, TextModel, open_model

_RESERVED = ("out", "target", "json", "help", "dry-run")  # of the program's options those that this function answers itself


class Report(str):
    """The path of a study's page; a notebook shows the page itself."""

    def _repr_html_(self) -> str:
        page = html.escape(pathlib.Path(self).read_text(encoding="utf-8"))
        return f'<iframe srcdoc="{page}" style="width: 100%; height: 48em; border: 0"></iframe>'


class StudyResult:
    """The result of heed.study; print shows its answer."""

    answer: str
    """The first sentences of the page: whether a model is worth training, and which one."""
    conclusion: dict[str, str]
    """The page's answers by its questions: "Which model?", "How far are they apart?"."""
    table: Any
    """A row for each model, the best first, then the simple ones: model, standing, loss (on the test part; of a stopped model on
    the validation part), gap to the best with its 95 % interval from gap_low to gap_high, may_lose, accuracy of classes,
    parameters, runs; with several objectives first the task. A frame of the data's library; for other data of pandas or, without
    it, polars; without both a list of dictionaries."""
    report: Report
    """The page."""

    def __init__(self, folder: str | os.PathLike[str], library: str = "") -> None:
        """folder: of a finished study. library: of its frames, "pandas" or "polars"; empty: the installed one."""
        self._folder, self._library = pathlib.Path(folder), library
        study = json.loads((self._folder / "study.json").read_text(encoding="utf-8"))
        self.answer = study["answer"]
        self.conclusion = {part["question"]: part["answer"] for part in study["conclusion"]}
        self.table = self._frame(_rows_of(study))
        self.report = Report(self._folder / "report.html")

    def __repr__(self) -> str:
        return f"{self.answer}\n{self.report}"

    @functools.cached_property
    def best(self) -> TableModel | TextModel | CountsModel:
        """The recommended model: heed.open_model of the folder `model`."""
        return open_model(self._folder / "model")

    def predict(self, data: Any, *, lengths: Any = None, times: Any = None, new_categories: str = "refuse") -> Any:
        """The table of `heed predict` for new data, as a frame: classes with their probabilities, or values from low to high.

        Takes the arguments and raises the warnings and errors of heed.models.TableModel.predict; a pandas frame may have the time
        or the sequence as its index. TypeError after the study of a text: call best.generate(prompt, characters) instead.
        """
        model = self.best
        if not isinstance(model, TableModel):
            raise TypeError("predict: the study was of a text; call best.generate(prompt, characters)")
        data = _data_files.with_index(data, (model.form.sequence, model.form.time))
        columns = model.predict(data, lengths=lengths, times=times, new_categories=new_categories).columns()
        library = _data_files.library_of(data)
        rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        return self._frame(rows, library if library in ("pandas", "polars") else "")

    def _frame(self, rows: list[dict[str, Any]], library: str = "") -> Any:
        asked = library or self._library
        for name in (asked,) if asked in ("pandas", "polars") else ("pandas", "polars"):
            if importlib.util.find_spec(name) is not None:
                # Of all rows, as the first ones may lack what later ones have.
                told = {"infer_schema_length": None} if name == "polars" else {}
                return importlib.import_module(name).DataFrame(rows, **told)
        return rows


def _rows_of(study: dict[str, Any]) -> list[dict[str, Any]]:
    rows = []
    for task in study["tasks"]:
        built = {one["model"]: one for one in task["models"]}
        for judged in task["verdict"]:
            one = built[judged["model"]]
            rows.append(
                {name: judged[name] for name in ("model", "standing", "loss", "gap")}
                | {f"gap_{end}": judged["gap_by_both"][end] for end in ("low", "high")}
                | {"may_lose": judged["may_lose"], "accuracy": (one.get("accuracy") or {}).get("mean")}
                | {"parameters": one["parameters"], "runs": len(one["runs"]), "task": task["task"]}
            )
        for simple in sorted(task["baselines"], key=lambda one: float(one["loss"])):
            told = {"model": simple["name"], "standing": "simple", "loss": simple["loss"], "accuracy": simple.get("accuracy")}
            rows.append(told | {"task": task["task"]})
    names = ("task", "model", "standing", "loss", "gap", "gap_low", "gap_high", "may_lose", "accuracy", "parameters", "runs")
    kept = [name for name in names if any(row.get(name) is not None for row in rows)][len(study["tasks"]) == 1 :]
    return [{name: row.get(name) for name in kept} for row in rows]


def study(data: Any, target: Any = None, *, out: str | os.PathLike[str] = "report", **options: Any) -> StudyResult:
    """Finds the encoder and positional encoding that suit your sequences, and whether any model pays, by `heed study`:

        result = heed.study(frame, "label", sequence="walk", time="seconds", budget="quick")
        result.answer, result.table, result.report, result.predict(later)

    data      a frame of pandas or polars, or a mapping of columns, a row a step; an array [rows, steps, features] or [rows,
              steps], a row a sequence; the path of a CSV file (.gz too), of NPY, of Parquet (needs pyarrow), or of a text
    target    the column to predict, or with goal="forecast" a list of columns, whose models then are in model/, model-2/ and so
              on; for an array its labels [rows] or [rows, steps]. None: a text's next character, or with
              goal="forecast" the next values of an array's last feature
    out       folder of the page, its numbers and the model; also of a frame or an array, as data.csv or X.npy and y.npy, for
              the page's commands
    options   options of `heed study --help`, with _ for -: budget="quick", encoders=["gru", "lstm"], no_header=True

    None, NaN, pandas' NA and empty cells are missing values. Progress goes to sys.stderr; quiet=True suppresses it. After
    KeyboardInterrupt the same call continues the study.

    TypeError for data of another kind and for unknown options; ValueError for arguments and options and RuntimeError for data
    that the program refuses, with the program's message; FileNotFoundError where the program is not installed.
    """
    _laboratory.require_options("study", options, _RESERVED)
    folder = pathlib.Path(out)
    is_new = not folder.exists()
    chosen = {"out": os.fspath(folder)} | options
    path, files = _data_files.files_of(data, target, chosen, folder)
    try:
        _laboratory.run(["study", path, *_laboratory.words_of(chosen)], show=True)
    except (ValueError, RuntimeError):
        if is_new and folder.exists() and set(folder.iterdir()) <= set(files):
            for file in files:
                file.unlink()
            folder.rmdir()
        raise
    return StudyResult(folder, _data_files.library_of(data))
