"""A text whose next characters no network foretells better than counts do: the counts are kept, opened and scored."""

import csv
import json
import random

import pytest
from heed_program import run

SENTENCES = ["the cat sat on the mat. ", "the dog dug in the fog. ", "a bird heard a word. "]


@pytest.fixture(scope="module")
def studied(tmp_path_factory):
    folder = tmp_path_factory.mktemp("counts")
    text = "".join(random.Random(4).choices(SENTENCES, k=400))
    (folder / "book.txt").write_text(text, encoding="utf-8")
    result = run("study", folder / "book.txt", "--budget", "quick", "--steps", 3, "--seeds", 1, "--layers", 1, "--width", 16, "--context", 16, "--encoders", "gru",
                 "--out", folder / "report", "--quiet", "--json")
    assert result.returncode == 0, result.stderr
    return folder, text


def test_the_counts_lose_what_the_study_says(studied, tmp_path):
    folder, text = studied
    config = json.loads((folder / "report" / "model" / "config.json").read_text(encoding="utf-8"))
    assert (config["kind"], config["format"]) == ("counts", 1) and config["order"] > 2
    losses = []
    with open(folder / "report" / "model" / "split.csv", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["part"] == "test":
                first = int(row["first"])
                (tmp_path / "block.txt").write_text(text[first : first + int(row["characters"])], encoding="utf-8")
                scored = run("eval", folder / "report" / "model", tmp_path / "block.txt", "--json")
                losses.append(json.loads(scored.stdout)["rows"][0]["loss"])
    assert len(losses) > 5
    assert sum(losses) / len(losses) == pytest.approx(config["reached"]["loss"], rel=1e-9)


def test_the_counts_continue_a_text(studied):
    folder, _ = studied
    likely = run("generate", folder / "report" / "model", "--prompt", "the cat sa", "--tokens", 12, "--temperature", 0)
    assert likely.stdout == "the cat sat on the mat\n", likely.stderr
    drawn = [run("generate", folder / "report" / "model", "--prompt", "a bird", "--tokens", 200, "--seed", seed).stdout for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2] and len(drawn[0]) == 207
    assert sum(sentence.strip() in drawn[0] for sentence in SENTENCES) >= 2, "most of it is as it was counted"
    refused = run("generate", folder / "report" / "model", "--prompt", "@")
    assert refused.returncode == 2 and "prompt" in refused.stderr


def test_what_counts_do_not_do_is_said(studied, tmp_path):
    folder, _ = studied
    model = folder / "report" / "model"
    for arguments, code, expected in [
        (["predict", model, folder / "book.txt"], 1, "it holds a model that counts the characters of a text; heed generate"),
        (["eval", model, folder / "book.txt", "--context", 16], 2, "context: counting runs of"),
        (["inspect", model, folder / "book.txt", "--out", tmp_path / "page"], 1, "it only counts; heed generate and heed eval open it"),
    ]:
        result = run(*arguments)
        assert result.returncode == code and expected in result.stderr, result.stderr


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"order": 99}, "'order' is 99, not in 1 to 12"),
        ({"discount": 1}, "'discount' is not between 0 and 1"),
        ({"format": 2}, "'format' is 2; this program reads 1"),
        ({"vocabulary": "ab"}, "'tokens' of model.safetensors hold what the vocabulary does not"),
    ],
)
def test_damaged_counts_are_refused(studied, tmp_path, change, expected):
    folder, _ = studied
    config = json.loads((folder / "report" / "model" / "config.json").read_text(encoding="utf-8"))
    (tmp_path / "config.json").write_text(json.dumps(config | change), encoding="utf-8")
    (tmp_path / "model.safetensors").write_bytes((folder / "report" / "model" / "model.safetensors").read_bytes())
    result = run("generate", tmp_path, "--prompt", "a")
    assert result.returncode == 1 and expected in result.stderr, result.stderr
