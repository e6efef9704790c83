"""heed.distributed.attention against one process: outputs, log-sum-exps and gradients of every option, by both methods."""

import itertools
import os
import pathlib
import re
import subprocess
import sys

import distributed_cases as cases
import pytest
import torch
from distributed_cases import OPTIONS, case_of, expected_parts, part, random_case
from ranks import Raised, Ranks

import heed
import heed.distributed

METHODS = ("ring", "all_to_all")
CASES = "distributed_cases"


@pytest.fixture(scope="module")
def ranks():
    with Ranks(4) as processes:
        yield processes


def check(ranks, count, case):
    """That every rank finds what one process finds, and sends what the plan says."""
    answers, expected = ranks.run(CASES, "together", count, case), expected_parts(case, count)
    for rank, (found, sent, planned) in enumerate(answers):
        where = f"{case}, rank {rank}"
        assert sent == planned, where
        for x, (ours, theirs) in enumerate(zip(found, expected[rank], strict=True)):
            assert (ours is None) == (theirs is None), f"{where}, result {x}"
            if ours is not None:
                torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12, msg=lambda m, x=x: f"{where}, result {x}: {m}")
    return answers


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("count", [1, 2, 3, 4])
@pytest.mark.parametrize("name", OPTIONS)
def test_every_option_alone(ranks, name, count, method):
    layout = "zigzag" if (count + len(name)) % 2 else "contiguous"
    if name == "uniform" and method == "ring":
        with pytest.raises(Raised, match="'ring' is not possible: empty_row='uniform' is a mean over values of all ranks"):
            ranks.run(CASES, "together", count, case_of(name, count, method, layout))
        return
    if name == "cope" and method == "ring":
        with pytest.raises(Raised, match="'ring' is not possible: Cope counts keys of all ranks"):
            ranks.run(CASES, "together", count, case_of(name, count, method, layout))
        return
    check(ranks, count, case_of(name, count, method, layout))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", ["alibi", "sinks", "relative", "score"])
def test_gradients_of_the_output_alone(ranks, name, method):
    """Without one of the log-sum-exp the gradients of a row's scores sum to 0, but for those of a part of its keys."""
    check(ranks, 3, case_of(name, 3, method, output_alone=True))


@pytest.mark.parametrize("seed", range(30))
def test_random_combinations(ranks, seed):
    count = 1 + seed % 4
    check(ranks, count, random_case(seed, count))


@pytest.mark.long
def test_two_hundred_random_combinations_and_eight_ranks():
    with Ranks(8, timeout=120.0) as eight:
        for name, method in itertools.product(OPTIONS, METHODS):
            if method != "ring" or name not in ("uniform", "cope"):
                check(eight, 8, case_of(name, 8, method, "zigzag" if len(name) % 2 else "contiguous"))
        for seed in range(1000, 1200):
            count = (1, 2, 3, 4, 8)[seed % 5]
            check(eight, count, random_case(seed, count))


def check_rounding(ranks, case, roundings, count=4, times=1):
    """That no result is farther from exact numbers than so many times one process's and so many roundings of the largest."""
    exact, single = cases.alone(case, exact=True), cases.alone(case)
    answers = ranks.run(CASES, "together", count, case)
    for x, (right, near) in enumerate(zip(exact, single)):
        seen = right.isfinite()
        # Parameters of float64 too have gradients that are computed in float32.
        eps = max(torch.finfo(dtype).eps for dtype in (near.dtype, torch.float32))
        limit = 0.0
        if seen.any():
            limit = times * (near.double() - right)[seen].abs().max() + roundings * eps * right[seen].abs().max()
        for rank, (found, _, _) in enumerate(answers):
            own = part(right, 2, case, rank, count) if x < 5 else right
            torch.testing.assert_close(found[x].double(), own.double(), rtol=0, atol=float(limit), msg=lambda m, x=x: f"{x}: {m}")


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", OPTIONS)
def test_float32_is_as_near_as_one_process(ranks, name, method):
    if name.startswith("swin") or (name in ("uniform", "cope") and method == "ring"):
        return  # of a window of 64 tokens; refused, see test_every_option_alone
    check_rounding(ranks, case_of(name, 4, method, dtype="float32", sizes=(1, 4, 2, 96, 96, 8, 8)), 4)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_16_bits_are_rounded_once(ranks, dtype, method):
    check_rounding(ranks, case_of("causal", 4, method, "zigzag", dtype=dtype), 0.5)


