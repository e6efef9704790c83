"""The documents' shell blocks run, the ```sh blocks of a page one after the other in one folder, as a reader would paste them; of
docs/tutorial.md those of Python too, from top to bottom.

A reader's files (book.txt, walks.csv ..) are there, and whatever a command does not say itself is small: the program's --config
names SMALL, and options on the command line go before it. A command that builds, installs or takes minutes is held against what
would run it (READ_ONLY), and so are the commands that stand within sentences.
"""

import functools
import math
import os
import pathlib
import random
import re
import shlex
import subprocess
import sys

import numpy
import pytest
from heed_program import ENVIRONMENT, ROOT, program

BLOCK = re.compile(r"^( *)```sh\n(.*?)^ *```", re.DOTALL | re.MULTILINE)
# A command that is shown without being marked as one would not be run.
UNMARKED = re.compile(r"^(?: *```\n| {4,})(?:(?:heed|\./dev) \w+(?: .*--\w.*)?$|(?:pip|apt|cmake|torchrun|python) -?\w+).*", re.MULTILINE)
WITHIN_SENTENCES = re.compile(r"`((?:heed|\./dev) [a-z][^`]*)`")
TEXTS = {
    path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
    for path in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md")), ROOT / "examples/README.md")
}
of_a_page = pytest.mark.page(lambda item: {pathlib.Path(item.callspec.params["page"])})

SMALL = """
[study]
budget = quick
steps = 4
layers = 1
seeds = 1
[train]
steps = 8
layers = 1
[depth]
budget = quick
steps = 2
layers = 4
depths = 1,2
[tasks]
budget = quick
steps = 2
seeds = 1
[compare]
lengths = 16,32
influence = 16
"""


def commands_of(page):
    """Each command of the page's blocks, with its continued lines joined, as a reader runs them."""
    for indent, block in BLOCK.findall(TEXTS[page]):
        lines = re.sub(rf"^{indent}", "", block, flags=re.MULTILINE).replace("\\\n", "")
        yield from (line.strip() for line in lines.splitlines() if shlex.split(line, comments=True))


def indented(page, begin):
    """The indented block of a page that begins so: a file, or what a command prints."""
    (block,) = re.findall(rf"^    {re.escape(begin)}.*\n(?:(?:    .*)?\n)*?(?=\n?(?:\S|\Z))", TEXTS[page], re.MULTILINE)
    return re.sub(r"^    ", "", block, flags=re.MULTILINE)


# --- what is read only -------------------------------------------------------------------------------------------------


def flags_of(words):
    return [word.split("=")[0] for word in words if re.match(r"--?[a-z]", word)]


def assert_flags(words, told):
    for flag in flags_of(words):
        assert re.search(rf"(?<![\w-]){re.escape(flag)}(?![\w-])", told), f"{shlex.join(words)}: no flag {flag}"


@functools.cache
def printed(*command):
    result = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    return result.stdout + result.stderr


def is_told_by_dev(words):
    told = printed(ROOT / "dev", "help")
    assert re.search(rf"^  {words[1]}\b", told, re.MULTILINE), f"./dev has no command {words[1]}"
    if words[1] in ("study", "bench"):
        is_told_by_help(["heed", *words[1:]])
    else:
        assert_flags(words, told)


def is_told_by_help(words):
    words = words[words.index("heed") :]
    told = printed(program(), words[1], "--help")
    assert f"Usage: heed {words[1]} " in told, f"heed has no command {words[1]}"
    assert_flags(words, told)


def is_known_to_pip(words):
    words = words[1:] if words[0] == "uv" else words
    assert_flags(words, printed(sys.executable, "-m", "pip", words[1], "--help"))
    assert_settings(words)


def assert_settings(words):
    options = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "CMakeLists.txt", *(ROOT / "cmake").glob("*.cmake")))
    for name in re.findall(r"(?:-D|cmake\.define\.)(HEED_\w+)=", shlex.join(words)):
        assert re.search(rf"\b{name}\b", options), f"CMake has no option {name}"


def is_known_to_cmake(words):
    told = printed("cmake", "--help") + printed("cmake", "--install")
    assert_flags([word for word in words if not word.startswith("-D")], told)
    assert_settings(words)


def is_a_package_of_the_list(words):
    listed = {line.split()[0] for line in (ROOT / "packages.txt").read_text(encoding="utf-8").splitlines() if line[:1] not in ("", "#")}
    assert set(words[2:]) <= listed


