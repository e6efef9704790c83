"""heed train --distributed: the curve of one process, whatever the ranks, and every fault an error on every rank."""

import json
import os
import random
import signal
import time

import pytest
from heed_program import SMALL, handles_interrupts, run
from rank_processes import PATIENCE, RankProcesses, interrupted, metrics, reported, torchrun, train
from rank_runs import MODEL, assert_all, assert_same_curve, exact, losses, settings, tensors_in


def test_ranks_of_torchrun_have_the_losses_of_one_process(text, tmp_path, alone):
    folder = tmp_path / "run"
    result = torchrun(4, [text, "--out", folder, *exact(200), "--threads", 1, "--json", "--distributed"])
    assert result.returncode == 0, result.stderr
    assert_same_curve(folder, losses(alone), 1e-6)
    printed = json.loads(result.stdout)  # of rank 0 alone
    assert printed["step"] == 200 and printed["val_loss"] == losses(folder)[-1][2]
    assert result.stderr.count("train: 200/200") == 1
    for name in ["checkpoint.safetensors", "model.safetensors"]:
        assert tensors_in(folder / name) == tensors_in(alone / name)
    assert settings(folder) == settings(alone)
    for command in (["eval", folder, text], ["generate", folder, "--prompt", "o", "--tokens", 5]):
        assert run(*command, "--quiet").returncode == 0


@pytest.mark.parametrize("encoder", ["attention", "gru-attention", "dilated", "lstm", "decomposable"])
@pytest.mark.parametrize("objective", ["causal", "masked"])
def test_every_objective_and_encoder_has_the_losses_of_one_process(text, tmp_path, encoder, objective):
    arguments = exact(20, eval_every=1, encoder=encoder, objective=objective)
    assert run("train", text, "--out", tmp_path / "alone", *arguments, "--threads", 1).returncode == 0
    assert [end[0] for end in train(3, [text, "--out", tmp_path / "run", *arguments])] == [0, 0, 0]
    assert_same_curve(tmp_path / "run", losses(tmp_path / "alone"), 1e-9)


def test_float32_comes_near(text, tmp_path):
    arguments = [*SMALL, "--dropout", "0.1", "--steps", 40, "--eval-every", 10]
    assert run("train", text, "--out", tmp_path / "alone", *arguments, "--threads", 1).returncode == 0
    assert [end[0] for end in train(2, [text, "--out", tmp_path / "run", *arguments])] == [0, 0]
    assert_same_curve(tmp_path / "run", losses(tmp_path / "alone"), 1e-3)


@pytest.mark.parametrize(("first", "then", "rank", "sent"), [(4, 2, 3, signal.SIGTERM), (2, 3, 0, signal.SIGINT)])
def test_an_interrupted_run_goes_on_with_other_ranks(text, tmp_path, alone, first, then, rank, sent):
    folder = tmp_path / "run"
    ends = interrupted(first, [text, "--out", folder, *exact(200)], folder, rank, sent)
    assert_all(ends, 130, f"{folder} holds a checkpoint to resume from")
    assert 10 < len(metrics(folder)) * 10 < 200
    ends = train(then, [text, "--out", folder, "--resume"])
    assert [end[0] for end in ends] == [0] * then, ends
    assert "resuming after step" in ends[0][2] and ends[1][2] == ""
    assert_same_curve(folder, losses(alone), 1e-6)
    assert run("train", text, "--out", folder, "--resume", "--threads", 1).returncode == 0  # nothing is left to do


def test_an_interruption_of_one_rank_is_heard_after_the_step(text, tmp_path):
    folder = tmp_path / "run"
    with RankProcesses(2, ["train", text, "--out", folder, *SMALL, "--steps", 10**6, "--eval-every", 10**6]) as ranks:
        ranks.wait_until((folder / "checkpoint.safetensors").exists)
        time.sleep(1)
        ranks.send(1, signal.SIGINT)
        assert_all(ranks.ends(60), 130, "interrupted after step ")


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_torchrun_ends_every_rank_with_a_checkpoint(text, tmp_path, sent):
    folder = tmp_path / "run"

    def interrupt(process):
        limit = time.monotonic() + 120
        while not reported(folder, 2):
            assert process.poll() is None and time.monotonic() < limit
            time.sleep(0.01)
        process.send_signal(sent)

    result = torchrun(3, [text, "--out", folder, *SMALL, "--steps", 10**6, "--eval-every", 10, "--distributed"], interrupt)
    assert result.returncode != 0
    assert result.stderr.count("heed: interrupted after step ") == 3, result.stderr
    threads = json.loads(run("info", "--json").stdout)["threads_available"]
    assert f", {max(1, threads // 3)} threads" in result.stderr  # the ranks share the machine
    step = int(result.stderr.split("interrupted after step ")[1].split(";")[0])
    with RankProcesses(2, ["train", text, "--out", folder, "--resume"]) as ranks:
        ranks.wait_until(lambda: metrics(folder)[-1]["step"] > step)


