"""Subjects of checks as functions of operands: a call of heed.attention with a scheme or a program, or a module."""

from __future__ import annotations

import copy
import dataclasses
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import torch

from .._attention import attention
from .._cache import KeyValueCache
from .._programs import MaskProgram, ScoreProgram
from .._programs._text import leaves_of
from ..positions import ProgramScheme, Scheme
from ._comparison import LeftOut, drawn

Operands = Sequence[torch.Tensor]
_Self = TypeVar("_Self", bound="Subject")
_AS_WIDE = (None, torch.float32, torch.float64, "meta")
FAR = 2049  # a position that neither bfloat16 nor float16 has
_ROUNDINGS = {torch.float32: 8.0, torch.bfloat16: 1.0, torch.float16: 1.0}


@dataclasses.dataclass
class Subject:
    """A module in float64 and its call."""

    module: torch.nn.Module
    remake: Callable[[int], torch.nn.Module] | None  # makes another module from a seed, with other numbers
    seed: int  # of the operands
    names: Sequence[str] = dataclasses.field(init=False)  # of the operands
    varies: Sequence[bool] = dataclasses.field(init=False)  # which operands have gradients and are cast to the type that is tried
    relative: bool = dataclasses.field(init=False)  # whether moving all tokens must change nothing
    backend: str | None = dataclasses.field(init=False)  # of torch.compile

    def of(self: _Self, module: torch.nn.Module) -> _Self:
        """The same subject with another module."""
        other = copy.copy(self)
        other.module = module
        return other

    def copied(self: _Self, where: torch.dtype | str | None = None) -> _Self:
        """The same subject with a copy of the module, in a type or on a device."""
        module = copy.deepcopy(self.module)
        if isinstance(module, ProgramScheme) and isinstance(self.module, ProgramScheme) and where in _AS_WIDE:
            if all(isinstance(source, str) for source in self.module._sources):  # in 16 bits it is traced again, with other casts
                module._prepared, module._sources = self.module._prepared, self.module._sources
        return self.of(module if where is None else module.to(where))

    def parameters(self) -> dict[str, torch.Tensor]:
        """The trainable parameters."""
        return {f"parameter {name}": p for name, p in self.module.named_parameters() if p.requires_grad}

    def operands(self, batch: int = 2, *, others: bool = False) -> list[torch.Tensor]:
        """Operands in float64; others gives different numbers."""
        raise NotImplementedError

    def drawn(self, operand: int, others: bool, *shape: int) -> torch.Tensor:
        """Numbers of an operand."""
        return drawn(1000 * self.seed + 10 * others + operand, *shape)

    def function(self) -> Callable[..., torch.Tensor]:
        """A function from operands to the output, with everything else made beforehand."""
        raise NotImplementedError

    def output(self, operands: Operands, **options: Any) -> torch.Tensor:
        """The output of a call."""
        return self.function()(*operands, **options)

    def objective(self, operands: Operands, **options: Any) -> torch.Tensor:
        """A number that depends on all outputs."""
        output = self.output(operands, **options)
        return (output * drawn(7, *output.shape).to(output)).sum()

    def cast(self, operands: Operands, where: torch.dtype | str) -> list[torch.Tensor]:
        """The operands, of which floating ones are cast to a type or moved to a device."""
        return [x.to(where) if varies or isinstance(where, str) else x for x, varies in zip(operands, self.varies)]

    def rounding(self, operands: Operands, dtype: torch.dtype, expected: torch.Tensor) -> float:
        """The largest difference that rounding to this type explains."""
        size = float(expected.detach().abs().max()) if expected.numel() else 0.0
        return 16 * torch.finfo(dtype).eps * (1.0 + size)

    def results(self, operands: Operands, function: Callable[..., torch.Tensor] | None = None) -> dict[str, torch.Tensor]:
        """The output, and the gradients of a weighted sum of it by name; function replaces its own."""
        leaves = [x.detach().clone().requires_grad_(varies) for x, varies in zip(operands, self.varies)]
        output = (function or self.function())(*leaves)
        found = {"the output": output.detach()}
        wanted = {name: x for name, x in zip(self.names, leaves) if x.requires_grad} | self.parameters()
        if output.requires_grad:
            loss = (output * drawn(7, *output.shape).to(output)).sum()
            gradients = torch.autograd.grad(loss, list(wanted.values()), allow_unused=True)
            found |= {f"the gradient of {name}": g for name, g in zip(wanted, gradients) if g is not None}
        return found


