"""The form of one option's row, and what becomes of an option: its effect, and why.

Spec: docs/spec/schema.md#options
"""

from __future__ import annotations

from typing import Literal

from bucketlake.values import dataclass

# What is at stake where a refused option is not honoured, and so what a table that another engine made with it allows.
Stake = Literal["", "reads", "writes", "upkeep", "calls"]


class Effect(str):
    """`honoured`, `kept` or `refused`, as text, and why.

    `stake`, of refused ones. reads: rows would be read wrongly, so such a table is neither read nor written; writes:
    rows or files would be written otherwise, so it is only read; upkeep: work beside the rows is left undone, so
    writing warns; calls: only the call that sets it is at stake.
    `why`, of kept ones: what makes them harmless. `only_with`: the option without which the key means nothing.
    `remedy`: what to do instead of setting it. `within`, of refused ones: the calls that honour it all the same.
    Honoured ones whose stake is calls hold for sessions and calls, and are no options of a table.
    """

    stake: Stake
    why: str
    only_with: str
    remedy: str
    within: str

    def __new__(
        cls,
        name: str,
        stake: Stake = "",
        *,
        why: str = "",
        only_with: str = "",
        remedy: str = "",
        within: str = "",
    ) -> Effect:
        """An effect that equals its name."""
        made = super().__new__(cls, name)
        made.stake, made.why, made.only_with, made.remedy, made.within = stake, why, only_with, remedy, within
        return made


HONOURED, KEPT, REFUSED = Effect("honoured"), Effect("kept"), Effect("refused", "writes")

# Kept without effect: what the key is about is not rows or files of tables here.
SPEED = Effect("kept", why="speed or memory only")
ENGINE = Effect("kept", why="another engine or catalog only")
EXACT = Effect("kept", why="a stream's checkpoint makes its progress exact, whatever is asked for")
REFRESHED = Effect("kept", why="Flink refreshes materialized tables; here they are tables like others")
VARIANTS = Effect("kept", why="VARIANT columns are stored whole; shredded files of others are read by Spark")

RETRIES = Effect("kept", why="a change that loses to another commit is tried again by the rule of all changes")
GLOBAL_INDEX = Effect("kept", why="of global indexes, those of types btree and bitmap are built and searched")
UNINDEXED = Effect("kept", why="rows that no index covers are always read")
SEARCHES = Effect("kept", why="vectors are not searched by an index here: vector_search is refused")
STREAMS = Effect("kept", why="chain tables are not read as streams here")
FAILS = Effect("kept", why="a read that fails is an error here, whatever it says")

READS = Effect("refused", "reads")
WRITES = Effect("refused", "writes")
INTERNAL = Effect("refused", "calls", remedy="leave it out: engines set it for themselves")


def of(key: str) -> Effect:
    """Kept, because the key means nothing without another one, which is refused."""
    return Effect("kept", why=f"only with {key}, which is refused", only_with=key)


def upkeep(remedy: str, only_with: str = "") -> Effect:
    """Refused: work that writers here do not do."""
    return Effect("refused", "upkeep", only_with=only_with, remedy=remedy)


def call(remedy: str, within: str = "") -> Effect:
    """Refused: nothing of a table hangs on it but the call that sets it. `within`: the calls that honour it."""
    return Effect("refused", "calls", remedy=remedy, within=within)


CUSTOM_DONE = upkeep("mark partitions done by success-file or http-report")
TAG_IDLE = upkeep("let the job that writes move the watermark on")
LOOKUP_FILES = upkeep("leave it out: lookups build their files where they run")
LOOKUP_FILES_PART = upkeep("leave it out: lookups build their files where they run", "lookup.remote-file.enabled")
AUTO_CREATE = call("create the table first")


@dataclass(frozen=True, slots=True)
class Option:
    """One option. `kind`: bool, int (32 bits), long, float, string, enum, memory, duration or map; `default` as text;
    `mutable` False if a table with snapshots cannot alter it; `fallback`: older names that are read too; `least`,
    `most`: what may be set. `served`: of a refused one the values beside the default that are not."""

    key: str
    kind: str
    default: str | None
    effect: Effect
    doc: str
    mutable: bool = True
    values: tuple[str, ...] = ()
    fallback: tuple[str, ...] = ()
    least: int | None = None
    most: int | None = None
    served: tuple[str, ...] = ()
