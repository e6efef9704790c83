"""What the tests of heed.jax share: arrays, schemes in both frameworks, and comparison to the bit."""

import numpy as np
import pytest
import torch

import heed

jax = pytest.importorskip("jax", reason="JAX is not installed: heed.jax is not tested")
hj = pytest.importorskip("heed.jax", reason="heed was built without jaxlib: heed.jax is not tested", exc_type=ImportError)
jnp = jax.numpy

B, HQ, HKV, NQ, NK, D, DV = 2, 4, 2, 7, 9, 8, 6


def wide():
    """float64 in JAX, for a block or as a decorator."""
    return jax.enable_x64(True) if hasattr(jax, "enable_x64") else jax.experimental.enable_x64()


def numbers(*shape, seed=0):
    return np.random.default_rng([seed, *shape]).standard_normal(shape)


def operands(dtype="float32"):
    shapes = ((B, HQ, NQ, D), (B, HKV, NK, D), (B, HKV, NK, DV))
    return [numbers(*shape, seed=i).astype(np.float64 if dtype == "float64" else np.float32) for i, shape in enumerate(shapes)]


def to_torch(array, dtype=None):
    tensor = torch.from_numpy(np.array(array))
    return tensor.to(getattr(torch, dtype)) if dtype and tensor.is_floating_point() else tensor


def bits(array):
    """The numbers of either framework in float64, exactly."""
    if isinstance(array, torch.Tensor):
        return array.detach().double().numpy() if array.is_floating_point() else array.numpy()
    return np.asarray(array, np.float64)


def same(ours, theirs):
    assert tuple(ours.shape) == tuple(theirs.shape)
    np.testing.assert_array_equal(bits(ours), bits(theirs))


def attend(q, k, v, **options):
    return hj.attention(q, k, v, causal=True, **options)


def loss(*operands, **options):
    return jnp.sin(attend(*operands, **options)).sum()


def refuse(kind, words, function, *arguments, **options):
    with pytest.raises(kind) as caught:
        jax.block_until_ready(function(*arguments, **options))
    assert words in str(caught.value)


def twins(name, **arguments):
    """A scheme in both frameworks, with the same random parameters."""
    key = {"key": jax.random.key(0)} if name in ("Shaw", "Kerple", "TransformerXL") else {}
    ours, theirs = getattr(hj.positions, name)(**arguments, **key), getattr(heed.positions, name)(**arguments)
    drawn = {n: numbers(*p.shape).astype(np.float32) for n, p in theirs.named_parameters()}
    theirs.load_state_dict({n: torch.from_numpy(a) for n, a in drawn.items()}, strict=False)
    return ours.replace(**{n: jnp.asarray(a) for n, a in drawn.items()}), theirs


SCHEMES = {
    "slopes": ("Alibi", {"heads": HQ}),
    "slopes by offset": ("Alibi", {"heads": HQ, "symmetric": False, "trainable": True}),
    "relative bias": ("RelativeBias", {"heads": HQ, "max_distance": 3}),
    "T5": ("T5Bias", {"heads": HQ, "buckets": 8, "max_distance": 9, "bidirectional": False}),
    "Shaw": ("Shaw", {"head_dim": D, "max_distance": 3, "value_dim": DV, "queries": True}),
    "Shaw, keys alone": ("Shaw", {"head_dim": D, "max_distance": 2, "values": False}),
    "rotary": ("Rotary", {"head_dim": D}),
    "rotary, interleaved": ("Rotary", {"head_dim": D, "layout": "interleaved", "rotary_dim": 4, "base": 100.0}),
    "rotary as Hugging Face": ("Rotary", {"head_dim": D, "angles": "f32_hf"}),
    "dynamic": ("Rotary", {"head_dim": D, "scaling": {
        "rope_type": "dynamic", "factor": 2.0, "original_max_position_embeddings": 4}}),
    "yarn": ("Rotary", {"head_dim": D, "scaling": {
        "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 4, "truncate": False, "mscale": 0.7,
        "mscale_all_dim": 0.5}}),
    "longrope": ("Rotary", {"head_dim": D, "scaling": {
        "rope_type": "longrope", "factor": 4.0, "original_max_position_embeddings": 6, "short_factor": [1.0, 1.5, 2.0, 2.5],
        "long_factor": [1, 2, 3, 4]}}),
    "llama3": ("Rotary", {"head_dim": D, "scaling": {
        "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64}}),
}  # fmt: skip
