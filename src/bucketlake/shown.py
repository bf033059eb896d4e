"""What consoles and notebooks show of a table and of a warehouse: `repr` and HTML, from metadata, never an error.

    table_text(kind, name, look), table_html(name, look)      look() gives the schema and the store
    listing_text(kind, place, …), listing_html(title, …)      a warehouse: databases and tables

Everything that comes from a table is escaped. At most one snapshot, its manifest list and the entries of small tables
are read; what cannot be read is said in a line of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from bucketlake.format.metadata.snapshot import Snapshot
from bucketlake.lazy import html, lazy
from bucketlake.ops.table.store import Store
from bucketlake.redaction import redact
from bucketlake.schema.schema import TableSchema
from bucketlake.types.model import type_text
from bucketlake.values import dataclass

if TYPE_CHECKING:
    from bucketlake.lsm import compaction
    from bucketlake.ops.scan import scan
    from bucketlake.ops.table import entries as live
else:
    compaction = lazy("bucketlake.lsm.compaction")
    scan = lazy("bucketlake.ops.scan.scan")
    live = lazy("bucketlake.ops.table.entries")

Look = Callable[[], "tuple[TableSchema, Store | None]"]
MOST_COLUMNS = 100  # that HTML lists
MOST_TABLES = 200
MOST_FILES = 5_000  # beyond, manifests are not opened: only their list is
# What other libraries call what a table does.
OF_OTHERS = {
    "history": "table.snapshots()",
    "optimize": "table.compact()",
    "vacuum": "table.expire_snapshots()",
    "expire": "table.expire_snapshots()",
    "rollback": "table.rollback_to(version)",
    "restoreToVersion": "table.rollback_to(version)",
    "restoreToTimestamp": "table.rollback_to(timestamp=…)",
    "add_column": "table.alter(AddColumn(…))",
    "drop_column": "table.alter(DropColumn(…))",
    "rename_column": "table.alter(RenameColumn(…))",
    "set_options": "table.alter(SetOption(…))",
    "set_properties": "table.alter(SetOption(…))",
    "detail": "table.report.overview()",
    "drop": "catalog.drop_table(name)",
    "primary_keys": "table.schema.primary_keys",
    "partition_keys": "table.schema.partition_keys",
}
_SMALL = 20  # files of an append table below a quarter of their target
_STYLE = "text-align:left;vertical-align:top;padding:2px 10px 2px 0"


@dataclass(frozen=True, slots=True)
class State:
    """The newest snapshot of a table in words. `problem`: why less is known."""

    snapshot: str = "no snapshot yet"
    rows: int | None = None
    files: int | None = None
    health: str = "empty"
    problem: str = ""


def state_of(store: Store) -> State:
    """What the newest snapshot says. Errors: those of reading metadata."""
    snapshot = store.latest_snapshot()
    store.check_holds(snapshot)
    if snapshot is None:
        return State()
    files = sum(one.num_added_files - one.num_deleted_files for one in store.data_manifests(snapshot))
    health = f"{files:,} files: fsck and advise look closer" if files > MOST_FILES else _health(store, snapshot)
    return State(_called(snapshot), snapshot.total_record_count, files, health)


def _called(snapshot: Snapshot) -> str:
    when = datetime.fromtimestamp(snapshot.time_millis / 1000, timezone.utc)
    return f"{snapshot.id} ({snapshot.commit_kind.value}, {when:%Y-%m-%d %H:%M:%S} UTC)"


def _health(store: Store, snapshot: Snapshot) -> str:
    """Whether reads have much to merge, or many small files to open."""
    entries = scan.live_entries(store, snapshot)
    pending = sum(entry.bucket < 0 for entry in entries)
    if pending and store.schema.primary_keys:
        return f"{pending} files wait for their bucket: CALL sys.compact"
    if not store.schema.primary_keys:
        target = int(store.options.get("target-file-size") or 256 << 20)
        small = sum(entry.file.file_size < target // 4 for entry in entries)
        return f"{small} small files: CALL sys.compact" if small > _SMALL else "good"
    runs: dict[object, set[object]] = {}
    for entry in entries:
        run = entry.file.file_name if entry.file.level == 0 else entry.file.level
        runs.setdefault(live.bucket_key(entry), set()).add(run)
    trigger = compaction.CompactionRule.of(store.options).run_trigger
    waiting = sum(len(found) > trigger for found in runs.values())
    return f"{waiting} of {len(runs)} buckets have more than {trigger} runs: CALL sys.compact" if waiting else "good"


def _state(look: Look) -> tuple[TableSchema | None, State]:
    schema: TableSchema | None = None
    try:
        schema, store = look()
        return schema, State(health="", snapshot="") if store is None else state_of(store)
    except Exception as error:  # a picture of what is broken is still a picture
        return schema, State(snapshot="unknown", health="unknown", problem=redact(str(error).split("\n")[0])[:200])


def table_text(kind: str, name: str, look: Look) -> str:
    """One line: name, columns, key, snapshot, rows."""
    schema, state = _state(look)
    parts = [repr(name)]
    if schema is not None:
        parts.append(f"{len(schema.fields)} column{'' if len(schema.fields) == 1 else 's'}")
        parts += [f"key ({', '.join(schema.primary_keys)})"] if schema.primary_keys else []
        parts += [f"partitioned by ({', '.join(schema.partition_keys)})"] if schema.partition_keys else []
    if state.problem:
        parts.append(f"unreadable: {state.problem}")
    elif state.rows is not None:
        held = f"{_counted(state.rows, 'record')} in {_counted(state.files or 0, 'file')}"
        parts.append(f"snapshot {state.snapshot.split(' ')[0]}, {held}")
    elif state.snapshot:
        parts.append(state.snapshot)
    return f"{kind}({', '.join(parts)})"


def table_html(name: str, look: Look) -> str:
    """A table of its own: facts, then columns."""
    schema, state = _state(look)
    facts = [("snapshot", state.snapshot), ("records", _number(state.rows)), ("files", _number(state.files))]
    facts += [("health", state.health), ("problem", state.problem)]
    if schema is not None:
        facts.insert(0, ("partitioned by", ", ".join(schema.partition_keys)))
        facts.insert(0, ("primary key", ", ".join(schema.primary_keys)))
        facts.insert(0, ("comment", schema.comment or ""))
    fields = () if schema is None else schema.fields
    rows = [(field.name, type_text(field.type), field.description or "") for field in fields[:MOST_COLUMNS]]
    left = len(fields) - len(rows)
    more = f"<div>… and {left} more columns</div>" if left > 0 else ""
    shown = [(key, value) for key, value in facts if value]
    return f"<div><b>{html.escape(name)}</b>{_grid((), shown)}{_grid(('column', 'type', 'comment'), rows)}{more}</div>"


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _number(value: int | None) -> str:
    return "" if value is None else f"{value:,}"


def _grid(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """An HTML table, every text escaped."""
    lines = [f"<tr>{''.join(f'<th style={_STYLE!r}>{html.escape(head)}</th>' for head in heads)}</tr>"] if heads else []
    for row in rows:
        lines.append(f"<tr>{''.join(f'<td style={_STYLE!r}>{html.escape(str(cell))}</td>' for cell in row)}</tr>")
    return f"<table>{''.join(lines)}</table>" if lines else ""


def listing_text(kind: str, place: str, *details: str) -> str:
    """One line: where the warehouse is. No storage is asked."""
    return f"{kind}({', '.join([repr(redact(place)), *details])})"


def listing_html(place: str, details: Sequence[tuple[str, str]], tables: Callable[[], Iterable[str]]) -> str:
    """Where the warehouse is, and its tables by name."""
    try:
        found = list(tables())
        rows = [(name,) for name in found[:MOST_TABLES]]
        left = len(found) - len(rows)
        more = f"<div>… and {left} more tables</div>" if left > 0 else ""
        listed = _grid(("table",), rows) + more if rows else "<div>no tables yet</div>"
    except Exception as error:  # see `_state`
        listed = f"<div>unreadable: {html.escape(redact(str(error).split(chr(10))[0])[:200])}</div>"
    return f"<div><b>{html.escape(redact(place))}</b>{_grid((), details)}{listed}</div>"
