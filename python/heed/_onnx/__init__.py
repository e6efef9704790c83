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
    """Writes a module with heed's layers as an ONNX file, by torch.onnx.export and with its names. heed's operators become those
    of ONNX; attention becomes the operator Attention if all terms of scores are known before them, else its formula.

    inputs         example inputs of forward, each with two rows and two steps or more, such as those of TableModel.prepare; None
                   for an omitted one
    dynamic        whether the first two extents of every input may differ from the example's, except those over which the module
                   loops (docs/encoders.md lists them); give False where the second extent is that of heads
    opset_version  of the file; the operator Attention needs 23 or more

    Exports the module in evaluation mode. Raises ImportError without the package onnxscript, NotImplementedError, naming it, for
    an option of attention without a counterpart in ONNX, and the errors of torch.export and torch.onnx.export.
    """
    from ._formula import FORMULAS

    given = tuple(inputs)
    shapes = [None if one is None else {dim: torch.export.Dim.AUTO for dim in range(min(2, one.dim()))} for one in given]
    was_training = module.training
    module.eval()
    try:
        # Under no_grad torch.export would keep what a score program switches while it is traced as parts of the module.
        with torch.enable_grad():
            program = torch.export.export(module, given, dynamic_shapes=tuple(shapes) if dynamic else None, strict=False)
        with torch.no_grad():
            program = program.run_decompositions(dict(FORMULAS))
            torch.onnx.export(program, (), os.fspath(path), dynamo=True, opset_version=opset_version, external_data=False, verbose=False)
    finally:
        module.train(was_training)


__all__: Sequence[str] = ("export_onnx",)
