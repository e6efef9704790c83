"""Copies, state dicts, repetitions and compiled calls."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import torch

from ._comparison import Fault, LeftOut, check_close, check_same_bits, difference, drawn
from ._subjects import AttentionCall, Captured, Subject


def _change(tensors: Sequence[torch.Tensor], seed: int) -> None:
    with torch.no_grad():
        for number, tensor in enumerate(tensors):
            tensor.add_(drawn(seed + number, *tensor.shape).to(tensor))


def copies(subject: Subject) -> None:
    """Fault where a copy computes something else, or shares memory with the original."""
    if isinstance(subject.module, Captured):
        raise LeftOut("a program's tensors are the caller's")
    operands = subject.operands()
    expected = subject.output(operands)
    other = subject.of(copy.deepcopy(subject.module))
    check_same_bits("the output of copy.deepcopy", other.output(operands), expected)
    trained = [p for p in other.module.parameters() if p.requires_grad and p.is_floating_point() and p.numel()]
    _change(trained, 20)
    check_same_bits("the output after a copy's parameters changed", subject.output(operands), expected)
    if trained and difference(other.output(operands), expected) == 0.0:
        raise Fault("the output of a copy is the same after all of its parameters changed: it computes with numbers kept from before")


def _outside(module: torch.nn.Module) -> list[str]:
    """Attributes that require a gradient and are not in the state dict."""
    found, own = [], {id(parameter) for parameter in module.parameters()}
    for prefix, part in module.named_modules():
        for name, value in vars(part).items():
            if name in ("_parameters", "_buffers", "_modules"):
                continue
            inner = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else [value]
            if any(isinstance(v, torch.Tensor) and v.requires_grad and id(v) not in own for v in inner):
                found.append(".".join(filter(None, (prefix, name))))
    return found


def state(subject: Subject) -> None:
    """Fault where another module with the same state dict computes something else."""
    if isinstance(subject.module, Captured):
        raise LeftOut("a program's tensors are the caller's")
    if outside := _outside(subject.module):
        raise Fault(f"{', '.join(outside)} requires a gradient and stands outside of the state dict: make it a torch.nn.Parameter")
    operands = subject.operands()
    expected = subject.output(operands)
    kept = {name: t.detach().clone() if isinstance(t, torch.Tensor) else t for name, t in subject.module.state_dict().items()}
    other = subject.copied() if subject.remake is None else subject.of(subject.remake(subject.seed + 1).double().eval())
    _change([t for t in other.module.state_dict().values() if isinstance(t, torch.Tensor) and t.is_floating_point()], 40)
    other.output(operands)  # whatever is kept of the numbers before
    try:
        other.module.load_state_dict(kept, strict=True)
    except RuntimeError as error:
        raise Fault(f"load_state_dict refuses the state dict of its own class: {str(error).splitlines()[-1].strip()}") from error
    check_same_bits("the output of another one with this state dict", other.output(operands), expected)


def threads(subject: Subject) -> None:
    """Fault where a second call, or one with another number of threads, has other bits."""
    operands = subject.operands(5)
    before = torch.get_num_threads()
    expected = subject.results(operands)
    try:
        for count in (before, 1, 2, 3):
            torch.set_num_threads(count)
            what = f"with {count} threads" if count != before else "in a second call"
            for name, tensor in subject.results(operands).items():
                # PyTorch sums some gradients of its own layers in another order for other numbers of threads.
                exact = count == before or isinstance(subject, AttentionCall)
                (check_same_bits if exact else check_close)(f"{name} {what}", tensor, expected[name])
    finally:
        torch.set_num_threads(before)


def compiled(subject: Subject) -> None:
    """Fault where torch.compile breaks the graph or computes something else."""
    if subject.backend is None:
        raise LeftOut("compile=True tries it")
    operands = subject.operands()
    expected = subject.results(operands)
    torch.compiler.reset()
    try:
        function = torch.compile(subject.function(), fullgraph=True, backend=subject.backend)
        found = subject.results(operands, function)
    finally:
        torch.compiler.reset()
    for name in expected:
        if name not in found:
            raise Fault(f"{name} is missing when compiled")
        check_close(f"{name}, compiled,", found[name], expected[name])
