"""A Python function of single numbers, traced once: what it computes inside the kernel, and what before of captured tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch.autograd import forward_ad
from torch.fx import Graph, GraphModule, Node
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_map

from ._text import OutOfRange, Value
from ._translation import Captured, Refusal, Translation

_aten = torch.ops.aten
_FILLED = (_aten.scalar_tensor.default, _aten.full.default, _aten.zeros.default, _aten.ones.default)
_DETACHES = (torch.detach, torch.Tensor.detach, torch.Tensor.data.__get__)  # type: ignore[attr-defined]
_OUT_OF_TORCH = (torch.Tensor.tolist, torch.Tensor.numpy, torch.Tensor.__array__, torch.Tensor.__dlpack__)


class _Unknown(Exception):
    """The function asked for the value of a tensor."""


def _is_wrapped(tensor: torch.Tensor) -> bool:
    if torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        return True
    if forward_ad._current_level < 0:
        return False
    with _disable_current_modes():
        return forward_ad.unpack_dual(tensor).tangent is not None


class _Calls(TorchFunctionMode):
    """What the function calls, where tracing needs it otherwise: t[i, j] is a read where an index is a tensor of one number,
    which PyTorch would ask for its value, and for tensors of torch.func's transforms and those with a tangent, whose wrappings
    the graph would show, plain ones stand in."""

    def __init__(self) -> None:
        super().__init__()
        self._pairs: list[tuple[torch.Tensor, torch.Tensor]] = []  # a transformed tensor and what stands in for it

    def _plain(self, given: Any) -> Any:
        if not (isinstance(given, torch.Tensor) and _is_wrapped(given)):
            return given
        for transformed, plain in self._pairs:
            if transformed is given:
                return plain
        with _disable_current_modes():  # as if it were captured
            plain = torch.empty(given.shape, dtype=given.dtype, device=given.device)
        self._pairs.append((given, plain))
        return plain

    def original(self, tensor: torch.Tensor) -> torch.Tensor:
        """What a tensor of the graph stands for."""
        return next((transformed for transformed, plain in self._pairs if plain is tensor), tensor)

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        args, kwargs = tree_map(self._plain, (args, kwargs))
        if func is torch.Tensor.__getitem__:
            tensor, given = args
            indices = given if isinstance(given, tuple) else (given,)
            if any(isinstance(i, torch.Tensor) for i in indices) and all(
                isinstance(i, (torch.Tensor, int)) for i in indices
            ):
                return _aten.index(tensor, [i if isinstance(i, torch.Tensor) else torch.tensor(i) for i in indices])
        if func in _OUT_OF_TORCH:
            raise _Unknown
        if func in _DETACHES:  # of which graphs of torch 2.15 show an alias
            return _aten.detach_copy(args[0])
        if func is torch._C._set_grad_enabled:
            # The graph would not show it.
            raise Refusal("torch.no_grad and torch.enable_grad have no counterpart inside of the kernel; detach what it captures")
        return func(*args, **(kwargs or {}))


class _NoValues(TorchDispatchMode):
    """Refuses what would write the value that a captured tensor has just now into the program."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func in (_aten._local_scalar_dense.default, _aten.equal.default):
            raise _Unknown
        return func(*args, **(kwargs or {}))


class Traced(NamedTuple):
    """A program and how to make its tables."""

    text: str
    captured: tuple[torch.Tensor, ...]
    before: GraphModule | None  # from the captured tensors to the tables; None where they are the same


def _inputs(leaves: Sequence[str]) -> list[torch.Tensor]:
    types = {"score": torch.float32, "query_position": torch.float64, "key_position": torch.float64}
    return [torch.zeros((), dtype=types.get(leaf, torch.int64), device="cpu") for leaf in leaves]


def _graph(name: str, function: Callable[..., Any], leaves: Sequence[str], calls: _Calls) -> GraphModule:
    from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack
    from torch.fx.experimental.proxy_tensor import make_fx

    def one(*numbers: torch.Tensor) -> Any:
        with _NoValues(), calls:  # type: ignore[no-untyped-call]
            result = function(*numbers)
        if not isinstance(result, (torch.Tensor, bool, int, float)):
            raise ValueError(f"{name}: expected a function that returns one number, got {type(result).__name__}")
        return result if isinstance(result, torch.Tensor) else torch.tensor(result)

    # With gradients, what autograd saves would be in the graph too, and with autocast its casts. Inference mode has no tensors whose
    # versions a trace could follow.
    with torch.inference_mode(False), torch.no_grad(), torch.autocast("cpu", enabled=False), temporarily_clear_interpreter_stack():
        return make_fx(one, tracing_mode="fake", _allow_non_fake_inputs=True)(*_inputs(leaves))


def trace(name: str, function: Callable[..., Any], leaves: Sequence[str], truth: bool) -> Traced:
    """function(*leaves) -> a number (truth: a boolean), as instructions. name: its name in errors.

    Raises NotImplementedError that names the operation for what programs do not have, ValueError for a result of another kind.
    """
    if not callable(function):
        raise TypeError(f"{name}: expected a function, got {type(function).__name__}")
    calls = _Calls()
    try:
        graph = _graph(name, function, leaves, calls)
    except _Unknown as error:
        raise NotImplementedError(
            f"{name}: the function asks for the value of a number (`if`, `int()`, `.item()`), which may differ for every pair and call; choose with torch.where"
        ) from error
    except Refusal as error:
        raise NotImplementedError(f"{name}: {error}") from error
    try:
        traced = _Reader(name, graph, leaves).read(truth)
    except OutOfRange as error:
        raise ValueError(f"{name}: {error}") from error
    return traced._replace(captured=tuple(map(calls.original, traced.captured)))


