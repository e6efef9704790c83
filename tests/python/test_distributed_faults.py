"""Ranks that disagree, refuse, are late or die: every other rank ends with an error that says so, within the time-out."""

import random
import time

import pytest
import torch
from ranks import Raised, Ranks

import heed
import heed.distributed

FAULTS = "distributed_faults"


@pytest.fixture(scope="module")
def ranks():
    with Ranks(3) as processes:
        yield processes


def raised(ranks, function, count, *arguments):
    """What each rank raised, (type, message)."""
    with pytest.raises(Raised) as caught:
        ranks.run(FAULTS, function, count, *arguments)
    return [answer and answer[:2] for answer in caught.value.by_rank]


# What rank 1 is called with instead, and what every rank says.
DIFFERENCES = {
    "dtype": ({"dtype": "float64"}, "query: ranks 0, 2 have float32 [1, 6, *, 8]; rank 1 has float64 [1, 6, *, 8]"),
    "heads": ({"heads": 3}, "query: ranks 0, 2 have float32 [1, 6, *, 8]; rank 1 has float32 [1, 3, *, 8]"),
    "width": ({"width": 4}, "rank 1 has float32 [1, 6, *, 4]"),
    "method": ({"method": "all_to_all"}, "method: ranks 0, 2 have ring; rank 1 has all_to_all"),
    "layout": ({"layout": "zigzag"}, "layout: ranks 0, 2 have contiguous; rank 1 has zigzag"),
    "number": ({"options": {"dropout": 0.2, "seed": 1}}, "dropout: ranks 0, 2 have 0; rank 1 has 0.2"),
    "lengths": (
        {"options": {"key_lengths": torch.tensor([5])}},
        "key_lengths: ranks 0, 2 have None; rank 1 has int64 [1] [5]",
    ),
    "scheme": ({"scheme": ("Rotary", 8)}, "position: ranks 0, 2 have None; rank 1 has Rotary"),
    "program": ({"factor": 3.0}, "score: ranks 0, 2 have "),
    "version": ({"version": "9.9"}, "version: ranks 0, 2 have " + heed.__version__ + "; rank 1 has 9.9"),
    "gradient": ({"requires_grad": True}, "rank 1 has float32 [1, 6, *, 8] that requires a gradient"),
    "function": ({"function": "plan"}, "function: ranks 0, 2 have heed.distributed.attention; rank 1 has heed.distributed.plan"),
}


@pytest.mark.parametrize("what", DIFFERENCES)
def test_every_rank_names_the_difference(ranks, what):
    different, expected = DIFFERENCES[what]
    for kind, message in raised(ranks, "differing", 3, different):
        assert kind == "ValueError" and "the ranks disagree" in message and expected in message, message


def test_differences_of_masks_and_positions_are_found(ranks):
    same = torch.ones(1, 1, 12, 12, dtype=torch.bool)
    other = same.clone()
    other[0, 0, 3, 2] = False
    for name, values in (("mask", (same, other)), ("query_positions", (torch.arange(12), torch.arange(12) + 1))):
        for kind, message in raised(ranks, "with_own_options", 2, [{name: value} for value in values]):
            assert kind == "ValueError" and f"{name}: rank 0 has" in message, message


