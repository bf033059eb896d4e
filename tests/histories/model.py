"""A table as a dict: key -> row. What histories do to it, and what they may do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.histories.engines import ADDS, COLUMNS, Engine, Order, Values

Key = tuple[str, int]
Change = tuple[int, Values]


@dataclass(frozen=True)
class Mode:
    """How a table is kept. `hides`: rows in level 0 are not read. `tells`: who writes the changelog. `gentle`: level 0
    is not compacted with every write. `pairs`: updates that change nothing are told."""

    options: Mapping[str, str]
    hides: bool = False
    tells: str = "none"
    gentle: bool = False
    pairs: bool = True


VECTORS = {"deletion-vectors.enabled": "true"}
LOOKUP = {"changelog-producer": "lookup"}
FULL = {"changelog-producer": "full-compaction"}
GENTLE = {"lookup-compact": "gentle", "lookup-compact.max-interval": "3"}
NO_PAIRS = {"changelog-producer.row-deduplicate": "true"}
MODES: dict[str, Mode] = {
    "merge-on-read": Mode({}),
    "copy-on-write": Mode({"full-compaction.delta-commits": "1"}),
    "input": Mode({"changelog-producer": "input"}, tells="input"),
    "vectors": Mode(VECTORS, hides=True),
    "vectors-64": Mode({**VECTORS, "deletion-vectors.bitmap64": "true"}, hides=True),
    "vectors-lookup": Mode({**VECTORS, **LOOKUP}, hides=True, tells="lookup"),
    "vectors-input": Mode({**VECTORS, "changelog-producer": "input"}, hides=True, tells="input"),
    "vectors-gentle": Mode({**VECTORS, **GENTLE}, hides=True, gentle=True),
    "lookup": Mode(LOOKUP, tells="lookup"),
    "lookup-deduplicated": Mode({**LOOKUP, **NO_PAIRS}, tells="lookup", pairs=False),
    "lookup-gentle": Mode({**LOOKUP, **GENTLE}, tells="lookup", gentle=True),
    "force-lookup": Mode({"force-lookup": "true"}),
    "full-compaction": Mode(FULL, tells="full-compaction"),
    "full-compaction-deduplicated": Mode({**FULL, **NO_PAIRS}, tells="full-compaction", pairs=False),
}


def goes(engine: Engine, mode: str) -> bool:
    """Whether Paimon has such tables."""
    if is_strict(engine):
        return True
    return mode in ("merge-on-read", "lookup", "lookup-gentle", "copy-on-write")


def mode_of(engine: Engine, name: str) -> Mode:
    """The mode as it is with this engine: a first-row table shows what is compacted, as with lookup."""
    mode = MODES[name]
    if is_strict(engine):
        return mode
    return Mode(mode.options, True, mode.tells, mode.gentle)


def is_strict(engine: Engine) -> bool:
    """Whether its changelog says what was there before: a first row is told as it came, be it a +U."""
    return engine.options.get("merge-engine") != "first-row"


def key_of(values: Mapping[str, Any]) -> Key:
    return values["p"], values["k"]


@dataclass
class Model:
    """`rows`: what the table means. `last`: per key that was deleted, the order of the delete. `waiting`: keys whose
    next row has no single outcome before a compaction."""

    engine: Engine
    rows: dict[Key, Values] = field(default_factory=dict)
    last: dict[Key, Order] = field(default_factory=dict)
    waiting: set[Key] = field(default_factory=set)

    def put(self, changes: Sequence[Change]) -> list[Change]:
        """Take the rows one after the other; those that may be written, in the form in which they are."""
        return [found for kind, values in changes if (found := self._put(kind, dict(values))) is not None]

    def _put(self, kind: int, values: Values) -> Change | None:
        engine, key = self.engine, key_of(values)
        held = self.rows.get(key)
        adds = kind in ADDS
        if kind not in engine.kinds or key in self.waiting:
            return None
        if held is None and not adds and not engine.blind:
            return None
        values = engine.tidy(kind, values, held)
        if kind in engine.ignored:
            return kind, values
        if held is None and engine.order(values) < self.last.get(key, ()):
            return None
        self._take(kind, key, values, held)
        return kind, values

    def _take(self, kind: int, key: Key, values: Values, held: Values | None) -> None:
        adds = kind in ADDS
        after = (values if adds else None) if held is None else self.engine.step(held, kind, values)
        if not adds and self.engine.forgets:
            self.waiting.add(key)
        if after is None:
            self.rows.pop(key, None)
            self.last[key] = self.engine.order(values)
        else:
            self.rows[key] = after
            self.last.pop(key, None)

    def statement(self, kind: int, found: Sequence[Values]) -> None:
        """A DELETE or UPDATE that writes whole rows, as they were read."""
        for values in found:
            self._take(kind, key_of(values), values, self.rows.get(key_of(values)))

    def clear(self, partition: str | None) -> None:
        """An overwrite takes a partition, or everything, away."""
        for held in (self.rows, self.last):
            for key in [key for key in held if partition in (None, key[0])]:
                del held[key]
        self.waiting = {key for key in self.waiting if partition not in (None, key[0])}

    def compacted(self) -> None:
        """Nothing but the rows is left of the past."""
        self.waiting.clear()

    def expected(self) -> list[tuple[Any, ...]]:
        """The rows in the order of their keys."""
        return as_rows(self.rows)


def as_rows(rows: Mapping[Key, Values]) -> list[tuple[Any, ...]]:
    return [tuple(rows[key][name] for name in COLUMNS) for key in sorted(rows)]
