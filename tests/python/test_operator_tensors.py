"""Every tensor that an operator takes, spoilt in every way: it is refused, or the result is that of the tensor it stands for.

The tensors are read from the operators' schemas, so that an argument without a sample call below fails.
"""

import pytest
import torch
import torch.distributed as dist

import heed
import heed.distributed

_ops = torch.ops.heed
REFUSED = (ValueError, RuntimeError)  # NotImplementedError, of PyTorch's dispatcher, is a RuntimeError

# Held by the tests of weights.
OF_WEIGHTS = {"check_weights", "load_weights", "load_weights_file", "save_weights"}
# Of ranks: four move or add numbers of any kind, one prepares what distributed_attention does.
OF_RANKS = {"distributed_move", "distributed_part", "distributed_zigzag_part", "distributed_sum", "distributed_plan"}
# Of kept models: heed.models makes their tensors, and they refuse all that are not plain (test_open_model.py).
OF_MODELS = {"series_answers", "series_batch", "series_windows"}
# PyTorch's own, but for plain tensors (test_linear.py): what is odd is PyTorch's to refuse or to compute.
OF_PYTORCH = {"linear"}


@pytest.fixture(autouse=True, scope="module")
def one_rank():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def random(*shape, seed=0, dtype=torch.float32):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def attention_calls():
    """Together they have every tensor: some exclude each other."""
    q, k, v = random(2, 2, 3, 8), random(2, 2, 5, 8, seed=1), random(2, 2, 5, 8, seed=2)
    yield {
        "query": q,
        "key": k,
        "value": v,
        "bias": random(2, 2, 3, 5, seed=3),
        "relative_bias": random(2, 7, seed=4),
        "slopes": random(2, seed=5),
        "content_keys": random(7, 8, seed=6),
        "content_values": random(7, 8, seed=7),
        "content_queries": random(7, 8, seed=8),
        "transformer_xl_positions": random(2, 7, 8, seed=12),
        "transformer_xl_bias": random(2, 8, seed=13),
        "contextual_position": random(4, 8, seed=15),
        "sinks": random(2, seed=18),
        "mask": random(2, 1, 3, 5, seed=9) > -1,
        "query_lengths": torch.tensor([3, 2]),
        "key_lengths": torch.tensor([5, 4]),
        "query_positions": torch.tensor([3, 1, 2]),
        "key_positions": torch.tensor([0, 2, 1, 4, 3]),
        "seed": torch.tensor(17),
        "dropout": 0.25,
        # score - rate[head] * mark[key], where rate[query] < mark[key].
        "score_program": "score;head;read real 0 1;key;read whole 1 3;multiply 2 4;subtract 0 5",
        "score_extents": [0, 1, 1, 1, 2, 1, 1, 1, 1, 5],
        "score_reals": random(2, seed=14),
        "score_wholes": torch.tensor([1, 0, 2, 1, 3]),
        "mask_program": "query;read real 0 0;key;read whole 1 2;less 1 3",
        "mask_extents": [0, 1, 1, 1, 3, 1, 1, 1, 1, 5],
        "mask_reals": random(3, seed=15),
        "mask_wholes": torch.tensor([1, 2, 3, 4, 5]),
    }
    yield {"query": q, "key": k, "value": v, "causal": "bottom_right", "prefix_lengths": torch.tensor([2, 3])}
    yield {"query": q, "key": k, "value": v, "causal": "bottom_right", "column_decay": random(8, seed=16).abs()}
    tokens = random(1, 2, 6, 8)
    offsets = {"packed_queries": torch.tensor([0, 2, 6]), "packed_keys": torch.tensor([0, 3, 6])}
    yield {"query": tokens, "key": tokens, "value": tokens, **offsets}


def plain_calls():
    q, k, v = random(2, 2, 3, 8), random(2, 2, 5, 8, seed=1), random(2, 2, 5, 8, seed=2)
    yield {"query": q, "key": k, "value": v, "scale": 0.5}


