"""Persistent views as JSON, as Apache Paimon's JDBC and REST catalogs store them.

Spec: docs/catalogs.md#views
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bucketlake.catalogs.model import View
from bucketlake.format.guard import decoding
from bucketlake.types.model import format_field
from bucketlake.types.parse import parse_field

ANEW = "make it anew: CREATE OR REPLACE VIEW, or DROP VIEW"


def view_to_json(view: View) -> dict[str, Any]:
    """`ViewSchema` of the REST catalog's document."""
    return {
        "fields": [format_field(item) for item in view.fields],
        "query": view.query,
        "dialects": dict(view.dialects),
        "comment": view.comment,
        "options": dict(view.options),
    }


def view_from_json(found: Mapping[str, Any], source: str) -> View:
    """The view that a `ViewSchema` tells of. CorruptError where it is none; `source`: where it was found."""
    with decoding("not a view", source, ANEW):
        query, comment = found["query"], found.get("comment")
        texts = [found.get(part) or {} for part in ("dialects", "options")]
        if not isinstance(query, str) or not isinstance(comment, (str, type(None))):
            raise ValueError("its query or comment is not text")
        if any(not isinstance(value, str) for part in texts for value in part.values()):
            raise ValueError("its dialects or options are not texts")
        fields = tuple(parse_field(item) for item in found["fields"])
        return View(fields, query, texts[0], comment, texts[1])
