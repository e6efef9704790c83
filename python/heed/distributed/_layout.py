"""Which tokens of a sequence each rank holds."""

from __future__ import annotations

from typing import Literal, NamedTuple

Kind = Literal["contiguous", "zigzag"]


class Piece(NamedTuple):
    """The tokens start .. stop - 1."""

    start: int
    stop: int

    @property
    def length(self) -> int:
        """How many; 0 where stop does not lie behind start."""
        return max(0, self.stop - self.start)

    def within(self, other: Piece) -> Piece:
        """The tokens of both."""
        return Piece(max(self.start, other.start), min(self.stop, other.stop))

    def moved(self, by: int) -> Piece:
        """The same number of tokens, so many places further."""
        return Piece(self.start + by, self.stop + by)

    def joined(self, other: Piece) -> Piece:
        """From the first to the last token of either."""
        if not self.length:
            return other
        return Piece(min(self.start, other.start), max(self.stop, other.stop)) if other.length else self


class Layout(NamedTuple):
    """The parts of one sequence."""

    kind: Kind
    lengths: tuple[int, ...]
    """Tokens of each rank."""

    @classmethod
    def of(cls, kind: Kind, lengths: tuple[int, ...], name: str) -> Layout:
        """ValueError, naming what is cut, for lengths that are none of a zigzag."""
        if kind == "zigzag" and (len(set(lengths)) > 1 or lengths[0] % 2):
            raise ValueError(
                f"{name}: layout 'zigzag' cuts a sequence into {2 * len(lengths)} equal parts, two for every rank; expected as "
                f"many tokens on every rank, an even number, got {list(lengths)}"
            )
        return cls(kind, lengths)

    @property
    def ranks(self) -> int:
        """How many parts."""
        return len(self.lengths)

    @property
    def total(self) -> int:
        """Tokens of the whole sequence."""
        return sum(self.lengths)

    @property
    def whole(self) -> Piece:
        """All tokens."""
        return Piece(0, self.total)

    def pieces(self, rank: int) -> tuple[Piece, ...]:
        """What a rank holds, in the order in which it lies there; pieces without tokens are left out."""
        own = self.lengths[rank]
        if self.kind == "zigzag":
            half, last = own // 2, 2 * self.ranks - 1
            pieces = [Piece(part * half, (part + 1) * half) for part in (rank, last - rank)]
        else:
            start = sum(self.lengths[:rank])
            pieces = [Piece(start, start + own)]
        return tuple(piece for piece in pieces if piece.length)

    def held(self, rank: int) -> tuple[tuple[Piece, int], ...]:
        """The pieces, each with its place among the tokens of the rank."""
        at, held = 0, []
        for piece in self.pieces(rank):
            held.append((piece, at))
            at += piece.length
        return tuple(held)
