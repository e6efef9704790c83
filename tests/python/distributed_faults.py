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


class Own(heed.positions.Scheme):
    """A bias by offset that does as it is told."""

    def __init__(self, does="its work"):
        super().__init__()
        self._does = does
        self.table = torch.nn.Parameter(torch.zeros(6, 9))
        self.register_buffer("weights", torch.ones(6, 2000))

    def tensors(self):
        if self._does == "raises":
            raise LookupError("there is no table here")
        table = self.table[:, 1:-1] if self._does == "is shorter" else self.table
        if self._does == "is frozen":
            table = table.detach()
        more = {"slopes": self.weights[:, 0]} if self._does == "has slopes" else {}
        return {"relative_bias": table, **more}


def scheme_of(name, arguments=(), change=None):
    """A scheme by its class and arguments, and then changed: (attribute, to what)."""
    scheme = Own(*arguments) if name == "Own" else getattr(heed.positions, name)(*arguments)
    if change is not None:
        attribute, to = change
        with torch.no_grad():
            tensor = getattr(scheme, attribute)
            if isinstance(to, bool):
                tensor.requires_grad_(to)
            else:
                changed = tensor.clone()
                changed[..., -1] += to
                setattr(scheme, attribute, changed)
    return scheme


def with_own_arguments(group, by_rank):
    """Six tokens a rank forward and backward, each rank with arguments of its own: operands by name, a scheme, and options."""
    mine = dict(by_rank[dist.get_rank(group)])
    shape, dtype = mine.pop("shape", (1, 6, 6, 8)), mine.pop("dtype", torch.float32)
    needs = mine.pop("requires_grad", (True, True, True))
    torch.manual_seed(0)
    operands = [torch.randn(*shape).to(dtype).requires_grad_(need and dtype.is_floating_point) for need in needs]
    if "scheme" in mine:
        mine["position"] = scheme_of(*mine.pop("scheme"))
    if "factor" in mine:
        factor = mine.pop("factor")
        mine["score"] = heed.score(lambda score, b, h, i, j: score * factor)
    result = heed.distributed.attention(*operands, group, **mine)
    output = result if isinstance(result, torch.Tensor) else result.output
    if output.requires_grad:
        output.sum().backward()
    return True


def changed_in_place(group, ranks):
    """What is raised, or None, before a bias is changed where it lies, once that is so on these ranks, and once on all."""
    x, bias, found = torch.ones(1, 8, 6, 8), torch.zeros(1, 8, 12, 40)[..., ::3][..., :12], []
    for changing in ([], ranks, [rank for rank in range(dist.get_world_size(group)) if rank not in ranks]):
        if dist.get_rank(group) in changing:
            bias[0, 5, 11, 11] += 1.0
        for _ in range(2):
            try:
                heed.distributed.attention(x, x, x, group, bias=bias)
            except ValueError as error:
                found.append(str(error))
            else:
                found.append(None)
    return found


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
