"""What ranks do in test_distributed_faults.py."""

import threading
import time

import torch
import torch.distributed as dist

import heed
import heed.distributed
from heed.distributed import _agreement


def differing(group, different):
    """Calls with six tokens a rank; rank 1 as `different` says. True where that was alike."""
    mine = different if dist.get_rank(group) == 1 else {}
    dtype = getattr(torch, mine.get("dtype", "float32"))
    heads, width, needs = mine.get("heads", 6), mine.get("width", 8), mine.get("requires_grad", False)
    query = torch.zeros(1, heads, 6, width, dtype=dtype, requires_grad=needs)
    key = torch.zeros(1, heads, mine.get("key_tokens", 6), width, dtype=dtype)
    value = torch.zeros(1, heads, mine.get("value_tokens", 6), width, dtype=dtype)
    options = dict(mine.get("options", {}))
    factor = mine.get("factor", 2.0)
    options["score"] = heed.score(lambda score, b, h, i, j: score * factor)
    if "scheme" in mine:
        name, *arguments = mine["scheme"]
        options["position"] = getattr(heed.positions, name)(*arguments)
    function = getattr(heed.distributed, mine.get("function", "attention"))
    own_version = _agreement.VERSION
    _agreement.VERSION = mine.get("version", own_version)
    try:
        result = function(query, key, value, group, mine.get("method", "ring"), mine.get("layout", "contiguous"), **options)
    finally:
        _agreement.VERSION = own_version
    return result is not None


def with_own_options(group, options):
    """Six tokens a rank, each rank with options of its own."""
    x = torch.zeros(1, 6, 6, 8)
    given = dict(options[dist.get_rank(group)])
    if "packed" in given:
        given["packed"] = tuple(map(torch.tensor, given["packed"]))
    return heed.distributed.attention(x, x, x, group, **given)


def second_derivative(group, method):
    x = torch.randn(1, 2, 4, 8, requires_grad=True)
    output = heed.distributed.attention(x, x, x, group, method)
    (gradient,) = torch.autograd.grad(output.square().sum(), x, create_graph=True)
    try:
        gradient.sum().backward()
    except RuntimeError as error:
        second = "only first derivatives" in str(error)
    else:
        second = False
    try:
        with torch.autograd.forward_ad.dual_level():
            dual = torch.autograd.forward_ad.make_dual(torch.zeros(1, 2, 4, 8), torch.ones(1, 2, 4, 8))
            heed.distributed.attention(dual, dual, dual, group, method)
    except RuntimeError:
        return second
    return False


def again_and_again(group, method):
    """Until another rank is gone."""
    x = torch.randn(1, 3, 40, 8, requires_grad=True)
    end = time.monotonic() + 60
    while time.monotonic() < end:
        heed.distributed.attention(x, x, x, group, method, causal=True).sum().backward()
    return True


def late(group, seconds):
    x = torch.zeros(1, 2, 4, 8)
    if dist.get_rank(group) == 1:
        time.sleep(seconds)
    return heed.distributed.attention(x, x, x, group) is not None


def turns_while_waiting(group, seconds):
    """How often another thread of rank 0 had its turn while it waited for rank 1."""
    x, turns, over = torch.zeros(1, 2, 4, 8), [], threading.Event()
    if dist.get_rank(group) == 1:
        time.sleep(seconds)
    else:
        other = threading.Thread(target=lambda: [turns.append(1) for _ in iter(lambda: over.wait(0.01), True)])
        other.start()
    heed.distributed.attention(x, x, x, group)
    if dist.get_rank(group) == 0:
        over.set()
        other.join()
    return len(turns)
