"""What a fault of a table is: how bad, where it is looked for, what it means, and what mends it."""

from __future__ import annotations

from enum import Enum

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


@dataclass(frozen=True, slots=True)
class Fault:
    """One kind of fault. `level`: from which on it is looked for; `mend`: what `repair` does; `loses`: it takes away
    what may be wanted, so that it has to be named."""

    code: str
    severity: Severity
    level: str
    what: str
    consequence: str
    remedy: str
    mend: Mend = Mend.NONE
    loses: bool = False


E, W, N = Severity.ERROR, Severity.WARNING, Severity.INFO
ROLL_BACK = "CALL sys.rollback to an intact snapshot or tag"
RESTORE = "restore the file from a copy"
TABLE_NAME = "'db.t'"  # in remedies: the table that is checked
REPAIR = f"CALL sys.repair_table(table => {TABLE_NAME}, dry_run => false)"


def repair_naming(code: str) -> str:
    """The statement that mends what has to be named."""
    return f"CALL sys.repair_table(table => {TABLE_NAME}, allow => '{code}', dry_run => false)"