SHARED = (1.0, 1000.0, 6000.0, 50000.0)  # part of every score


def check_large_scores(ranks, shared, dtype, count, method, layout, causal):
    names = ["causal", "bias", "alibi"][not causal :]
    case = {"names": names, "method": method, "layout": layout, "seed": 1, "even": True, "shared": shared}
    if dtype == "float64":
        check(ranks, count, case | {"sizes": (1, 6, 3, 24, 24, 8, 8)})
    else:
        check_rounding(ranks, case | {"sizes": (1, 6, 6, 48, 48, 16, 16), "dtype": dtype}, 0, count, times=4)


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("shared", SHARED)
def test_scores_of_any_size_are_as_near_as_one_process(ranks, shared, count):
    check_large_scores(ranks, shared, "float32", count, "ring", "contiguous", True)
    check_large_scores(ranks, shared, "bfloat16", count, "ring", "zigzag", False)
    check_large_scores(ranks, min(shared, 1000.0), "float64", count, "ring", "zigzag", True)


@pytest.mark.parametrize("shared", SHARED)
def test_scores_of_any_size_every_way(ranks, shared):
    for way in itertools.product(("float32", "bfloat16"), (2, 3), METHODS, ("contiguous", "zigzag"), (False, True)):
        check_large_scores(ranks, shared, *way)


@pytest.mark.parametrize("method", METHODS)
def test_every_run_has_the_same_bits(ranks, method):
    case = random_case(5, 4) | {"method": method, "names": ["causal dropout", "bias", "rotary"], "dtype": "float32"}
    first, *others = (ranks.run(CASES, "together", 4, case) for _ in range(4))
    for other in others:
        for (ours, *_), (theirs, *_) in zip(first, other):
            assert all(map(torch.equal, ours, theirs))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", ["plain", "causal", "dropout", "key lengths by query", "mask", "bias", "rotary", "score", "relative"])
@pytest.mark.parametrize("layout", ["contiguous", "zigzag"])
def test_packed_sequences_are_cut_anywhere(ranks, layout, name, method):
    offsets = ([0, 5, 5, 6, 14, 19, 24], [0, 3, 7, 7, 17, 20, 24])
    case = case_of(name, 3, method, layout, offsets=offsets, sizes=(1, 6, 3, 24, 24, 8, 8))
    check(ranks, 3, case)


@pytest.mark.parametrize("method", METHODS)
def test_statistics_are_those_of_the_whole(ranks, method):
    case = case_of("causal window", 4, method)
    operands, options, _ = cases.built(case)
    expected = heed.attention(*operands, return_statistics=True, **options).statistics
    for rank, found in enumerate(ranks.run(CASES, "statistics", 4, case)):
        for ours, theirs in zip(found, expected):
            torch.testing.assert_close(ours, part(theirs, 2, case, rank, 4), rtol=0, atol=1e-12)


@pytest.mark.parametrize("method", METHODS)
def test_parts_and_sequences_may_be_empty(ranks, method):
    for sizes in ((2, 4, 4, 3, 2, 8, 8), (2, 4, 4, 0, 5, 8, 8), (2, 4, 4, 5, 0, 8, 8), (0, 4, 4, 8, 8, 8, 8)):
        check(ranks, 4, case_of("causal", 4, method, sizes=sizes))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("how", ["strided", "frozen keys", "frozen query", "no_grad", "inference_mode", "lse alone", "output alone on one"])
def test_ways_of_calling(ranks, how, method):
    case = case_of("causal", 3, method, even=True, sizes=(2, 6, 3, 12, 12, 8, 8))
    expected = expected_parts(case, 3)
    for rank, found in enumerate(ranks.run(CASES, "called", 3, case, how)):
        assert found, how
        for x, ours in found.items():
            torch.testing.assert_close(ours, expected[rank][x], rtol=0, atol=1e-12, msg=lambda m, x=x: f"{how}, result {x}: {m}")


def test_autocast_and_compilation_leave_the_call_as_it_is(ranks):
    assert all(ranks.run(CASES, "autocast_and_compiled", 2))