def backward_calls():
    for call in attention_calls():
        output, lse = _ops.attention_forward(**call)[:2]
        gradients = {"d_output": random(*output.shape, seed=10), "d_lse": random(*lse.shape, seed=11)}
        yield {**gradients, "output": output, "lse": lse, "remainder": None, "correction": None, **call}
    call = {name: random(2, 2, 3, 8, seed=seed, dtype=torch.bfloat16) for seed, name in enumerate(("query", "key", "value"))}
    output, lse, statistics, remainder, correction, keys = _ops.attention_forward(**call, statistics=True, exact=True)
    saved = {"output": output, "lse": lse, "remainder": remainder, "correction": correction}
    of_statistics = {"d_statistics": random(*statistics.shape, seed=12), "statistics": statistics, "largest_key": keys}
    yield {"d_output": output, "d_lse": lse, **of_statistics, **saved, **call}


# What attention_tangent takes with the options that it shares with the others, and refuses.
WITHOUT_TANGENT = {
    "content_keys", "content_values", "content_queries", "transformer_xl_positions", "transformer_xl_bias", "contextual_position",
    "column_decay",
}  # fmt: skip


def tangent_calls():
    for call in attention_calls():
        call = {name: value for name, value in call.items() if name not in WITHOUT_TANGENT}
        tangents = ("query", "key", "value", "bias", "relative_bias", "slopes", "score_reals", "sinks")
        named = [name for name in tangents if name in call]
        yield {**call, **{f"t_{name}": random(*call[name].shape, seed=20 + i) for i, name in enumerate(named)}}


# Statistics have no second derivative.
OF_STATISTICS = {"d_statistics", "statistics", "largest_key"}


def backward_tangent_calls():
    for call in backward_calls():
        call = {name: value for name, value in call.items() if name not in WITHOUT_TANGENT | OF_STATISTICS}
        named = [name for name in ("query", "key", "value", "bias", "relative_bias", "slopes", "output", "lse") if name in call]
        named += [name for name in ("d_output", "d_lse") if call[name] is not None]
        tangents = {f"t_{name}": random(*call[name].shape, seed=20 + i, dtype=call[name].dtype) for i, name in enumerate(named)}
        yield {**call, **tangents}


def weights_calls():
    for call in attention_calls():
        if "packed_queries" in call:  # weights are not defined for packed sequences
            call = {"query": random(2, 2, 3, 8), "key": random(2, 2, 5, 8), "value": random(2, 2, 5, 8)}
        lse = _ops.attention_forward(**call)[1]
        call = {name: value for name, value in call.items() if name not in ("value", "seed", "dropout")}
        yield {"lse": lse, "heads": torch.tensor([1, 0]), "rows": torch.tensor([2, 0]), **call}


def rotary_calls():
    tables = {"cos": random(9, 4, seed=1), "sin": random(9, 4, seed=2)}
    yield {"x": random(2, 2, 3, 8), **tables, "positions": torch.tensor([[0, 8, 3]]), "layout": "half", "rotary_dim": 8}


def table_calls():
    frequencies = {"frequencies": random(4, dtype=torch.float64), "attention_factor": torch.tensor(1.5, dtype=torch.float64)}
    yield {"positions": torch.tensor([[0, 8, 3]]), **frequencies}


def frequency_calls():
    yield {"rotary_dim": 8, "positions": torch.tensor([3, 40]), "rope_type": "dynamic", "factor": 2.0, "original_length": 16}


def lens_calls():
    yield {"valid_lens": torch.tensor([3, 1]), "batch": 2, "queries": 3, "steps": 5}


def cache_calls():
    memory = {"keys": random(2, 2, 5, 8), "values": random(2, 2, 5, 4, seed=1)}
    yield {**memory, "key": random(2, 2, 2, 8, seed=2), "value": random(2, 2, 2, 4, seed=3), "length": 2, "grows": False}


