"""How much is tried: little for `make test`, everything for `make soak` (`BUCKETLAKE_SOAK=1`); `make test-slow` is for tests
that cost most. One place for the whole suite."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from itertools import combinations, product
from typing import Any
from zlib import crc32

import pytest

SOAK = os.environ.get("BUCKETLAKE_SOAK", "0") not in ("", "0")
SLOW = SOAK or os.environ.get("BUCKETLAKE_SLOW", "0") not in ("", "0")  # what is marked `slow` runs too

SHARE = os.environ.get("BUCKETLAKE_SLOW_SHARE", "1/1")  # of what is marked `slow`: see `chosen`
TURN = int(os.environ.get("BUCKETLAKE_TEST_TURN", "0"))  # which of the dear tests `make test` runs: see `costly.py`


def chosen(name: str, share: str) -> bool:
    """Whether a test, by its name, is in a share such as "2/3", the second of three: each test is in one of them."""
    place, _, of = share.partition("/")
    return crc32(name.encode()) % int(of) == int(place) - 1


def seeds(quick: int, soak: int) -> range:
    """The seeds of a simulation or a generated history."""
    return range(soak if SOAK else quick)


def examples(quick: int, soak: int | None = None) -> int:
    """The examples of a property; ten times as many in `make soak`, where nothing else is said."""
    return (soak or 10 * quick) if SOAK else quick


def number(name: str, quick: int, soak: int) -> int:
    """A count that the environment variable `name` may say instead."""
    return int(os.environ.get(name) or (soak if SOAK else quick))


def pairs(*axes: Sequence[Any], when: Callable[..., bool] = lambda *_: True) -> list[tuple[Any, ...]]:
    """Cases over axes of values: every pair of values together once, in `make soak` every combination."""
    return [case for case in product(*axes) if when(*case)] if SOAK else pairwise(*axes, when=when)


def often(soak: int) -> int:
    """What something has to happen more often than, over all seeds: of the few of `make test` once is enough."""
    return soak if SOAK else 0


def first(cases: Sequence[Any], quick: int) -> list[Any]:
    """So many of the cases, evenly from all of them; all in `make soak`."""
    whole = list(cases)
    if SOAK or quick >= len(whole):
        return whole
    return [whole[number * len(whole) // quick] for number in range(quick)]


def later(cases: Sequence[Any], quick: int) -> list[Any]:
    """The cases, of which `make test` runs the first ones, so many, and `make test-slow` the rest. Tuples are of several
    arguments."""
    rest = [case if isinstance(case, tuple) else (case,) for case in cases[quick:]]
    return [*cases[:quick], *(pytest.param(*case, marks=pytest.mark.slow) for case in rest)]


def pairwise(*axes: Sequence[Any], when: Callable[..., bool] = lambda *_: True) -> list[tuple[Any, ...]]:
    """Few combinations in which every two values of two axes meet that meet in any allowed one; always the same ones."""
    choices = [at for at in product(*[range(len(axis)) for axis in axes]) if when(*_values(axes, at))]
    missing = {pair for at in choices for pair in _pairs_of(at)}
    found = []
    while missing:
        best = max(choices, key=lambda at: sum(pair in missing for pair in _pairs_of(at)))
        missing.difference_update(_pairs_of(best))
        found.append(best)
    return [_values(axes, at) for at in sorted(found)]


def _values(axes: Sequence[Sequence[Any]], at: Sequence[int]) -> tuple[Any, ...]:
    return tuple(axis[number] for axis, number in zip(axes, at, strict=True))


def _pairs_of(at: Sequence[int]) -> list[tuple[tuple[int, int], ...]]:
    """The pairs that a combination holds, as (axis, place); of one axis alone, its places."""
    return list(combinations(enumerate(at), min(2, len(at))))
