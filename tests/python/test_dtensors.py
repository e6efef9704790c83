"""heed.attention of DTensors: ranks compute the batch rows and heads that they hold, and nothing is sent."""

import pytest
import torch

import heed


@pytest.fixture
def two_ranks():
    """A mesh of two, of which this process is the first. Nothing is sent."""
    from torch.testing._internal.distributed.fake_pg import FakeStore

    torch.distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
    yield torch.distributed.device_mesh.init_device_mesh("cpu", (2,))
    torch.distributed.destroy_process_group()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("dim", [0, 1])
def test_ranks_share_rows_and_heads(dim, dtype, two_ranks):
    from torch.distributed.tensor import DTensor, Shard, distribute_tensor

    own = [torch.randn(2, heads, 5, 8, dtype=dtype, requires_grad=True) for heads in (4, 2, 2)]
    lengths = torch.tensor([3, 5])
    given = DTensor.from_local(lengths, two_ranks, [Shard(0)]) if dim == 0 else lengths
    parts = [DTensor.from_local(t, two_ranks, [Shard(dim)]) for t in own]
    if dim == 1:
        given = distribute_tensor(lengths, two_ranks)
    output = heed.attention(*parts, key_lengths=given)
    assert output.placements == (Shard(dim),) and output.shape[dim] == 2 * own[0].shape[dim]
    expected = heed.attention(*own, key_lengths=lengths)
    assert torch.equal(output.to_local(), expected)
    weight = torch.randn_like(expected)
    ours = torch.autograd.grad((output.to_local() * weight).sum(), own)
    for found, theirs in zip(ours, torch.autograd.grad((expected * weight).sum(), own)):
        assert torch.equal(found, theirs)


@pytest.mark.parametrize(("q_heads", "kv_heads", "shared"), [(8, 2, True), (3, 3, True), (12, 3, False), (6, 3, False)])
def test_heads_are_shared_where_each_rank_has_those_of_its_queries(q_heads, kv_heads, shared, two_ranks):
    """Of 12 heads on 3 the first rank would hold 6 on 2, which belong together in another way."""
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    whole = [torch.randn(1, heads, 5, 8) for heads in (q_heads, kv_heads, kv_heads)]
    output = heed.attention(*(distribute_tensor(t, two_ranks, [Shard(1)], src_data_rank=None) for t in whole))
    assert output.placements == (Shard(1) if shared else Replicate(),)
    if shared:
        expected = heed.attention(*whole).tensor_split(2, 1)[0] if q_heads % 2 == 0 else heed.attention(*whole)[:, :2]
        torch.testing.assert_close(output.to_local(), expected)