T5 = ("T5Bias", (6, 32, 128))
OWN = {"scheme": ("Own", ())}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}
# What ranks 0 and 1 are called with, and what is told: of each rank what differs, or by name the one that refused.
DISAGREEMENTS = {
    "heads of a scheme": ({"scheme": ("Alibi", (6,))}, {"scheme": ("Alibi", (5,))}, "rank 1: "),
    "distances": ({"scheme": T5}, {"scheme": ("T5Bias", (6, 32, 64))}, "relative_bias: rank 0 has float32"),
    "direction": ({"scheme": T5}, {"scheme": ("T5Bias", (6, 32, 128, False))}, "position.bucket_of_offset: rank 0 has int64 [257] "),
    "scaling": ({"scheme": ("Rotary", (8,))}, {"scheme": ("Rotary", (8, 1e4, "half", None, YARN))}, "position.scaling."),
    "base": ({"scheme": ("Rotary", (8,))}, {"scheme": ("Rotary", (8, 500.0))}, "position.base: rank 0 has 10000.0; rank 1 has 500.0"),
    "kind": ({"scheme": ("Rotary", (8,))}, {"scheme": ("XPos", (8,)), "causal": True}, "position: rank 0 has Rotary; rank 1 has XPos"),
    "buffer": ({"scheme": ("Alibi", (6,))}, {"scheme": ("Alibi", (6,), ("slopes", 0.5))}, "position.slopes: rank 0 has float32 [6] ["),
    "large buffer": (OWN, {"scheme": ("Own", (), ("weights", 0.5))}, "position.weights: rank 0 has float32 [6, 2000] "),
    "trained": (OWN, {"scheme": ("Own", (), ("table", False))}, "position.table: rank 0 has float32 [6, 9] that requires"),
    "raises": (OWN, {"scheme": ("Own", ("raises",))}, "rank 1: LookupError: there is no table here"),
    "shape": (OWN, {"scheme": ("Own", ("is shorter",))}, "relative_bias: rank 0 has float32 [6, 9] that"),
    "number": (OWN, {"scheme": ("Own", ("has slopes",))}, "slopes: rank 0 has None; rank 1 has float32 [6]"),
    "frozen": (OWN, {"scheme": ("Own", ("is frozen",))}, "relative_bias: rank 0 has float32 [6, 9] that requires"),
    "missing": ({"causal": True}, {}, "causal: rank 0 has"),
    "keys alone": ({"requires_grad": (True, False, True)}, {}, "key: rank 0 has float32 [1, 6, *, 8]; rank 1 has"),
    "bias": ({"bias": torch.zeros(12, 12)}, {"bias": torch.eye(12)}, "bias: rank 0 has float32 [1, 1, 12, 12] "),
    "number that no integer holds": ({"window": (3, 3)}, {"window": (2**70, 3)}, "rank 1: "),
    "kind of number": ({"softcap": 3.0}, {"softcap": "3"}, "rank 1: "),
}


@pytest.mark.parametrize("what", DISAGREEMENTS)
def test_what_a_call_uses_is_compared_before_anything_is_sent(ranks, what):
    *arguments, expected = DISAGREEMENTS[what]
    kinds, messages = zip(*raised(ranks, "with_own_arguments", 2, arguments))
    assert any(expected in message for message in messages), messages
    assert ("ValueError", "ValueError") == kinds or any("refused on other ranks: rank 1: " in message for message in messages)
    for method in ("ring", "all_to_all"):
        assert ranks.run(FAULTS, "with_own_arguments", 2, [OWN | {"method": method}] * 2) == [True, True]


def test_numbers_that_change_where_they_lie_are_compared_anew(ranks):
    for before, before_again, *differ, after, after_again in ranks.run(FAULTS, "changed_in_place", 2, [1]):
        assert [before, before_again, after, after_again] == [None] * 4
        assert all("bias: rank 0 has float32 [1, 8, 12, 12] " in message for message in differ)


