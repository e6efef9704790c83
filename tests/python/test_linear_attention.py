"""heed.linear_attention and heed.gated_delta_rule: equal to their recurrences, and to transformers' slow paths."""

import functools
import shutil

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

import heed

FUNCTIONS = [heed.linear_attention, heed.gated_delta_rule]
BOTH = pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)


def random(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def call(function, batch=2, heads=3, steps=150, dim=7, columns=5, dtype=torch.float64, seed=0):
    """Arguments by name: keys of length 1, decays and beta in the range of models."""
    key = torch.nn.functional.normalize(random(batch, heads, steps, dim, seed=seed + 1), dim=-1)
    given = {"query": random(batch, heads, steps, dim, seed=seed), "key": key}
    given["value"] = random(batch, heads, steps, columns, seed=seed + 2)
    if function is heed.gated_delta_rule:
        given["beta"] = random(batch, heads, steps, seed=seed + 3).sigmoid()
    given["decay"] = torch.nn.functional.logsigmoid(random(batch, heads, steps, seed=seed + 4))
    given["initial_state"] = random(batch, heads, dim, columns, seed=seed + 5)
    return {name: tensor.to(dtype) for name, tensor in given.items()}


def recurrence(query, key, value, beta=None, decay=None, initial_state=None, normalise=False):
    """The definition, step by step: (output, state)."""
    if normalise:
        value = torch.cat([value, torch.ones_like(value[..., :1])], -1)
    state = query.new_zeros(*key.shape[:2], key.shape[3], value.shape[3]) if initial_state is None else initial_state
    outputs = []
    for t in range(query.shape[2]):
        if decay is not None:
            state = state * decay[..., t % decay.shape[-1]].exp()[..., None, None]
        added = value[:, :, t]
        if beta is not None:
            added = beta[:, :, t, None] * (added - torch.einsum("bhdv,bhd->bhv", state, key[:, :, t]))
        state = state + key[:, :, t, :, None] * added[:, :, None]
        outputs.append(torch.einsum("bhdv,bhd->bhv", state, query[:, :, t]))
    output = torch.stack(outputs, 2)
    return (output[..., :-1] / output[..., -1:] if normalise else output), state


def results(function, given, **options):
    """Output, state and the gradients of all arguments for random cotangents."""
    given = {name: tensor.clone().requires_grad_() for name, tensor in given.items()}
    output, state = function(**given, **options)
    cotangents = [random(*result.shape, seed=20 + i).to(result.dtype) for i, result in enumerate((output, state))]
    return [output, state, *torch.autograd.grad((output, state), tuple(given.values()), cotangents)]


def assert_close(ours, theirs, tolerance):
    for mine, other in zip(ours, theirs, strict=True):
        assert mine.shape == other.shape
        scale = max(1.0, other.abs().max().item()) if other.numel() else 1.0
        assert (mine.double() - other.double()).abs().max().item() <= tolerance * scale


@BOTH
@pytest.mark.parametrize("kind", ["steps", "head", "none", "strong"])
def test_results_and_gradients_are_those_of_the_recurrence(function, kind):
    given = call(function)
    per_head = {"decay": random(3, seed=6).abs().neg()}
    given |= {"head": per_head, "strong": {"decay": 40 * given["decay"]}}.get(kind, {})
    if kind == "none":
        del given["decay"], given["initial_state"]
    slow = recurrence if kind != "head" else lambda decay, **others: recurrence(decay=decay[None, :, None], **others)
    assert_close(results(function, given, return_state=True), results(slow, given), 1e-12)


def test_a_normaliser_divides_by_the_sum_of_weights():
    given = call(heed.linear_attention)
    given |= {name: given[name].exp() for name in ("query", "key")}
    given["initial_state"] = random(2, 3, 7, 6, seed=9).exp()
    ours = results(heed.linear_attention, given, normalise=True, return_state=True)
    assert_close(ours, results(recurrence, given, normalise=True), 1e-12)


@BOTH
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.bfloat16, 2**-8), (torch.float16, 2**-11)])
def test_other_types_are_computed_in_float32_and_rounded_once(function, dtype, tolerance):
    """float32: sums of some hundred terms, each rounded at 6e-8 of the largest. 16 bits: half a unit in the last place more."""
    given = call(function, dtype=dtype)
    output, state = function(**given, return_state=True)
    assert output.dtype == dtype and state.dtype == torch.float32
    expected = recurrence(**{name: tensor.double() for name, tensor in given.items()})
    assert_close([output], expected[:1], tolerance + 1e-5)
    assert_close([state], expected[1:], 1e-5)
    gradients = results(function, given, return_state=True)[2:]
    assert [g.dtype for g in gradients] == [dtype] * len(given)