def is_a_script(words):
    assert_flags(words, (ROOT / words[1]).read_text(encoding="utf-8"))


def names_a_library(words):
    for name in re.findall(r"--libs ([\w-]+)", " ".join(words)):
        assert (ROOT / f"cmake/pkgconfig/{name}.pc.in").is_file(), f"pkg-config will not know {name}"


def is_an_example(words):
    name = pathlib.Path(words[0]).name.removeprefix("example_")
    assert (ROOT / f"examples/{name}.cc").is_file()


# What begins a command that is not run, why, and what is looked at instead. The first that fits counts.
READ_ONLY = [
    (r"\./dev ", "builds the program or tests all of it", is_told_by_dev),
    (r"apt ", "installs packages of the system", is_a_package_of_the_list),
    (r"(uv |\S*)pip (install|wheel) ", "installs, or compiles for minutes; test_install.py does it", is_known_to_pip),
    (r"cmake ", "compiles for minutes; House.Install does it", is_known_to_cmake),
    (r"build/bin/example_", "tests/examples runs it", is_an_example),
    (r"\.venv/bin/python (bench|examples)/", "measures for minutes, or tests/examples runs it", is_a_script),
    (r"(c\+\+|cc) .*pkg-config|export PKG_CONFIG_PATH", "needs an installed heed; House.Install compiles with pkg-config", names_a_library),
    (r"heed bench --(suite|search|n) ", "measures for minutes", is_told_by_help),
    (r"heed check(?! --case)", "tries every case on every target for minutes; commands_test.py does it", is_told_by_help),
    (r"heed study .*--for ", "needs trainings of some seconds", is_told_by_help),
    (r"heed tasks .*--steps 1500 ", "trains some two hundred models", is_told_by_help),
    (r"torchrun .*(HOST|--nproc-per-node 8)", "needs several machines", is_told_by_help),
]


def how_it_is_read(command):
    return next((look for pattern, _, look in READ_ONLY if re.match(pattern, command)), None)


# Numbers of steps that a page trains for; everything else runs as it is written.
FEWER_STEPS = re.compile(r"--steps \d{3,}")


# --- what is run ---------------------------------------------------------------------------------------------------------


def table(path, columns, rows):
    path.write_text("\n".join([columns, *(",".join(map(str, row)) for row in rows)]) + "\n", encoding="utf-8")


