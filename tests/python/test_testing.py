"""heed.testing.check_scheme: heed's own schemes pass it, and each kind of fault is found by the check that is meant for it."""

import functools
import shutil

import pytest
import test_axes
import test_deberta
import test_options
import test_program_schemes
import torch

import heed
from heed.positions import Fire, Kerple, None_, RelativeBias, Rotary, Scheme
from heed.testing import check_scheme

H, D = 4, 8
DYNAMIC = {"rope_type": "dynamic", "factor": 4.0, "original_max_position_embeddings": 4}


def of(schemes, name):
    return schemes(heads=H)[name]


# By name, what makes them: numbers that differ from zero, and tables that end within the steps.
SCHEMES = {
    "none": None_,
    "rotary, dynamic": lambda: Rotary(D, scaling=DYNAMIC),
    **{name: functools.partial(of, test_options.schemes, name) for name in test_options.SCHEMES},
    **{name: functools.partial(of, test_axes.schemes, name) for name in test_axes.SCHEMES},
    "DeBERTa, buckets": lambda: test_deberta.made(3, "buckets"),
    "DeBERTa, one head": lambda: test_deberta.made(1, "far ones cut"),
    **{name: lambda make=make: test_program_schemes.drawn(make()) for name, make in test_program_schemes.SCHEMES.items()},
}
BY_PLACE = {"rotary, dynamic", "fire", *test_axes.BIASES}  # what the place of all tokens changes, or is refused by
REFUSED = {
    "rotary, dynamic": {"ragged cache"},
    "Swin": {"times", "moved"},
    "Swin v2": {"times", "moved"},
    **dict.fromkeys(["relative bias", "T5", "Transformer-XL", *(n for n in SCHEMES if n.startswith(("Shaw", "DeBERTa")))], {"times"}),
}


@pytest.mark.parametrize("name", SCHEMES)
def test_schemes_of_heed(name):
    # Its frequencies are those of the longest row of a call.
    by_length = ("rows", "packed", "times") if name == "rotary, dynamic" else ()
    steps = 12 if name in test_axes.SCHEMES else 40
    report = check_scheme(SCHEMES[name], relative=name not in BY_PLACE, steps=steps, leave_out=by_length)
    told = {outcome.name: outcome.status for outcome in report.outcomes if outcome.status != "passed"}
    left_out = {"compile", "ragged cache"} if name in test_axes.SCHEMES else {"compile"}
    assert told == {**dict.fromkeys(REFUSED.get(name, ()), "refused"), **dict.fromkeys(left_out, "left out")}


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize("name", SCHEMES)
def test_schemes_of_heed_compiled(name, backend):
    if backend == "inductor" and not any(map(shutil.which, ("g++", "clang++", "c++"))):
        pytest.skip("inductor needs a C++ compiler, and there is none")
    assert check_scheme(SCHEMES[name], compile=backend, raises=False)["compile"].status == "passed"


NAMES = ["none", "rotary", "xpos", "alibi", "relative", "t5", "shaw", "transformer_xl", "deberta", "cope", "kerple", "sinusoidal_bias"]


@pytest.mark.parametrize("name", NAMES)
def test_names(name):
    assert check_scheme(name, options={"softcap": 20.0, "scale": 0.3}).passed


class Bias(Scheme):
    """A number for each head and offset, which faulty ones derive from."""

    def __init__(self):
        super().__init__()
        self.table = torch.nn.Parameter(torch.linspace(-1, 1, 9 * H).reshape(H, 9))

    def tensors(self):
        return {"relative_bias": self.table}


class Turns(Scheme):
    """A factor for each token, a wave of its position."""

    rotates = turns_once = True

    def rotate_query(self, query, positions):
        return query * self.factors(positions, query)

    def rotate_key(self, key, positions):
        return key * self.factors(positions, key)

    def factors(self, positions, x):
        at = positions if isinstance(positions, torch.Tensor) else positions + torch.arange(x.shape[2], device=x.device)
        at = at.unsqueeze(0) if at.dim() == 1 else at
        return (1.5 + torch.cos(at[:, None, :, None] / 10)).to(x)


