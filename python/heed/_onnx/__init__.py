"""heed.export_onnx."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import torch


def export_onnx(
    module: torch.nn.Module,
    inputs: Sequence[torch.Tensor | None],
    path: str | os.PathLike[str],
    *,
    dynamic: bool = True,
    opset_version: int = 23,
) -> None:
    """Writes a module with heed's layers as an ONNX file, by torch.onnx.export and with its names: heed's operators become those
    of ONNX, attention the operator Attention where all that a scheme adds to its scores is known before them, else its formula.

    inputs         an example of what forward takes, each with two rows and two steps or more; None for what is left out. What
                   TableModel.prepare returns is one
    dynamic        whether the first two extents of every input may be others than those of the example; those by whose number
                   the module loops stay what they are (docs/encoders.md says which)
    opset_version  of the file; from 23 on there is an operator Attention

    The module is exported in evaluation mode. ImportError without the package onnxscript, NotImplementedError that names an
    option of attention without a counterpart in ONNX, and what torch.export and torch.onnx.export raise.
    """
    from ._formula import FORMULAS

    given = tuple(inputs)
    shapes = [None if one is None else {dim: torch.export.Dim.AUTO for dim in range(min(2, one.dim()))} for one in given]
    was_training = module.training
    module.eval()
    try:
        with torch.no_grad():
            program = torch.export.export(module, given, dynamic_shapes=tuple(shapes) if dynamic else None, strict=False)
            program = program.run_decompositions(dict(FORMULAS))
            torch.onnx.export(program, (), os.fspath(path), dynamo=True, opset_version=opset_version, external_data=False, verbose=False)
    finally:
        module.train(was_training)


__all__: Sequence[str] = ("export_onnx",)
