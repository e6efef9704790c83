"""heed.jax in a process: threads, without torch, beside a jaxlib that does not fit."""

import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

import heed
from jax_cases import hj, jax, loss, numbers, refuse, same

PACKAGE = str(pathlib.Path(heed.__file__).resolve().parents[1])


def test_threads_change_no_bit():
    before = hj.info()["threads"]
    q, k, v = (numbers(2, h, 300, 32, seed=h).astype(np.float32) for h in (4, 2, 2))
    scheme = hj.positions.Shaw(32, 8, queries=True, key=jax.random.key(0))
    run = jax.jit(jax.value_and_grad(lambda a, s: loss(*a, position=s, dropout=0.2, seed=5), argnums=(0, 1)))
    try:
        found = []
        for threads in (1, 2, 3):
            hj.set_num_threads(threads)
            assert hj.info()["threads"] == threads
            found.append(jax.block_until_ready(run([q, k, v], scheme)))
            hj.release_workspace()
        for other in found[1:]:
            jax.tree.map(same, found[0], other)
        refuse(ValueError, "n: expected at least 1 thread, got 0", hj.set_num_threads, 0)
    finally:
        hj.set_num_threads(before)


def run_python(code, **environment):
    command = [sys.executable, "-c", code]
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LD_LIBRARY_PATH") if name in os.environ}
    return subprocess.run(
        command, text=True, capture_output=True, check=False, env={**kept, "PYTHONPATH": PACKAGE, **environment}, cwd="/"
    )


WITHOUT_TORCH = """
import sys
sys.modules["torch"] = None
import heed
assert "jax" not in sys.modules and "numpy" not in sys.modules
for take in (lambda: heed.attention, lambda: heed.nn, lambda: exec("from heed import KeyValueCache")):
    try:
        take()
    except ImportError as error:
        print(error)
try:
    heed.nothing
except AttributeError as error:
    print(error)
import heed.jax, jax, jax.numpy as jnp
x = jnp.ones((1, 2, 3, 8))
from heed.jax.positions import Rotary, T5Bias
function = lambda x, s: heed.jax.attention(x, x, x, causal=True, position=s).sum()
print(jax.grad(function)(x, Rotary(8)).shape, jax.grad(function, 1)(x, T5Bias(2)).weight.shape)
print(heed.__version__ == heed.jax.info()["version"])
from heed.__main__ import main
main(["info"])
"""


def test_it_does_without_torch():
    result = run_python(WITHOUT_TORCH)
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    needs = "needs torch, which is not installed; heed.jax does without"
    assert lines[:3] == [f"heed.{name} {needs}" for name in ("attention", "nn", "KeyValueCache")]
    assert lines[3:6] == ["module 'heed' has no attribute 'nothing'", "(1, 2, 3, 8) (32, 2)", "True"]
    assert [line.split()[0] for line in lines[6:11]] == ["version", "library", "targets", "threads", "jax"]


def test_torch_users_do_not_pay_for_jax():
    code = "import sys, heed; print('jax' in sys.modules); heed.jax; print('jax' in sys.modules)"
    assert run_python(code).stdout.split() == ["False", "True"]


def test_a_newer_interface_than_that_of_xla_is_refused(tmp_path):
    """Registered with XLA, such a library would cost JAX its CPU backend."""
    code = f"""
import jax.ffi, pathlib
header = pathlib.Path({str(tmp_path)!r}) / "xla" / "ffi" / "api" / "c_api.h"
header.parent.mkdir(parents=True)
header.write_text("#define XLA_FFI_API_MAJOR 0\\n#define XLA_FFI_API_MINOR 0\\n")
jax.ffi.include_dir = lambda: {str(tmp_path)!r}
try:
    import heed.jax
except ImportError as error:
    print(error)
print(jax.numpy.ones(2).sum())
"""
    result = run_python(code)
    said, summed = result.stdout.splitlines()
    assert said.startswith("heed.jax was built for version 0.") and "has 0.0: build it again with" in said, result.stderr
    assert summed == "2.0"


SHARDED = """
import jax, jax.numpy as jnp
from jax.sharding import PartitionSpec as P
import heed.jax
mesh = jax.sharding.Mesh(jax.devices(), ("rows",))
q, k, v = (jax.random.normal(jax.random.key(i), (4, 4, 6, 8)) for i in range(3))
cases = (heed.jax.positions.RelativeBias(4, 3), (0, 3)), (heed.jax.positions.Rotary(8), 2)

def attend(scheme, seed, q, k, v, row=0):
    return heed.jax.attention(
        q, k, v, causal=True, position=scheme, dropout=0.3, seed=seed, batch_offset=row, return_lse=True, return_statistics=True)

def mapped(scheme, seed, q, k, v):
    return attend(scheme, seed, q, k, v, 2 * jax.lax.axis_index("rows"))

split = jax.shard_map(mapped, mesh=mesh, in_specs=(P(), P(), P("rows"), P("rows"), P("rows")), out_specs=P("rows"))
for scheme, wanted in cases:
    given = scheme, jax.random.key(3), q, k, v
    whole = attend(*given)
    print(all(jax.tree.leaves(jax.tree.map(lambda a, b: bool((a == b).all()), jax.jit(split)(*given), whole))))
    loss = lambda function: jax.jit(jax.grad(lambda *given: jnp.sin(function(*given).output).sum(), argnums=wanted))(*given)
    print(all(jax.tree.leaves(jax.tree.map(lambda a, b: bool(jnp.allclose(a, b, atol=1e-5)), loss(split), loss(attend)))))
    gradients = lambda function: jax.grad(lambda *given: jnp.sin(function(*given).output).sum(), argnums=(2, 3))
    penalty = lambda function: lambda *given: sum((x**2).sum() for x in gradients(function)(*given))
    second = lambda function: jax.jit(jax.grad(penalty(function), argnums=wanted))(*given)
    print(all(jax.tree.leaves(jax.tree.map(lambda a, b: bool(jnp.allclose(a, b, atol=1e-4)), second(split), second(attend)))))
"""


@pytest.mark.skipif(not hasattr(jax, "shard_map"), reason="jax.shard_map is not there before JAX 0.6")
def test_shards_of_a_batch_compute_what_the_whole_computes():
    """With the gradients of what all shards share, which are summed over them."""
    result = run_python(SHARDED, XLA_FLAGS="--xla_force_host_platform_device_count=2")
    assert result.returncode == 0, result.stderr
    assert result.stdout.split() == ["True"] * 6