class Captured(torch.nn.Module):
    """A program as a module, whose captured tensors are parameters and buffers."""

    def __init__(self, program: ScoreProgram | MaskProgram) -> None:
        super().__init__()
        self._program, self._names = program.of([]), [f"captured{i}" for i in range(len(program.captured))]
        for name, tensor in zip(self._names, program.captured):
            trained = tensor.requires_grad and tensor.is_floating_point()
            own = tensor.detach().clone()
            self.register_parameter(name, torch.nn.Parameter(own)) if trained else self.register_buffer(name, own)

    def program(self) -> ScoreProgram | MaskProgram:
        """The program with these tensors."""
        return self._program.of([getattr(self, name) for name in self._names])


@dataclasses.dataclass
class AttentionCall(Subject):
    """heed.attention with a scheme or a program."""

    names = ("query", "key", "value")
    varies = (True, True, True)

    causal: bool | None
    places: torch.Tensor | None  # positions [1, steps, axes] for a scheme with axes
    options: Mapping[str, Any]
    heads: int
    kv_heads: int
    head_dim: int
    steps: int

    @property
    def scheme(self) -> Scheme | None:
        """The scheme; None for a program."""
        return self.module if isinstance(self.module, Scheme) else None

    def own(self) -> dict[str, Any]:
        """The checked option of heed.attention."""
        if not isinstance(self.module, Captured):
            return {"position": self.module}
        program = self.module.program()
        return {"score" if isinstance(program, ScoreProgram) else "mask": program}

    def given(self, **options: Any) -> dict[str, Any]:
        """All options of a call."""
        return {**self.options, "causal": self.causal, **self.own(), **options}

    def at(self, first: int, last: int, batch: int = 1) -> dict[str, Any]:
        """Positions of the tokens first .. last - 1, for a scheme with axes."""
        if self.places is None:
            return {}
        places = self.places[:, first:last].expand(batch, -1, -1)
        return {"query_positions": places, "key_positions": places}

    def operands(
        self, batch: int = 2, queries: int | None = None, keys: int | None = None, *, others: bool = False
    ) -> list[torch.Tensor]:
        queries, keys = (self.steps if n is None else n for n in (queries, keys))
        shapes = ((self.heads, queries), (self.kv_heads, keys), (self.kv_heads, keys))
        return [self.drawn(i, others, batch, heads, steps, self.head_dim) for i, (heads, steps) in enumerate(shapes)]

    def call(self, operands: Operands, **options: Any) -> Any:
        """heed.attention of the operands; without positions a scheme with axes gets the first places."""
        query, key, value = operands
        if self.places is not None:
            own = {"query_positions": self.places[:, : query.shape[2]], "key_positions": self.places[:, : key.shape[2]]}
            options = {**{name: places.to(query.device) for name, places in own.items()}, **options}
        return attention(query, key, value, **self.given(**options))

    def output(self, operands: Operands, **options: Any) -> torch.Tensor:
        output: torch.Tensor = self.call(operands, **options)
        return output

    def function(self) -> Callable[..., torch.Tensor]:
        given = self.given(**self.at(0, self.steps))
        return lambda query, key, value: attention(query, key, value, **given)

    def objective(self, operands: Operands, **options: Any) -> torch.Tensor:
        output, lse = self.call(operands, **options, return_lse=True)[:2]
        finite = lse.isfinite()
        return (output * drawn(7, *output.shape)).sum() + (lse * drawn(8, *lse.shape))[finite].sum()

    def rounding(self, operands: Operands, dtype: torch.dtype, expected: torch.Tensor) -> float:
        """Rounding of turned queries and keys, times the size of values, and of the output."""
        query, key, value = (x.double() for x in operands)
        if self.scheme is not None and self.scheme.turns_once and self.places is None:
            with torch.no_grad():
                query, key = self.scheme.rotate_query(query, FAR), self.scheme.rotate_key(key, FAR)
        scores = float(query.square().mean().sqrt() * key.square().mean().sqrt()) * self.head_dim**0.5
        return _ROUNDINGS[dtype] * torch.finfo(dtype).eps * (1.0 + scores) * float(value.abs().max())

    def cache(self, batch: int, *, own: bool) -> KeyValueCache:
        """An empty cache; own gives it the scheme."""
        position = self.scheme if own else None
        return KeyValueCache(batch, self.kv_heads, self.head_dim, dtype=torch.float64, position=position)

    def reads(self) -> set[str]:
        """The arguments that a program's result depends on; empty for schemes."""
        if isinstance(self.module, Captured):
            return leaves_of(self.module.program().text)
        return leaves_of(self.module.program()[0].text) if isinstance(self.module, ProgramScheme) else set()

    def leave_out_if_it_reads(self, *names: str) -> None:
        """LeftOut for a program that reads one of these arguments."""
        told = {"batch": "the batch row", "query": "q_idx", "key": "kv_idx"}
        read = [told[name] for name in names if name in self.reads()]
        if read:
            raise LeftOut(f"the function reads {' and '.join(read)}, counted within a call; with positions=True it may read positions")


