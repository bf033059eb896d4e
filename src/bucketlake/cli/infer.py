"""What the rows of files say about a table: types of columns that came as text, which column could be a key, how many
buckets.

    Guess                 the types that all texts of a column can be
    Unique                whether all values of a column differ: proved, never guessed
    advised_buckets(…)    how many, with the reason

Text becomes a number, a date or a time only where nothing of it is lost: `007` stays text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bucketlake.amounts import size_text
from bucketlake.cli.answer import UsageError
from bucketlake.cli.json_lines import values_of
from bucketlake.cli.nested import DAY, cast_members, of_text
from bucketlake.format.numbers import distinct
from bucketlake.lazy import pc, pl
from bucketlake.options.options import parse_memory_size

__all__ = [
    *("Guess", "Unique", "advised_buckets", "candidates", "converted"),
    *("Plain", "as_written", "plain_texts", "is_named_like_a_key", "unique_among", "without_words"),
]

NOTHING = ("", "NULL", "null", "NA", "N/A", "#N/A", "nan", "NaN", "None")  # in columns that are no text
TARGET = parse_memory_size("512 mb")  # of data in a bucket
_CLOCK = r"\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?"
# In the order of preference: type, what its texts look like.
_LOOKS: tuple[tuple[pa.DataType, str], ...] = (
    (pa.bool_(), "^(true|false|True|False|TRUE|FALSE)$"),
    (pa.int64(), r"^(0|-?[1-9]\d{0,18})$"),
    (pa.float64(), r"^-?((0|[1-9]\d*)(\.\d*)?|\.\d+)([eE][+-]?\d+)?$"),
    (pa.date32(), f"^{DAY}$"),
    (pa.timestamp("us"), rf"^{DAY}([ T]{_CLOCK})?$"),
    (pa.timestamp("us", "UTC"), rf"^{DAY}[ T]{_CLOCK}(Z|[+-]\d{{2}}:?\d{{2}})$"),
)
_WHOLE = r"^-?\d+$"
# What texts look like that an option makes more of.
_HINTS = (
    (r"^-?(\d+|\d{1,3}(\.\d{3})+),\d+$", "numbers with a decimal comma: --decimal ,"),
    (r"^\d{1,2}\.\d{1,2}\.\d{4}$", "dates: --date-format %d.%m.%Y"),
    (r"^\d{1,2}/\d{1,2}/\d{4}$", "dates: --date-format %d/%m/%Y, or %m/%d/%Y"),
)
Plain = Callable[[pa.Array], pa.Array]


def as_written(texts: pa.Array) -> pa.Array:
    """Texts as they are."""
    return texts


def plain_texts(decimal: str, times: Sequence[str]) -> Plain:
    """A function that writes numbers with a decimal comma, and times of other formats, as they are written plainly;
    other texts stay. UsageError for a decimal sign that is none, and for formats with zones.

    A number with a decimal point is none where the comma is one: 1.5 stays a text, 1.500 is 1500.
    """
    if decimal not in (".", ","):
        raise UsageError("not a decimal sign", decimal=decimal, remedy="--decimal , or .")
    zoned = [one for one in times if re.search("%[zZ]", one) or "%" not in one]
    if zoned:
        raise UsageError(
            "not a format of dates or times", format=zoned[0], remedy="such as %d.%m.%Y or '%m/%d/%y %H:%M'"
        )

    def plain(texts: pa.Array) -> pa.Array:
        found = texts
        for one in times:
            found = pc.coalesce(_iso(texts, one), found)
        return _with_points(found) if decimal == "," else found

    return plain if times or decimal == "," else as_written


def _with_points(texts: pa.Array) -> pa.Array:
    """Points for commas in numbers, and nothing for what groups their digits; a point elsewhere becomes a comma."""
    numbers = pc.fill_null(pc.match_substring_regex(texts, r"^-?[\d.]*,?[\d.]*([eE][+-]?\d+)?$"), False)
    grouped = pc.fill_null(pc.match_substring_regex(texts, r"^-?[1-9]\d{0,2}(\.\d{3})+(,\d+)?$"), False)
    pointed = pc.replace_substring(pc.replace_substring(pc.replace_substring(texts, ".", "\0"), ",", "."), "\0", ",")
    without = pc.replace_substring(pc.replace_substring(texts, ".", ""), ",", ".")
    return pc.if_else(grouped, without, pc.if_else(numbers, pointed, texts))


def _iso(texts: pa.Array, form: str) -> pa.Array:
    """Times of a format as ISO 8601 has them; null for other texts, days that are none, and years below 1000."""
    found = pc.strptime(texts, format=form, unit="s", error_is_null=True)

    def compared(one: pa.Array) -> pa.Array:
        return pc.utf8_lower(pc.utf8_trim_whitespace(pc.replace_substring_regex(one, r"\b0+(\d)", r"\1")))

    # The parser takes the 31st of February for the 3rd of March.
    same = pc.equal(compared(pc.strftime(found, format=form)), compared(texts))
    same = pc.and_(same, pc.greater_equal(pc.year(found), 1000))
    clock = re.search("%[HIMSTRXcrp]", form) is not None
    return pc.if_else(same, pc.strftime(found, format="%Y-%m-%dT%H:%M:%S" if clock else "%Y-%m-%d"), None)


class Guess:
    """The types that the texts of a column can be, narrowed batch by batch. `plain`: makes texts plain ones."""

    def __init__(self, plain: Plain = as_written) -> None:
        self._plain = plain
        self._left = list(_LOOKS)
        self._hints = list(_HINTS)
        self._whole = True  # so far all were whole numbers: a fraction would lose digits of the long ones
        self._any = False

    def see(self, texts: pa.Array) -> None:
        """Look at some texts."""
        told = self._plain(_without_nothing(texts))
        if not len(told):
            return
        self._any = True
        self._whole = self._whole and _all(pc.match_substring_regex(told, _WHOLE))
        self._left = [(kind, look) for kind, look in self._left if _fits(told, kind, look)]
        self._hints = [(look, hint) for look, hint in self._hints if _all(pc.match_substring_regex(told, look))]

    @property
    def type(self) -> pa.DataType:
        """The type that holds all texts seen."""
        for kind, _ in self._left if self._any else ():
            if not (self._whole and pa.types.is_floating(kind)):
                return kind
        return pa.string()

    @property
    def hint(self) -> str | None:
        """What all texts look like, and the option that takes them so; None for a column that is no text."""
        told = self._any and pa.types.is_string(self.type) and self._hints
        return self._hints[0][1] if told else None


def _without_nothing(texts: pa.Array) -> pa.Array:
    """The texts that are values whatever the type is."""
    return texts.filter(pc.and_(texts.is_valid(), pc.invert(pc.is_in(texts, pa.array(NOTHING)))))


def _all(truth: pa.Array) -> bool:
    return bool(pc.all(truth, min_count=0).as_py())


def _fits(texts: pa.Array, kind: pa.DataType, look: str) -> bool:
    if not _all(pc.match_substring_regex(texts, look)):
        return False
    try:
        values = _cast(texts, kind)
        if pa.types.is_floating(kind):  # whole numbers beyond 2^53 are refused by the cast: digits would be lost
            texts.filter(pc.match_substring_regex(texts, _WHOLE)).cast(pa.int64()).cast(kind)
            return _all(pc.is_finite(values))
    except pa.ArrowInvalid:
        return False
    return True


def are_values(types: dict[str, pa.DataType]) -> bool:
    """Whether the names of all columns that are no text could be values of them: their line may be a row."""
    looks = dict(_LOOKS)
    told = {name: looks[kind] for name, kind in types.items() if kind in looks}
    return bool(told) and all(re.match(look, name) for name, look in told.items())


def converted(texts: pa.Array, kind: pa.DataType, plain: Plain = as_written) -> pa.Array:
    """Texts as values of a type; ArrowInvalid for what is none."""
    if pa.types.is_string(kind):
        return texts
    if pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return of_text(texts, kind)
    if pa.types.is_nested(kind):
        return cast_members(values_of(without_words(texts), kind), kind)
    return _cast(plain(without_words(texts)), kind)


def _cast(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    return of_text(pc.utf8_lower(texts) if pa.types.is_boolean(kind) else texts, kind)


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
        if values.null_count or self._count > self.MOST or pa.types.is_nested(values.type):  # no key is nested
            self._drop()
            return
        hashes = pl.Series(pl.from_arrow(values)).hash(seed=0).to_numpy()
        if len(distinct([hashes])) < len(hashes):
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
    return number, f"{number} bucket{'s' if number > 1 else ''} of {size_text(TARGET)} at most"
