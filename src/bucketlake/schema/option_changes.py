"""What ALTER must not change of how rows lie: options of tables that have snapshots, keys, bucket modes.

Spec: docs/spec/schema.md#evolution
"""

from __future__ import annotations

from collections.abc import Sequence

from bucketlake.errors import InvalidError
from bucketlake.options.options import TableOptions, find_option, immutable
from bucketlake.schema.column_options import renamed_in_options
from bucketlake.schema.marked import COLUMN_KEYS
from bucketlake.schema.schema import TableSchema

ANEW = "make a new table with it, and INSERT the rows INTO that"
_FOLDERS = ("partition.default-name", "partition.legacy-name")  # Paimon takes both, and finds no file then


def check_option_change(old: TableOptions, key: str, value: str | None, partitioned: bool) -> None:
    """Refuse to alter, on a table with snapshots, what decides how its data lies. `value`: None where it is reset.

    Raises: InvalidError, in Paimon's words where Paimon refuses, too.
    """
    option = find_option(key)
    now = TableOptions({} if value is None else {key: value})
    key = key if option is None else option.key  # it may have been named by an older name
    if immutable(key):
        raise InvalidError(f"Change '{key}' is not supported yet.", remedy=ANEW)
    if partitioned and key in _FOLDERS and old.get(key) != now.get(key):
        raise InvalidError(
            f"Cannot change {key}: it names the folders that the rows lie in, and none of them would be found.",
            remedy=ANEW,
        )
    if key == "bucket" and value is not None:
        if old.get(key) == -1:
            remedy = "buckets that are not fixed follow the data; write the rows to a new table to fix their number"
            raise InvalidError("Cannot change bucket when it is -1.", remedy=remedy)
        if now.get(key) == -1:
            raise InvalidError("Cannot change bucket to -1.")
    if (
        key == "deletion-vectors.enabled"
        and not old.get("deletion-vectors.modifiable")
        and old.get(key) != now.get(key)
    ):
        raise InvalidError(
            f"Cannot change deletion vectors mode from {str(old.get(key)).lower()} to {str(now.get(key)).lower()}. If "
            "modifying table deletion-vectors mode without full-compaction, this may result in data duplication. If "
            "you are confident, you can set table option 'deletion-vectors.modifiable' = 'true' to allow deletion "
            "vectors modification."
        )
    if key in ("ignore-delete", "ignore-update-before") and old.get(key) and not now.get(key):
        raise InvalidError(f"Cannot change {key} from true to false.")


def relaid(past: TableSchema, current: TableSchema) -> str | None:
    """What of `current` files of `past` do not lie by: its first key columns, bucket mode or option that differs, and
    that no ALTER changes where there are rows. None where such files are rows of `current`, too.

    Both: as they are stored, of one table. Columns may have been renamed.
    """
    for key in ("primary_keys", "partition_keys", "bucket_keys"):
        if _ids(past, getattr(past, key)) != _ids(current, getattr(current, key)):
            return key.replace("_", "-").removesuffix("s")
    if past.bucket_mode is not current.bucket_mode:
        return "bucket"
    names = {item.id: item.name for item in current.fields}
    old = renamed_in_options(past.options, {item.name: names.get(item.id, item.name) for item in past.fields})
    before = TableOptions(old)
    for key in sorted(old.keys() | current.options.keys()):
        value = current.options.get(key)
        if key in COLUMN_KEYS or value == old.get(key):
            continue
        try:
            check_option_change(before, key, value, bool(current.partition_keys))
        except InvalidError:
            return key
    return None


def _ids(schema: TableSchema, names: Sequence[str]) -> list[int]:
    return [schema.field(name).id for name in names]