def packed_position_calls():
    offsets = {"packed_queries": torch.tensor([0, 2, 6]), "packed_keys": torch.tensor([0, 3, 6])}
    lists = {"query_positions": torch.tensor([3, 1, 2, 7]), "key_positions": torch.tensor([[0, 2, 1], [5, 4, 3]])}
    yield {**offsets, **lists, "queries": 6, "keys": 6}


def mixer_calls():
    call = {"query": random(2, 2, 3, 8), "key": random(2, 2, 3, 8, seed=1), "value": random(2, 2, 3, 4, seed=2)}
    numbers = {"decay": -random(2, 2, 3, seed=3).abs(), "beta": random(2, 2, 3, seed=4), "initial_state": random(2, 2, 8, 4, seed=5)}
    yield {**call, **numbers, "lengths": torch.tensor([3, 2])}
    yield {**{name: tensor[:1] for name, tensor in call.items()}, "offsets": torch.tensor([0, 2, 3])}


def mixer_backward_calls():
    for call in mixer_calls():
        output, state, _ = _ops.linear_mixer_forward(**call)
        yield {"d_output": random(*output.shape, seed=6), "d_final_state": random(*state.shape, seed=7), **call}
    call = {name: tensor.exp() for name, tensor in call.items() if name != "offsets"}
    output, _, sums = _ops.linear_mixer_forward(**call, normalise=True)
    yield {"d_output": random(*output.shape, seed=6), "d_final_state": None, "output": output, "sums": sums, "normalise": True, **call}


def rank_calls():
    for call in attention_calls():
        tokens = {f"{side}_tokens": [call[side].shape[2]] for side in ("query", "key")}
        sharing = {"group": "of all ranks", "function": "attention", "method": "auto", "layout": "contiguous"}
        told: dict = {name: [] for name in ("told_names", "told", "tensor_names", "tensors")}
        yield {**call, **tokens, **sharing, **told}


CALLS = {
    "attention_check": attention_calls,
    "attention_forward": attention_calls,
    "attention_plain": plain_calls,
    "attention_backward": backward_calls,
    "attention_tangent": tangent_calls,
    "attention_backward_tangent": backward_tangent_calls,
    "attention_weights": weights_calls,
    "linear_mixer_forward": mixer_calls,
    "linear_mixer_backward": mixer_backward_calls,
    "distributed_attention": rank_calls,
    "rotary": rotary_calls,
    "rotary_table": table_calls,
    "rotary_frequencies": frequency_calls,
    "clamp_valid_lens": lens_calls,
    "cache_append": cache_calls,
    "packed_positions": packed_position_calls,
}
# attention_weights takes the packed lengths of the options that it shares with the others, and refuses them.
# distributed_attention's `tensors` are any that ranks compare (test_distributed_faults.py).
# attention_plain answers nothing for masks and lengths that its front end has to look at (test_sdpa.py, and below).
WITHOUT_CALL = {
    ("attention_weights", "packed_queries"),
    ("attention_weights", "packed_keys"),
    ("attention_plain", "attn_mask"),
    ("attention_plain", "key_lengths"),
    ("distributed_attention", "tensors"),
    *((operator, name) for operator in ("attention_tangent", "attention_backward_tangent") for name in WITHOUT_TANGENT),
}


def tensor_arguments():
    """(operator, argument) for every argument of every operator of heed that holds a tensor."""
    names = {name.removeprefix("heed::") for name in torch._C._dispatch_get_all_op_names() if name.startswith("heed::")}
    for name in sorted(names - OF_WEIGHTS - OF_RANKS - OF_MODELS - OF_PYTORCH):
        for argument in getattr(_ops, name).default._schema.arguments:
            if "Tensor" in str(argument.type):
                yield name, argument.name


ARGUMENTS = [pair for pair in tensor_arguments() if pair not in WITHOUT_CALL]


def call_with(operator, argument):
    for call in CALLS[operator]():
        if call.get(argument) is not None:
            return call
    raise AssertionError(f"no sample call of {operator} has {argument}: add one")


