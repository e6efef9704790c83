"""The mask that transformers' models make once and pass to every layer's attention."""

from __future__ import annotations

import functools
from typing import Any, NoReturn

import torch
from transformers.masking_utils import causal_mask_function, prepare_padding_mask, sdpa_mask

from ._key_set import Grid, KeySet, MaskFunction, keys_shown, readable

_COMPUTED_WITH = (
    "attention mask: this model computes with its mask, which is a range of keys for each query here and no array; load it with "
    'attn_implementation="eager", or with "sdpa", inside heed.replace_sdpa(), where it has that'
)


class KeyRanges:
    """A mask [B, 1, Nq, Nk] in memory linear in Nq and Nk. It is no tensor: code that computes with it fails at once.

    lengths     number of keys before the end of the range, [B] or [B, Nq]; None: all
    first       the first key of the range, [Nq] or [B, Nq]; None: 0
    mask        hides further keys: bool, broadcastable to the shape; None: nothing
    """

    ndim = 4

    def __init__(
        self,
        shape: tuple[int, int, int, int],
        device: torch.device,
        lengths: torch.Tensor | None = None,
        first: torch.Tensor | None = None,
        mask: torch.Tensor | None = None,
    ) -> None:
        self.shape, self.device = shape, device
        self.lengths, self.first, self.mask = lengths, first, mask

    def contiguous(self) -> KeyRanges:
        return self

    def to(self, device: torch.device | str | int, **_: Any) -> KeyRanges | torch.Tensor:
        """Itself on its own device; on another one, where heed does not compute, the array."""
        if isinstance(device, torch.dtype):
            raise NotImplementedError(_COMPUTED_WITH)
        return self if torch.device(device) == self.device else self.to_dense().to(device)

    def to_dense(self) -> torch.Tensor:
        """The boolean array [B, 1, Nq, Nk], True where a query may attend."""
        key = torch.arange(self.shape[3], device=self.device)
        seen = torch.ones(self.shape, dtype=torch.bool, device=self.device)
        if self.lengths is not None:
            seen = seen & (key < self.lengths.reshape(self.shape[0], 1, -1, 1))
        if self.first is not None:
            seen = seen & (key >= self.first.reshape(-1, 1, self.shape[2], 1))
        return seen if self.mask is None else seen & self.mask

    def without_padding(self, padding: torch.Tensor, keys: int) -> KeyRanges:
        """The mask [B, 1, Nq, keys] for rows of at most `keys` keys, from which the first padding[b] keys of row b are gone."""
        batch, _, queries, all_keys = self.shape
        shift = padding[:, None]
        lengths = padding.new_full((batch, 1), all_keys) if self.lengths is None else self.lengths.reshape(batch, -1)
        lengths = (lengths - shift).clamp(0, keys)
        first = None if self.first is None else (self.first.expand(batch, queries) - shift).clamp(min=0)
        first = None if first is None or not bool((first > 0).any()) else first
        mask = self.mask
        if mask is not None:
            index = (torch.arange(keys, device=self.device) + shift).clamp(max=all_keys - 1)[:, None, None, :]
            mask = mask.expand(batch, *mask.shape[1:]).gather(3, index.expand(batch, *mask.shape[1:3], keys))
        return KeyRanges((batch, 1, queries, keys), self.device, lengths[:, 0] if lengths.shape[1] == 1 else lengths, first, mask)

    def options(self, batch: int, queries: int, keys: int) -> dict[str, Any]:
        """The arguments of heed.attention that mean this mask, for operands of these extents."""
        b, _, q, k = self.shape
        if b not in (1, batch) or q not in (1, queries) or k != keys:
            raise ValueError(
                f"attention_mask: made for {b} batch rows, {q} queries and {k} keys; the call has {batch}, {queries} and {keys}"
            )
        options: dict[str, Any] = {}
        if self.lengths is not None:
            options["key_lengths"] = self.lengths.expand(batch, *self.lengths.shape[1:])
        if self.first is not None:
            # At a position that is its first key, a query looks at no key on its left.
            options["query_positions"], options["window"] = self.first.expand(*self.first.shape[:-1], queries), (0, -1)
        if self.mask is not None:
            options["mask"] = self.mask
        return options

    def __repr__(self) -> str:
        given = {"lengths": self.lengths, "first": self.first, "mask": self.mask}
        shown = (f", {name}={list(tensor.shape)}" for name, tensor in given.items() if tensor is not None)
        return f"KeyRanges({list(self.shape)}{''.join(shown)})"

    __str__ = __repr__

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"{name}: {_COMPUTED_WITH}")

    def __getitem__(self, index: Any) -> NoReturn:
        raise NotImplementedError(_COMPUTED_WITH)

    @classmethod
    def __torch_function__(cls, *_: Any, **__: Any) -> NoReturn:
        # Not a TypeError, which operators of tensors replace by one of their own.
        raise NotImplementedError(_COMPUTED_WITH)


