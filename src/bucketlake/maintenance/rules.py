"""What a maintainer does, to which tables, how often: rules, and the ones that fit most warehouses.

Spec: docs/spec/maintenance.md#rules
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, fields
from typing import Any

from bucketlake.errors import InvalidError, check_flags, check_types
from bucketlake.options.options import parse_duration
from bucketlake.values import dataclass

__all__ = ["ACTIONS", "DEFAULT_RULES", "Rule", "rules_of"]

ACTIONS = (
    *("compact", "expire_snapshots", "expire_changelogs", "expire_tags", "expire_partitions"),
    "remove_orphan_files",
)


@dataclass(frozen=True, slots=True)
class Rule:
    """One action on the tables whose whole `db.table` a regular expression matches, and `excluding` does not.

    `every`: how long after the last time it is due again. Compaction besides: `full`, else what each table's policy
    picks; `sorted_runs`, `small_files`: so many in a bucket, or a partition, are enough, instead of the table's own
    number; `idle`: only partitions that no file came to for so long. `options`: of the table, for this rule.
    """

    action: str
    tables: str = ".*"
    excluding: str = "(?!)"
    every: str = "10 min"
    full: bool = False
    sorted_runs: int | None = None
    small_files: int | None = None
    idle: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        texts = {"action": self.action, "tables": self.tables, "excluding": self.excluding, "every": self.every}
        check_types(str, "give a text", **texts)
        check_types((str, type(None)), "give a time, such as '1 h'", idle=self.idle)
        numbers = {"sorted_runs": self.sorted_runs, "small_files": self.small_files}
        check_types((int, type(None)), "give a whole number", **numbers)
        check_types(Mapping, "give options by their names", options=self.options)
        if self.action not in ACTIONS:
            raise InvalidError("unknown action of a maintenance rule", action=self.action, known=list(ACTIONS))
        check_flags(full=self.full)
        for name in ("tables", "excluding"):
            try:
                re.compile(getattr(self, name))
            except re.error as error:
                raise InvalidError("not a regular expression", rule=self.action, text=getattr(self, name)) from error
        if self.every_millis <= 0:
            raise InvalidError("a rule needs some time between its turns", rule=self.action, every=self.every)
        own = {"full": self.full, "sorted_runs": self.sorted_runs, "small_files": self.small_files, "idle": self.idle}
        given = [name for name, value in own.items() if value not in (None, False)]
        if given and self.action != "compact":
            raise InvalidError("these are for the action compact", action=self.action, given=given)
        for name, least in numbers.items():
            if least is not None and least < 1:
                raise InvalidError("a trigger is at least 1", rule=self.action, trigger=name, given=least)
        if self.idle is not None:
            parse_duration(self.idle)

    @property
    def every_millis(self) -> int:
        """The time between two turns."""
        return parse_duration(self.every)

    def chooses(self, table: str) -> bool:
        """Whether a table, `db.table`, is meant."""
        return bool(re.fullmatch(self.tables, table)) and not re.fullmatch(self.excluding, table)

    @property
    def table_options(self) -> dict[str, str]:
        """The options that the table is opened with."""
        found = dict(self.options)
        if self.sorted_runs is not None:
            found["num-sorted-run.compaction-trigger"] = str(self.sorted_runs)
        if self.small_files is not None:
            found["compaction.min.file-num"] = str(self.small_files)
        return found


DEFAULT_RULES = (
    Rule("compact", every="1 min"),
    Rule("expire_snapshots"),
    Rule("expire_changelogs"),
    Rule("expire_tags"),
    Rule("expire_partitions", every="1 h"),
    Rule("remove_orphan_files", every="1 d"),
)


def rules_of(given: Sequence[Rule | Mapping[str, Any]] | None) -> tuple[Rule, ...]:
    """Rules as they are given: rules, or mappings of their fields; the usual ones for None. InvalidError."""
    if given is None:
        return DEFAULT_RULES
    check_types(Iterable, "give a list of rules", rules=given)
    made: list[Rule] = []
    known = {item.name for item in fields(Rule)}
    for one in given:
        if isinstance(one, Rule):
            made.append(one)
            continue
        strange = sorted(set(one) - known)
        if strange or "action" not in one:
            raise InvalidError("not a maintenance rule", unknown=strange, fields=sorted(known))
        made.append(Rule(**one))
    if not made:
        raise InvalidError("no rules", remedy="leave them out for the usual ones")
    return tuple(made)


Tell = Callable[["Event"], None]


@dataclass(frozen=True, slots=True)
class Event:
    """What happened. `kind`: leads, waits (another leads), did, nothing (it was not due), failed, lost (the lease),
    stopped. `what`: what an action gave."""

    kind: str
    table: str = ""
    action: str = ""
    what: Any = None
    error: Exception | None = None
    seconds: float = 0.0

    def __str__(self) -> str:
        parts = [self.kind, self.action, self.table, "" if self.what is None else f"({self.what})"]
        return " ".join(filter(None, parts)) + ("" if self.error is None else f": {self.error}")
