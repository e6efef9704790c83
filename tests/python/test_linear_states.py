"""Encoders in linear time step by step: what their layers keep, and that steps from there are the whole pass."""

import copy
import math
import pickle

import pytest
import torch

from heed import nn

KINDS = ("linear", "retention", "mamba2", "gated-delta")


def make(kind, **options):
    torch.manual_seed(31)
    return nn.make_encoder(kind, 8, heads=2, ffn_width=12, bias=True, causal=True, **options).double().eval()


def sample(batch=2, steps=150):
    return torch.randn(batch, steps, 8, generator=torch.Generator().manual_seed(32), dtype=torch.float64)


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("kind", KINDS)
def test_steps_equal_the_whole_pass(kind, norm):
    encoder, X = make(kind, norm=norm), sample()
    with torch.no_grad():
        whole = encoder(X)
        for counts in ([1] * 150, [2, 1, 0, 70, 1, 3, 73]):
            caches = encoder.new_caches(2)
            steps = [encoder.step(x, caches) for x in X.split(counts, 1)]
            torch.testing.assert_close(torch.cat(steps, 1), whole, rtol=0, atol=1e-12)
            assert (len(caches), caches.length, caches[1].length) == (2, 150, 150)
    assert not nn.make_encoder(kind, 8, heads=2).can_step


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_kept_does_not_grow(kind):
    encoder = make(kind)
    caches = encoder.new_caches(2, capacity=1)

    def sizes():
        kept = [tensor for cache in caches.layers for tensor in (cache.state, cache.inputs) if tensor is not None]
        return [tensor.untyped_storage().nbytes() for tensor in kept]

    with torch.no_grad():
        encoder.step(sample(steps=100), caches)
        first = sizes()
        for _ in range(20):
            encoder.step(sample(steps=1), caches)
    assert sizes() == first and sum(first) <= 2 * 2 * 8 * (2 * 8 * 9 + 3 * 32)


@pytest.mark.parametrize("kind", KINDS)
def test_they_begin_anew_take_other_rows_and_are_copied(kind):
    encoder, X = make(kind), sample(3, 9)
    rows = [2, 0, 2, 2]
    with torch.no_grad():
        whole, caches = encoder(X), encoder.new_caches(3)
        encoder.step(X[:, :6], caches)
        for length in (3, 7, -1):
            with pytest.raises(ValueError, match="length: expected 0 or 6, because a state holds no earlier steps"):
                caches.truncate(length)
        caches.truncate(6)
        caches.reorder(rows)
        with pytest.raises(ValueError, match=r"rows: expected batch rows in 0..3"):
            caches.reorder([4])
        for copied in (copy.deepcopy(caches), pickle.loads(pickle.dumps(caches)), caches):
            torch.testing.assert_close(encoder.step(X[rows][:, 6:], copied), whole[rows][:, 6:], rtol=0, atol=1e-12)
        caches.truncate(0)
        caches.reorder([5])  # nothing is held
        torch.testing.assert_close(encoder.step(X, caches), whole, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_refused_leaves_them_as_they_were(kind):
    encoder, X = make(kind), sample(2, 6)
    caches = encoder.new_caches(2)
    with pytest.raises(ValueError, match="no gradients to be recorded"):
        encoder.step(X, caches)
    assert caches.length == 0 and caches[0].state is None
    with torch.no_grad():
        encoder.step(X[:, :4], caches)
        expected = encoder.step(X[:, 4:], copy.deepcopy(caches))
        with pytest.raises(ValueError, match=r"LinearMixer: state: expected state torch.float64 \[3, 2, .* got torch.float64 \[2, 2,"):
            encoder.step(sample(3, 1), caches)
        with pytest.raises(ValueError, match=r"X: expected shape \[batch, steps, 8\]"):
            encoder.step(X[..., :7], caches)
        handle = encoder.reader1.out_proj.register_forward_hook(lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            encoder.step(X, caches)
        handle.remove()
        torch.testing.assert_close(encoder.step(X[:, 4:], caches), expected, rtol=0, atol=0)
        attention = nn.make_encoder("attention", 8, heads=2, causal=True).double()
        for wrong, other in ((encoder, attention), (attention, encoder)):
            with pytest.raises(ValueError, match="caches: expected those that its new_caches makes"):
                wrong.step(X, other.new_caches(2))


@pytest.mark.parametrize("kind", KINDS)
def test_answers_behind_a_number_that_is_none_are_none(kind):
    encoder, X = make(kind), sample(2, 12)
    with torch.no_grad():
        whole, caches = encoder(X), encoder.new_caches(2)
        X[1, 3, 0] = math.nan
        steps = torch.cat([encoder.step(x, caches) for x in X.split([3, 1, 1, 4, 3], 1)], 1)
    torch.testing.assert_close(steps[0], whole[0], rtol=0, atol=1e-12)
    torch.testing.assert_close(steps[1, :3], whole[1, :3], rtol=0, atol=1e-12)
    assert not steps[1, 3:].isfinite().any()


@pytest.mark.parametrize("kind", KINDS)
def test_states_are_float32_beside_16_bits(kind):
    encoder, X = make(kind), sample(2, 40)
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        encoder.float()
        caches = encoder.new_caches(2)
        steps = torch.cat([encoder.step(x, caches) for x in X.float().split(1, 1)], 1)
        assert caches[0].state.dtype == torch.float32
        torch.testing.assert_close(steps.float(), encoder(X.float()).float(), rtol=0.05, atol=0.05)
    with torch.no_grad():
        encoder.bfloat16()
        caches = encoder.new_caches(2)
        steps = torch.cat([encoder.step(x, caches) for x in X.bfloat16().split(1, 1)], 1)
        assert caches[0].state.dtype == torch.float32 and steps.dtype == torch.bfloat16
        torch.testing.assert_close(steps.float(), encoder(X.bfloat16()).float(), rtol=0.05, atol=0.05)


@pytest.mark.parametrize("kind", ["mamba2", "gated-delta"])
def test_decays_begin_as_their_papers_say(kind):
    mixer = nn.LinearMixer(kind, 16, 16, 4)
    for _ in range(2):
        torch.testing.assert_close(mixer.A_log.exp(), torch.arange(1.0, 5.0))
        torch.testing.assert_close(torch.nn.functional.softplus(mixer.dt_bias), torch.logspace(-3, -1, 4))
        with torch.no_grad():
            mixer.A_log.zero_(), mixer.dt_bias.zero_()
        mixer.reset_parameters()


def test_another_type_than_the_weights_have_is_refused():
    with pytest.raises(ValueError, match="^X: expected torch.float32 as the weights of the layer have, got torch.float64$"):
        nn.LinearMixer("retention", 16, 16, 4)(torch.randn(1, 3, 16, dtype=torch.float64))