@BOTH
def test_parts_that_hand_on_their_states_are_one_pass(function):
    given = call(function)
    whole = function(**given, return_state=True)
    state, outputs = given.pop("initial_state"), []
    for part in (slice(0, 1), slice(1, 90), slice(90, 150)):
        of_part = {name: tensor[:, :, part] for name, tensor in given.items()}
        output, state = function(**of_part, initial_state=state, return_state=True)
        outputs.append(output)
    assert_close([torch.cat(outputs, 2), state], whole, 1e-13)


@BOTH
def test_lengths_and_offsets(function):
    given = call(function)
    lengths = [40, 150]
    padded = function(**given, lengths=torch.tensor(lengths, dtype=torch.int32), return_state=True)
    alone = [
        function(**{n: t[b : b + 1] if n == "initial_state" else t[b : b + 1, :, :length] for n, t in given.items()}, return_state=True)
        for b, length in enumerate(lengths)
    ]
    assert not padded[0][0, :, 40:].any()
    packed = {n: t if n == "initial_state" else torch.cat([t[:1, :, :40], t[1:]], 2) for n, t in given.items()}
    tokens = function(**packed, offsets=torch.tensor([0, 40, 190]), return_state=True)
    for b, (output, state) in enumerate(alone):
        assert_close([padded[0][b : b + 1, :, : lengths[b]], padded[1][b : b + 1]], [output, state], 1e-14)
        assert_close([tokens[0][:, :, 40 * b : 40 + 150 * b], tokens[1][b : b + 1]], [output, state], 1e-14)


@BOTH
def test_heads_are_shared_by_neighbours(function):
    given = call(function, heads=4)
    shared = {**given, "query": given["query"][:, :2].detach(), "key": given["key"][:, :1]}
    full = {**shared, "query": shared["query"].repeat_interleave(2, 1), "key": shared["key"].expand(-1, 4, -1, -1)}
    ours, theirs = results(function, shared, return_state=True), results(function, full, return_state=True)
    theirs[2] = theirs[2].unflatten(1, (2, 2)).sum(2)
    theirs[3] = theirs[3].sum(1, keepdim=True)
    assert_close(ours, theirs, 1e-13)


@BOTH
def test_derivatives(function):
    given = {n: t.requires_grad_() for n, t in call(function, batch=1, heads=2, steps=5, dim=3, columns=2).items()}
    names = list(given)

    def run(*tensors):
        return function(**dict(zip(names, tensors)), return_state=True)

    assert torch.autograd.gradcheck(run, tuple(given.values()))
    (gradient,) = torch.autograd.grad(run(*given.values())[0].sum(), given["query"], create_graph=True)
    with pytest.raises(RuntimeError, match="second derivative"):
        gradient.sum().backward()
    with pytest.raises(NotImplementedError, match="forward-mode"):
        torch.func.jvp(run, tuple(given.values()), tuple(given.values()))


@pytest.mark.parametrize("function, normalise", [(heed.linear_attention, False), (heed.linear_attention, True), (heed.gated_delta_rule, False)],
                         ids=["linear", "normalised", "delta"])
def test_the_operators_pass_opcheck(function, normalise):
    given = call(function, steps=5)
    if normalise:
        given["initial_state"] = random(2, 3, 7, 6)
    for name in ("query", "value", "decay"):
        given[name].requires_grad_()
    forward, backward = torch.ops.heed.linear_mixer_forward.default, torch.ops.heed.linear_mixer_backward.default
    operands = [given.get(n) for n in ("query", "key", "value", "decay", "beta", "initial_state")]
    lengths = [torch.tensor([5, 3]), None]
    torch.library.opcheck(forward, (*operands, *lengths), {"normalise": normalise})
    detached = [t if t is None else t.detach() for t in operands]
    output, state, sums = forward(*detached, *lengths, normalise=normalise)
    assert (sums is not None) == normalise
    saved = (output, sums) if normalise else ()
    torch.library.opcheck(backward, (output, state, *detached, *lengths, *saved), {"normalise": normalise, "want_key": False})


