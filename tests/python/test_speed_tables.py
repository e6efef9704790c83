"""The tables of speed on README.md and docs/performance.md have the figures of docs/performance/packages-zen4.csv."""

import csv
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
CALLS = {"heed.convert(model)": "`convert`", "heed.enable()": "`enable`", 'attn_implementation="heed"': '`"heed"`'}
# Rows of the pages by the models of the file; of two models figures stand side by side.
MODELS = {
    "x-transformers, rotary positions, dropout": ["x-transformers rotary, flash"],
    "x-transformers, ALiBi, dropout": ["x-transformers ALiBi, flash"],
    "neuralforecast VanillaTransformer": ["neuralforecast VanillaTransformer"],
    "x-transformers, T5's bias": ["x-transformers T5 bias"],
    "transformers BERT, padded batches": ["transformers BERT, padded"],
    "rectools BERT4Rec": ["rectools BERT4Rec"],
    "rectools SASRec": ["rectools SASRec"],
    "timm Swin": ["timm Swin"],
    "timm ViT": ["timm ViT"],
    "neuralforecast PatchTST; pytorch-forecasting TFT": ["neuralforecast PatchTST", "pytorch-forecasting TFT"],
}
FIRST_PAGE = {
    "x-transformers with T5's bias, inference": "x-transformers T5 bias",
    "x-transformers with rotary positions and dropout, training": "x-transformers rotary, flash",
    "VanillaTransformer of neuralforecast, training": "neuralforecast VanillaTransformer",
    "BERT of transformers, padded batches, training": "transformers BERT, padded",
}
# Measured without a script, as docs/performance.md says: the pages agree with each other.
BY_HAND = "`torch.nn` Transformer"


def measured():
    with open(ROOT / "docs/performance/packages-zen4.csv", encoding="utf-8", newline="") as file:
        return {row["model"]: row for row in csv.DictReader(file)}


def table(page, heading):
    """The rows of the table whose header begins with these cells."""
    lines = (ROOT / page).read_text(encoding="utf-8").splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith(heading)) + 2
    rows = []
    for line in lines[first:]:
        if not line.startswith("|"):
            return rows
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows


def ratio(row, part):
    return f"{float(row[f'{part} least s with']) / float(row[f'{part} least s without']):.2f}"


def memory(row, part, unit=""):
    with_heed, without = (round(float(row[f"{part} MiB {which}"])) for which in ("with", "without"))
    return f"{with_heed}{unit} instead of {without}"


def test_the_page_of_speed():
    models, rows = measured(), table("docs/performance.md", "| model | heed by |")
    assert sorted(name for name, *_ in rows if not name.startswith(BY_HAND)) == sorted(MODELS)
    for name, call, training, inference, zentorch, mib in rows:
        if name.startswith(BY_HAND):
            continue
        of = [models[model] for model in MODELS[name]]
        assert training == "; ".join(ratio(row, "training") for row in of), name
        assert inference == "; ".join(ratio(row, "inference") for row in of), name
        assert zentorch == "; ".join(f"{float(row['zentorch ratio of inference']):.2f}" for row in of), name
        if call != "not reached":
            assert (call, mib) == (CALLS[of[0]["heed by"]], memory(of[0], "training")), name
    assert sorted(model for of in MODELS.values() for model in of) == sorted(models)


def test_the_first_page():
    models, rows = measured(), table("README.md", "| model, as its package makes it |")
    assert sorted(name for name, *_ in rows if not name.startswith(BY_HAND)) == sorted(FIRST_PAGE)
    for name, time, mib in rows:
        if not name.startswith(BY_HAND):
            row, part = models[FIRST_PAGE[name]], name.rpartition(", ")[2]
            assert (time, mib) == (ratio(row, part), memory(row, part, " MiB")), name


def test_the_row_without_a_script_is_the_same_on_both_pages():
    (first,) = (row for row in table("README.md", "| model, as its package makes it |") if row[0].startswith(BY_HAND))
    (other,) = (row for row in table("docs/performance.md", "| model | heed by |") if row[0].startswith(BY_HAND))
    assert (first[1], re.sub(" MiB", "", first[2])) == (other[2], other[5])
