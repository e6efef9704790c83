"""Calls of attention that one process and the ranks of a group make alike."""

import random

import torch
import torch.distributed as dist

import heed
import heed.distributed


def numbers(seed, *shape, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


class Tilt(heed.positions.ProgramScheme):
    """A scheme of one's own, by head and positions."""

    def __init__(self, heads):
        super().__init__(heads)
        self.rate = torch.nn.Parameter(0.1 * numbers(5, heads))

    def score(self, score, batch, head, query, key):
        return score - self.rate[head] * (query - key).abs()


def scheme_of(name, heads, head_dim):
    torch.manual_seed(3)
    P = heed.positions
    schemes = {
        "rotary": lambda: P.Rotary(head_dim),
        "rotary, dynamic": lambda: P.Rotary(
            head_dim, scaling={"rope_type": "dynamic", "factor": 2.0, "original_max_position_embeddings": 7}
        ),
        "alibi": lambda: P.Alibi(heads, trainable=True),
        "relative": lambda: P.RelativeBias(heads, 5),
        "t5": lambda: P.T5Bias(heads, buckets=8, max_distance=16),
        "shaw": lambda: P.Shaw(head_dim, 4),
        "transformer-xl": lambda: P.TransformerXL(heads, head_dim, 9),
        "deberta": lambda: P.Deberta(heads, head_dim, 4),
        "xpos": lambda: P.XPos(head_dim),
        "kerple": lambda: P.Kerple(heads),
        "tilt": lambda: Tilt(heads),
        "axial": lambda: P.AxialRotary(head_dim),
        "swin": lambda: P.SwinBias(heads, (8, 8)),
        "cope": lambda: P.Cope(head_dim, 5),
    }
    scheme = schemes[name]().double()
    with torch.no_grad():
        for x, parameter in enumerate(scheme.parameters()):
            parameter += 0.1 * numbers(50 + x, *parameter.shape)
    return scheme


def score_program(heads, q_len, kv_len):
    table = (0.3 * numbers(7, heads, kv_len)).requires_grad_()
    rows = (0.3 * numbers(8, q_len)).requires_grad_()
    program = heed.score(
        lambda score, b, h, i, j: score + table[h, j] * rows[i] + 0.01 * (i - j) + 0.1 * b
    )
    return program, [table, rows]


def mask_program(documents):
    return heed.mask(lambda b, h, i, j: (documents[i] == documents[j]) | ((i + 2 * j + h) % 5 == 0))


# Options by name: what they are of sizes (batch, q heads, queries, keys, width), and what they train.
def _plain(**options):
    return lambda sizes: (options, [])


def _tensor(make):
    return lambda sizes: (make(*sizes), [])


def _scheme(name, **more):
    def make(sizes):
        scheme = scheme_of(name, sizes[1], sizes[4])
        return {"position": scheme, **more}, list(scheme.parameters())

    return make


def _bias(sizes):
    b, h, q, k, _ = sizes
    bias = numbers(11, 1, h, q, k).requires_grad_()
    return {"bias": bias}, [bias]


def _bias_of_keys(sizes):
    bias = numbers(12, sizes[1], 1, sizes[3]).requires_grad_()
    return {"bias": bias}, [bias]


def _far_bias_of_some(sizes):
    b, h, q, k, _ = sizes
    row, key = torch.arange(q)[:, None], torch.arange(k)
    far = torch.tensor([-1.2345678e300, -1.2345679e300], dtype=torch.float64)[((row + key) % 7 < 3).long()]
    bias = torch.where(row % 3 == 0, numbers(15, 1, h, q, k), far).requires_grad_()
    return {"bias": bias}, [bias]


def _grid(count, batch=1):
    at = torch.arange(count)
    return torch.stack([at // 8, at * 3 % 8], -1).expand(batch, count, 2)


def _on_a_grid(name, given):
    def make(sizes):
        b, h, q, k, d = sizes
        scheme = scheme_of(name, h, d)
        places = {"query_positions": _grid(q, b), "key_positions": _grid(k)} if given else {}
        return {"position": scheme, **places}, list(scheme.parameters())

    return make


def _sinks(sizes):
    sinks = (2 * numbers(16, sizes[1])).requires_grad_()
    return {"sinks": sinks, "causal": True}, [sinks]


def _score(sizes):
    program, trained = score_program(sizes[1], sizes[2], sizes[3])
    return {"score": program}, trained


OPTIONS = {
    "plain": _plain(),
    "scale": _plain(scale=0.3),
    "causal": _plain(causal=True),
    "top left": _plain(causal="top_left"),
    "window": _plain(window=(3, 2)),
    "causal window": _plain(causal=True, window=(4, -1)),
    "softcap": _plain(softcap=2.0),
    "dropout": _plain(dropout=0.3, seed=11, batch_offset=2),
    "causal dropout": _plain(causal=True, dropout=0.2, seed=-5),
    "query lengths": _tensor(lambda b, h, q, k, d: {"query_lengths": torch.arange(b) * 3 % (q + 1)}),
    "key lengths": _tensor(lambda b, h, q, k, d: {"key_lengths": (torch.arange(b) * 7 + 2) % (k + 1)}),
    "key lengths by query": _tensor(
        lambda b, h, q, k, d: {"key_lengths": (torch.arange(b * q).reshape(b, q) * 5 + 1) % (k + 1)}
    ),
    "prefix": _tensor(lambda b, h, q, k, d: {"causal": True, "prefix_lengths": (torch.arange(b) * 4 + 3) % (k + 1)}),
    "offsets": _plain(query_positions=4, key_positions=2, causal=True),
    "listed": _tensor(
        lambda b, h, q, k, d: {
            "query_positions": torch.arange(q) * 2 % 17, "key_positions": (torch.arange(k) * 3 + 1) % 19, "causal": True,
            "window": (6, 0),
        }
    ),
    "timestamps": _tensor(
        lambda b, h, q, k, d: {
            "query_positions": torch.arange(b * q).reshape(b, q).double() * 0.5, "key_positions": torch.arange(k).double() * 0.7, "window": (3, 3),
        }
    ),
    "mask": _tensor(lambda b, h, q, k, d: {"mask": numbers(13, b, 1, q, k) > -0.5}),
    "mask of keys": _tensor(lambda b, h, q, k, d: {"mask": numbers(14, b, 1, 1, k) > -0.5}),
    "bias": _bias,
    "bias of keys": _bias_of_keys,
    "axial": _on_a_grid("axial", True),
    "swin": _on_a_grid("swin", True),
    "swin, in order": _on_a_grid("swin", False),
    "sinks": _sinks,
    "score": _score,
    "mask program": _tensor(lambda b, h, q, k, d: {"mask": mask_program((torch.arange(max(q, k)) // 5))}),
    "rotary": _scheme("rotary"),
    "rotary, dynamic": _scheme("rotary, dynamic", causal=True),
    "alibi": _scheme("alibi"),
    "relative": _scheme("relative", causal=True),
    "t5": _scheme("t5"),
    "shaw": _scheme("shaw"),
    "transformer-xl": _scheme("transformer-xl", causal=True),
    "deberta": _scheme("deberta"),
    "xpos": _scheme("xpos", causal=True),
    "kerple": _scheme("kerple", causal=True),
    "tilt": _scheme("tilt"),
    "cope": _scheme("cope", causal=True),
    "uniform": _tensor(
        lambda b, h, q, k, d: {"empty_row": "uniform", "key_lengths": torch.arange(b) % (k + 1)}
    ),
    # So far from 0 that a log-sum-exp does not hold its own rounding.
    "far bias": _tensor(
        lambda b, h, q, k, d: {"bias": torch.full((1, 1, q, k), -1.2345678e300, dtype=torch.float64)}
    ),
    # Some rows as far, some keys farther, rows that differ in which; for the rest nothing is far.
    "far bias of some": _far_bias_of_some,
    "lowest bias": _tensor(
        lambda b, h, q, k, d: {"bias": torch.full((1, 1, q, k), torch.finfo(torch.float64).min / 4, dtype=torch.float64)}
    ),
}
# Random combinations take one of each line, or nothing.
CHOICES = [
    ["causal", "top left", "window", "causal window", "prefix", "offsets"],
    ["softcap"], ["scale"], ["dropout"], ["query lengths"], ["key lengths", "key lengths by query"], ["mask", "mask of keys"],
    ["bias"], ["score"], ["sinks"],
    ["rotary", "alibi", "relative", "t5", "shaw", "transformer-xl", "deberta", "kerple", "tilt"],
]  # fmt: skip


def random_case(seed, ranks):
    draw = random.Random(seed)
    names = [draw.choice(line) for line in CHOICES if draw.random() < 0.35]
    layout = draw.choice(["contiguous", "zigzag"])
    q_heads, kv_heads = draw.choice([(ranks, ranks), (2 * ranks, ranks), (2 * ranks, 1), (ranks, 1)])
    return {
        "names": names or ["plain"], "method": draw.choice(["ring", "all_to_all"]), "layout": layout,
        "sizes": (draw.choice([1, 2]), q_heads, kv_heads, 2 * ranks * draw.randint(1, 4), 2 * ranks * draw.randint(1, 4), 8,
                  8 if "shaw" in names else 6),
        "seed": seed,
    }  # fmt: skip


def case_of(name, ranks, method, layout="contiguous", **more):
    return {
        "names": [name], "method": method, "layout": layout, "seed": 1, "sizes": (2, 2 * ranks, ranks, 4 * ranks, 4 * ranks, 8, 8),
        **more,
    }


def built(case):
    """Operands, options and what is trained, the same wherever it is called."""
    b, hq, hkv, q, k, d, dv = case["sizes"]
    dtype = getattr(torch, case.get("dtype", "float64"))
    operands = [numbers(case["seed"] + x, *shape, dtype=dtype) for x, shape in enumerate([(b, hq, q, d), (b, hkv, k, d), (b, hkv, k, dv)])]
    if "shared" in case:  # part of every score, which no sum over weights may see
        for tensor in operands[:2]:
            tensor[..., 0] = (case["shared"] * d**0.5) ** 0.5
    options, trained = {}, []
    of_options = (b, hq, q, k, d)
    if "offsets" in case:
        offsets = [torch.tensor(of) for of in case["offsets"]]
        of_options = (len(offsets[0]) - 1, hq, *(int(of.diff().max()) for of in offsets), d)
        options["packed"] = tuple(offsets)
    for name in case["names"]:
        more, parameters = OPTIONS[name](of_options)
        options.update(more)
        trained += parameters
    return operands, options, trained


def weights_of(case, output, lse):
    """Of the loss; where scores share a part, the gradient of the log-sum-exp alone would be as large as that."""
    of_lse = None if "output_alone" in case else numbers(22, *lse.shape) * ("shared" not in case)
    return numbers(21, *output.shape), of_lse


def loss_of(output, lse, weights):
    if weights[1] is None:
        return (output.double() * weights[0]).sum()
    seen = lse.isfinite()
    return (output.double() * weights[0]).sum() + (lse.double().where(seen, 0) * weights[1].where(seen, 0)).sum()


def alone(case, exact=False):
    """output, lse, gradients of operands and of what is trained. exact: in float64, of the numbers that the operands hold."""
    operands, options, trained = built(case)
    operands = [(t.double() if exact else t).requires_grad_() for t in operands]
    result = heed.attention(*operands, return_lse=True, **options)
    loss_of(result.output, result.lse, weights_of(case, *result[:2])).backward()
    return [t.detach() for t in (result.output, result.lse)] + [t.grad for t in (*operands, *trained)]


def part(tensor, dim, case, rank, ranks):
    if case["layout"] == "zigzag":
        return heed.distributed.zigzag_part(tensor, dim, rank, ranks)
    lengths = lengths_of(tensor.shape[dim], ranks, case)
    return tensor.split(lengths, dim)[rank]


def lengths_of(total, ranks, case):
    """Parts of different lengths."""
    if case.get("even", False):
        return [total // ranks] * ranks
    cuts = sorted(random.Random(case["seed"]).randint(0, total) for _ in range(ranks - 1))
    return [b - a for a, b in zip([0, *cuts], [*cuts, total])]


def together(group, case):
    """What `alone` returns, of this rank's part."""
    rank, ranks = dist.get_rank(group), dist.get_world_size(group)
    operands, options, trained = built(case)
    parts = [part(t, 2, case, rank, ranks).clone().requires_grad_() for t in operands]
    before = heed.distributed.sent_bytes()
    result = heed.distributed.attention(*parts, group, case["method"], case["layout"], return_lse=True, **options)
    forward = heed.distributed.sent_bytes() - before
    whole = weights_of(case, torch.empty(*operands[0].shape[:3], operands[2].shape[3]), torch.empty(operands[0].shape[:3]))
    weights = [w if w is None else part(w, 2, case, rank, ranks) for w in whole]
    loss_of(result.output, result.lse, weights).backward()
    backward = heed.distributed.sent_bytes() - before - forward
    found = [t.detach() for t in (result.output, result.lse)] + [t.grad for t in (*parts, *trained)]
    planned = heed.distributed.plan(*parts, group, case["method"], case["layout"], return_lse=True, **options)
    return found, (forward, backward), (planned.forward_bytes[rank], planned.backward_bytes[rank])


def expected_parts(case, ranks):
    """What every rank should return."""
    whole = alone(case)
    return [[part(t, 2, case, rank, ranks) if x < 5 else t for x, t in enumerate(whole)] for rank in range(ranks)]


def statistics(group, case):
    rank, ranks = dist.get_rank(group), dist.get_world_size(group)
    operands, options, _ = built(case)
    parts = [part(t, 2, case, rank, ranks) for t in operands]
    result = heed.distributed.attention(*parts, group, case["method"], return_statistics=True, **options)
    assert result.lse is None and result.weights is None
    return list(result.statistics)


def called(group, case, how):
    """Results by their number in `alone`."""
    rank, ranks = dist.get_rank(group), dist.get_world_size(group)
    operands, options, _ = built(case)
    parts = [part(t, 2, case, rank, ranks).clone().requires_grad_() for t in operands]
    given = list(parts)
    if how == "strided":  # projections leave heads inside steps; a reversed batch has no such excuse
        given = [t.transpose(1, 2).contiguous().transpose(1, 2) for t in parts[:2]]
        given.append(torch.stack([parts[2], parts[2]], 3)[:, :, :, 1])
    if how == "frozen keys":
        given[1:] = [t.detach() for t in parts[1:]]
    if how == "frozen query":
        given[0] = parts[0].detach()
    call = lambda: heed.distributed.attention(*given, group, case["method"], return_lse=True, **options)  # noqa: E731
    if how in ("no_grad", "inference_mode"):
        with getattr(torch, how)():
            result = call()
        assert not result.output.requires_grad
        return {0: result.output, 1: result.lse}
    result = call()
    whole = weights_of(case, torch.empty(*operands[0].shape[:3], operands[2].shape[3]), torch.empty(operands[0].shape[:3]))
    weights = [part(w, 2, case, rank, ranks) for w in whole]
    if how in ("lse alone", "output alone on one"):
        # What one rank leaves out of its loss is no reason for the others to wait.
        (result.lse * weights[1]).sum().backward(retain_graph=True)
        if how == "lse alone":
            return {1: result.lse.detach()}
        for t in parts:
            t.grad = None
        ((result.output * weights[0]).sum() + (0 if rank == 1 else (result.lse * 0).sum())).backward()
        return {0: result.output.detach()}
    loss_of(result.output, result.lse, weights).backward()
    return {0: result.output.detach(), **{2 + x: t.grad for x, t in enumerate(parts) if t.grad is not None}}


def autocast_and_compiled(group):
    q, k, v = (numbers(x, 1, 2, 6, 8, dtype=torch.float32).requires_grad_() for x in range(3))

    def attend(q, k, v):
        return heed.distributed.attention(q * 1.0, k, v, group, "ring", causal=True) * 2.0

    with torch.autocast("cpu", torch.bfloat16):
        assert attend(q, k, v).dtype == torch.bfloat16
    eager = attend(q, k, v)
    compiled = torch.compile(attend, backend="aot_eager")(q, k, v)
    gradients = [torch.autograd.grad(result.sum(), (q, k, v)) for result in (eager, compiled)]
    return torch.equal(eager, compiled) and all(map(torch.equal, *gradients))


def in_a_group_of_the_last_two(group, case):
    own = dist.new_group([2, 3])
    return together(own, case) if dist.get_rank() >= 2 else None


def with_dropout_after_seeds(group, case):
    rank, ranks = dist.get_rank(group), dist.get_world_size(group)
    operands, _, _ = built(case)
    torch.manual_seed(40 + rank)
    return heed.distributed.attention(*(part(t, 2, case, rank, ranks) for t in operands), group, "ring", dropout=0.5)


def planned(group, sizes, method, layout, options):
    b, hq, hkv, q, k, d, dv = sizes
    ranks = dist.get_world_size(group)
    shapes = ((b, hq, q // ranks, d), (b, hkv, k // ranks, d), (b, hkv, k // ranks, dv))
    operands = [torch.zeros(*shape, dtype=torch.float64, requires_grad=True) for shape in shapes]
    return heed.distributed.plan(*operands, group, method, layout, **options)


def of_lengths(group, lengths, layout):
    x = torch.zeros(1, 3, lengths[dist.get_rank(group)], 8)
    return heed.distributed.attention(x, x, x, group, layout=layout)


def there_and_back(group, lengths):
    """Of a contiguous part: zigzag, contiguous again in equal parts, and the gradient of a loss of the latter."""
    whole, rank = numbers(3, 2, sum(lengths), 3), dist.get_rank(group)
    own = whole.split(lengths, 1)[rank].clone().requires_grad_()
    moved = heed.distributed.zigzag(own, 1, group)
    back = heed.distributed.unzigzag(moved, -2, group)
    equal = numbers(4, 2, sum(lengths), 3).split(sum(lengths) // len(lengths), 1)[rank]
    (back * equal).sum().backward()
    return moved.detach(), back.detach(), own.grad
