"""A table's newest schema, as it lies in a folder."""

from __future__ import annotations

from collections.abc import Hashable
from contextlib import suppress
from typing import Any

from bucketlake.env.env import Env
from bucketlake.env.storage import FileInfo, Storage, waits
from bucketlake.errors import BucketlakeError, CorruptError, InvalidError, NotFoundError
from bucketlake.file_names import check_path_options, number_of
from bucketlake.ops.table.decoded import CACHE, identity
from bucketlake.ops.table.parallel import at_once
from bucketlake.ops.table.remedies import branch_remedy
from bucketlake.paths import MAIN, TablePaths
from bucketlake.schema.schema import TableSchema

CLAIM = ".creating"  # in the folder of a branch that is being made, or whose making died: its newest schema comes last
_ONCE_MORE = "delete it once more, unless it is being made right now"
_DATABASE = ".db"  # how folders of databases end


def newest_schema(env: Env, paths: TablePaths) -> TableSchema:
    """The newest schema as it is stored, NotFoundError if the folder (or branch) holds no table. On object stores the
    one that was the newest when the process looked last is asked for beside the list; it counts if it still is."""
    listed, guess, ahead = _listed(env.storage, paths)
    names = [info.name for info in listed]
    numbers = [number_of(name.removeprefix("schema-")) for name in names if name.startswith("schema-")]
    ids = [number for number in numbers if number is not None]
    if not ids:
        branch = paths.options.get("branch")
        if branch is not None:
            known = sorted(info.name.removeprefix("branch-") for info in env.storage.list(paths.branch_dir))
            if branch in known:
                raise NotFoundError("the branch has no schema", path=paths.root, branch=branch, remedy=_ONCE_MORE)
            raise NotFoundError("no such branch", path=paths.root, branch=branch, remedy=branch_remedy(branch, known))
        raise NotFoundError("no table in this folder", path=paths.root, remedy=_remedy(env, paths.root))
    if half_made(env, paths, max(ids)):
        branch = paths.branch_name
        raise NotFoundError("the branch lacks schemas", path=paths.root, branch=branch, remedy=_ONCE_MORE)
    newest = paths.schema(max(ids))
    data = ahead if ahead is not None and guess == max(ids) else env.storage.read(newest)
    schema = TableSchema.decode(data, newest, max(ids))
    if guess != max(ids) and waits(paths.root):
        CACHE.put(_known(env.storage, paths), 1, max(ids))
    try:
        check_path_options(schema.options)
    except InvalidError as error:
        details = {"value" if key == "path" else key: value for key, value in error.details.items()}
        raise CorruptError(error.what, remedy=error.remedy, path=newest, **details) from error
    return schema


def _listed(storage: Storage, paths: TablePaths) -> tuple[list[FileInfo], int | None, bytes | None]:
    """What lies in the folder of schemas, and which was the newest when the process looked last, with what it holds."""
    known = CACHE.get(_known(storage, paths)) if waits(paths.root) else None
    if known is None:
        return storage.list(paths.schema_dir), None, None
    found: list[Any] = at_once(
        True, lambda: storage.list(paths.schema_dir), lambda: _read(storage, paths.schema(known))
    )
    return found[0], known, found[1]


def _known(storage: Storage, paths: TablePaths) -> Hashable:
    return identity(storage), paths.schema_dir, "newest"


def _read(storage: Storage, path: str) -> bytes | None:
    """What a file holds; None where it cannot be read, which whoever needs it is told."""
    with suppress(BucketlakeError):
        return storage.read(path)
    return None


def half_made(env: Env, paths: TablePaths, newest: int) -> bool:
    """Whether a branch whose newest schema is this one is being made, or its making died: its claim says which schema
    comes last."""
    if paths.branch_name == MAIN:
        return False
    try:
        told = env.storage.read(f"{paths.branch(paths.branch_name)}/{CLAIM}")
    except NotFoundError:
        return False
    last = number_of(told.decode(errors="replace").partition(" ")[2])
    return last is not None and newest < last


def claim(mark: str, last: int) -> bytes:
    """What a claim says: a mark of who makes the branch, and the schema that comes last."""
    return f"{mark} {last}".encode()


def _remedy(env: Env, root: str) -> str:
    """What to do where a folder is no table: it may hold tables."""
    names: list[str] = []
    with suppress(BucketlakeError):
        names = [info.name.rstrip("/") for info in env.storage.list(root) if info.is_dir]
    if any(name.endswith(_DATABASE) for name in names):
        return "this is a warehouse: name the folder of one of its tables, <warehouse>/<database>.db/<table>"
    if names and root.rstrip("/").endswith(_DATABASE):
        return f"this is a database: name the folder of one of its tables, {', '.join(sorted(names)[:3])}"
    return "check the path, or create the table first"
