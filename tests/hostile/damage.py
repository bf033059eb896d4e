"""Damage to the bytes of a file, chosen by a seed: what failing disks, cut transfers and bad memory do."""

from __future__ import annotations

import random
from collections.abc import Callable

Damage = Callable[[bytes, random.Random], bytes]


def _place(data: bytes, rng: random.Random) -> int:
    """A position; ends of files, where headers and footers lie, are hit as often as all the rest."""
    size = len(data)
    if not size:
        return 0
    near = min(size, 200)
    return rng.choice([rng.randrange(size), rng.randrange(near), size - 1 - rng.randrange(near)])


def flip(data: bytes, rng: random.Random) -> bytes:
    """One to four bits turned."""
    out = bytearray(data)
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        if out:
            out[_place(data, rng)] ^= 1 << rng.randrange(8)
    return bytes(out)


def cut(data: bytes, rng: random.Random) -> bytes:
    """The end is missing."""
    return data[: _place(data, rng)]


def insert(data: bytes, rng: random.Random) -> bytes:
    """Bytes too many."""
    at = _place(data, rng)
    return data[:at] + rng.randbytes(rng.choice([1, 2, 8, 100])) + data[at:]


def remove(data: bytes, rng: random.Random) -> bytes:
    """Bytes missing inside."""
    at = _place(data, rng)
    return data[:at] + data[at + rng.choice([1, 2, 8, 100]) :]


def blank(data: bytes, rng: random.Random) -> bytes:
    """A range of zeros or ones."""
    at = _place(data, rng)
    size = min(rng.choice([1, 4, 8, 64, 512]), len(data) - at)
    return data[:at] + rng.choice([b"\0", b"\xff"]) * size + data[at + size :]


def splice(data: bytes, rng: random.Random) -> bytes:
    """A part of the file in another place of it."""
    at, source = _place(data, rng), _place(data, rng)
    part = data[source : source + rng.choice([4, 16, 64])]
    return data[:at] + part + data[at + len(part) :]


def repeat(data: bytes, rng: random.Random) -> bytes:
    """A part of the file twice."""
    at = _place(data, rng)
    return data[: at + rng.choice([4, 16, 64, 1 << 20])] + data[at:]


def number(data: bytes, rng: random.Random) -> bytes:
    """A number that is far too large, negative or zero, in one of the ways in which numbers are stored."""
    at = _place(data, rng)
    value = rng.choice(
        [
            b"\xff\xff\xff\x7f",
            b"\x7f\xff\xff\xff",
            b"\x80\x00\x00\x00",
            b"\xff" * 8,
            b"\x80" * 9 + b"\x01",
            b"\xfe" * 9 + b"\x01",
            b"\x80\x80\x80\x80\x80\x80\x01",
            b"\x01",
            b"\x00",
        ]
    )
    return data[:at] + value + data[at + len(value) :]


def empty(data: bytes, rng: random.Random) -> bytes:
    """Nothing is left."""
    return b""


DAMAGES: dict[str, Damage] = {
    "flip": flip,
    "cut": cut,
    "insert": insert,
    "remove": remove,
    "blank": blank,
    "splice": splice,
    "repeat": repeat,
    "number": number,
    "empty": empty,
}