def tensors_of(call):
    return [value for value in call.values() if isinstance(value, torch.Tensor)]


def run(operator, call):
    if call.get("group") == "of all ranks":  # which is not there when parameters are made
        call = call | {"group": dist.group.WORLD.group_name}
    result = getattr(_ops, operator)(**call)
    # None where a result was not asked for.
    return [r for r in (result if isinstance(result, (tuple, list)) else [result]) if r is not None]


def assert_does_not_take(operator, call, refused):
    if operator == "attention_plain":  # it answers nothing, and leaves such tensors to others
        assert run(operator, call) == []
        return
    with pytest.raises(refused):
        run(operator, call)


def assert_same(results, expected):
    for result, should_be in zip(results, expected, strict=True):
        assert result.device == should_be.device and result.dtype == should_be.dtype
        assert torch.equal(result, should_be)


@pytest.mark.parametrize(("operator", "argument"), ARGUMENTS)
def test_a_meta_tensor_among_cpu_tensors_raises(operator, argument):
    call = call_with(operator, argument)
    spoilt = {**call, argument: call[argument].to("meta")}
    if len(tensors_of(call)) == 1:  # it is not among others
        assert all(t.is_meta for t in run(operator, spoilt))
        return
    assert_does_not_take(operator, spoilt, REFUSED)


# Of an operator that takes one tensor, none is among others; two read lengths, which are not there.
AMONG_OTHERS = [
    (operator, argument)
    for operator, argument in ARGUMENTS
    if len(tensors_of(call_with(operator, argument))) > 1 and operator not in ("attention_check", "distributed_attention")
]


@pytest.mark.parametrize(("operator", "argument"), AMONG_OTHERS)
def test_a_cpu_tensor_among_meta_tensors_raises(operator, argument):
    call = call_with(operator, argument)
    on_meta = {name: v.to("meta") if isinstance(v, torch.Tensor) else v for name, v in call.items()}
    assert all(t.is_meta for t in run(operator, on_meta))
    if call[argument].dim() == 0:  # a single number passes, as it does in PyTorch
        assert all(t.is_meta for t in run(operator, {**on_meta, argument: call[argument]}))
        return
    assert_does_not_take(operator, {**on_meta, argument: call[argument]}, REFUSED)


NUMBERS = [(operator, argument) for operator, argument in ARGUMENTS if call_with(operator, argument)[argument].dtype != torch.bool]


@pytest.mark.parametrize(("operator", "argument"), NUMBERS)
def test_a_lazily_negated_tensor_counts_as_what_it_stands_for(operator, argument):
    call = call_with(operator, argument)
    negated = torch._neg_view(-call[argument])
    assert negated.is_neg()
    assert_same(run(operator, {**call, argument: negated}), run(operator, call))


@pytest.mark.parametrize(("operator", "argument"), ARGUMENTS)
@pytest.mark.parametrize("conjugated", [False, True])
def test_a_complex_tensor_raises(operator, argument, conjugated):
    call = call_with(operator, argument)
    number = call[argument].to(torch.complex64)
    with pytest.raises(REFUSED):
        run(operator, {**call, argument: number.conj() if conjugated else number})


LAYOUTS = {
    "sparse": torch.Tensor.to_sparse,
    "mkldnn": lambda t: t.to(torch.float32).to_mkldnn(),
    "nested": lambda t: torch.nested.nested_tensor(list(t) if t.dim() else [t]),
    "jagged": lambda t: torch.nested.nested_tensor([t, t], layout=torch.jagged),
}


# A number has no other layout but sparse.
LAID_OUT = [
    (layout, operator, argument)
    for layout in LAYOUTS
    for operator, argument in ARGUMENTS
    if layout == "sparse" or call_with(operator, argument)[argument].dim() > 0
]


@pytest.mark.parametrize(("layout", "operator", "argument"), LAID_OUT)
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_a_tensor_of_another_layout_raises(operator, argument, layout):
    call = call_with(operator, argument)
    assert_does_not_take(operator, {**call, argument: LAYOUTS[layout](call[argument])}, (*REFUSED, TypeError))


