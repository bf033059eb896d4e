"""How much one batch of a stream takes: the options `read.stream.*`, all of them together."""

from __future__ import annotations

from bucketlake.errors import InvalidError
from bucketlake.ops.table.messages import Split
from bucketlake.options.options import TableOptions
from bucketlake.values import dataclass

LIMITS = "read.stream."  # how their keys begin
MAX_FILES = "read.stream.maxFilesPerTrigger"
MAX_BYTES = "read.stream.maxBytesPerTrigger"
MAX_ROWS = "read.stream.maxRowsPerTrigger"
MIN_ROWS = "read.stream.minRowsPerTrigger"
MAX_DELAY = "read.stream.maxTriggerDelayMs"
_KEYS = (MAX_FILES, MAX_BYTES, MAX_ROWS, MIN_ROWS, MAX_DELAY)


@dataclass(frozen=True, slots=True)
class Limits:
    """The most files, bytes and rows of a batch, which holds one unit at least; the fewest rows, for which a batch
    waits until `max_delay` milliseconds after the one before. None: no such limit."""

    max_files: int | None = None
    max_bytes: int | None = None
    max_rows: int | None = None
    min_rows: int | None = None
    max_delay: int | None = None

    @classmethod
    def of(cls, options: TableOptions) -> Limits:
        """What the options say. InvalidError for what contradicts itself."""
        given = {key: options.get(key) for key in _KEYS}
        bad = {key: value for key, value in given.items() if value is not None and int(value) < 1}
        if bad:
            raise InvalidError("a limit of a stream is less than one", **{next(iter(bad)): next(iter(bad.values()))})
        if (given[MIN_ROWS] is None) != (given[MAX_DELAY] is None):
            raise InvalidError(
                f"Can't provide only one of {MIN_ROWS} and {MAX_DELAY}.",
                remedy="set both: how many rows a batch waits for, and how long",
            )
        least, most = given[MIN_ROWS], given[MAX_ROWS]
        if least is not None and most is not None and least > most:
            raise InvalidError(f"{MIN_ROWS} is above {MAX_ROWS}", least=least, most=most)
        return cls(*(given[key] for key in _KEYS))

    @property
    def bounds(self) -> bool:
        """Whether a batch may hold less than there is."""
        return any(limit is not None for limit in (self.max_files, self.max_bytes, self.max_rows))


@dataclass
class Taken:
    """What a batch holds so far."""

    limits: Limits
    files: int = 0
    bytes: int = 0
    rows: int = 0

    def take(self, unit: Split) -> bool:
        """Add a unit, if it fits or is the first."""
        files, size, rows = self.files + len(unit.files), self.bytes + unit.size, self.rows + unit.row_count
        sums = ((files, self.limits.max_files), (size, self.limits.max_bytes), (rows, self.limits.max_rows))
        if self.files and any(limit is not None and amount > limit for amount, limit in sums):
            return False
        self.files, self.bytes, self.rows = files, size, rows
        return True