class OfAnotherSlope(Bias):
    def tensors(self):
        return {"relative_bias": 1.5 * self.table - 0.5 * self.table.detach()}


class MadeOnce(Bias):
    def __init__(self):
        super().__init__()
        self.made = 2 * self.table.detach()

    def tensors(self):
        return {"relative_bias": self.made}


class ForgetsWhereKeysStand(Turns):
    def rotate_key(self, key, positions):
        return super().rotate_key(key, positions if isinstance(positions, torch.Tensor) else 0)


class KeepsTheFirstOfALength(Turns):
    def __init__(self):
        super().__init__()
        self.kept = {}

    def factors(self, positions, x):
        return self.kept.setdefault(tuple(x.shape[2:]), super().factors(positions, x))


class TakesTheMean(Turns):
    def rotate_key(self, key, positions):
        return key * key.mean(2, keepdim=True)


class CountsFromTheCall(Turns):
    def factors(self, positions, x):
        return super().factors(0, x)


class TakesTheFirstRow(Turns):
    def factors(self, positions, x):
        return super().factors(positions[:1] if isinstance(positions, torch.Tensor) and positions.dim() == 2 else positions, x)


class Widens(Turns):
    def rotate_query(self, query, positions):
        return query.double()


class RoundsPositions(Turns):
    def factors(self, positions, x):
        at = positions if isinstance(positions, torch.Tensor) else positions + torch.arange(x.shape[2], device=x.device)
        return super().factors(at.to(x.dtype), x)


class Views(Turns):
    def rotate_query(self, query, positions):
        return super().rotate_query(query.view(-1).view(query.shape), positions)


class ReadsANumber(Bias):
    def tensors(self):
        return {"relative_bias": self.table * float(self.table.detach()[0, 0])}