TYPES = [torch.float64, torch.float32, torch.bfloat16, torch.float16, torch.int64, torch.int32, torch.uint8, torch.bool]


@pytest.mark.parametrize(("operator", "argument"), ARGUMENTS)
@pytest.mark.parametrize("dtype", TYPES)
def test_a_tensor_of_another_type_is_refused_or_counts_as_its_numbers(operator, argument, dtype):
    call = call_with(operator, argument)
    other = call[argument].to(dtype)
    try:
        results = run(operator, {**call, argument: other})
    except REFUSED:
        return
    expected = run(operator, {**call, argument: other.to(call[argument].dtype)})
    for result, should_be in zip(results, expected, strict=True):
        # A gradient comes in the type of its tensor; float64 positions take part in sums of another order.
        torch.testing.assert_close(result.double(), should_be.to(result.dtype).double(), rtol=1e-6, atol=1e-6)


# The same through the front ends, whose tensors pass other checks first.
def front_end_calls():
    q, k, v = random(2, 2, 3, 8), random(2, 2, 5, 8, seed=1), random(2, 2, 5, 8, seed=2)
    operands = {"query": q, "key": k, "value": v}
    call = next(attention_calls())
    names = ("bias", "mask", "query_lengths", "key_lengths", "query_positions", "key_positions", "seed", "dropout")
    options = {name: call[name] for name in names}
    yield heed.attention, {**operands, **options}
    yield heed.attention, {**operands, "causal": True, "prefix_lengths": torch.tensor([2, 3])}
    yield heed.attention, {**operands, "causal": True, "key_lengths": torch.tensor([2, 3])}
    dynamic = {"rope_type": "dynamic", "factor": 2.0, "original_max_position_embeddings": 2}
    places = {"query_positions": torch.arange(3), "key_positions": torch.arange(5)}
    for scheme in (heed.positions.Rotary(8), heed.positions.Rotary(8, scaling=dynamic)):
        yield heed.attention, {**operands, "position": scheme, **places}
    yield heed.attention_packed, {
        **{name: random(6, 2, 8, seed=i) for i, name in enumerate(operands)},
        "query_offsets": torch.tensor([0, 2, 6]),
        "key_offsets": torch.tensor([0, 3, 6]),
    }
    for mask in (random(3, 5), random(3, 5) > -1):
        yield heed.scaled_dot_product_attention, {**operands, "attn_mask": mask}
    yield heed.positions.apply_rotary, next(rotary_calls())
    mixer = next(mixer_calls())
    yield heed.gated_delta_rule, mixer
    yield heed.linear_attention, {name: tensor for name, tensor in mixer.items() if name != "beta"}


def front_end_arguments(numbers=False):
    """(number of the call, argument) for every tensor, or for those that hold numbers."""
    for number, (function, call) in enumerate(front_end_calls()):
        for name, value in call.items():
            if isinstance(value, torch.Tensor) and not (numbers and value.dtype == torch.bool):
                yield pytest.param(number, name, id=f"{number}-{function.__name__}-{name}")


@pytest.mark.parametrize(("number", "argument"), list(front_end_arguments()))
@pytest.mark.parametrize("gradient", [False, True])
def test_a_meta_tensor_among_the_arguments_of_a_function_raises(number, argument, gradient):
    function, call = list(front_end_calls())[number]
    first = "x" if "x" in call else "query"
    call[first] = call[first].clone().requires_grad_(gradient)
    function(**call)
    with pytest.raises(REFUSED):
        function(**{**call, argument: call[argument].to("meta")})


@pytest.mark.parametrize(("number", "argument"), list(front_end_arguments(numbers=True)))
def test_a_lazily_negated_argument_of_a_function_counts_as_what_it_stands_for(number, argument):
    function, call = list(front_end_calls())[number]
    spoilt = function(**{**call, argument: torch._neg_view(-call[argument])})
    assert torch.equal(spoilt, function(**call))


