"""heed.flex_attention with every mask and mod of attn-gym 0.0.17."""

import pytest
import torch

pytest.importorskip("attn_gym", reason="attn-gym is not installed: its masks and mods are not tested")
import attn_gym.masks as gym_masks  # noqa: E402
import attn_gym.mods as gym_mods  # noqa: E402

import heed  # noqa: E402
from flex_formula import B, D, H, N, check, operands, parameter  # noqa: E402


def gym():
    """{name: (score_mod, mask_mod, captured tensors)}"""
    generator = torch.Generator().manual_seed(0)
    offsets = torch.tensor([0, 20, 21, 60, N], dtype=torch.int32)
    rope = (parameter(B, H, N, 6), parameter(B, 1, N, 6))
    adjacency = torch.rand(B, N, N, generator=generator) < 0.05
    adjacency = adjacency | adjacency.transpose(1, 2)
    distances = gym_mods.shortest_path_distances(adjacency, 6)
    types, lengths = gym_mods.shortest_path_edge_types(adjacency, torch.randint(3, (B, N, N), generator=generator), 4)
    edges = parameter(H, 4, 3)
    only = {
        "causal_mask": gym_masks.causal_mask,
        "batchify": gym_masks.batchify_mask_mod(gym_masks.causal_mask, 24),
        "block_diffusion": gym_masks.generate_block_diffusion_mask(N // 2, 8),
        "dilated_sliding_window": gym_masks.generate_dilated_sliding_window(12, 3),
        "doc_mask": gym_masks.generate_doc_mask_mod(gym_masks.causal_mask, offsets),
        "packed_causal_doc_mask": gym_masks.generate_packed_causal_doc_mask_mod(offsets),
        "flamingo": gym_masks.generate_vision_cross_attention_mask_mod(torch.tensor([[0, 10], [20, 90], [40, 70]]), N // 3),
        "global_sliding_window": gym_masks.generate_global_sliding_window(9, torch.arange(N) % 19 == 0),
        "jetspec_training": gym_masks.generate_jetspec_training_mask_mod(32, 8),
        "natten": gym_masks.generate_natten(12, 8, 5, 3),
        "tiled_natten": gym_masks.generate_tiled_natten(12, 8, 5, 3, 4, 4),
        "morton_natten": gym_masks.generate_morton_natten(8, 12, 3, 5),
        "prefix_lm": gym_masks.generate_prefix_lm_mask(30),
        "shared_prefix": gym_masks.generate_shared_prefix_mask_mod(offsets, torch.tensor([0, 0, 2, 2])),
        "sliding_window": gym_masks.generate_sliding_window(11),
        "sta_2d": gym_masks.generate_sta_mask_mod_2d((8, 12), (4, 4), (4, 4)),
        "sta_3d": gym_masks.generate_sta_mask_mod_3d((4, 4, 6), (2, 2, 2), (2, 2, 2)),
        "svg_spatial": gym_masks.generate_spatial_head_mask_mod(10, 4, 20, 2, True, 8),
        "svg_temporal": gym_masks.generate_temporal_head_mask_mod(10, 4, 20, 2),
    }
    spatial = parameter(H, 8)
    mods = {
        "gelu": (gym_mods.generate_activation_score_mod(torch.nn.functional.gelu, 1.0), ()),
        "relu": (gym_mods.generate_activation_score_mod(torch.nn.functional.relu, 1.0), ()),
        "alibi": (gym_mods.generate_alibi_bias(H), ()),
        "graphormer_spatial": (gym_mods.generate_graphormer_spatial_bias(spatial, distances), (spatial,)),
        "graphormer_edges": (gym_mods.generate_graphormer_edge_bias(edges, types, lengths), (edges,)),
        "mla_rope": (gym_mods.generate_mla_rope_score_mod(*rope, H, 0.2), rope),
        "sandwich": (gym_mods.generate_sandwich_bias(H, N), ()),
        "softcapping": (gym_mods.generate_tanh_softcap(3), ()),
    }
    return {
        **{f"mask {name}": (None, mask_mod, ()) for name, mask_mod in only.items()},
        **{f"mod {name}": (mod, None, captured) for name, (mod, captured) in mods.items()},
    }

@pytest.mark.parametrize("name", gym())
def test_every_mask_and_mod_of_attn_gym(name):
    score_mod, mask_mod, captured = gym()[name]
    block_mask = None if mask_mod is None else heed.mask(mask_mod)
    # The sandwich multiplies two tables in float32 before it adds them to a score in float64.
    atol = 1e-6 if name == "mod sandwich" else 1e-10
    check(*operands(), score_mod=score_mod, mask_mod=mask_mod, captured=captured, block_mask=block_mask, atol=atol)

def test_the_tree_of_attn_gym():
    nodes, prefix = 30, 20
    tree = gym_masks.build_tree_ancestor_matrix([-1, *(i // 2 for i in range(nodes - 1))], "cpu")
    mask_mod = gym_masks.generate_jetspec_tree_causal_mask_mod(prefix, tree)
    query = operands(B, nodes, D)[0]
    _, key, value = operands(B, prefix + nodes, D)
    check(query, key, value, mask_mod=mask_mod, block_mask=heed.mask(mask_mod))
