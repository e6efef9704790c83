"""heed.distributed.attention over two ranks, which are processes of their own until this one ends.

    python ranks_entry.py RANK STORE      a rank: calls come in and parts of results go out, pickled
"""

from __future__ import annotations

import datetime
import pathlib
import pickle
import random
import subprocess
import sys
import tempfile
from typing import Any

import torch
from call import Call, Tensors

RANKS = 2
_workers: list[subprocess.Popen[bytes]] = []
# What each rank has a part of, and of which side's tokens; every rank has all of the rest.
SIDES = dict.fromkeys(("output", "lse", "entropy", "max_weight", "mean_distance", "d_query"), "query") | {"d_key": "key", "d_value": "key"}


def _cut(call: Call, side: str, rank: int) -> slice:
    """The tokens of a rank: a part of any length, also none."""
    steps = call.queries if side == "query" else call.keys
    at = random.Random(f"{call.seed} {side}").randint(0, steps)
    return slice(0, at) if rank == 0 else slice(at, steps)


def computed(call: Call, t: Tensors) -> dict[str, torch.Tensor]:
    """As comparison.computed, of the whole."""
    if any(worker.poll() is not None for worker in _workers):
        _workers.clear()
    if not _workers:
        store = tempfile.mktemp()
        command = [sys.executable, pathlib.Path(__file__)]
        _workers[:] = [
            subprocess.Popen([*command, str(rank), store], stdin=subprocess.PIPE, stdout=subprocess.PIPE) for rank in range(RANKS)
        ]
    for worker in _workers:
        assert worker.stdin is not None
        pickle.dump((call, t), worker.stdin)
        worker.stdin.flush()
    parts = [pickle.load(worker.stdout) for worker in _workers]  # type: ignore[arg-type]  # noqa: S301  our own processes
    for part in parts:
        if isinstance(part, str):
            raise RuntimeError(part)
    return {name: torch.cat([part[name] for part in parts], 2) if name in SIDES else parts[0][name] for name in parts[0]}


def _part(call: Call, t: Tensors, rank: int) -> dict[str, torch.Tensor]:
    import comparison

    import heed.distributed

    own = {side: _cut(call, side, rank) for side in ("query", "key")}
    for name, side in (("query", "query"), ("key", "key"), ("value", "key"), ("d_output", "query"), ("d_lse", "query")):
        setattr(t, name, getattr(t, name)[:, :, own[side]].contiguous())
    leaves = {name: getattr(t, name).requires_grad_() for name in call.wanted if getattr(t, name, None) is not None}
    whole = call.empty_row == "uniform" or call.position == "Cope"  # which the ring has not
    method = "all_to_all" if call.kv_heads % RANKS == 0 and (whole or call.seed % 2 == 0) else "ring"
    result = heed.distributed.attention(t.query, t.key, t.value, method=method, **comparison._options(call, t))
    if isinstance(result, torch.Tensor):
        result = heed.AttentionOutput(result)
    values = {"output": result.output, **({"lse": result.lse} if call.lse else {})}
    values |= result.statistics._asdict() if call.statistics else {}
    if leaves:
        outputs = [result.output, result.lse] if call.lse_gradient else [result.output]
        grads = torch.autograd.grad(outputs, list(leaves.values()), [t.d_output, t.d_lse][: len(outputs)], allow_unused=True)
        values |= {f"d_{name}": torch.zeros_like(leaves[name]) if g is None else g for name, g in zip(leaves, grads)}
    return {name: value.detach() for name, value in values.items()}


def _work(rank: int, store: str) -> None:
    torch.set_num_threads(1)
    wait = datetime.timedelta(seconds=30)
    torch.distributed.init_process_group("gloo", f"file://{store}", rank=rank, world_size=RANKS, timeout=wait)
    answers, sys.stdout = sys.stdout.buffer, sys.stderr  # what libraries print is no answer
    while True:
        try:
            call, t = pickle.load(sys.stdin.buffer)  # noqa: S301
        except EOFError:
            return
        try:
            answer: Any = _part(call, t, rank)
        except Exception as error:  # noqa: BLE001  whatever it is, the call was drawn to be valid
            answer = f"rank {rank}: {type(error).__name__}: {error}"
        pickle.dump(answer, answers)
        answers.flush()


if __name__ == "__main__":
    _work(int(sys.argv[1]), sys.argv[2])
