"""heed train --distributed --sequence-ranks: windows in parts over ranks, with the curve of one process."""

import json
import random
import signal
import time

import pytest
from heed_program import run
from rank_processes import PATIENCE, RankProcesses, interrupted, metrics, reported, torchrun, train
from rank_runs import MODEL, assert_all, assert_same_curve, exact, losses, settings, tensors_in

SHARED = "--sequence-ranks"


@pytest.mark.parametrize(("ranks", "shared"), [(2, 2), (4, 4), (4, 2)])
def test_ranks_that_share_windows_have_the_losses_of_one_process(text, tmp_path, alone, ranks, shared):
    folder = tmp_path / "run"
    result = torchrun(ranks, [text, "--out", folder, *exact(200), "--threads", 1, "--json", "--distributed", SHARED, shared])
    assert result.returncode == 0, result.stderr
    assert_same_curve(folder, losses(alone), 1e-6)
    printed = json.loads(result.stdout)  # of rank 0 alone
    assert printed["step"] == 200 and printed["val_loss"] == losses(folder)[-1][2]
    for name in ["checkpoint.safetensors", "model.safetensors"]:
        assert tensors_in(folder / name) == tensors_in(alone / name)
    assert settings(folder) == settings(alone)
    for command in (["eval", folder, text], ["generate", folder, "--prompt", "o", "--tokens", 5]):
        assert run(*command, "--quiet").returncode == 0


# Of 16 steps a zigzag over 2 ranks and over 4; of 18 none over 4, where parts are uneven. "one two.." has 21 characters, so that
# the last validation window is shorter. Dropout is that of one process by token and row.
@pytest.mark.parametrize(
    ("model", "ranks", "shared"),
    [
        ({"position": "rotary"}, 4, 2),
        ({"position": "transformer_xl", "context": 18}, 4, 4),
        ({"position": "cope"}, 2, 2),
        ({"position": "sinusoidal", "objective": "masked"}, 3, 3),
        ({"position": "deberta", "objective": "masked", "context": 18}, 4, 2),
        ({"encoder": "decomposable"}, 2, 2),
        ({"encoder": "decomposable", "objective": "masked"}, 3, 3),
    ],
)  # fmt: skip
def test_encoders_positions_and_objectives_have_the_losses_of_one_process(text, tmp_path, model, ranks, shared):
    arguments = exact(20, eval_every=1, **model)
    assert run("train", text, "--out", tmp_path / "alone", *arguments, "--threads", 1).returncode == 0
    ends = train(ranks, [text, "--out", tmp_path / "run", *arguments, SHARED, shared])
    assert [end[0] for end in ends] == [0] * ranks, ends
    assert_same_curve(tmp_path / "run", losses(tmp_path / "alone"), 1e-9)


def test_a_batch_of_one_window_serves_many_ranks(text, tmp_path):
    arguments = exact(10, eval_every=5, batch=1)
    assert run("train", text, "--out", tmp_path / "alone", *arguments, "--threads", 1).returncode == 0
    assert [end[0] for end in train(4, [text, "--out", tmp_path / "run", *arguments, SHARED, 4])] == [0] * 4
    assert_same_curve(tmp_path / "run", losses(tmp_path / "alone"), 1e-9)


@pytest.mark.parametrize(("ranks", "shared", "then", "then_shared", "sent"), [(4, 2, 3, 3, signal.SIGTERM), (2, 2, 2, 1, signal.SIGINT)])
def test_an_interrupted_run_goes_on_with_other_ranks(text, tmp_path, alone, ranks, shared, then, then_shared, sent):
    folder = tmp_path / "run"
    ends = interrupted(ranks, [text, "--out", folder, *exact(200), SHARED, shared], folder, ranks - 1, sent)
    assert_all(ends, 130, f"{folder} holds a checkpoint to resume from")
    assert 10 < len(metrics(folder)) * 10 < 200
    ends = train(then, [text, "--out", folder, "--resume", SHARED, then_shared])
    assert [end[0] for end in ends] == [0] * then, ends
    assert_same_curve(folder, losses(alone), 1e-6)
    assert run("train", text, "--out", folder, "--resume", "--threads", 1).returncode == 0  # nothing is left to do


def test_a_resumed_run_of_as_many_ranks_has_the_same_bits(text, tmp_path):
    arguments = exact(300)
    broken, whole = tmp_path / "broken", tmp_path / "whole"
    assert_all(interrupted(4, [text, "--out", broken, *arguments, SHARED, 2], broken, 2), 130, "resume")
    for folder, more in ((broken, ["--resume"]), (whole, arguments)):
        assert [end[0] for end in train(4, [text, "--out", folder, *more, SHARED, 2])] == [0] * 4
    for name in ["model.safetensors", "checkpoint.safetensors", "config.json"]:
        assert (broken / name).read_bytes() == (whole / name).read_bytes(), name


