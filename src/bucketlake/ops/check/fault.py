"""What a fault of a table is: how bad, where it is looked for, what it means, and what mends it."""

from __future__ import annotations

from dataclasses import replace
from enum import Enum

from bucketlake.ops.check.remedy import Blank, Call
from bucketlake.values import dataclass

LEVELS = ("metadata", "footers", "keys", "rows")


class Severity(str, Enum):
    """What a fault means for those who read: rows are wrong or cannot be read; something works worse than it should;
    worth knowing."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


class Mend(str, Enum):
    """How a fault is mended."""

    NONE = ""
    HINTS = "hints are written"
    CONSUMER = "the consumer is set to the snapshot that comes next"
    MANIFESTS = "manifests are rewritten"
    MERGE = "files are rewritten, keys of one run merged"
    MOVE = "rows are moved to their buckets"
    HASHES = "the hash index is built from the keys"
    VECTORS = "vectors that mark nothing are dropped"
    TAKE_OUT = "the file is taken out, with its rows"
    UNMARK = "deletion vectors are dropped: deleted rows come back"
    STRAYS = "the snapshot is removed"
    BEHIND = "it goes with all before it: the history begins behind it"
    CHANGES_BEHIND = "it goes with all before it: what is kept of changes begins behind it"
    BACK = "the table goes back to what a tag holds of it, else to the newest snapshot that can be read"


@dataclass(frozen=True, slots=True)
class Fault:
    """One kind of fault. `level`: from which on it is looked for; `others`: what to do about it beside a repair, the
    best first; `mend`: what `repair` does; `loses`: it takes away what may be wanted, so that it has to be named."""

    code: str
    severity: Severity
    level: str
    what: str
    consequence: str
    others: tuple[str | Call, ...]
    mend: Mend = Mend.NONE
    loses: bool = False

    def remedies(self, table: str = "db.t", holder: str | None = None) -> tuple[str | Call, ...]:
        """What to do, in words or as a call, the best first. `holder`: of the tag, branch or consumer it is about."""
        named = tuple(one if isinstance(one, str) else _named(one, table, holder) for one in self.others)
        if self.mend is Mend.NONE:
            return named
        allow = (("allow", self.code),) if self.loses else ()
        level = (("level", self.level),)  # at which it is found again
        return (*named, Call("repair_table", (*level, *allow, ("dry_run", False)), table))

    def of_past(self, table: str, newer: int, tag: str | None) -> tuple[str | Call, ...]:
        """As `remedies`, where only older snapshots, of which so many are newer, or this tag, or a branch is concerned:
        what nobody travels to may go."""
        words = tuple(one for one in self.others if isinstance(one, str))
        if tag is not None:
            return (*words, _named(DELETE_TAG, table, tag))
        kept = (("retain_max", newer), ("retain_min", newer))
        return (*words, Call("expire_snapshots", kept, table)) if newer else words


def _named(call: Call, table: str, holder: str | None) -> Call:
    filled = [(key, holder if holder and isinstance(value, Blank) else value) for key, value in call.arguments]
    return replace(call, table=table, arguments=tuple(filled))


E, W, N = Severity.ERROR, Severity.WARNING, Severity.INFO
RESTORE = "restore the file from a copy"
ROLL_BACK = Call("rollback", (("version", Blank("VERSION")),), first="go back to an intact snapshot or tag: ")
DELETE_TAG = Call("delete_tag", (("tag", Blank("TAG")),))
DELETE_BRANCH = Call("delete_branch", (("branch", Blank("BRANCH")),))
RESET_CONSUMER = Call("reset_consumer", (("consumer_id", Blank("CONSUMER")),))
