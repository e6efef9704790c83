"""heed.testing.check_scheme."""

from __future__ import annotations

import copy
import inspect
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, NamedTuple, cast

import torch

from .._attention import Options
from .._programs import MaskProgram, ScoreProgram
from ..book._scheme_choice import scheme_maker
from ..positions import None_, ProgramScheme, Scheme
from ..positions._scheme import InputScheme
from ._comparison import Fault, LeftOut, drawn, in_short, is_refusal
from ._copies import compiled, copies, state, threads
from ._gradients import gradients
from ._kinds import empty, meta, strides, types
from ._places import moved, positions, times
from ._report import Outcome, SchemeReport
from ._rows import cache, call, left_padding, packed, ragged_cache, rows
from ._subjects import AttentionCall, Captured, ModuleCall, Subject

Checked = str | Scheme | ScoreProgram | MaskProgram | torch.nn.Module | Callable[[], Any]


class _Check(NamedTuple):
    name: str
    tries: str
    run: Callable[[Any], str | None]
    may_refuse: bool = False
    of_modules: bool = True  # or of calls of heed.attention alone


_CHECKS = (
    _Check("call", "a call gives a finite output of the operands' shape and type, and writes to none", call),
    _Check("gradients", "those of operands and parameters are the slopes of finite differences in double", gradients),
    _Check("cache", "decoding with a cache, step by step, equals the whole pass", cache, True),
    _Check("ragged cache", "rows of a cache that hold different numbers of tokens equal each alone", ragged_cache, True, False),
    _Check("rows", "rows with lengths equal each alone, whatever is behind, NaN too; their gradients as well", rows, True),
    _Check("left padding", "a row behind padding that holds NaN equals the row without", left_padding, True, False),
    _Check("packed", "sequences that lie end to end equal each alone", packed, True, False),
    _Check("positions", "listed positions mean what offsets mean, in any order of the keys", positions, True, False),
    _Check("times", "rows at real times of their own equal each alone", times, True, False),
    _Check("moved", "moving all tokens alike changes nothing (demanded by relative=True)", moved, True, False),
    _Check("types", "float32, bfloat16, float16 and autocast agree with float64, far along a text", types),
    _Check("strides", "it does not matter how operands lie in memory", strides),
    _Check("meta", "on the meta device the output has its shape and type", meta, True),
    _Check("empty", "no rows, no queries and no keys give empty outputs or zeros", empty),
    _Check("copies", "copy.deepcopy computes the same, with numbers of its own", copies),
    _Check("state", "another one computes the same with its state dict", state),
    _Check("threads", "a second call and other numbers of threads give the same bits", threads),
    _Check("compile", "torch.compile takes it whole (fullgraph), with the same output and gradients", compiled),
)


