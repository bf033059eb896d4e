"""What a condition asks of the sorted indexes of columns: spans of keys, and rows without one.

    asked_of(predicate, fields)     what a condition on one column asks; None: nothing that an index knows
    by_column(predicate, fields)    of one that must hold as a whole: what is asked of each column, and what is left

What is asked holds for every row that the condition is true for, and may hold for others.

Spec: docs/spec/global_index.md#reading
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from bucketlake.errors import UnsupportedError
from bucketlake.format.file_index.keys import FLOATS, TEXTS, literal_array
from bucketlake.format.index.sorted_keys import check_indexed, encoded_keys, place_of
from bucketlake.format.index.spans import (
    EVERY,
    Place,
    Span,
    Spans,
    above,
    below,
    intersected,
    of_prefix,
    opposite,
    united,
)
from bucketlake.predicate.evaluate import fixed_prefix
from bucketlake.predicate.tree import (
    And,
    Compare,
    Contains,
    EndsWith,
    In,
    IsNotNull,
    IsNull,
    Like,
    Not,
    Or,
    Predicate,
    StartsWith,
)
from bucketlake.types.model import DataField, Root
from bucketlake.values import dataclass

Fields = Mapping[str, DataField]
MOST_SPANS = 1001  # a list of 1,000 values, and what lies beside them


@dataclass(frozen=True, slots=True)
class Asked:
    """Keys in spans of a column, in order and apart, and rows without a key."""

    field: DataField
    spans: Spans
    nulls: bool = False

    @property
    def is_broad(self) -> bool:
        """Whether more than single keys is asked for."""
        return any(not span.is_point for span in self.spans)


def asked_of(predicate: Predicate, fields: Fields) -> Asked | None:
    """See above."""
    if isinstance(predicate, And):
        found, _ = by_column(predicate, fields)
        return next(iter(found.values())) if len(found) == 1 else None
    if isinstance(predicate, Or):
        parts = [asked_of(child, fields) for child in predicate.children]
        known = [part for part in parts if part is not None]
        if not known or len(known) < len(parts) or len({part.field.id for part in known}) > 1:
            return None
        spans = united(span for part in known for span in part.spans)
        return _bounded(known[0].field, spans, any(part.nulls for part in known))
    field = fields.get(_column(predicate))
    if field is None or field.type.root is Root.CHAR:
        return None  # texts of other lengths may be equal as CHAR
    try:
        check_indexed(field.type)
    except UnsupportedError:
        return None
    return _leaf(predicate, field)


def by_column(predicate: Predicate, fields: Fields) -> tuple[dict[int, Asked], list[Predicate]]:
    """See above; columns by their field ids."""
    found: dict[int, Asked] = {}
    left: list[Predicate] = []
    for child in predicate.children if isinstance(predicate, And) else (predicate,):
        asked = asked_of(child, fields)
        if asked is None:
            left.append(child)
            continue
        known = found.get(asked.field.id)
        if known is not None:
            spans = intersected(known.spans, asked.spans)
            asked = _bounded(asked.field, spans, known.nulls and asked.nulls) or known
        found[asked.field.id] = asked
    return found, left


def _column(predicate: Predicate) -> str:
    inner = predicate.child if isinstance(predicate, Not) else predicate
    return str(getattr(inner, "column", ""))


def _bounded(field: DataField, spans: Spans, nulls: bool) -> Asked | None:
    return Asked(field, spans, nulls) if len(spans) <= MOST_SPANS else None


def _leaf(predicate: Predicate, field: DataField) -> Asked | None:
    if isinstance(predicate, IsNull):
        return Asked(field, (), True)
    if isinstance(predicate, IsNotNull):
        return Asked(field, EVERY)
    if isinstance(predicate, Not):
        return _negated(predicate.child, field)
    if isinstance(predicate, In):
        points = _points((value for value in predicate.values if value is not None), field)
        return None if points is None else _bounded(field, points, False)
    if isinstance(predicate, Compare):
        spans = _compared(predicate.op, predicate.literal, field)
        return None if spans is None else Asked(field, spans)
    if field.type.root not in TEXTS:
        return None
    if isinstance(predicate, StartsWith):
        return Asked(field, (of_prefix(_bytes(predicate.text)),))
    if isinstance(predicate, Like):
        return Asked(field, (of_prefix(_bytes(fixed_prefix(predicate.pattern))),))
    return Asked(field, EVERY) if isinstance(predicate, (EndsWith, Contains)) else None


def _negated(leaf: Predicate, field: DataField) -> Asked | None:
    if isinstance(leaf, In) and leaf.values:
        if None in leaf.values:
            return Asked(field, ())  # false or NULL
        points = _points(leaf.values, field)
        return None if points is None else _bounded(field, opposite(points), False)
    if isinstance(leaf, Compare) and leaf.op == "<=>":
        spans = _compared("<>", leaf.literal, field)
        return None if spans is None else Asked(field, spans, True)
    if field.type.root not in TEXTS:
        return None
    if isinstance(leaf, StartsWith):
        return Asked(field, opposite((of_prefix(_bytes(leaf.text)),)))
    return Asked(field, EVERY) if isinstance(leaf, (EndsWith, Contains, Like)) else None


def _bytes(text: str) -> bytes:
    return text.encode(errors="surrogatepass")  # what is no Unicode is in no column, but may be asked for


def _points(values: Iterable[Any], field: DataField) -> Spans | None:
    found: list[Span] = []
    for value in values:
        places = _places(value, field)
        if places is None:
            return None
        found.append(Span(*places))
    return united(found)


_BESIDE: dict[str, Callable[[Place, Place], Spans]] = {
    "=": lambda first, last: (Span(first, last),),
    "<=>": lambda first, last: (Span(first, last),),
    "<>": lambda first, last: opposite((Span(first, last),)),
    "<": lambda first, last: (below(first),),
    "<=": lambda first, last: (Span(None, last),),
    ">": lambda first, last: (above(last),),
    ">=": lambda first, last: (Span(first),),
}


def _compared(op: str, literal: Any, field: DataField) -> Spans | None:
    if op not in ("=", "<=>") and isinstance(literal, float) and math.isnan(literal):
        return None
    places = _places(literal, field)
    return None if places is None else _BESIDE[op](*places)


def _places(literal: Any, field: DataField) -> tuple[Place, Place] | None:
    """The first and the last place that equals a literal, which differ for the zeros; None where the type does not hold
    it."""
    array = literal_array(literal, field.type, compact=False)
    if array is None:
        return None
    place = place_of(encoded_keys(array, field.type)[0].as_py(), field.type)
    return (-1, 0) if field.type.root in FLOATS and place in (-1, 0) else (place, place)