class DividesByTheLength(Turns):
    def rotate_key(self, key, positions):
        return super().rotate_key(key * (key.shape[2] // key.shape[2]), positions)


class Shared(Bias):
    def __deepcopy__(self, memo):
        return self


class CannotBeCopied(Bias):
    def __init__(self):
        super().__init__()
        self.made = 2 * self.table


class BesideTheState(Bias):
    def __init__(self):
        super().__init__()
        self.rates = torch.rand(H, 1)

    def tensors(self):
        return {"relative_bias": self.table * self.rates}


class NoParameter(Bias):
    def __init__(self):
        super().__init__()
        self.rates = torch.rand(H, 1).requires_grad_()


class Noisy(Bias):
    def tensors(self):
        return {"relative_bias": self.table + 1e-12 * torch.rand_like(self.table)}


class Branches(Bias):
    def tensors(self):
        return {"relative_bias": self.table if self.table.sum() > 0 else -self.table}


FAULTS = {
    OfAnotherSlope: ["gradients"],
    MadeOnce: ["gradients", "copies"],
    ForgetsWhereKeysStand: ["cache"],
    KeepsTheFirstOfALength: ["cache"],
    TakesTheMean: ["rows", "packed"],
    CountsFromTheCall: ["cache", "left padding", "positions"],
    TakesTheFirstRow: ["times", "ragged cache"],
    Widens: ["types"],
    RoundsPositions: ["types"],
    Views: ["strides"],
    ReadsANumber: ["meta"],
    DividesByTheLength: ["empty"],
    Shared: ["copies"],
    CannotBeCopied: ["copies"],
    BesideTheState: ["state"],
    NoParameter: ["state"],
    Noisy: ["threads"],
    Branches: ["compile"],
}


@pytest.mark.parametrize("kind", FAULTS, ids=lambda kind: kind.__name__)
def test_faults_are_found(kind):
    options = {"heads": H, "compile": "aot_eager" if "compile" in FAULTS[kind] else False}
    report = check_scheme(kind, **options, raises=False)
    assert set(FAULTS[kind]) <= {outcome.name for outcome in report.failures}, report
    with pytest.raises(AssertionError, match="FAILED"):
        check_scheme(kind, **options)


@pytest.mark.parametrize("kind", [Bias, Turns])
def test_what_the_faulty_ones_derive_from_passes(kind):
    assert check_scheme(kind).passed


class AtABound(Bias):
    """A parameter that begins where a clamp ends: its gradient is one of those between the slopes of both sides."""

    def __init__(self):
        super().__init__()
        self.gate = torch.nn.Parameter(torch.ones(H, 1))

    def tensors(self):
        return {name: tensor * self.gate.clamp(0, 1) for name, tensor in super().tensors().items()}


class GrowsWithThePosition(Scheme):
    """Queries and keys of far tokens are large, and so is what rounding does to their scores."""

    rotates = turns_once = True

    def rotate_query(self, query, positions):
        at = positions if isinstance(positions, torch.Tensor) else positions + torch.arange(query.shape[2], device=query.device)
        at = (at.unsqueeze(0) if at.dim() == 1 else at)[:, None, :, None]
        return (query.double() * torch.log1p(at.double().clamp(min=0))).to(query)

    rotate_key = rotate_query


@pytest.mark.parametrize("kind", [AtABound, GrowsWithThePosition])
def test_right_schemes_that_are_hard_to_measure_pass(kind):
    for seed, without in enumerate((torch.enable_grad, torch.no_grad, torch.inference_mode)):
        with without():
            check_scheme(kind, heads=H, head_dim=D, seed=seed)


def test_a_report_tells_what_was_found():
    report = check_scheme(OfAnotherSlope, leave_out=["cache", "threads"], raises=False)
    (failure,) = report.failures
    assert not report.passed and report["gradients"] is failure and "cache" not in [outcome.name for outcome in report.outcomes]
    assert failure.told.startswith("the gradient of parameter table at [") and "finite differences give" in failure.told
    table = str(report)
    assert table.startswith("OfAnotherSlope, 4 heads of 8, 12 tokens, seed 0: ") and "1 failed" in table
    assert "  FAILED    gradients   " in table and "  left out  compile   " in table and "compile=True tries it" in table
    assert max(map(len, table.splitlines())) <= 132
    assert str(check_scheme(OfAnotherSlope, leave_out=["cache", "threads"], raises=False)) == table
    with pytest.raises(AssertionError) as raised:
        check_scheme(Views)
    assert isinstance(raised.value.__cause__, RuntimeError) and "raises RuntimeError: view size is not compatible" in str(raised.value)


def test_a_seed_draws_other_operands_and_the_same_again():
    seen = []

    class Looks(Turns):
        def rotate_query(self, query, positions):
            seen[-1].append(query.detach().nan_to_num().sum().item())
            return super().rotate_query(query, positions)

    for seed in (0, 1, 0):
        seen.append([])
        check_scheme(Looks, seed=seed, leave_out=["gradients", "meta"])
    assert seen[0] == seen[2] and seen[0][0] != seen[1][0]


def test_a_refusal_by_name_is_told():
    refused = check_scheme(RelativeBias(H, 3))["times"]
    assert refused.status == "refused" and refused.told.startswith("query_positions: relative_bias is a table by whole")


def test_a_call_that_fails_leaves_out_the_rest():
    report = check_scheme(Kerple(3), heads=4, raises=False)
    assert report["call"].told == "raises ValueError: position: Kerple has 3 heads, query has 4"
    assert {outcome.status for outcome in report.outcomes[1:]} == {"left out"}


def test_what_has_to_be_relative():
    with pytest.raises(AssertionError, match="FAILED    moved"):
        check_scheme(Fire(2, 4, threshold=3.0), relative=True)
    assert "depends on where tokens stand" in check_scheme(Fire(2, 4, threshold=3.0))["moved"].told


def test_what_is_given_stays_as_it_is():
    scheme = RelativeBias(H, 3)
    check_scheme(scheme)
    assert not scheme.relative_bias.any() and scheme.relative_bias.dtype == torch.float32 and scheme.training
    state, count = torch.get_rng_state(), torch.get_num_threads()
    check_scheme("shaw")
    assert torch.equal(torch.get_rng_state(), state) and torch.get_num_threads() == count


def statuses(report):
    return {outcome.name: outcome.status for outcome in report.outcomes if outcome.status != "passed"}


def test_programs():
    rate, kind = torch.nn.Parameter(torch.full((H,), -1.0)), torch.tensor([0] * 5 + [1] * 7)
    decay = heed.score(lambda s, b, h, i, j, at, of: s - rate.exp()[h] * (at - of).abs(), positions=True)
    left_out = dict.fromkeys(("copies", "state", "compile"), "left out")
    assert statuses(check_scheme(decay, relative=True)) == left_out
    near = heed.mask(lambda b, h, i, j, at, of: at - of < 4, positions=True)
    assert statuses(check_scheme(near, compile="aot_eager")) == {name: "left out" for name in ("copies", "state")}
    same = heed.mask(lambda b, h, i, j: kind[i] == kind[j])
    assert statuses(check_scheme(same)) == left_out | dict.fromkeys(("cache", "ragged cache", "left padding"), "left out")
    by_row = heed.score(lambda s, b, h, i, j: s * torch.exp(rate)[h] + b)
    assert statuses(check_scheme(by_row)) == left_out | dict.fromkeys(("ragged cache", "rows", "packed", "times"), "left out")
    with pytest.raises(AssertionError, match="the output is not finite; reads beyond a captured tensor"):
        check_scheme(heed.score(lambda s, b, h, i, j: s + rate[h]), heads=H + 1)


class ByHead(torch.nn.Module):
    """As users write one around heed.attention."""

    def __init__(self):
        super().__init__()
        self.slopes = torch.nn.Parameter(torch.rand(H))
        self.score = heed.score(lambda s, b, h, i, j: s + self.slopes[h] * (j - i))

    def forward(self, query, key, value):
        return heed.attention(query, key, value, score=self.score)


MODULES = {
    "by head": ByHead,
    "multi-head": lambda: heed.nn.MultiHeadAttention(16, 4, 0.1, True, kv_heads=2, causal=True, position=Rotary(4)),
    "encoder": lambda: heed.nn.AttentionEncoder(16, heads=2, layers=1, causal=True, position="alibi"),
    "recurrent": lambda: heed.nn.RecurrentAttentionEncoder(16, heads=2, layers=1),
    "retention": lambda: heed.nn.LinearEncoder(16, mixer="retention", heads=2, layers=1, causal=True),
    "gated-delta": lambda: heed.nn.LinearEncoder(16, mixer="gated-delta", heads=2, layers=1, causal=True),
    "sinusoidal": lambda: heed.positions.Sinusoidal(16, 20),
    "learned": lambda: heed.positions.Learned(16, 20),
}


@pytest.mark.parametrize("name", MODULES)
def test_modules(name):
    left_out = {"by head": {"cache", "rows"}, "recurrent": {"cache"}, "sinusoidal": {"cache", "rows"}, "learned": {"cache", "rows"}}
    # A program does not see a Parameter that takes the place of another, as on meta.
    refused = {"meta": "refused"} if name == "by head" else {}
    assert statuses(check_scheme(MODULES[name])) == dict.fromkeys({"compile", *left_out.get(name, ())}, "left out") | refused


def test_inputs_of_a_module():
    inputs = [torch.zeros(2, 5, 16), torch.linspace(0, 1, 10, dtype=torch.float64).reshape(2, 5)]
    assert check_scheme(lambda: heed.positions.RandomFourier(16, trainable=True), inputs=inputs).passed

    class Narrow(torch.nn.Module):
        def forward(self, X):
            return X.float()

    with pytest.raises(AssertionError, match=r"the output of float64 is torch\.float32"):
        check_scheme(Narrow(), inputs=inputs[:1])


def test_arguments_that_are_refused():
    for nothing in (3, None, torch.zeros(2), lambda s, b, h, i, j: s):
        with pytest.raises(TypeError, match=r"^scheme: expected a name, a scheme of heed\.positions, .*, got "):
            check_scheme(nothing)
    with pytest.raises(TypeError, match="^scheme: expected a function that makes a scheme, a program or a module, got int"):
        check_scheme(lambda: 3)
    with pytest.raises(ValueError, match="^position: expected one of none, .* got 'rotory'"):
        check_scheme("rotory")
    with pytest.raises(ValueError, match="^leave_out: expected names of call, .*, got gradient$"):
        check_scheme("rotary", leave_out=["gradient"])
    with pytest.raises(ValueError, match="^steps: expected at least 2, got 1"):
        check_scheme("rotary", steps=1)
