"""Spans of an ordered type: what a condition asks of a column, as places from one to another.

    Span(low, high, closed)    from `low` on up to `high`, that included where `closed`; None: without end
    united, intersected        of spans in order, which do not meet
    opposite                   all places that are in none
    Within(spans)              whether a place is in one of many

A place is what orders a key as its value is: a number, or bytes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import Any

from bucketlake.values import dataclass

Place = Any


@dataclass(frozen=True, slots=True)
class Span:
    """See above; the default holds every place."""

    low: Place | None = None
    high: Place | None = None
    closed: bool = True

    @classmethod
    def point(cls, place: Place) -> Span:
        """One place."""
        return cls(place, place)

    @property
    def is_empty(self) -> bool:
        """Whether it holds no place."""
        if self.low is None or self.high is None:
            return False
        return bool(self.low > self.high or (self.low == self.high and not self.closed))

    @property
    def is_point(self) -> bool:
        """Whether it holds one place."""
        return self.low is not None and self.low == self.high

    def meets(self, first: Place, last: Place) -> bool:
        """Whether it may hold a place from one to another, both included."""
        if self.low is not None and self.low > last:
            return False
        return self.high is None or bool(first < self.high or (self.closed and first == self.high))

    def holds(self, place: Place) -> bool:
        """Whether it holds a place."""
        return self.meets(place, place)


Spans = tuple[Span, ...]
EVERY: Spans = (Span(),)


class Within:
    """Spans in order, which do not meet, that are asked for places one by one."""

    def __init__(self, spans: Sequence[Span]) -> None:
        self._spans = spans
        self._lows = [span.low for span in spans if span.low is not None]

    def _last(self, place: Place) -> int:
        """The last span that does not begin behind a place; -1: none."""
        return bisect_right(self._lows, place) + len(self._spans) - len(self._lows) - 1

    def holds(self, place: Place) -> bool:
        """Whether one holds a place."""
        at = self._last(place)
        return at >= 0 and self._spans[at].holds(place)

    def meets(self, first: Place, end: Place | None) -> bool:
        """Whether one may hold a place from one on to before another (None: without end)."""
        following = self._last(first) + 1
        if self.holds(first):
            return True
        return following < len(self._spans) and (end is None or bool(self._spans[following].low < end))


def above(place: Place) -> Span:
    """What is greater."""
    return Span(_next(place))


def below(place: Place) -> Span:
    """What is less."""
    return Span(None, place - 1) if isinstance(place, int) else Span(None, place, False)


def of_prefix(prefix: bytes) -> Span:
    """Bytes that begin so."""
    head = prefix.rstrip(b"\xff")
    return Span(prefix, head[:-1] + bytes([head[-1] + 1]), False) if head else Span(prefix)


def united(spans: Iterable[Span]) -> Spans:
    """What is in any of them."""
    found: list[Span] = []
    for span in sorted((span for span in spans if not span.is_empty), key=_start):
        if found and not _ends_before(found[-1], span):
            if _end(found[-1]) < _end(span):
                found[-1] = Span(found[-1].low, span.high, span.closed)
        else:
            found.append(span)
    return tuple(found)


def intersected(left: Sequence[Span], right: Sequence[Span]) -> Spans:
    """What is in one of both."""
    found: list[Span] = []
    at = to = 0
    while at < len(left) and to < len(right):
        low = max(left[at], right[to], key=_start)
        high = min(left[at], right[to], key=_end)
        both = Span(low.low, high.high, high.closed)
        if not both.is_empty:
            found.append(both)
        if high is left[at]:
            at += 1
        else:
            to += 1
    return tuple(found)


def opposite(spans: Sequence[Span]) -> Spans:
    """What is in none of them."""
    found: list[Span] = []
    low: Place | None = None
    for number, span in enumerate(spans):
        if span.low is not None:
            before = below(span.low)
            found.append(Span(low if number else None, before.high, before.closed))
        if span.high is None:
            return tuple(one for one in found if not one.is_empty)
        low = _next(span.high) if span.closed else span.high
    found.append(Span(low))
    return tuple(one for one in found if not one.is_empty)


def _next(place: Place) -> Place:
    return place + 1 if isinstance(place, int) else place + b"\x00"


def _start(span: Span) -> tuple[Any, ...]:
    return (0,) if span.low is None else (1, span.low)


def _end(span: Span) -> tuple[Any, ...]:
    return (2,) if span.high is None else (1, span.high, span.closed)


def _ends_before(span: Span, other: Span) -> bool:
    """Whether one ends before another, which does not begin earlier."""
    if span.high is None or other.low is None:
        return False
    return bool(span.high < other.low or (span.high == other.low and not span.closed))
