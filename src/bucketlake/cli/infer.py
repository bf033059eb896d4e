"""What the rows of files say about a table: types of columns that came as text, which column could be a key, how many
buckets.

    Guess                 the types that all texts of a column can be
    Unique                whether all values of a column differ: proved, never guessed
    advised_buckets(…)    how many, with the reason

Text becomes a number, a date or a time only where nothing of it is lost: `007` stays text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bucketlake.lazy import pc, pl
from bucketlake.options.options import parse_memory_size

__all__ = [
    *("Guess", "Unique", "advised_buckets", "candidates", "converted"),
    *("is_named_like_a_key", "unique_among", "without_words"),
]

NOTHING = ("", "NULL", "null", "NA", "N/A", "#N/A", "nan", "NaN", "None")  # in columns that are no text
TARGET = parse_memory_size("512 mb")  # of data in a bucket
_DAY = r"\d{4}-\d{2}-\d{2}"
_CLOCK = r"\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?"
# In the order of preference: type, what its texts look like.
_LOOKS: tuple[tuple[pa.DataType, str], ...] = (
    (pa.bool_(), "^(true|false|True|False|TRUE|FALSE)$"),
    (pa.int64(), r"^(0|-?[1-9]\d{0,18})$"),
    (pa.float64(), r"^-?((0|[1-9]\d*)(\.\d*)?|\.\d+)([eE][+-]?\d+)?$"),
    (pa.date32(), f"^{_DAY}$"),
    (pa.timestamp("us"), rf"^{_DAY}([ T]{_CLOCK})?$"),
    (pa.timestamp("us", "UTC"), rf"^{_DAY}[ T]{_CLOCK}(Z|[+-]\d{{2}}:?\d{{2}})$"),
)
_WHOLE = r"^-?\d+$"


class Guess:
    """The types that the texts of a column can be, narrowed batch by batch."""

    def __init__(self) -> None:
        self._left = list(_LOOKS)
        self._whole = True  # so far all were whole numbers: a fraction would lose digits of the long ones
        self._any = False

    def see(self, texts: pa.Array) -> None:
        """Look at some texts."""
        told = _without_nothing(texts)
        if not len(told):
            return
        self._any = True
        self._whole = self._whole and _all(pc.match_substring_regex(told, _WHOLE))
        self._left = [(kind, look) for kind, look in self._left if _fits(told, kind, look)]

    @property
    def type(self) -> pa.DataType:
        """The type that holds all texts seen."""
        for kind, _ in self._left if self._any else ():
            if not (self._whole and pa.types.is_floating(kind)):
                return kind
        return pa.string()


def _without_nothing(texts: pa.Array) -> pa.Array:
    """The texts that are values whatever the type is."""
    return texts.filter(pc.and_(texts.is_valid(), pc.invert(pc.is_in(texts, pa.array(NOTHING)))))


def _all(truth: pa.Array) -> bool:
    return bool(pc.all(truth, min_count=0).as_py())


def _fits(texts: pa.Array, kind: pa.DataType, look: str) -> bool:
    if not _all(pc.match_substring_regex(texts, look)):
        return False
    try:
        _cast(texts, kind)
    except pa.ArrowInvalid:
        return False
    return True


def are_values(types: dict[str, pa.DataType]) -> bool:
    """Whether the names of all columns that are no text could be values of them: their line may be a row."""
    looks = dict(_LOOKS)
    told = {name: looks[kind] for name, kind in types.items() if kind in looks}
    return bool(told) and all(re.match(look, name) for name, look in told.items())


def converted(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """Texts as values of a type; ArrowInvalid for what is none."""
    if pa.types.is_string(kind):
        return texts
    return _cast(without_words(texts), kind)


def _cast(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    if pa.types.is_boolean(kind):
        return pc.utf8_lower(texts).cast(kind)
    return texts.cast(kind)


def without_words(texts: pa.Array) -> pa.Array:
    """Texts, null where they say that there is nothing."""
    return pc.if_else(pc.is_in(texts, pa.array(NOTHING)), pa.scalar(None, pa.string()), texts)


# ---- keys


class Unique:
    """Whether the values of a column are all there and all different: proved by hashes of all, up to `MOST`; equal
    values have equal hashes, so a column that repeats a value is never taken for unique."""

    MOST = 16_000_000

    def __init__(self) -> None:
        self._hashes: list[npt.NDArray[np.uint64]] = []
        self._count = 0
        self.holds = True

    def see(self, values: pa.Array) -> None:
        """Look at some values."""
        if not self.holds or not len(values):
            return
        self._count += len(values)
        if values.null_count or self._count > self.MOST:
            self._drop()
            return
        hashes = pl.Series(pl.from_arrow(values)).hash(seed=0).to_numpy()
        if len(np.unique(hashes)) < len(hashes):
            self._drop()
            return
        self._hashes.append(hashes)

    def proved(self) -> bool:
        """Whether all values differ."""
        if self.holds and len(self._hashes) > 1:
            together = np.sort(np.concatenate(self._hashes))
            if bool((together[1:] == together[:-1]).any()):
                self._drop()
        return self.holds and self._count > 0

    def _drop(self) -> None:
        self.holds, self._hashes = False, []


def candidates(names: Sequence[str], table: str) -> list[str]:
    """Columns that are named like the table's key, the likeliest first, then the first column; three at most."""
    singular = table.lower().rstrip("s")
    ranks: dict[str, int] = {}
    for place, name in enumerate(names):
        low = name.lower()
        if low in ("id", "key", "pk", "uuid", "guid", "_id"):
            ranks[name] = 0
        elif low in {f"{singular}{end}" for end in ("_id", "id", "_key", "_no", "_number", "_uuid")}:
            ranks[name] = 1
        elif place == 0:
            ranks[name] = 2
    return sorted(ranks, key=lambda name: ranks[name])[:3]


def is_named_like_a_key(name: str, table: str) -> bool:
    """Whether a name says that the column is the key: then it is taken for one where all its values differ."""
    ends = re.search(r"(_id|_key|_uuid|[a-z]I[dD]|[a-z]Key)$", name) is not None
    return ends or name in candidates(["", name], table)


def unique_among(unique: dict[str, Unique], types: dict[str, pa.DataType]) -> str | None:
    """The first column whose values are proved to differ, and whose type a key may have."""
    for name, one in unique.items():
        kind = types[name]
        fits = pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind)
        if fits and one.proved():
            return name
    return None


def advised_buckets(bytes_in_memory: int, has_key: bool, key_holds_partition: bool) -> tuple[int | None, str]:
    """The option `bucket` (None: leave it out), and why. Files are about a third of what their rows take in memory."""
    if not has_key:
        return None, "an append table"
    if not key_holds_partition:
        return None, "dynamic buckets, because keys are unique across partitions"
    size = bytes_in_memory // 3
    number = max(1, -(-size // TARGET))
    return number, f"{number} bucket{'s' if number > 1 else ''} of {TARGET >> 20} MB at most"