ONES = torch.ones(12, 12, dtype=torch.bool)
# Of each argument values of which no two do the same; None: not given.
VALUES = {
    "method": ["ring", "all_to_all", "auto"], "layout": ["contiguous", "zigzag"], "causal": [None, True, "top_left"],
    "window": [None, (3, 2), (5, 0), (5, 1)], "softcap": [None, 2.0, 3.0, "2"], "scale": [None, 0.3, 0.5],
    "dropout": [None, 0.1, 0.3], "seed": [1, 2, -3], "batch_offset": [None, 3, 2**65], "factor": [None, 2.0, 3.0],
    "key_lengths": [None, torch.tensor([7]), torch.tensor([12]), torch.tensor([13])],
    "query_lengths": [None, torch.tensor([7])], "prefix_lengths": [None, torch.tensor([3]), torch.tensor([4])],
    "mask": [None, ONES, ONES.tril(), ONES[:, :6], ONES.triu().expand(1, 6, 12, 12)],
    "bias": [None, torch.zeros(12, 12), torch.eye(12), torch.zeros(1, 12), torch.zeros(12, 12, requires_grad=True)],
    "query_positions": [None, 2, torch.arange(12), torch.arange(12) * 0.5, torch.arange(11)],
    "key_positions": [None, 3, torch.arange(12) * 2], "empty_row": ["zero", "uniform", "none"],
    "precision": ["float32", "fused"], "return_lse": [False, True], "return_statistics": [False, True],
    "packed": [None, (torch.tensor([0, 5, 12]), torch.tensor([0, 5, 12])), (torch.tensor([0, 6, 12]), torch.tensor([0, 5, 12]))],
    "shape": [(1, 6, 6, 8), (1, 3, 6, 8), (1, 6, 6, 4), (2, 6, 6, 8), (6, 6, 8)],
    "dtype": [torch.float32, torch.float64, torch.bfloat16, torch.int64],
    "requires_grad": [(True, True, True), (True, True, False), (False, True, True), (False, False, False)],
    "colour": [None, "red"],
    "scheme": [
        None, ("Alibi", (6,)), ("Alibi", (5,)), ("Alibi", (6, False)), ("Alibi", (6,), ("slopes", 0.5)), T5, ("T5Bias", (6, 32, 64)),
        ("T5Bias", (6, 32, 128, False)), ("T5Bias", (6, 16, 128)), ("Rotary", (8,)), ("Rotary", (8, 500.0)), ("Rotary", (4,)),
        ("Rotary", (8, 1e4, "interleaved")), ("Rotary", (8, 1e4, "half", 4)), ("Rotary", (8, 1e4, "half", None, YARN)),
        ("XPos", (8,)), ("RelativeBias", (6, 4)), ("RelativeBias", (6, 5)), ("Shaw", (8, 4)), ("Learned", (8, 12)), ("Kerple", (6,)),
        ("Own", ()), ("Own", ("raises",)), ("Own", ("is shorter",)), ("Own", ("is frozen",)), ("Own", ("has slopes",)),
        ("Own", (), ("weights", 0.5)), ("Own", (), ("table", False)), ("Cope", (8, 5)), ("TransformerXL", (6, 8, 9)),
    ],
}  # fmt: skip


def random_disagreement(draw):
    """Arguments of ranks 0 and 1 that differ in one."""
    differs = draw.choice([*VALUES, *["scheme"] * 20])
    both = {name: draw.choice(VALUES[name]) for name in draw.sample([*VALUES], 2) if name != differs and name != "colour"}
    if differs in ("seed", "batch_offset"):
        both |= {"dropout": 0.2, "seed": 1}
    pair = [both | {differs: value} for value in draw.sample(VALUES[differs], 2)]
    return differs, [{name: value for name, value in of.items() if value is not None} for of in pair]


def check_disagreements(ranks, seed, count):
    draw = random.Random(seed)
    for _ in range(count):
        differs, arguments = random_disagreement(draw)
        begin = time.monotonic()
        found = raised(ranks, "with_own_arguments", 2, arguments)
        assert time.monotonic() - begin < 10, arguments
        for kind, message in found:
            assert kind in ("ValueError", "TypeError", "RuntimeError", "LookupError"), (arguments, message)
            assert message.isascii() and message.replace("\n", " ").isprintable(), (arguments, message)
            assert "waited for" not in message, (arguments, message)


def test_random_disagreements(ranks):
    check_disagreements(ranks, 1, 40)


def test_three_hundred_random_disagreements(ranks):
    check_disagreements(ranks, 2, 300)
    assert all(ranks.run(FAULTS, "differing", 3, {}))