@BOTH
@pytest.mark.parametrize("decays", ["steps", "head"])
def test_vmap_over_everything_is_a_loop(function, decays):
    given = call(function, batch=6, steps=70)
    given = {name: tensor.unflatten(0, (3, 2)) for name, tensor in given.items()}
    if decays == "head":
        given["decay"] = random(3, 3, seed=7).abs().neg()

    def of_one(given):
        return torch.func.grad(lambda g: function(**g).square().sum())(given)

    mapped = torch.vmap(of_one)(given)
    alone = [of_one({name: tensor[i] for name, tensor in given.items()}) for i in range(3)]
    assert_close(mapped.values(), [torch.stack([one[n] for one in alone]) for n in given], 1e-13)
    shared = torch.vmap(lambda query: function(**{n: t[0] for n, t in given.items() if n != "query"}, query=query))(given["query"])
    assert_close([shared[1]], [function(**{**{n: t[0] for n, t in given.items()}, "query": given["query"][1]})], 1e-13)


# One function is enough for inductor: the operators are the same.
@pytest.mark.parametrize("function, backend", [*((f, "aot_eager") for f in FUNCTIONS), (heed.linear_attention, "inductor")],
                         ids=["linear-aot_eager", "delta-aot_eager", "inductor"])
def test_a_compiled_call_is_the_same(function, backend):
    if backend == "inductor" and not any(map(shutil.which, ("g++", "clang++", "c++"))):
        pytest.skip("inductor needs a C++ compiler, and there is none")
    torch._dynamo.reset()
    given = call(function, steps=20, dtype=torch.float32)
    compiled = torch.compile(functools.partial(function, return_state=True), fullgraph=True, backend=backend)
    assert_close(results(compiled, given), results(function, given, return_state=True), 1e-6)