def _with_padding(shown: KeySet, padding: torch.Tensor) -> KeySet:
    """The set without the keys that are False in padding [B, Nk]."""
    grid = shown.grid
    if readable(padding):
        if bool(padding.all()):
            return shown
        count = padding.sum(-1, keepdim=True)
        begin = padding.to(torch.uint8).argmax(-1, keepdim=True)
        end = padding.shape[-1] - padding.to(torch.uint8).flip(-1).argmax(-1, keepdim=True)
        end = torch.where(count > 0, end, begin)
        if bool((end - begin == count).all()):
            first = begin + grid.first_key if bool((begin > 0).any()) else None
            return shown & KeySet(grid, first, end + grid.first_key)
    return shown & KeySet(grid, keys=padding)


def _compact(shown: KeySet, shape: tuple[int, int, int, int], device: torch.device) -> KeyRanges:
    batch, _, queries, keys = shape
    lengths = first = mask = None
    if shown.end is not None:
        lengths = (shown.end - shown.grid.first_key).clamp(0, keys)
        if readable(lengths) and bool((lengths == keys).all()):  # calls without options cost less
            lengths = None
    if lengths is not None:
        same = lengths.shape[1] == 1
        lengths = lengths.expand(batch, -1)[:, 0] if same else lengths.expand(batch, queries)
    if shown.first is not None:
        first = shown.first - shown.grid.first_key
        first = first[0].expand(queries) if first.shape[0] == 1 else first.expand(batch, queries)
    if shown.keys is not None:
        mask = shown.keys[:, None, None, :]
    return KeyRanges(shape, device, lengths, first, mask)


def _are_all_true(padding: torch.Tensor | None, first_key: int, keys: int) -> bool:
    """Whether padding [B, Nk] covers these keys and readably hides none."""
    if padding is None:
        return True
    own = padding[:, first_key : first_key + keys]
    return own.shape[1] == keys and readable(own) and bool(own.all())


def key_ranges(
    batch_size: int,
    q_length: int,
    kv_length: int,
    q_offset: int | torch.Tensor = 0,
    kv_offset: int = 0,
    mask_function: MaskFunction = causal_mask_function,
    attention_mask: torch.Tensor | KeyRanges | None = None,
    allow_is_bidirectional_skip: bool = False,
    use_vmap: bool = False,
    device: torch.device | str = "cpu",
    **further: Any,
) -> KeyRanges | torch.Tensor | None:
    """The mask function that transformers calls; it takes transformers' arguments and returns a KeyRanges for tensors on the CPU.

    Returns None only where the caller allows it for a mask that hides nothing. If the mask function is a model's or a user's own
    (`use_vmap`), which may need one pair of indices at a time, or is not recognised, the KeyRanges holds sdpa's mask array. Other
    devices get sdpa's mask.
    """
    if isinstance(attention_mask, KeyRanges):  # made ahead of the forward pass, as generation with a static cache does
        return attention_mask
    if attention_mask is not None and attention_mask.dim() != 2:
        raise ValueError(f"attention_mask: expected 2 dimensions [batch, keys], or 4, got shape {list(attention_mask.shape)}")
    device, shape = torch.device(device), (batch_size, 1, q_length, kv_length)
    array = functools.partial(
        sdpa_mask, batch_size, q_length, kv_length, q_offset, kv_offset, mask_function, attention_mask, use_vmap=use_vmap, device=device
    )
    if device.type not in ("cpu", "meta"):
        return array(allow_is_bidirectional_skip=allow_is_bidirectional_skip, **further)
    # A step of decoding, which a model takes many times: its query stands behind all keys.
    causal = mask_function is causal_mask_function and not use_vmap
    behind = q_length == 1 and isinstance(q_offset, int) and q_offset >= kv_offset + kv_length - 1
    if causal and behind and _are_all_true(attention_mask, kv_offset, kv_length):
        return None if allow_is_bidirectional_skip else KeyRanges(shape, device)
    shown = None
    if not use_vmap:
        batch, queries = torch.arange(batch_size, device=device)[:, None], torch.arange(q_length, device=device) + q_offset
        same_tokens = isinstance(q_offset, int) and q_offset == kv_offset and q_length == kv_length
        shown = keys_shown(mask_function, Grid(batch, queries[None], kv_offset, kv_length, same_tokens))
    if shown is None:
        return KeyRanges(shape, device, mask=array(allow_is_causal_skip=False))
    if attention_mask is not None:
        padding = prepare_padding_mask(attention_mask, kv_length, kv_offset).to(torch.bool)
        shown = _with_padding(shown, padding[:, kv_offset : kv_offset + kv_length])
    if allow_is_bidirectional_skip and shown.first is shown.end is shown.keys is None:
        return None
    return _compact(shown, shape, device)