def test_a_group_of_some_ranks(ranks):
    case = case_of("causal", 2, "ring")
    expected = expected_parts(case, 2)
    answers = ranks.run(CASES, "in_a_group_of_the_last_two", 4, case)
    assert answers[:2] == [None, None]
    for (found, _, _), theirs in zip(answers[2:], expected):
        for ours, own in zip(found, theirs):
            torch.testing.assert_close(ours, own, rtol=0, atol=1e-12)


def test_without_a_seed_rank_0_draws_for_all(ranks):
    case = case_of("plain", 3, "ring", even=True)
    operands, _, _ = cases.built(case)
    torch.manual_seed(40)
    expected = heed.attention(*operands, dropout=0.5)
    found = ranks.run(CASES, "with_dropout_after_seeds", 3, case)
    torch.testing.assert_close(torch.cat(found, 2), expected, rtol=0, atol=1e-12)


# What is sent

SIZES = (1, 4, 2, 64, 64, 8, 8)
ROW = 2 * (8 + 8) * 8  # bytes of the keys and values of a token of SIZES


def planned(ranks, count, method="ring", layout="contiguous", sizes=SIZES, **options):
    return ranks.run(CASES, "planned", count, sizes, method, layout, options)[0]


def test_the_ring_sends_keys_to_all_others(ranks):
    plan = planned(ranks, 4)
    assert plan.forward_bytes == (3 * 16 * ROW,) * 4
    assert plan.backward_bytes == (2 * 3 * 16 * ROW,) * 4  # the same again, and gradients home


def test_under_causality_keys_go_to_later_ranks_alone(ranks):
    assert planned(ranks, 4, causal=True).forward_bytes == tuple(16 * ROW * later for later in (3, 2, 1, 0))


def test_a_window_sends_the_keys_within_it(ranks):
    assert planned(ranks, 4, causal=True, window=(5, -1)).forward_bytes == (5 * ROW,) * 3 + (0,)
    assert planned(ranks, 4, window=(5, 3)).forward_bytes == (5 * ROW, 8 * ROW, 8 * ROW, 3 * ROW)


def test_keys_beyond_lengths_are_not_sent(ranks):
    assert planned(ranks, 4, key_lengths=torch.tensor([20])).forward_bytes == (3 * 16 * ROW, 3 * 4 * ROW, 0, 0)


def test_all_to_all_sends_heads(ranks):
    # A rank's tokens of three query heads, and of the key heads of the other ranks; back the results of its own head.
    sizes = (1, 4, 4, 64, 64, 8, 8)
    sent = 3 * 16 * (8 + 8 + 8) * 8 + 48 * (8 + 1) * 8
    assert planned(ranks, 4, "all_to_all", sizes=sizes).forward_bytes == (sent,) * 4
    shared = 3 * 16 * (8 + 8 + 8) * 8 + 48 * (8 + 1) * 8  # two ranks read a key head, so it goes to three
    assert planned(ranks, 4, "all_to_all").forward_bytes == (shared,) * 4


def counted_pairs(layout, count, n, visible):
    """Of each rank, from the matrix of what is seen."""
    seen = visible(torch.arange(n)[:, None], torch.arange(n))
    case = {"layout": layout, "even": True}
    return tuple(int(part(seen, 0, case, rank, count).sum()) for rank in range(count))


@pytest.mark.parametrize("layout", ["contiguous", "zigzag"])
def test_pairs_are_counted(ranks, layout):
    def pairs(**options):
        return planned(ranks, 4, layout=layout, **options).pairs

    assert pairs() == (16 * 64,) * 4
    assert pairs(causal=True) == counted_pairs(layout, 4, 64, lambda i, j: j <= i)
    assert pairs(window=(9, 4)) == counted_pairs(layout, 4, 64, lambda i, j: (j >= i - 9) & (j <= i + 4))
    prefix = pairs(causal=True, prefix_lengths=torch.tensor([21]))
    assert prefix == counted_pairs(layout, 4, 64, lambda i, j: (j <= i) | (j < 21))
    lengths = pairs(causal=True, key_lengths=torch.tensor([50]), query_lengths=torch.tensor([60]))
    assert lengths == counted_pairs(layout, 4, 64, lambda i, j: (j <= i) & (j < 50) & (i < 60))
    # What a mask shows beside its order nobody counts.
    assert pairs(causal=True, mask=torch.ones(1, 1, 64, 64, dtype=torch.bool)) is None