def check_scheme(
    scheme: Checked,
    *,
    heads: int | None = None,
    head_dim: int | None = None,
    kv_heads: int | None = None,
    steps: int = 12,
    causal: bool = True,
    relative: bool = False,
    positions: torch.Tensor | None = None,
    inputs: Sequence[torch.Tensor] | None = None,
    options: Options | None = None,
    compile: bool | str = False,
    leave_out: Collection[str] = (),
    seed: int = 0,
    raises: bool = True,
) -> SchemeReport:
    """Checks a scheme, a program or a module in every way that heed calls it, with small random operands, in about a second.

    scheme     a name ("rotary", as layers take it), a scheme of heed.positions, a program of heed.score or heed.mask, a module,
               or a function without arguments that makes one of these. A module's forward takes `inputs`, by default
               [batch, steps, width] for heed.book.MultiHeadAttention and modules with a `width`, and query, key and value by head
               for others. With a function, the check of the state dict loads it into a second module
    heads, head_dim, kv_heads
               sizes of the operands [2, heads, steps, head_dim]; by default those of the scheme's attributes, or 4 and 8, with half
               as many heads of keys and values as of queries where these are even
    steps      number of tokens
    causal     whether calls are causal; otherwise queries see both sides
    relative   whether moving all tokens must change nothing; otherwise the report says what it changes
    positions  [steps, axes]: positions for a scheme with axes; by default the cells of a square, a cube, ..
    inputs     example inputs [batch, ..] of the module: it gets float64 and integers unchanged, and random numbers for others
    options    further options for every call of heed.attention, such as scale, softcap and window
    compile    also check torch.compile, which takes seconds: True for inductor, or the name of a backend, "aot_eager"; this
               resets torch.compile's caches
    leave_out  names of checks to skip
    seed       of random operands and parameters
    raises     whether a failure raises AssertionError, with the report

    It checks a copy in float64 and eval(), with random numbers in parameters that are all zero. In the checks of caches, lengths,
    positions and the meta device, ValueError or NotImplementedError with "name: .." counts as refused; any other error is a
    failure. Returns a SchemeReport. ValueError for unknown names of checks, TypeError for a scheme of another kind.
    """
    unknown = set(leave_out) - {check.name for check in _CHECKS}
    for name, size in {"heads": heads, "head_dim": head_dim, "kv_heads": kv_heads, "steps": steps - 1}.items():
        if size is not None and size < 1:
            raise ValueError(f"{name}: expected at least {1 + (name == 'steps')}, got {size + (name == 'steps')}")
    if unknown:
        raise ValueError(f"leave_out: expected names of {', '.join(c.name for c in _CHECKS)}, got {', '.join(sorted(unknown))}")
    backend = compile if isinstance(compile, str) else "inductor" if compile else None
    sizes = {"heads": heads, "head_dim": head_dim, "kv_heads": kv_heads, "steps": steps}
    errors: list[BaseException] = []
    try:
        with torch.inference_mode(False), torch.enable_grad():  # whoever asks may have switched gradients off
            subject, title = _subject(scheme, sizes, causal, positions, inputs, dict(options or {}), seed)
            subject.relative, subject.backend = relative, backend
            report = SchemeReport(f"{title}, seed {seed}", _outcomes(subject, leave_out, errors))
    except Fault as fault:
        report = SchemeReport(type(scheme).__name__, [Outcome("copies", "it is copied, to leave it as it is", "failed", str(fault), 0.0)])
    if raises and not report.passed:
        raise AssertionError(str(report)) from next(iter(errors), None)
    return report


def _outcomes(subject: Subject, leave_out: Collection[str], errors: list[BaseException]) -> Iterator[Outcome]:
    can_be_called = True
    for check in _CHECKS:
        if check.name in leave_out or not (check.of_modules or isinstance(subject, AttentionCall)):
            continue
        if can_be_called:
            outcome = _outcome(check, subject, errors)
            can_be_called = check.name != "call" or outcome.status != "failed"
        else:
            outcome = Outcome(check.name, check.tries, "left out", "a plain call fails", 0.0)
        yield outcome


def _outcome(check: _Check, subject: Subject, errors: list[BaseException]) -> Outcome:
    started = time.perf_counter()
    status, told = "passed", ""
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(subject.seed)
            told = check.run(subject) or ""
    except LeftOut as reason:
        status, told = "left out", str(reason)
    except Fault as fault:
        status, told = "failed", str(fault)
    except Exception as error:
        refused = check.may_refuse and is_refusal(error)
        status, told = ("refused", str(error)) if refused else ("failed", in_short(error))
        if not refused:
            errors.append(error)
    return Outcome(check.name, check.tries, cast(Any, status), told, time.perf_counter() - started)