def test_torchrun_without_the_option_is_pointed_out(text, tmp_path):
    result = torchrun(2, [text, "--out", tmp_path / "run", *SMALL])
    assert result.returncode != 0
    assert "distributed: torchrun started 2 processes, each of which would train alone into --out; give --distributed" in result.stderr
    assert not (tmp_path / "run").exists()


def test_a_run_of_ranks_goes_on_alone(text, tmp_path, alone):
    folder = tmp_path / "run"
    assert_all(interrupted(3, [text, "--out", folder, *exact(200)], folder, 1), 130, "resume")
    assert run("train", text, "--out", folder, "--resume", "--threads", 1).returncode == 0
    assert_same_curve(folder, losses(alone), 1e-6)


def test_a_resumed_run_of_as_many_ranks_has_the_same_bits(text, tmp_path):
    arguments = [*SMALL, "--dropout", "0.1", "--eval-every", "10", "--steps", 300]
    broken, whole = tmp_path / "broken", tmp_path / "whole"
    assert_all(interrupted(3, [text, "--out", broken, *arguments], broken, 2), 130, "resume")
    for folder, more in ((broken, ["--resume"]), (whole, arguments)):
        assert [end[0] for end in train(3, [text, "--out", folder, *more])] == [0, 0, 0]
    for name in ["model.safetensors", "checkpoint.safetensors", "config.json"]:
        assert (broken / name).read_bytes() == (whole / name).read_bytes(), name
    assert losses(broken) == losses(whole)


def test_new_rates_of_a_resumed_run_are_every_ranks(text, tmp_path):
    folder = tmp_path / "run"
    assert_all(interrupted(2, [text, "--out", folder, *SMALL, "--steps", 4000, "--eval-every", 10], folder, 0), 130, "resume")
    with RankProcesses(2, ["train", text, "--out", folder, "--resume", "--lr", "2e-3"]) as ranks:
        ranks.wait_until(lambda: all(map(handles_interrupts, ranks.processes)))
        ranks.send(1, signal.SIGINT)
        ends = ranks.ends()
    assert_all(ends, 130, "resume")
    assert json.loads((folder / "config.json").read_text())["training"]["lr"] == 2e-3


@pytest.mark.parametrize(
    ("different", "expected"),
    [
        (["--dropout", "0.2"], "the ranks disagree: dropout: ranks 0, 2 have 0; rank 1 has 0.2"),
        (["--position", "rotary"], "the ranks disagree: position: ranks 0, 2 have learned; rank 1 has rotary"),
        (["--seed", "4"], "the ranks disagree: seed: ranks 0, 2 have 0; rank 1 has 4"),
        (["--steps", "9", "--lr", "1e-2"], "; steps: ranks 0, 2 have 2000; rank 1 has 9"),
    ],
)  # fmt: skip
def test_options_that_differ_are_named_on_every_rank(text, tmp_path, different, expected):
    arguments = ["train", text, "--out", tmp_path / "run", *SMALL]
    with RankProcesses(3, arguments, own={1: [*arguments, *different]}) as ranks:
        assert_all(ranks.ends(), 2, expected)
    assert not (tmp_path / "run").exists()


def test_texts_that_differ_are_named_on_every_rank(text, tmp_path):
    other = tmp_path / "other.txt"
    other.write_text(text.read_text(encoding="utf-8").replace("two", "six"), encoding="utf-8")
    arguments = ["train", text, "--out", tmp_path / "run", *SMALL]
    own = {0: ["train", other, *arguments[2:]]}
    with RankProcesses(2, arguments, own=own) as ranks:
        assert_all(ranks.ends(), 2, "the ranks disagree: text: rank 0 has 2100 characters with fingerprint ")
    own = {1: ["train", tmp_path / "missing.txt", *arguments[2:]]}
    with RankProcesses(2, arguments, own=own) as ranks:
        ends = ranks.ends()
    assert [end[0] for end in ends] == [1, 1]
    assert "refused on other ranks: rank 1: " in ends[0][2] and "missing.txt" in ends[0][2] and "missing.txt" in ends[1][2]


