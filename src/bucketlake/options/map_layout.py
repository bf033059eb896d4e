"""How MAP columns lie in data files: `fields.<column>.map.*`.

Spec: docs/spec/map_shredding.md#options
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, cast

from bucketlake.errors import InvalidError
from bucketlake.values import dataclass

LAYOUT = "map.storage-layout"
COLUMNS = "map.shared-shredding.max-columns"
PLACEMENT = "map.shared-shredding.column-placement-policy"
SUFFIXES = (LAYOUT, COLUMNS, PLACEMENT)
SHREDDED = "shared-shredding"
SHREDDING = ("parquet", "orc")
"""Formats of files that can hold maps so."""
MOST_COLUMNS = 1 << 15
_PREFIX = "fields."
_USUAL_COLUMNS = 256

Placement = Literal["plain", "sequential", "lru"]
_PLACEMENTS = ("plain", "sequential", "lru")
_LAYOUTS = ("default", SHREDDED)


@dataclass(frozen=True, slots=True)
class MapLayout:
    """How the shredded files of a MAP column are written: their number of value columns, and which key goes where."""

    columns: int = _USUAL_COLUMNS
    placement: Placement = "lru"


def named_layouts(options: Mapping[str, str]) -> dict[str, str]:
    """The columns that have an option for their layout, with its value. Raises: InvalidError for no layout."""
    found = {}
    for key in options:
        if key.startswith(_PREFIX) and key.endswith(f".{LAYOUT}"):
            found[key[len(_PREFIX) : -len(LAYOUT) - 1]] = _one_of(options, key, _LAYOUTS)
    return found


def map_layouts(options: Mapping[str, str]) -> dict[str, MapLayout]:
    """The columns that are to be shredded, by name, and how. Raises: InvalidError for values that are none."""
    return {name: _layout(options, name) for name, layout in named_layouts(options).items() if layout == SHREDDED}


def is_of_layout(key: str) -> bool:
    """Whether an option says how a MAP column is stored."""
    return key.startswith(_PREFIX) and key.endswith(tuple(f".{suffix}" for suffix in SUFFIXES))


def refuse_other_layout(options: Mapping[str, str], given: Mapping[str, Any]) -> None:
    """InvalidError for a call that stores maps otherwise than the table's schema says: by that readers know whether
    Spark's own scan can read a file."""
    stored = named_layouts(options)
    for name, layout in named_layouts({key: str(value) for key, value in given.items()}).items():
        if layout != stored.get(name, "default"):
            raise InvalidError(
                f"'{_PREFIX}{name}.{LAYOUT}' cannot be set for a call",
                value=layout,
                remedy="set it for the table: ALTER TABLE … SET TBLPROPERTIES",
            )


def without_column(options: Mapping[str, str], column: str) -> dict[str, str]:
    """The options without those of a column that is gone."""
    gone = {f"{_PREFIX}{column}.{suffix}" for suffix in SUFFIXES}
    return {key: value for key, value in options.items() if key not in gone}


def _layout(options: Mapping[str, str], column: str) -> MapLayout:
    usual = MapLayout()
    key = f"{_PREFIX}{column}.{COLUMNS}"
    text = options.get(key, str(usual.columns)).strip()
    if not text.removeprefix("+").isascii() or not text.removeprefix("+").isdigit():
        if text.removeprefix("-").isdigit():
            raise InvalidError(f"options {COLUMNS} must > 0", option=key, value=text)
        raise InvalidError("option has an invalid value", option=key, value=text, remedy="use a whole number")
    if int(text) < 1:
        raise InvalidError(f"options {COLUMNS} must > 0", option=key, value=text)
    if int(text) > MOST_COLUMNS:
        raise InvalidError(f"option must be at most {MOST_COLUMNS}", option=key, value=text)
    place = f"{_PREFIX}{column}.{PLACEMENT}"
    policy = _one_of(options, place, _PLACEMENTS) if place in options else usual.placement
    return MapLayout(int(text), cast(Placement, policy))


def _one_of(options: Mapping[str, str], key: str, known: tuple[str, ...]) -> str:
    value = options[key].strip().lower()
    if value not in known:
        raise InvalidError(
            "option has an invalid value", option=key, value=options[key], remedy=f"use {' | '.join(known)}"
        )
    return value
