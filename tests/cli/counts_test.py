"""A text whose next characters no network foretells better than counts do: the counts are kept, opened and scored."""

import csv
import ctypes
import json
import math
import pathlib
import random

import pytest
import torch
from heed_program import program, run

import heed

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


def test_python_opens_counts(studied):
    folder, text = studied
    model = heed.open_model(folder / "report" / "model")
    scored = json.loads(run("eval", folder / "report" / "model", folder / "book.txt", "--json").stdout)["rows"][0]
    assert isinstance(model, heed.models.CountsModel) and scored["context"] == model.order
    tokens = torch.tensor([model.encode(text)[:2000]])
    (folder / "part.txt").write_text(text[:2000], encoding="utf-8")
    scored = json.loads(run("eval", folder / "report" / "model", folder / "part.txt", "--json").stdout)["rows"][0]
    told = model(tokens[:, :-1]).gather(2, tokens[:, 1:, None])
    assert -told.mean().item() == pytest.approx(scored["loss"], rel=1e-12)
    assert model(tokens[:, :30]).exp().sum(2).numpy() == pytest.approx(1, abs=1e-12)
    likely = run("generate", folder / "report" / "model", "--prompt", "the dog", "--tokens", 300, "--temperature", 0).stdout
    assert "the dog" + model.generate("the dog", 300) == likely.removesuffix("\n")
    assert model.decode(model.encode("cat")) == "cat"
    for wrong, expected in ((("@", 1), "'@', is not among"), (("", 1), "prompt: it is empty"), (("a", -1), "expected 0 or more")):
        with pytest.raises(ValueError, match=expected):
            model.generate(*wrong)
    with pytest.raises(ValueError, match="expected whole numbers"):
        model(torch.zeros(1, 3))


def test_the_c_library_opens_counts(studied):
    folder, _ = studied
    library = ctypes.CDLL(str(pathlib.Path(program()).parents[1] / "lib/libheed_c.so"))
    library.heed_message.restype = library.heed_model_class.restype = ctypes.c_char_p
    library.heed_model_outputs.restype, library.heed_model_close.argtypes = ctypes.c_int64, [ctypes.c_void_p]
    model, python = ctypes.c_void_p(), heed.open_model(folder / "report" / "model")
    assert library.heed_model_open(str(folder / "report" / "model").encode(), ctypes.byref(model)) == 0, library.heed_message()
    count = library.heed_model_outputs(model)
    assert "".join(library.heed_model_class(model, ctypes.c_int64(i)).decode() for i in range(count)) == python.vocabulary
    probabilities = (ctypes.c_double * count)()
    assert library.heed_model_next(model, b"the d", probabilities, ctypes.c_int64(count - 1)) == 1
    assert f"count: expected {count}".encode() in library.heed_message()
    assert library.heed_model_next(model, b"the d", probabilities, ctypes.c_int64(count)) == 0
    assert [math.log(p) for p in probabilities] == pytest.approx(python(torch.tensor([python.encode("the d")]))[0, -1].tolist(), rel=1e-12)
    assert library.heed_model_next(model, b"", probabilities, ctypes.c_int64(count)) == 1
    assert library.heed_message() == b"prompt: it is empty; give at least one character"
    text = ctypes.create_string_buffer(200)
    assert library.heed_model_continue(model, b"the @", ctypes.c_int64(4), text, ctypes.c_size_t(200)) == 1
    assert b"prompt: character 4, '@', is not among" in library.heed_message()
    assert library.heed_model_continue(model, b"the d", ctypes.c_int64(40), text, ctypes.c_size_t(200)) == 0
    assert text.value.decode() == python.generate("the d", 40)
    library.heed_model_close(model)


def test_what_counts_do_not_do_is_said(studied, tmp_path):
    folder, _ = studied
    model = folder / "report" / "model"
    for arguments, code, expected in [
        (["predict", model, folder / "book.txt"], 1, "it holds a model that counts the characters of a text; heed generate"),
        (["eval", model, folder / "book.txt", "--context", 16], 2, "context: counting runs of"),
        (["eval", model, folder / "book.txt", "--beyond", "clamp"], 2, "only counts, and has no positions"),
        (["eval", model, folder / "book.txt", "--share", 0.5], 2, "share: is for labelled sequences"),
        (["eval", model, folder / "book.txt", "--separator", "tab"], 2, "separator: is for labelled sequences"),
        (["inspect", model, folder / "book.txt", "--out", tmp_path / "page"], 1, "it only counts; heed generate and heed eval open it"),
    ]:
        result = run(*arguments)
        assert result.returncode == code and expected in result.stderr, result.stderr


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"order": 99}, "'order' is not an integer in 1..12"),
        ({"discount": 1}, "'discount' is not between 0 and 1"),
        ({"format": 2}, "'format' is not an integer in 1..1"),
        ({"vocabulary": "ab"}, "model.safetensors: 'tokens' hold what the vocabulary does not"),
    ],
)
def test_damaged_counts_are_refused(studied, tmp_path, change, expected):
    folder, _ = studied
    config = json.loads((folder / "report" / "model" / "config.json").read_text(encoding="utf-8"))
    (tmp_path / "config.json").write_text(json.dumps(config | change), encoding="utf-8")
    (tmp_path / "model.safetensors").write_bytes((folder / "report" / "model" / "model.safetensors").read_bytes())
    result = run("generate", tmp_path, "--prompt", "a")
    assert result.returncode == 1 and expected in result.stderr, result.stderr