def test_what_cannot_be_shared_is_refused_by_name(text, tmp_path):
    folder = tmp_path / "run"
    for ranks, arguments, expected in [
        (2, ["--encoder", "lstm", SHARED, 2], "encoder: 'lstm' computes a step of the state behind the one before, which another rank"),
        (2, ["--encoder", "dilated", SHARED, 2], "encoder: 'dilated' computes a step of those beside it, which another rank"),
        (4, [*MODEL, "--position", "cope", SHARED, 4], "position: cope counts keys of all ranks, so that each computes whole heads; 2"),
        (3, [*MODEL, SHARED, 2], "sequence_ranks: expected a number that divides the 3 processes, got 2"),
        (2, [*MODEL, SHARED, 0], "sequence_ranks: expected a number that divides the 2 processes, got 0"),
        (4, [*MODEL, "--batch", "1", SHARED, 2], "batch: 1 windows a step are fewer than the 2 groups of processes that share them"),
    ]:
        assert_all(train(ranks, [text, "--out", folder, *arguments]), 2, expected)
    assert not folder.exists()
    result = run("train", text, "--out", folder, SHARED, 2)
    assert result.returncode == 2 and "--distributed" in result.stderr


def test_a_resumed_run_is_refused_by_name_too(text, tmp_path):
    folder = tmp_path / "run"
    assert run("train", text, "--out", folder, *MODEL, "--encoder", "gru", "--steps", 4, "--eval-every", 2).returncode == 0
    before = (folder / "checkpoint.safetensors").read_bytes()
    assert_all(train(2, [text, "--out", folder, "--resume", SHARED, 2]), 2, "encoder: 'gru' computes a step of the state behind")
    assert (folder / "checkpoint.safetensors").read_bytes() == before


def test_ranks_that_disagree_are_named_on_every_rank(text, tmp_path):
    arguments = ["train", text, "--out", tmp_path / "run", *MODEL]
    with RankProcesses(4, [*arguments, SHARED, 2], own={3: [*arguments, SHARED, 4]}) as ranks:
        assert_all(ranks.ends(), 2, "the ranks disagree: sequence_ranks: ranks 0, 1, 2 have 2; rank 3 has 4")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_during_validation_is_every_ranks(text, tmp_path, sent):
    """A text of which a pass over the validation part takes far longer than the steps between two of them."""
    long = tmp_path / "long.txt"
    long.write_text(text.read_text(encoding="utf-8") * 200, encoding="utf-8")
    folder = tmp_path / "run"
    arguments = ["train", long, "--out", folder, *exact(10**6, eval_every=1), SHARED, 2]
    with RankProcesses(4, arguments) as ranks:
        ranks.wait_until(lambda: reported(folder, 1))
        ranks.send(3, sent)
        assert_all(ranks.ends(60), 130, f"{folder} holds a checkpoint to resume from")


def lost(text, folder, rank, seconds, sent, time_out=20, at_once=False):
    """What the others say when a rank of two groups ends, or hangs, so long after the first report; the run then goes on.

    at_once: without waiting for the time-out. A rank of the other group may wait for one that waits itself, its time-out at most.
    """
    arguments = ["train", text, "--out", folder, *exact(10**6, eval_every=3), SHARED, 2]
    with RankProcesses(4, arguments, time_out=time_out) as ranks:
        ranks.wait_until(lambda: (folder / "metrics.jsonl").exists())
        time.sleep(seconds)
        ranks.send(rank, sent)
        start = time.monotonic()
        ends = ranks.ends(time_out + PATIENCE, without={rank})
        took = time.monotonic() - start
    assert took < time_out or not at_once
    assert_all(ends, 1, " of 4 waited for ")
    assert_all(ends, 1, f"{folder} holds a checkpoint of step ")
    before = metrics(folder)
    with RankProcesses(2, ["train", text, "--out", folder, "--resume", SHARED, 2]) as ranks:
        ranks.wait_until(lambda: len(metrics(folder)) > len(before))


@pytest.mark.parametrize("rank", [0, 3])
def test_a_rank_that_dies_is_an_error_on_the_others(text, tmp_path, rank):
    lost(text, tmp_path / "run", rank, 0.5, signal.SIGKILL, at_once=True)


def test_a_rank_that_hangs_is_an_error_within_the_time_out(text, tmp_path):
    lost(text, tmp_path / "run", 1, 0.5, signal.SIGSTOP, time_out=3)


@pytest.mark.long
def test_ranks_that_die_at_twenty_random_moments(text, tmp_path):
    draw = random.Random(6)
    for number in range(20):
        lost(text, tmp_path / f"run{number}", draw.randrange(4), draw.uniform(0, 2), signal.SIGKILL)
