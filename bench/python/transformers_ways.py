"""The ways in which a model of transformers attends, for benches: what it is made with, and the context that it runs in."""

import contextlib
import os

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import transformers  # noqa: E402

import heed  # noqa: E402

heed.transformers.register()

WAYS = {
    "sdpa": ("sdpa", contextlib.nullcontext),
    "sdpa inside replace_sdpa": ("sdpa", heed.replace_sdpa),
    "heed": ("heed", contextlib.nullcontext),
}