class _Reader:
    """Reads a graph: what depends on the numbers of a pair becomes instructions, of the rest what they read becomes tables."""

    def __init__(self, name: str, graph: GraphModule, leaves: Sequence[str]) -> None:
        self.name, self.graph = name, graph
        self.leaves = iter(leaves)
        self.translation = Translation()
        self.values: dict[Node, Any] = {}
        self.tables: dict[Any, tuple[int, Node]] = {}  # by tensor, or by node where it is computed

    def read(self, truth: bool) -> Traced:
        """The whole graph. truth: whether its result must be a boolean."""
        result: Any = None
        for node in self.graph.graph.nodes:
            if node.op == "placeholder":
                self.values[node] = self.translation.text.leaf(next(self.leaves))
            elif node.op == "output":
                result = self._argument(node.args[0])
            elif node.op == "call_function":
                self._call(node)
        try:
            value = self.translation.value(result)
        except Refusal as error:
            raise ValueError(f"{self.name}: expected a function that returns one number, got {error}") from error
        if truth and value.kind != "truth":
            raise ValueError(f"{self.name}: expected a function that returns a boolean for each pair, got a number")
        return self._finish(value if truth else self.translation.text.real(value))

    def _call(self, node: Node) -> None:
        if isinstance(node.target, torch._ops.OpOverload):
            operation = node.target._schema.name.removeprefix("aten::")
            if node.target._schema.is_mutable:
                raise NotImplementedError(f"{self.name}: torch's {operation} writes to a tensor")
            if torch.Tag.nondeterministic_seeded in node.target.tags:
                raise NotImplementedError(f"{self.name}: torch's {operation} is random")
        if not any(i in self.values for i in node.all_input_nodes):
            return
        try:
            kwargs = {name: self._argument(given) for name, given in node.kwargs.items()}
            self.values[node] = self.translation.call(node.target, self._argument(node.args), kwargs, node.meta["val"])
        except (Refusal, TypeError) as error:
            raise NotImplementedError(f"{self.name}: {error} has no counterpart inside of the kernel") from error

    def _argument(self, given: Any) -> Any:
        if isinstance(given, Node):
            return self.values[given] if given in self.values else self._outside(given)
        if isinstance(given, (list, tuple)):
            return [self._argument(g) for g in given]
        return given

    def _outside(self, node: Node) -> Any:
        """What does not depend on the pair: a number, an entry or a row of a table, or a table."""
        if literal := self._literal(node):
            return literal
        if node.target is _aten.select.int and node.args[1] == 0:
            return self.translation.call(node.target, self._argument(node.args), {}, node.meta["val"])
        return self._table(node)

    def _literal(self, node: Node) -> Value | None:
        """A number that the function itself brings, if the node is one."""
        if node.target in _FILLED and node.meta["val"].dim() == 0:
            return self.translation.call(node.target, node.args, node.kwargs, node.meta["val"])
        if node.target is _aten.lift_fresh_copy.default and node.meta["val"].dim() == 0:
            # Of torch.tensor(...) within the function: nobody else can change that tensor.
            (literal,) = node.all_input_nodes
            return self.translation.value(getattr(self.graph, str(literal.target)).item()) if literal.op == "get_attr" else None
        return None

    def _table(self, node: Node) -> Captured:
        """What a node computes, as a table; the same tensor is one, however often it is mentioned."""
        tensor = getattr(self.graph, str(node.target)) if node.op == "get_attr" else node.meta["val"]
        place, _ = self.tables.setdefault(id(tensor) if node.op == "get_attr" else node, (len(self.tables), node))
        return Captured(place, tensor)

    def _finish(self, result: Value) -> Traced:
        text = self.translation.text.finish(result)
        wanted = [node for _, node in self.tables.values()]
        if all(node.op == "get_attr" for node in wanted):
            return Traced(text, tuple(getattr(self.graph, str(node.target)) for node in wanted), None)
        return Traced(text, *_pruned(self.graph, wanted))


def _pruned(module: GraphModule, wanted: Sequence[Node]) -> tuple[tuple[torch.Tensor, ...], GraphModule]:
    """The captured tensors that some nodes need, and the graph from the one to the other."""
    needed, left = set(wanted), list(wanted)
    while left:
        further = [node for node in left.pop().all_input_nodes if node not in needed]
        needed.update(further)
        left += further
    graph, copies = Graph(), dict[Node, Node]()
    captured: dict[int, tuple[torch.Tensor, Node]] = {}
    sources = [node for node in module.graph.nodes if node in needed and node.op == "get_attr"]
    for node in sources:
        tensor = getattr(module, str(node.target))
        if id(tensor) not in captured:
            captured[id(tensor)] = tensor, graph.placeholder(f"captured_{len(captured)}")
        copies[node] = captured[id(tensor)][1]
    for node in module.graph.nodes:
        if node in needed and node not in copies:
            if node.target is _aten.detach_copy.default:  # which has no derivative, where detach has one of 0
                copies[node] = graph.call_method("detach", (copies[node.all_input_nodes[0]],))
            else:
                copies[node] = graph.node_copy(node, copies.__getitem__)
            copies[node].meta = {}
    graph.output(tuple(copies[node] for node in wanted))
    return tuple(tensor for tensor, _ in captured.values()), GraphModule({}, graph)