def test_zigzag_balances_causal_work(ranks):
    balanced = planned(ranks, 4, causal=True, layout="zigzag").pairs
    assert max(balanced) * 4 == sum(balanced)
    uneven = planned(ranks, 4, causal=True).pairs
    assert max(uneven) * 4 > 1.7 * sum(uneven)


def test_a_window_leaves_work_even(ranks):
    # All have the same but the first rank, whose window begins before the sequence.
    sizes = (1, 4, 2, 1024, 1024, 8, 8)
    for options in ({"causal": True, "window": (31, -1)}, {"window": (20, 20)}):
        pairs = planned(ranks, 4, sizes=sizes, **options).pairs
        assert max(pairs) <= 1.1 * min(pairs)


def test_auto_says_why(ranks):
    def chosen(count=2, **options):
        plan = planned(ranks, count, "auto", **options)
        return plan.method, plan.reason

    assert chosen() == ("ring", "the busiest rank sends 24576 bytes under the ring, 25088 under all_to_all")
    many = chosen(4, sizes=(1, 4, 4, 64, 64, 8, 8))
    assert many[0] == "all_to_all" and "under the ring" in many[1]
    method, reason = chosen(4, causal=True)
    assert method == "all_to_all" and "busiest rank computes 1.74 times the mean" in reason
    assert chosen(3) == ("ring", "all_to_all is not possible: 4 query heads do not go into 3 ranks")
    method, reason = chosen(empty_row="uniform")
    assert method == "all_to_all" and reason.startswith("the ring is not possible: empty_row='uniform'")
    assert chosen(1) == ("ring", "one rank sends nothing")
    with pytest.raises(Raised, match="neither is possible"):
        chosen(3, empty_row="uniform")
    with pytest.raises(Raised, match="'all_to_all' is not possible: 3 query heads a rank, of which 2 share"):
        planned(ranks, 2, "all_to_all", sizes=(1, 6, 3, 8, 8, 8, 8))


# Layouts


def test_zigzag_and_back(ranks):
    for lengths in ([8, 8, 8, 8], [0, 20, 3, 9], [32, 0, 0, 0]):
        for rank, (moved, back, gradient) in enumerate(ranks.run(CASES, "there_and_back", 4, lengths)):
            whole = cases.numbers(3, 2, sum(lengths), 3)
            assert torch.equal(moved, heed.distributed.zigzag_part(whole, 1, rank, 4))
            assert torch.equal(back, whole.split(8, 1)[rank])
            weights = cases.numbers(4, 2, sum(lengths), 3)
            assert torch.equal(gradient, weights.split(lengths, 1)[rank])


def test_zigzag_refuses_what_does_not_go_into_parts(ranks):
    with pytest.raises(Raised, match="x: expected a number of tokens that is a multiple of 8, two parts a rank, got 30"):
        ranks.run(CASES, "there_and_back", 4, [8, 8, 8, 6])
    with pytest.raises(ValueError, match="multiple of 8"):
        heed.distributed.zigzag_part(torch.zeros(3, 12), 1, 0, 4)
    with pytest.raises(ValueError, match=r"rank: expected a number in 0\.\.3, got 4"):
        heed.distributed.zigzag_part(torch.zeros(3, 16), 1, 4, 4)


def test_a_zigzag_layout_needs_equal_parts(ranks):
    with pytest.raises(Raised, match="query: layout 'zigzag' cuts a sequence into 6 equal parts.*got \\[4, 4, 6\\]"):
        ranks.run(CASES, "of_lengths", 3, [4, 4, 6], "zigzag")


@pytest.mark.page(lambda item: {pathlib.Path("docs/distributed.md")})
def test_the_document_runs_and_prints_what_it_says(tmp_path):
    page = (pathlib.Path(__file__).resolve().parents[2] / "docs/distributed.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```py\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    (tmp_path / "attend.py").write_text(block, encoding="utf-8")
    search = str(pathlib.Path(heed.__file__).resolve().parent.parent)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "4", "attend.py"]
    environment = {**os.environ, "PYTHONPATH": search, "OMP_NUM_THREADS": "1"}
    result = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=200)
    assert result.returncode == 0, result.stderr
    lines = result.stdout.strip().splitlines()
    assert len(lines) == 2 and all(f"    {line}\n" in page for line in lines), lines
