"""The tables of speed on README.md and docs/performance.md have the figures of docs/performance/packages-zen4.csv."""

import csv
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
CALLS = {"heed.convert(model)": "`convert`", "heed.enable()": "`enable`", 'attn_implementation="heed"': '`"heed"`'}
# Rows of the pages by the models of the file; of two models figures stand side by side.
MODELS = {
    "`torch.nn` Transformer, dropout 0.1": ["torch.nn Transformer"],
    "x-transformers, rotary positions, dropout": ["x-transformers rotary, flash"],
    "x-transformers, ALiBi, dropout": ["x-transformers ALiBi, flash"],
    "neuralforecast VanillaTransformer": ["neuralforecast VanillaTransformer"],
    "x-transformers, T5's bias": ["x-transformers T5 bias"],
    "transformers BERT, padded batches": ["transformers BERT, padded"],
    "transformers T5": ["transformers T5"],
    "rectools BERT4Rec": ["rectools BERT4Rec"],
    "rectools SASRec": ["rectools SASRec"],
    "TabPFN": ["TabPFN"],
    "TabICL": ["TabICL"],
    "whisper": ["whisper"],
    "timm Swin": ["timm Swin"],
    "timm ViT": ["timm ViT"],
    "enformer-pytorch": ["enformer-pytorch"],
    "neuralforecast PatchTST; pytorch-forecasting TFT": ["neuralforecast PatchTST", "pytorch-forecasting TFT"],
}
FIRST_PAGE = {
    "`torch.nn` Transformer, 4 layers, 1024 steps, dropout 0.1, training": "torch.nn Transformer",
    "x-transformers with T5's bias, inference": "x-transformers T5 bias",
    "x-transformers with rotary positions and dropout, training": "x-transformers rotary, flash",
    "VanillaTransformer of neuralforecast, training": "neuralforecast VanillaTransformer",
    "BERT of transformers, padded batches, training": "transformers BERT, padded",
}


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
    assert sorted(name for name, *_ in rows) == sorted(MODELS)
    for name, call, training, inference, zentorch, mib in rows:
        of = [models[model] for model in MODELS[name]]
        assert training == "; ".join(ratio(row, "training") for row in of), name
        assert inference == "; ".join(ratio(row, "inference") for row in of), name
        assert zentorch == "; ".join(f"{float(row['zentorch ratio of inference']):.2f}" for row in of), name
        if call != "not reached":
            assert (call, mib) == (CALLS[of[0]["heed by"]], memory(of[0], "training")), name
    assert sorted(model for of in MODELS.values() for model in of) == sorted(models)


def test_the_first_page():
    models, rows = measured(), table("README.md", "| model, as its package makes it |")
    assert sorted(name for name, *_ in rows) == sorted(FIRST_PAGE)
    for name, call, time, mib in rows:
        row, part = models[FIRST_PAGE[name]], name.rpartition(", ")[2]
        assert call == f"`{row['heed by']}`", name
        assert (time, mib) == (ratio(row, part), memory(row, part, " MiB")), name
