"""Attention over many processes: each rank of a torch.distributed group holds part of a sequence.

    heed.distributed.attention(query, key, value, ...)         heed.attention of the whole sequence, exactly, with gradients
    heed.distributed.attention_packed(query, key, value, ...)  the same for sequences end to end
    heed.distributed.plan(query, key, value, ...)              the method that it takes, why, and what it sends
    heed.distributed.zigzag(x, dim), unzigzag(x, dim)          the layout that balances causal work, there and back
    heed.distributed.zigzag_part(x, dim, rank, ranks)          a rank's part of a sequence that every rank has
    heed.distributed.sent_bytes()                              what this process has sent so far
"""

from ._attention import attention, attention_packed, plan
from ._group import sent_bytes
from ._plan import Plan
from ._zigzag import unzigzag, zigzag, zigzag_part

__all__ = ["Plan", "attention", "attention_packed", "plan", "sent_bytes", "unzigzag", "zigzag", "zigzag_part"]
