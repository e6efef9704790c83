"""The node tests that the package onnx carries and computes itself."""

import importlib

import numpy
import torch


def node_cases(operator):
    """Name -> (attributes, inputs by name, outputs by name) for the single-node tests of an operator; {} without onnx."""
    try:
        from onnx import helper, numpy_helper
        from onnx.backend.test.case import node as collected

        # Adds its cases to the list. The public collect_testcases computes those of every operator: ten seconds.
        importlib.import_module(f"onnx.backend.test.case.node.{operator.lower()}")
    except ImportError:
        return {}

    def tensor(value):
        if hasattr(value, "raw_data"):
            value = numpy_helper.to_array(value)
        if value.dtype.name == "bfloat16":  # a type of ml_dtypes, which torch does not take
            return torch.from_numpy(value.astype(numpy.float32)).bfloat16()
        return torch.from_numpy(numpy.array(value))

    cases = {}
    for case in collected._NodeTestCases:
        nodes = case.model.graph.node
        if len(nodes) != 1 or nodes[0].op_type != operator:
            continue  # the same case spelt out in simpler operators
        attributes = {a.name: helper.get_attribute_value(a) for a in nodes[0].attribute}
        ((inputs, outputs),) = case.data_sets
        given = zip([name for name in nodes[0].input if name], inputs)
        expected = zip([name for name in nodes[0].output if name], outputs)
        cases[case.name] = attributes, {n: tensor(v) for n, v in given}, {n: tensor(v) for n, v in expected}
    return cases
