"""heed.flex_attention beside torch.nn.attention.flex_attention as inductor compiles it (forward: on a CPU it has no other pass)
and beside heed's own options, and documents by a mask program beside packed sequences. Milliseconds, least and median; the
functions of a row take turns, and swap places from round to round, so that a disturbance meets all.

    .venv/bin/python bench/python/flex_bench.py [--threads 1] [--steps 2048] [--rounds 15] [--document 512] [--tokens 32768]
"""

import statistics

import torch
import turns
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

import heed

FORWARD, BOTH = "forward", "with backward"


def slopes(heads):
    return torch.exp2(-8 * torch.arange(1, heads + 1) / heads)


def causal(b, h, q, k):
    return q >= k


def functions(heads, steps, document):
    """{name: (score_mod, mask_mod, heed's own options or None)}"""
    slope, documents = slopes(heads), torch.arange(steps) // document
    rate = 0.1 * torch.arange(1, heads + 1)
    return {
        "plain": (lambda s, b, h, q, k: s, None, {}),
        "ALiBi": (lambda s, b, h, q, k: s - slope[h] * (q - k).abs(), None, {"position": heed.positions.Alibi(heads)}),
        "KERPLE": (lambda s, b, h, q, k: s - rate[h] * torch.log1p((q - k).abs() * 0.1), None, None),
        "soft-cap": (lambda s, b, h, q, k: 20 * torch.tanh(s / 20), None, {"softcap": 20.0}),
        "causal": (None, causal, {"causal": True}),
        "window of 256": (None, lambda b, h, q, k: (q >= k) & (q - k < 256), {"causal": True, "window": (255, 0)}),
        "documents, causal": (None, lambda b, h, q, k: (documents[q] == documents[k]) & (q >= k), None),
    }


def shown(times):
    return "  ".join(f"{min(ms):8.2f} {statistics.median(ms):8.2f}" if ms else f"{'':>17}" for ms in times)


def call(operands, run, d_output=None):
    """A function that computes, with all gradients where d_output is given."""
    if d_output is None:
        return torch.no_grad()(lambda: run(*operands))
    wanted = [operand.detach().requires_grad_() for operand in operands]
    return lambda: torch.autograd.grad(run(*wanted), wanted, d_output)


def beside_flex(options, compiled, score_mod, mask_mod, own, operands):
    """{which: times}"""
    blocks = None
    if mask_mod is not None:
        blocks = create_block_mask(mask_mod, None, None, options.steps, options.steps, device="cpu")
    prepared = {}
    if score_mod is not None:
        prepared["score"] = heed.score(score_mod)
    if mask_mod is not None:
        prepared["mask"] = heed.mask(mask_mod)
    runs = {
        "inductor": call(operands, lambda q, k, v: compiled(q, k, v, score_mod=score_mod, block_mask=blocks)),
        "program": call(operands, lambda q, k, v: heed.attention(q, k, v, **prepared)),
    }
    if own is not None:
        runs["option"] = call(operands, lambda q, k, v: heed.attention(q, k, v, **own))
    runs[BOTH] = call(operands, lambda q, k, v: heed.attention(q, k, v, **prepared), torch.ones_like(operands[0]))
    return turns.milliseconds(runs, options.rounds)


def documents(options, heads):
    """Many documents end to end: by a mask program and as packed sequences."""
    tokens = options.tokens
    query, key, value = torch.randn(3, 1, heads, tokens, options.width).unbind()
    document = torch.arange(tokens) // options.document
    offsets = torch.arange(0, tokens + 1, options.document)
    mask = heed.mask(lambda b, h, q, k: document[q] == document[k])
    rows = [t[0].transpose(0, 1) for t in (query, key, value)]
    for what, gradient in ((FORWARD, None), (BOTH, torch.ones_like(query))):
        packed = None if gradient is None else gradient[0].transpose(0, 1)
        times = turns.milliseconds({
            "mask program": call((query, key, value), lambda q, k, v: heed.attention(q, k, v, mask=mask), gradient),
            "packed": call(rows, lambda q, k, v: heed.attention_packed(q, k, v, offsets, offsets), packed),
        }, options.rounds)  # fmt: skip
        ratio = min(times["mask program"]) / min(times["packed"])
        print(f"{what:>18}  {shown([times['mask program'], times['packed']])}  {ratio:5.2f}", flush=True)


def main():
    options = turns.options(__doc__, threads=1, steps=2048, rounds=15, heads=4, width=64, document=512, tokens=32768)
    print(f"n {options.steps}, {options.heads} heads of {options.width}, float32, {options.rounds} rounds; ms, least and median")
    print(f"{'':>18}  {'inductor':^17}  {'program':^17}  {'option':^17}  {'program, backward':^17}  inductor / program")
    compiled = torch.compile(flex_attention, fullgraph=True)
    for name, (score_mod, mask_mod, own) in functions(options.heads, options.steps, options.document).items():
        operands = torch.randn(3, 1, options.heads, options.steps, options.width).unbind()
        times = beside_flex(options, compiled, score_mod, mask_mod, own, operands)
        columns = shown([times.get(which) for which in ("inductor", "program", "option", BOTH)])
        print(f"{name:>18}  {columns}  {min(times['inductor']) / min(times['program']):5.2f}", flush=True)
    print(f"{options.tokens} tokens in documents of {options.document}")
    print(f"{'':>18}  {'mask program':^17}  {'packed':^17}  ratio")
    documents(options, options.heads)


if __name__ == "__main__":
    main()