def what_a_reader_has(folder):
    """Files of the names that the pages take for the reader's own."""
    draw = random.Random(5)
    words = "It is the sea that the old man and his boat come back from every day before night.".split()
    text = " ".join(draw.choice(words) for _ in range(4000))
    (folder / "book.txt").write_text(text, encoding="utf-8")
    (folder / "letters.txt").write_text(text.lower().replace(".", ""), encoding="utf-8")
    walks = [(w, s / 50, *(round(draw.gauss(0, 1) + w % 2, 3) for _ in "xyz"), ("standing", "walking")[w % 2])
             for w in range(40) for s in range(12)]
    for name in ("walks.csv", "gait.csv"):
        table(folder / name, "walk,seconds,x,y,z,label", walks)
    table(folder / "recording.csv", "seconds,x,y,z,activity",
          [(s / 50, *(round(draw.gauss(0, 1) + s // 10 % 2, 3) for _ in "xyz"), ("standing", "walking")[s // 10 % 2]) for s in range(300)])
    for name, column in (("power.csv", "load"), ("co2.csv", "co2")):
        table(folder / name, f"{column},other", [(round(10 + 3 * math.sin(t / 4) + draw.random(), 3), t % 7) for t in range(900)])
    table(folder / "sales.csv", "day,sold", [(f"2024-{1 + t // 28:02}-{1 + t % 28:02}", 20 + t % 7 + draw.randrange(3)) for t in range(330)])
    (folder / "shop.csv").write_text(indented("docs/series.md", "day;sold"), encoding="utf-8")
    numpy.save(folder / "X.npy", numpy.array([[draw.gauss(row % 2, 1) for _ in range(24)] for row in range(60)]).reshape(60, 12, 2))
    numpy.save(folder / "y.npy", numpy.arange(60) % 2)
    (folder / "train.py").write_text("import heed\n\nheed.enable()\n", encoding="utf-8")


@pytest.fixture
def shell(tmp_path):
    """Runs a line in the reader's folder, with the program and Python on the PATH."""
    (tmp_path / "small.ini").write_text(SMALL, encoding="utf-8")
    tools, folder = tmp_path / "bin", tmp_path / "reader"
    tools.mkdir()
    folder.mkdir()
    what_a_reader_has(folder)
    called = tools / "heed"
    called.write_text(f'#!/bin/sh\nexec {shlex.quote(program())} "$@" --config {shlex.quote(str(tmp_path / "small.ini"))}\n', encoding="utf-8")
    called.chmod(0o755)
    path = os.pathsep.join([str(tools), str(pathlib.Path(sys.executable).parent), os.environ["PATH"]])
    environment = ENVIRONMENT | {"PATH": path, "PYTHONPATH": str(ROOT / "python")}
    return lambda line: subprocess.run(["bash", "-c", line], cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True,
                                       text=True, timeout=1800, check=False)


TUTORIAL = "docs/tutorial.md"


@of_a_page
@pytest.mark.parametrize("page", [page for page in TEXTS if BLOCK.search(TEXTS[page]) and page != TUTORIAL])
def test_shell_blocks_run(page, shell):
    for command in commands_of(page):
        if look := how_it_is_read(command):
            look(shlex.split(command, comments=True))
        else:
            result = shell(FEWER_STEPS.sub("--steps 8", command))
            assert result.returncode == 0, f"{page}: {command}\n{result.stdout[-2000:]}\n{result.stderr[-2000:]}"


# What a reader has who did as the page's first block says: heed in Python runs the program on the PATH.
INSTALLED = """import pathlib, shutil, subprocess
import heed._program
heed._program.path = lambda: pathlib.Path(shutil.which("heed"))
"""


@pytest.mark.page(lambda item: {pathlib.Path(TUTORIAL)})
@pytest.mark.parametrize("page", [TUTORIAL])
def test_the_tutorial_runs_from_top_to_bottom(page, shell):
    pytest.importorskip("pandas")
    pytest.importorskip("sklearn")
    lines, ran = [INSTALLED], 0
    for kind, block in re.findall(r"^```(sh|python)\n(.*?)^```", TEXTS[page], re.DOTALL | re.MULTILINE):
        if kind == "python":
            lines.append(re.sub(r"steps=\d{3,}", "steps=8", block))
            continue
        for command in (line for line in block.splitlines() if line):
            if look := how_it_is_read(command):
                look(shlex.split(command, comments=True))
            else:
                ran += 1
                lines.append(f"subprocess.run({FEWER_STEPS.sub('--steps 8', command)!r}, shell=True, check=True)")
    result = shell(f"mkdir fresh && cd fresh && python -c {shlex.quote(chr(10).join(lines))}")
    assert result.returncode == 0, f"{result.stdout[-2000:]}\n{result.stderr[-2000:]}"
    assert ran == 5 and re.search(r"^right: [01]\.\d", result.stdout, re.MULTILINE) and "The statement" in result.stdout


def test_a_dry_run_prints_what_the_page_shows(shell):
    result = shell("heed study shop.csv --target sold --time day --goal forecast --dry-run")
    assert result.stdout.split() == indented("docs/series.md", "shop.csv: forecast").split(), result.stderr


@pytest.mark.parametrize("page", [page for page in TEXTS if WITHIN_SENTENCES.search(TEXTS[page])])
def test_commands_within_sentences_are_told_by_help(page):
    for command in WITHIN_SENTENCES.findall(TEXTS[page]):
        words = shlex.split(command)
        (is_told_by_dev if words[0] == "./dev" else is_told_by_help)(words)


@pytest.mark.parametrize("page", TEXTS)
def test_every_command_stands_in_a_shell_block(page):
    outside = BLOCK.sub("", TEXTS[page])
    assert not UNMARKED.search(outside), UNMARKED.search(outside).group()


def test_a_wrong_command_is_found(shell):
    assert shell("heed study no-such-file.txt --out report").returncode != 0
    with pytest.raises(AssertionError, match="no flag --speed"):
        is_told_by_help(shlex.split("heed train book.txt --speed 3"))
    with pytest.raises(AssertionError, match="no command prove"):
        is_told_by_dev(["./dev", "prove"])
    with pytest.raises(AssertionError, match="will not know heed-fast"):
        names_a_library(shlex.split("cc program.c $(pkg-config --cflags --libs heed-fast)"))
    with pytest.raises(AssertionError, match="no option HEED_FAST"):
        is_known_to_cmake(shlex.split("cmake -S . -B build -DHEED_FAST=ON"))
