"""Attention over many processes: each rank of a torch.distributed group holds part of a sequence.

    heed.distributed.attention(query, key, value, ...)         heed.attention of the whole sequence, exactly, with gradients
    heed.distributed.attention_packed(query, key, value, ...)  the same for packed sequences
    heed.distributed.plan(query, key, value, ...)              its method, the reason, and the bytes that it sends
    heed.distributed.zigzag(x, dim), unzigzag(x, dim)          to and from the layout that balances causal work
    heed.distributed.zigzag_part(x, dim, rank, ranks)          a rank's part of a sequence that every rank holds
    heed.distributed.sent_bytes()                              bytes that this process has sent so far
"""

from ._attention import attention, attention_packed, plan
from ._group import sent_bytes
from ._plan import Plan
from ._zigzag import unzigzag, zigzag, zigzag_part

__all__ = ["Plan", "attention", "attention_packed", "plan", "sent_bytes", "unzigzag", "zigzag", "zigzag_part"]