def test_a_rank_that_refuses_its_arguments_tells_the_others(ranks):
    found = raised(ranks, "differing", 3, {"key_tokens": 5, "value_tokens": 4})
    assert found[1] == ("ValueError", "value: expected [B, Hkv, Nk, Dv] = [1, 6, 5, 8], got [1, 6, 4, 8]")
    for kind, message in (found[0], found[2]):
        assert kind == "RuntimeError" and "refused on other ranks: rank 1: ValueError: " in message


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"key_lengths": torch.tensor([19])}, "key_lengths: expected values in 0..18, got 19"),
        ({"query_positions": torch.arange(6)}, "query_positions: expected [1, N] or [B, N] with B = 1 and N = 18, got [1, 6]"),
        ({"mask": torch.ones(6, 6, dtype=torch.bool)}, "mask"),
        ({"window": (1, 2, 3)}, "window: expected (left, right)"),
        ({"colour": "red"}, "colour: not an option of heed.distributed.attention"),
        ({"return_weights": True}, "return_weights: not returned by heed.distributed"),
        ({"packed": ([0, 17], [0, 18])}, "query_offsets: expected to end at the 18 queries of all ranks, got 17"),
        ({"packed": ([0, 18], [0, 5]), "method": "ring"}, "key_offsets: expected to end at the 18 keys of all ranks, got 5"),
        ({"position": heed.positions.Learned(8, 18)}, "position: Learned is added to the input"),
    ],
)  # fmt: skip
def test_options_are_those_of_the_whole_sequence(ranks, options, expected):
    for kind, message in raised(ranks, "with_own_options", 3, [options] * 3):
        assert kind in ("ValueError", "TypeError", "RuntimeError") and expected in message, message


def test_calls_go_on_after_a_disagreement(ranks):
    raised(ranks, "differing", 3, {"method": "all_to_all"})
    assert all(ranks.run(FAULTS, "differing", 3, {}))


def test_without_a_group():
    x = torch.zeros(1, 2, 3, 4)
    for function in (heed.distributed.attention, heed.distributed.plan):
        with pytest.raises(ValueError, match="group: expected torch.distributed to be initialised"):
            function(x, x, x)
    with pytest.raises(ValueError, match="group: expected torch.distributed to be initialised"):
        heed.distributed.zigzag(x, 2)


@pytest.mark.parametrize("method", ["ring", "all_to_all"])
def test_a_second_derivative_and_forward_mode_raise(ranks, method):
    assert all(ranks.run(FAULTS, "second_derivative", 2, method))


def test_other_threads_run_while_a_rank_waits(ranks):
    assert ranks.run(FAULTS, "turns_while_waiting", 2, 1.0)[0] >= 10


def killed(seconds, method, timeout=6.0):
    """What the others raise when rank 1 of 3 dies so long after all began to attend again and again."""
    with Ranks(3, timeout) as processes:
        processes.start(FAULTS, "again_and_again", 3, method)
        time.sleep(seconds)
        processes.kill(1)
        start = time.monotonic()
        with pytest.raises(Raised) as caught:
            processes.answers(3, timeout + 20)
        assert time.monotonic() - start < timeout + 10
        assert caught.value.by_rank[1] is None
        return [caught.value.by_rank[rank] for rank in (0, 2)]


def check_killed(answers):
    for kind, message, _ in answers:
        assert kind == "RuntimeError" and message.startswith("heed.distributed.attention: rank "), message
        assert " of 3 waited for rank " in message and ".cc" not in message, message
    assert any("waited for rank 1, " in message for _, message, _ in answers)


def test_a_rank_that_dies():
    check_killed(killed(1.5, "ring"))


@pytest.mark.long
def test_ranks_that_die_at_twenty_random_moments():
    draw = random.Random(3)
    for x in range(20):
        check_killed(killed(draw.uniform(0.2, 3.0), ("ring", "all_to_all")[x % 2]))


def test_a_rank_that_is_late():
    with Ranks(2, timeout=2.0) as processes:
        found = raised(processes, "late", 2, 5.0)
    kind, message = found[0]
    assert kind == "RuntimeError"
    assert "rank 0 of 2 waited for rank 1, whose arguments are compared before anything is computed: " in message
    assert "imed out" in message
