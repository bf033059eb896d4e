"""Keyed tables whose files are in the order of other columns (option "pk-clustering-override"): what they need.

Spec: docs/spec/clustering.md#keyed-tables
"""

from __future__ import annotations

from collections.abc import Mapping

from bucketlake.errors import InvalidError, UnsupportedError
from bucketlake.options.options import TableOptions, option_text
from bucketlake.schema.schema import TableSchema
from bucketlake.types.model import Root

_WITHOUT_ORDER = frozenset((Root.ARRAY, Root.MAP, Root.MULTISET, Root.ROW, Root.VARIANT, Root.BLOB, Root.VECTOR))
_MODE = "in 'pk-clustering-override' mode."


def check_clustered(schema: TableSchema) -> None:
    """InvalidError or UnsupportedError, in Paimon's words, for options that do not go together."""
    options = schema.table_options
    if not options.get("pk-clustering-override"):
        return
    if not schema.primary_keys:
        raise InvalidError("'pk-clustering-override' needs a primary key", remedy="leave it out, or name a key")
    columns, engine = options.names("clustering.columns"), options.get("merge-engine")
    if not columns:
        raise InvalidError("Cannot support 'pk-clustering-override' mode without 'clustering.columns'.")
    unknown = [name for name in columns if name not in schema.field_names]
    if unknown:
        raise InvalidError("'clustering.columns' names no column of the table", columns=unknown)
    nested = [name for name in columns if schema.field(name).type.root in _WITHOUT_ORDER]
    if nested:
        raise UnsupportedError("columns of this type have no order", option="clustering.columns", columns=nested)
    if not options.get("deletion-vectors.enabled") and engine != "first-row":
        raise UnsupportedError(f"Cannot support deletion-vectors disabled {_MODE}")
    if options.get("record-level.expire-time") is not None:
        raise UnsupportedError(f"Cannot support record level expire time enabled {_MODE}")
    if engine not in ("deduplicate", "first-row"):
        raise UnsupportedError(f"Cannot support merge engine: {engine} {_MODE}")
    if options.names("sequence.field"):
        raise UnsupportedError(f"Cannot support sequence field: {options.names('sequence.field')} {_MODE}")
    if options.get("changelog-producer") not in ("none", "input"):
        raise UnsupportedError(f"Cannot support changelog producer: {options.get('changelog-producer')} {_MODE}")


def refuse_other_order(schema: TableSchema, given: Mapping[str, object]) -> None:
    """InvalidError for an option of a call that names other columns than a clustered table's: what its manifests call
    the first and last key of a file is read by the schema that the file was written with."""
    key = "clustering.columns"
    if (
        schema.clustered
        and key in given
        and TableOptions({key: option_text(given[key])}).names(key) != [item.name for item in schema.bound_fields(1)]
    ):
        raise InvalidError(
            f"'{key}' of a table with 'pk-clustering-override' is no option of a call",
            value=given[key],
            remedy="ALTER TABLE … SET TBLPROPERTIES: later compactions take other columns",
        )


def refuse_clustered(schema: TableSchema, what: str) -> None:
    """UnsupportedError where files above level 0 are not in the order of the key, which `what` needs."""
    if schema.clustered:
        remedy = "write its rows into a table that is as it should be"
        raise UnsupportedError(f"{what} with 'pk-clustering-override'", remedy=remedy)
