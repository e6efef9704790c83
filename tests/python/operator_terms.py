"""Terms of scores that the library under test may lack: tests that need one are skipped, and say which."""

import pytest
import torch

import heed  # noqa: F401  registers the operators


def _lacks_tables_for_every_head():
    q = torch.zeros(1, 2, 3, 4)
    try:
        torch.ops.heed.attention(q, q, q, content_queries=torch.zeros(2, 5, 4))
    except ValueError as refusal:
        assert "content_queries" in str(refusal)
        return True
    return False


# By the names of schemes in test_options.
LACKING = {}
if "column_decay" not in {argument.name for argument in torch.ops.heed.attention.default._schema.arguments}:
    LACKING["xPos"] = LACKING["xPos, interleaved"] = "torch.ops.heed.attention has no argument column_decay"
if _lacks_tables_for_every_head():
    LACKING["DeBERTa"] = "torch.ops.heed.attention takes content_queries [2M+1, D], and none for every head, [Hq, 2M+1, D]"


def need(name):
    if name in LACKING:
        pytest.skip(LACKING[name])


class Schemes(dict):
    """Schemes by name; taking one that the library cannot compute skips the test."""

    def __getitem__(self, name):
        need(name)
        return super().__getitem__(name)

    def get(self, name, default=None):
        return self[name] if name in self else default