@dataclasses.dataclass
class ModuleCall(Subject):
    """A module with tensors as inputs."""

    inputs: Operands | None  # examples, or None for the usual shape
    shape: Sequence[int]  # [heads, steps, head_dim]

    def __post_init__(self) -> None:
        self._inputs = _usual(self.module, self.shape) if self.inputs is None else list(self.inputs)
        self.varies = [x.is_floating_point() and (self.inputs is None or x.dtype != torch.float64) for x in self._inputs]
        self.names = [f"input {i}" for i in range(len(self._inputs))]

    def operands(self, batch: int = 2, *, others: bool = False) -> list[torch.Tensor]:
        def one(i: int, x: torch.Tensor) -> torch.Tensor:
            return self.drawn(i, others, batch, *x.shape[1:]) if self.varies[i] else x[:1].expand(batch, *x.shape[1:])

        return [one(i, x) for i, x in enumerate(self._inputs)]

    def function(self) -> Callable[..., torch.Tensor]:
        module = self.module

        def first(*inputs: torch.Tensor, **options: Any) -> torch.Tensor:
            result = module(*inputs, **options)
            output: torch.Tensor = result[0] if isinstance(result, (tuple, list)) else result
            return output

        return first

    def takes(self, name: str) -> bool:
        """Whether the module's forward has this argument."""
        return name in inspect.signature(self.module.forward).parameters


def _usual(module: torch.nn.Module, shape: Sequence[int]) -> list[torch.Tensor]:
    """Shapes of default inputs: [2, steps, width] for heed.book.MultiHeadAttention and modules with a width, else by head."""
    heads, steps, head_dim = shape
    projections = [getattr(module, name, None) for name in ("W_q", "W_k", "W_v")]
    if all(isinstance(linear, torch.nn.Linear) for linear in projections):
        return [torch.zeros(2, steps, linear.in_features) for linear in projections if linear is not None]
    if isinstance(getattr(module, "width", None), int):
        return [torch.zeros(2, steps, int(module.width))]  # type: ignore[arg-type]
    return [torch.zeros(2, heads, steps, head_dim)] * 3