@pytest.mark.parametrize("number", range(len(list(front_end_calls()))))
def test_meta_tensors_alone_give_a_meta_tensor(number):
    function, call = list(front_end_calls())[number]
    on_meta = {name: v.to("meta") if isinstance(v, torch.Tensor) and v.dim() else v for name, v in call.items()}
    result, expected = function(**on_meta), function(**call)
    assert result.is_meta and result.shape == expected.shape and result.dtype == expected.dtype


def test_a_cache_refuses_a_meta_tensor():
    key = random(1, 2, 3, 4)
    for spoilt in ((key.to("meta"), key), (key, key.to("meta"))):
        cache = heed.KeyValueCache(1, 2, 4)
        with pytest.raises(REFUSED):
            cache.append(*spoilt)
        assert cache.length == 0
    cache.append(key, key)
    with pytest.raises(REFUSED):
        cache.attend(key.to("meta"))
    with pytest.raises(REFUSED):
        cache.reorder(torch.tensor([0]).to("meta"))


# A gradient that arrives lazily negated, through the imaginary part of a conjugate, and the same without laziness.
def negating(tensor):
    other = random(*tensor.shape, seed=30, dtype=tensor.dtype)
    return torch.complex(other, tensor).conj()


def plain(tensor):
    other = random(*tensor.shape, seed=30, dtype=tensor.dtype)
    return torch.complex(other, -tensor)


def gradient_cases():
    q, k, v = random(2, 2, 3, 8), random(2, 2, 5, 8, seed=1), random(2, 2, 5, 8, seed=2)

    def scheme(made):
        torch.nn.init.normal_(next(made.parameters()), std=0.5)
        return made

    yield "output", lambda q, k, v: heed.attention(q, k, v), (q, k, v)
    yield "lse", lambda q, k, v: heed.attention(q, k, v, return_lse=True).lse, (q, k, v)
    yield "dropout", lambda q, k, v: heed.attention(q, k, v, dropout=0.5, seed=3), (q, k, v)
    yield "bias", lambda q, k, v, b: heed.attention(q, k, v, bias=b), (q, k, v, random(3, 5, seed=4))
    yield "rotary", lambda x: heed.positions.apply_rotary(x, random(3, 4), random(3, 4, seed=1)), (q,)
    yield "rotary scheme", lambda q, k, v: heed.attention(q, k, v, position=heed.positions.Rotary(8)), (q, k, v)
    for made in (
        heed.positions.RelativeBias(2, 3),
        heed.positions.T5Bias(2, 4, 8),
        heed.positions.Shaw(8, 2, queries=True),
        heed.positions.Alibi(2, trainable=True),
    ):
        # The parameters are leaves of the call through the scheme that holds them.
        yield type(made).__name__, lambda q, k, v, *_, made=scheme(made): heed.attention(q, k, v, position=made), (
            q,
            k,
            v,
            *made.parameters(),
        )
    raw = _ops.attention_forward
    yield "raw output", lambda q, k, v: raw(q, k, v)[0], (q, k, v)
    yield "raw lse", lambda q, k, v: raw(q, k, v)[1], (q, k, v)


@pytest.mark.parametrize("name", [case[0] for case in gradient_cases()])
@pytest.mark.parametrize("compiled", [False, True])
def test_a_gradient_that_arrives_lazily_negated(name, compiled):
    function, inputs = next((f, i) for n, f, i in gradient_cases() if n == name)
    inputs = [t if isinstance(t, torch.nn.Parameter) else t.clone().requires_grad_() for t in inputs]
    called = torch.compile(function, backend="aot_eager") if compiled else function
    weight = torch.arange(1.0, 9.0)[: 1 if "lse" in name else 8]
    gradients = [
        torch.autograd.grad((wrap(called(*inputs)).abs() ** 2 * weight).sum(), inputs) for wrap in (negating, plain)
    ]
    for ours, expected in zip(*gradients):
        torch.testing.assert_close(ours, expected)
