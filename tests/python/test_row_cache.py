"""heed.transformers.row_cache: batched generation whose rows hold no padding."""

import pytest
import torch

import heed

transformers = pytest.importorskip("transformers")
SIZES = {
    "vocab_size": 60, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "bos_token_id": 1, "eos_token_id": None, "pad_token_id": 0,
}  # fmt: skip
MODELS = {
    "llama": lambda: transformers.LlamaConfig(**SIZES),
    "mistral": lambda: transformers.MistralConfig(**SIZES, sliding_window=6),
    "gpt2": lambda: transformers.GPT2Config(vocab_size=60, n_embd=32, n_head=4, n_layer=2, bos_token_id=1, eos_token_id=None, pad_token_id=0),
}


def model_of(name):
    heed.transformers.register()
    torch.manual_seed(0)
    return transformers.AutoModelForCausalLM.from_config(MODELS[name](), attn_implementation="heed").eval()


def prompts(*padded, tokens=9):
    generator = torch.Generator().manual_seed(1)
    mask = (torch.arange(tokens) >= torch.tensor(padded)[:, None]).long()
    return torch.randint(3, 60, mask.shape, generator=generator) * mask, mask


@pytest.mark.parametrize("search", [{}, {"num_beams": 3}, {"num_beams": 2, "num_return_sequences": 2}], ids=["greedy", "beams", "several"])
@pytest.mark.parametrize("name", MODELS)
def test_generation_is_the_same(name, search):
    model, (tokens, mask) = model_of(name), prompts(4, 0, 7)
    options = {"max_new_tokens": 6, "do_sample": False, "return_dict_in_generate": True, "output_logits": True, **search}
    cache = heed.transformers.row_cache(mask)
    found = model.generate(tokens, attention_mask=mask, past_key_values=cache, **options)
    expected = model.generate(tokens, attention_mask=mask, **options)
    assert torch.equal(found.sequences, expected.sequences)
    torch.testing.assert_close(torch.stack(found.logits), torch.stack(expected.logits), rtol=0, atol=1e-5)
    held = cache.layers[0]._cache
    assert held.length == 9 + 5 and sorted(set(held.lengths.tolist())) == [7, 10, 14]
    assert cache.get_seq_length() == 14


@torch.no_grad()
def test_rows_hold_what_they_hold_alone():
    """Keys without padding, and a step over them with the bits of a row alone."""
    model, (tokens, mask) = model_of("gpt2"), prompts(4, 0, 7)
    places = (mask.cumsum(-1) - 1).clamp(min=0)
    whole = heed.transformers.row_cache(mask)
    model(tokens, attention_mask=mask, position_ids=places, past_key_values=whole)
    for row, padding in enumerate((4, 0, 7)):
        own, alone = tokens[row : row + 1, padding:], heed.transformers.row_cache(torch.ones(1, 9 - padding))
        model(own, past_key_values=alone)
        for mine, other in zip(whole.layers, alone.layers):
            kept = other._cache.keys
            torch.testing.assert_close(mine._cache.keys[row : row + 1, :, : 9 - padding], kept, rtol=0, atol=1e-5)
            assert mine._cache.lengths[row] == kept.shape[2] == 9 - padding


@torch.no_grad()
def test_holes_cropping_and_chosen_rows():
    model, (tokens, mask) = model_of("llama"), prompts(3, 0, 2)
    mask[1, 4:6] = 0
    caches = heed.transformers.row_cache(mask), transformers.DynamicCache()
    logits = []
    for cache in caches:
        model(tokens, attention_mask=mask, past_key_values=cache)
        cache.crop(-2)
        cache.batch_select_indices(torch.tensor([1, 2]))
        cache.batch_repeat_interleave(2)
        cache.reorder_cache(torch.tensor([3, 0, 1, 2]))
        rows = torch.tensor([2, 1, 1, 2])
        longer = torch.cat([mask[rows][:, :7], torch.ones(4, 1, dtype=torch.long)], 1)
        assert cache.get_seq_length() == 7
        logits.append(model(tokens[rows][:, :1] + 1, attention_mask=longer, past_key_values=cache).logits)
    torch.testing.assert_close(*logits, rtol=0, atol=1e-5)


@torch.no_grad()
def test_what_cannot_be_is_refused():
    model, (tokens, mask) = model_of("llama"), prompts(3, 0)
    for wrong in (mask[0], [[1, 1]]):
        with pytest.raises(ValueError, match=r"attention_mask: expected a tensor \[batch, tokens\]"):
            heed.transformers.row_cache(wrong)
    with pytest.raises(ValueError, match="attention_mask: expected one of 2 rows, got 3"):
        model(tokens, attention_mask=mask, past_key_values=heed.transformers.row_cache(torch.ones(3, 9)))
    model.set_attn_implementation("sdpa")
    with pytest.raises(RuntimeError, match='without heed; load the model with attn_implementation="heed"'):
        model(tokens, attention_mask=mask, past_key_values=heed.transformers.row_cache(mask))