def test_what_cannot_be_shared_is_refused_by_name(text, tmp_path):
    folder = tmp_path / "run"
    assert_all(train(3, [text, "--out", folder, *MODEL, "--batch", "2"]), 2, "batch: 2 windows a step are fewer than the 3 processes")
    assert_all(train(1, ["-", "--out", folder, *SMALL]), 2, "TEXT: expected a file, because every process reads it")
    assert_all(train(2, [text, "--out", folder, "--width", "18"]), 2, "width: 18 is not divisible by 4 heads")
    assert_all(train(2, [text, "--out", folder, "--precision", "half"]), 2, "precision: 'half' is unknown; choose among float32 or float64")
    assert_all(train(1, [text, "--out", folder, *SMALL], time_out=0), 2, "time_out: expected more than 0")
    assert not folder.exists()
    alone = run("train", text, "--out", folder, "--time-out", 3)
    assert alone.returncode == 2 and "--distributed" in alone.stderr


def test_without_torchrun_the_missing_variable_is_named(text, tmp_path):
    environment = {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE")}
    result = run("train", text, "--out", tmp_path / "run", "--distributed", env=environment)
    assert result.returncode == 2
    assert "WORLD_SIZE: the environment variable that torchrun sets is missing" in result.stderr
    assert "torchrun --no-python --nproc-per-node N heed ..." in result.stderr


def test_a_folder_with_a_run_is_every_ranks_error(text, trained, tmp_path):
    assert_all(train(2, [text, "--out", trained, *SMALL]), 2, f"out: {trained} holds a run already")
    assert_all(train(2, [text, "--out", tmp_path / "none", "--resume"]), 1, "config.json")
    path = trained / "checkpoint.safetensors"
    path.write_bytes(path.read_bytes()[:100])
    assert_all(train(2, [text, "--out", trained, "--resume"]), 1, "checkpoint.safetensors")


def test_numbers_that_are_no_longer_finite_end_every_rank_alike(text, tmp_path):
    arguments = [text, "--out", tmp_path / "run", *MODEL, "--lr", "1e18", "--warmup", "0", "--clip", "0", "--eval-every", "1"]
    ends = train(3, arguments)
    assert_all(ends, 1, "training diverged at step ")
    assert len({messages.splitlines()[-1] for _, _, messages in ends}) == 1
    assert f"{tmp_path / 'run'} holds a checkpoint of step" in ends[2][2]


def test_a_rank_that_hangs_is_an_error_within_the_time_out(text, tmp_path):
    folder = tmp_path / "run"
    with RankProcesses(3, ["train", text, "--out", folder, *SMALL, "--steps", 10**6, "--eval-every", 10], time_out=3) as ranks:
        ranks.wait_until(lambda: (folder / "metrics.jsonl").exists())
        ranks.send(1, signal.SIGSTOP)
        start = time.monotonic()
        ends = ranks.ends(3 + PATIENCE, without={1})
        assert time.monotonic() - start < 3 + PATIENCE
    assert_all(ends, 1, " of 3 waited for ")
    assert_all(ends, 1, f"{folder} holds a checkpoint of step ")


def killed(text, folder, ranks, rank, seconds, time_out=20):
    """What the others say when a rank is killed so long after the first report; the run then goes on."""
    arguments = exact(10**6, eval_every=3)
    with RankProcesses(ranks, ["train", text, "--out", folder, *arguments], time_out=time_out) as processes:
        processes.wait_until(lambda: (folder / "metrics.jsonl").exists())
        time.sleep(seconds)
        processes.send(rank, signal.SIGKILL)
        start = time.monotonic()
        ends = processes.ends(time_out + PATIENCE, without={rank})
        took = time.monotonic() - start
    assert took < time_out
    assert_all(ends, 1, f" of {ranks} waited for ")
    before = metrics(folder)
    assert run("eval", folder, text, "--quiet").returncode == 0
    # So many steps are left that only their beginning is seen.
    with RankProcesses(2, ["train", text, "--out", folder, "--resume"]) as processes:
        processes.wait_until(lambda: len(metrics(folder)) > len(before))


@pytest.mark.parametrize("rank", [0, 2])
def test_a_rank_that_dies_is_an_error_on_the_others(text, tmp_path, rank):
    killed(text, tmp_path / "run", 3, rank, 0.5)


@pytest.mark.long
def test_ranks_that_die_at_twenty_random_moments(text, tmp_path):
    draw = random.Random(5)
    for number in range(20):
        killed(text, tmp_path / f"run{number}", 4, draw.randrange(4), draw.uniform(0, 2))
