"""Writes the tables that studies are recorded on as CSV files, from packages that carry them: sktime, statsmodels, vega-datasets
and scikit-learn.

    pip install sktime statsmodels vega-datasets scikit-learn
    python bench/study/data_sets.py FOLDER
    build/bin/study_record motions.jsonl FOLDER/motions.csv --target label --sequence id --name motions
"""

import csv
import pathlib
import sys

import numpy as np
from sklearn.datasets import load_digits
from sktime import datasets
from statsmodels.datasets import co2, sunspots
from vega_datasets import data

# Sequences of sktime with a class each, or a number (tecator), in an order drawn once: its files are sorted by class.
LABELLED = {
    "arrow": datasets.load_arrow_head,
    "motions": datasets.load_basic_motions,
    "power": datasets.load_italy_power_demand,
    "tecator": datasets.load_tecator,
    "vowels": datasets.load_japanese_vowels,
}


def write_sequences(path, sequences, labels):
    """A row a step; sequences are [steps, features]."""
    with open(path, "w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["id", *(f"x{i}" for i in range(sequences[0].shape[1])), "label"])
        for number in np.random.default_rng(0).permutation(len(sequences)):
            for step in sequences[number]:
                rows.writerow([number, *(f"{value:.6g}" for value in step), labels[number]])


def arrays(frame):
    """sktime's frame, whose cells are series, as [steps, features] each."""
    return [np.stack([np.asarray(cell, dtype=float) for cell in row], axis=1) for row in frame.to_numpy()]


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, load in LABELLED.items():
        frame, labels = load(return_X_y=True, return_type="nested_univ")
        write_sequences(folder / f"{name}.csv", arrays(frame), labels)
    digits = load_digits()
    write_sequences(folder / "digits.csv", digits.images, [f"digit {label}" for label in digits.target])
    # To forecast: one sequence each, with the date of each step.
    airline = datasets.load_airline().to_frame("passengers")
    seattle, temperatures = data.seattle_weather(), data.sf_temps()
    years = sunspots.load_pandas().data["YEAR"].astype(int)
    series = {
        "airline": (airline.index.to_timestamp(), airline),
        "co2": (co2.load_pandas().data.index, co2.load_pandas().data.interpolate()),
        "seattle": (seattle["date"], seattle[["precipitation", "temp_max", "temp_min", "wind"]]),
        "sunspots": ([f"{year}-01-01" for year in years], sunspots.load_pandas().data[["SUNACTIVITY"]]),
        "temperatures": (temperatures["date"], temperatures[["temp"]]),
    }
    for name, (dates, frame) in series.items():
        times = [date if isinstance(date, str) else date.strftime("%Y-%m-%dT%H:%M") for date in dates]
        frame.assign(date=times).to_csv(folder / f"{name}.csv", index=False)


if __name__ == "__main__":
    main()