@BOTH
def test_under_autocast_operands_are_narrow_and_decays_are_not(function):
    given = call(function, dtype=torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        output, state = function(**given, return_state=True)
    narrow = {name: tensor.bfloat16() if name in ("query", "key", "value") else tensor for name, tensor in given.items()}
    expected = function(**narrow, return_state=True)
    assert output.dtype == torch.bfloat16 and torch.equal(output, expected[0]) and torch.equal(state, expected[1])


@BOTH
def test_arrays_of_numpy(function):
    numpy = pytest.importorskip("numpy")
    given = call(function)
    arrays = {name: tensor.numpy() for name, tensor in given.items()}
    output, state = function(**arrays, return_state=True)
    expected = function(**given, return_state=True)
    assert isinstance(output, numpy.ndarray)
    assert_close([torch.from_numpy(output), torch.from_numpy(state)], expected, 0)


@pytest.mark.parametrize("form", ["torch_chunk_gated_delta_rule", "torch_recurrent_gated_delta_rule"])
def test_transformers_gated_delta_rule(form):
    model = pytest.importorskip("transformers.models.qwen3_next.modeling_qwen3_next", reason="transformers is not installed")
    given = call(heed.gated_delta_rule, dtype=torch.float32)
    theirs = {name: tensor.transpose(1, 2) for name, tensor in given.items() if name != "initial_state"}
    output, state = getattr(model, form)(
        theirs["query"],
        theirs["key"],
        theirs["value"],
        g=theirs["decay"],
        beta=theirs["beta"],
        initial_state=given["initial_state"],
        output_final_state=True,
    )
    ours = heed.gated_delta_rule(**{**given, "query": given["query"] * 7**-0.5}, return_state=True)
    assert_close(ours, [output.transpose(1, 2), state], 1e-5)


def test_transformers_mamba2():
    model = pytest.importorskip("transformers.models.mamba2.modeling_mamba2", reason="transformers is not installed")
    x, dt = random(2, 150, 4, 5, dtype=torch.float32), random(2, 150, 4, seed=1, dtype=torch.float32).exp()
    B, C = (random(2, 150, 2, 7, seed=seed, dtype=torch.float32) for seed in (2, 3))
    A, state = random(4, seed=4, dtype=torch.float32).exp().neg(), random(2, 4, 5, 7, seed=5, dtype=torch.float32)
    theirs = model.mamba2_chunk_scan(x, dt, A, B, C, 64, initial_states=state, return_final_states=True)
    query, key, value = (t.transpose(1, 2) for t in (C, B, x * dt[..., None]))
    output, last = heed.linear_attention(
        query, key, value, (A * dt).transpose(1, 2), initial_state=state.transpose(2, 3), return_state=True
    )
    assert_close([output.transpose(1, 2), last.transpose(2, 3)], theirs, 1e-5)


REFUSALS = {
    "a key of another shape": ({"key": random(2, 3, 150, 8)}, ValueError, "key: expected the shape of query"),
    "values of other steps": ({"value": random(2, 3, 149, 5)}, ValueError, "value: expected batch, heads and steps of query"),
    "three dimensions": ({"query": random(3, 150, 7)}, ValueError, "query: expected 4 dimensions"),
    "heads that do not divide": ({"key": random(2, 2, 150, 7)}, ValueError, "key: expected a number of heads that divides 3"),
    "decays above 0": ({"decay": torch.full((2, 3, 150), 0.5).double()}, ValueError, "decay: expected log decays of at most 0"),
    "decays that are NaN": ({"decay": torch.full((3,), torch.nan).double()}, ValueError, "decay: expected log decays"),
    "decays of other heads": ({"decay": -random(2).abs()}, ValueError, "decay: expected one number a head"),
    "a list of decays": ({"decay": [0.0, 0.0, 0.0]}, TypeError, "decay: expected a tensor, got list"),
    "a state with NaN": ({"initial_state": torch.full((2, 3, 7, 5), torch.nan).double()}, ValueError, "initial_state: .*finite"),
    "a state of another width": ({"initial_state": random(2, 3, 5, 7)}, ValueError, "initial_state: expected"),
    "integers": ({"query": torch.ones(2, 3, 150, 7, dtype=torch.int64)}, ValueError, "query: expected float32, float64, .*got torch.int64"),
    "a sparse key": ({"key": random(2, 3, 150, 7).to_sparse()}, ValueError, "key: expected a dense tensor, got one of layout torch.sparse_coo"),
    "another type": ({"value": random(2, 3, 150, 5).float()}, ValueError, "value: expected torch.float64, the type of query"),
    "another device": ({"value": random(2, 3, 150, 5).to("meta")}, ValueError, "(value|key|query): expected a"),
    "lengths beyond": ({"lengths": torch.tensor([3, 151])}, ValueError, "lengths: expected values in 0..150"),
    "lengths that are real": ({"lengths": torch.tensor([3.0, 4.0])}, ValueError, "lengths: expected integers"),
    "offsets of a batch": ({"offsets": torch.tensor([0, 150])}, ValueError, "(query|initial_state): "),
}


@BOTH
@pytest.mark.parametrize("fault", REFUSALS)
def test_what_does_not_fit_is_refused_by_name(function, fault):
    spoilt, error, message = REFUSALS[fault]
    with pytest.raises(error, match=message):
        function(**{**call(function), **spoilt})


def test_beta_is_refused_by_name():
    given = call(heed.gated_delta_rule)
    for beta, error in ((None, TypeError), (given["beta"][:, :2], ValueError), (given["beta"] * torch.inf, ValueError)):
        with pytest.raises(error, match="beta: "):
            heed.gated_delta_rule(**{**given, "beta": beta})


@pytest.mark.parametrize("steps", [192, 1])
@BOTH
def test_operations_are_counted(function, steps):
    """Products of 64 by 64 a step, as bench/engine/linear_attention_bench.cc counts them: over pairs, of which a single step has
    one, and of states."""
    products = {heed.linear_attention: ((2, 2), (5, 5)), heed.gated_delta_rule: ((3.5, 3), (10, 8))}[function]
    given = call(function, steps=steps, dim=64, columns=64)
    given["query"].requires_grad_()
    with FlopCounterMode(display=False) as forward:
        output = function(**given)
    with FlopCounterMode(display=False) as backward:
        output.sum().backward()
    expected = [2 * 2 * 3 * steps * 64 * (min(steps, 64) * pairs + 64 * states) for pairs, states in products]
    assert [forward.get_total_flops(), backward.get_total_flops()] == expected
