"""Texts from outside on the terminal: what files, names and arguments hold never commands it, and never fills it."""

import json
import os

import pytest
from heed_program import run

HOSTILE = {
    "escape": b"\x1b]0;title\x07\x1b[31m",
    "control": b"a\x7f\x08\x0b",
    "turning": "\u202e".encode(),
    "latin-1": b"caf\xe9",
    "long": b"x" * 60000,
}
CSV = b'"x%s",y\n1,2.5\nz,3\n'


def messages(result, code):
    """What the program printed on stderr, which must be fit for a terminal."""
    assert result.returncode == code, result.stderr
    text = (result.stdout + result.stderr).decode("utf-8")
    assert all(c == "\n" or c.isprintable() for c in text), ascii(text[:500])
    assert len(text) < 4096
    return result.stderr.decode("utf-8")


@pytest.mark.parametrize("hostile", HOSTILE)
@pytest.mark.parametrize("command", ["column", "config", "argument", "option", "command"])
def test_the_program_prints_what_a_terminal_can_show(tmp_path, command, hostile):
    text = HOSTILE[hostile]
    data, config = tmp_path / "data.csv", tmp_path / "options.toml"
    data.write_bytes(CSV % text)
    config.write_bytes(b'"' + text + b'" = 3\n')
    code, named, arguments = {
        "column": (1, "data.csv", ["study", data, "--target", "y", "--out", tmp_path / "out"]),
        "config": (1 if hostile == "latin-1" else 2, "options.toml", ["info", "--config", config]),
        "argument": (2, "budget", ["study", data, "--target", "y", "--budget", text]),
        "option": (2, "--help", ["info", b"--" + text]),
        "command": (2, "is not a command", [text]),
    }[command]
    assert named in messages(run(*arguments, text=False), code)


@pytest.mark.parametrize("name", [b"a\x1b[31m\nb", b"caf\xe9", "\u202egpj".encode()])
def test_the_name_of_a_file_may_be_anything(tmp_path, name):
    path = os.fsencode(tmp_path) + b"/" + name
    for arguments in (["study", path], ["study", path, "--target", "y"], ["eval", path, path], ["info", "--config", path]):
        assert "No such file" in messages(run(*arguments, text=False), 1)


def test_an_unknown_column_lists_some_of_those_that_there_are(tmp_path):
    data = tmp_path / "data.csv"
    names = ",".join(f"x{i}" for i in range(100000))
    data.write_text(f"{names}\n{'1,' * 99999}1\n", encoding="utf-8")
    text = messages(run("study", data, "--target", "y", text=False), 2)
    assert "data.csv has no column 'y'; it has x0, x1, x2, x3, x4, x5, x6, x7, x8, x9 and 99990 more" in text


def test_data_come_from_standard_input_too(tmp_path):
    result = run("study", "-", "--target", "y", "--out", tmp_path / "out", stdin=None, input="x,y\n1,2.5\nz,3\n")
    assert result.returncode == 1
    assert result.stderr == (
        "heed: standard input: row 3, column 'x': 'z' stands among numbers; leave the cell empty where the value is missing, or give "
        "--categories x where the cells are names\n"
    )


def test_numbers_that_are_not_finite_continue_no_text(trained):
    weights = trained / "model.safetensors"
    contents = bytearray(weights.read_bytes())
    size = int.from_bytes(contents[:8], "little")
    begin, end = json.loads(contents[8:8 + size])["embedding.weight"]["data_offsets"]
    contents[8 + size + begin:8 + size + end] = b"\x00\x00\xc0\x7f" * ((end - begin) // 4)
    weights.write_bytes(contents)
    for temperature in (0, 1):
        result = run("generate", trained, "--prompt", "one", "--tokens", 3, "--temperature", temperature)
        assert result.returncode == 1 and result.stdout == "", result.stdout
        assert "model: its logits after 3 characters are not all finite" in result.stderr