def _subject(
    given: Checked, asked: dict[str, int | None], causal: bool, positions: Any, inputs: Any, options: dict[str, Any], seed: int
) -> tuple[Subject, str]:
    """The subject of the checks, with its name and sizes."""
    make = _maker(given, asked, causal)
    made = _made(make, seed)
    remake = None if made is given else lambda seed: _made(make, seed)
    name = repr(given) if isinstance(given, str) else type(made).__name__
    if isinstance(made, (ScoreProgram, MaskProgram)):
        module: torch.nn.Module = Captured(made)
    else:
        module = _copied(made)
    module = module.double().eval()
    for number, parameter in enumerate(module.parameters()):
        if parameter.numel() and not parameter.is_meta and not parameter.any():
            with torch.no_grad():
                parameter.copy_(0.5 * drawn(100 * seed + number, *parameter.shape))
    sizes = _sizes(module, asked)
    told = f"{name}, {sizes['heads']} heads of {sizes['head_dim']}, {sizes['steps']} tokens"
    if not isinstance(module, (Scheme, Captured)) or isinstance(module, InputScheme):
        shape = (sizes["heads"], sizes["steps"], sizes["head_dim"])
        return ModuleCall(module, remake, seed, inputs, shape), name
    axes = module.axes if isinstance(module, Scheme) else None
    places = None if axes is None else _cells(sizes["steps"], axes) if positions is None else positions.unsqueeze(0)
    return AttentionCall(module, remake, seed, (causal or None) if axes is None else None, places, options, **sizes), told


def _copied(module: torch.nn.Module) -> torch.nn.Module:
    try:
        return copy.deepcopy(module)
    except Exception as error:
        raise Fault(f"copy.deepcopy of it {in_short(error)}") from error


def _maker(given: Any, asked: dict[str, int | None], causal: bool) -> Any:
    """A function that makes the scheme, or the scheme itself."""
    if isinstance(given, str):
        heads, head_dim = asked["heads"] or 4, asked["head_dim"] or 8
        maker = scheme_maker(given, heads=heads, width=heads * head_dim, causal=causal)
        return lambda: maker() or None_()
    if isinstance(given, (torch.nn.Module, ScoreProgram, MaskProgram)):
        return given
    needed = [p for p in inspect.signature(given).parameters.values() if p.default is p.empty] if callable(given) else [None]
    if any(p is None or p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in needed):
        raise TypeError(
            "scheme: expected a name, a scheme of heed.positions, what heed.score or heed.mask makes of a function, a module, or a "
            f"function without arguments that makes one, got {type(given).__name__}"
        )
    return given


def _made(make: Any, seed: int) -> Any:
    if isinstance(make, (torch.nn.Module, ScoreProgram, MaskProgram)):
        return make
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        made = make()
    if not isinstance(made, (torch.nn.Module, ScoreProgram, MaskProgram)):
        raise TypeError(f"scheme: expected a function that makes a scheme, a program or a module, got {type(made).__name__}")
    return made


def _sizes(module: torch.nn.Module, asked: dict[str, int | None]) -> dict[str, int]:
    """The requested sizes, else those of the scheme's attributes or tensors."""
    said: dict[str, Any] = {"heads": getattr(module, "heads", None), "head_dim": getattr(module, "head_dim", None)}
    if isinstance(module, ProgramScheme):
        said["head_dim"] = None  # that of a table, where there is one
    if isinstance(module, Scheme) and not isinstance(module, (InputScheme, ProgramScheme)):
        for name, table in _tables(module).items():
            if name in ("relative_bias", "slopes", "transformer_xl_positions", "transformer_xl_bias"):
                said["heads"] = said["heads"] or table.shape[0]
            if name not in ("relative_bias", "slopes"):
                said["head_dim"] = said["head_dim"] or table.shape[-1]
    heads = asked["heads"] or (said["heads"] if isinstance(said["heads"], int) else 4)
    head_dim = asked["head_dim"] or (said["head_dim"] if isinstance(said["head_dim"], int) else 8)
    kv_heads = asked["kv_heads"] or (heads // 2 if heads % 2 == 0 else heads)
    return {"heads": heads, "head_dim": head_dim, "kv_heads": kv_heads, "steps": asked["steps"] or 0}


def _tables(scheme: Scheme) -> dict[str, torch.Tensor]:
    try:
        return {name: table for name, table in scheme.tensors().items() if isinstance(table, torch.Tensor) and table.dim()}
    except Exception:  # which the first check tells
        return {}


def _cells(steps: int, axes: int) -> torch.Tensor:
    """The first cells of a square, a cube, .., row by row, [1, steps, axes]."""
    side = 1
    while side**axes < steps:
        side += 1
    index = torch.arange(steps)
    return torch.stack([index // side ** (axes - 1 - axis) % side for axis in range(axes)], 1).unsqueeze(0)
