"""heed in many threads, in forked workers of a DataLoader, and in copies: pickled, deep-copied, loaded again."""

import copy
import io
import pickle
import sys
import threading

import pytest
import torch
from test_options import SCHEMES, schemes

import heed


def random(*shape, seed=0, requires_grad=False):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).requires_grad_(requires_grad)


def forward_and_gradients(seed):
    """A call whose work is enough to be shared by threads."""
    q, k, v = (random(2, 2, 130, 16, seed=3 * seed + i, requires_grad=True) for i in range(3))
    scheme = heed.positions.Alibi(2, trainable=True)
    output = heed.attention(q, k, v, causal=True, dropout=0.2, seed=seed, position=scheme, softcap=5.0)
    return [output.detach(), *torch.autograd.grad(output.square().sum(), (q, k, v, scheme.slopes))]


def test_python_threads_get_the_bits_of_one():
    seeds = range(12)
    expected = [forward_and_gradients(seed) for seed in seeds]
    found, start = {}, threading.Barrier(len(seeds))

    def work(seed):
        start.wait(30)
        for _ in range(3):
            found.setdefault(seed, []).append(forward_and_gradients(seed))

    workers = [threading.Thread(target=work, args=(seed,)) for seed in seeds]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    for seed in seeds:
        assert len(found.get(seed, [])) == 3
        for result in found[seed]:
            assert all(map(torch.equal, result, expected[seed])), f"seed {seed}"


def test_one_module_serves_many_threads():
    module, X = heed.nn.MultiHeadAttention(16, 2, 0.0, causal=True, position=heed.positions.Rotary(8)), random(2, 40, 16)
    expected, results = module(X, X, X), [None] * 8

    def work(i):
        cache = module.new_cache(2)
        with torch.no_grad():
            results[i] = torch.cat([module(x, x, x, cache=cache) for x in X.split(10, dim=1)], dim=1)

    workers = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert all(torch.equal(result, results[0]) for result in results)
    torch.testing.assert_close(results[0], expected)


class Attended(torch.utils.data.Dataset):
    def __len__(self):
        return 6

    def __getitem__(self, seed):
        return [t.detach() for t in forward_and_gradients(seed)]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="workers are forked on Linux alone")
def test_forked_workers_of_a_data_loader_get_the_same():
    """Although the parent's threads, which do not exist in a worker, have computed before."""
    forward_and_gradients(0)
    loader = torch.utils.data.DataLoader(
        Attended(), batch_size=None, num_workers=2, multiprocessing_context="fork", timeout=120
    )
    for seed, result in enumerate(loader):
        assert all(map(torch.equal, result, forward_and_gradients(seed)))


def copied_by_pickle(module):
    return pickle.loads(pickle.dumps(module))


def copied_by_save(module):
    file = io.BytesIO()
    torch.save(module.state_dict(), file)
    file.seek(0)
    copied = copy.deepcopy(module)
    with torch.no_grad():
        for parameter in copied.parameters():
            parameter.zero_()
    copied.load_state_dict(torch.load(file, weights_only=True))
    return copied


COPIES = {"deepcopy": copy.deepcopy, "pickle": copied_by_pickle, "state dict": copied_by_save}


@pytest.mark.parametrize("make", COPIES.values(), ids=COPIES)
@pytest.mark.parametrize("name", SCHEMES)
def test_a_copy_computes_the_same_and_is_independent(name, make):
    torch.manual_seed(0)
    module = heed.nn.MultiHeadAttention(16, 2, 0.0, causal=True, position=schemes()[name].float())
    X = random(2, 7, 16)
    expected, copied = module(X, X, X), make(module)
    assert torch.equal(copied(X, X, X), expected)
    with torch.no_grad():
        for parameter in copied.parameters():
            parameter.add_(1)
    assert torch.equal(module(X, X, X), expected) and not torch.equal(copied(X, X, X), expected)


def test_a_copied_cache_goes_its_own_way():
    cache = heed.KeyValueCache(1, 2, 4, capacity=8)
    cache.append(random(1, 2, 3, 4), random(1, 2, 3, 4, seed=1))
    for copied in (copy.deepcopy(cache), pickle.loads(pickle.dumps(cache))):
        assert torch.equal(copied.keys, cache.keys) and copied.capacity == 8
        copied.append(random(1, 2, 2, 4, seed=2), random(1, 2, 2, 4, seed=3))
        copied.truncate(0)
        copied.append(torch.zeros(1, 2, 1, 4), torch.zeros(1, 2, 1, 4))
        assert cache.length == 3 and cache.keys.abs().min() > 0


@pytest.mark.parametrize("name", ["sinusoidal", "learned"])
def test_encodings_are_copied_too(name):
    module = heed.nn.PositionalEncoding(8, 0.0, 20) if name == "sinusoidal" else heed.positions.Learned(8, 20)
    X = torch.zeros(1, 5, 8)
    for make in COPIES.values():
        assert torch.equal(make(module)(X, 3), module(X, 3))
