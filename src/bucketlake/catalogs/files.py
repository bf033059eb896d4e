"""The file-system catalog: databases and tables are the folders of a warehouse, laid out as Paimon does.

    <warehouse>/<database>.db/<table>/schema/schema-0

Spec: docs/spec/catalog.md
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from itertools import chain, islice
from typing import TYPE_CHECKING

from bucketlake.catalogs.model import Found, NoViews, not_empty
from bucketlake.catalogs.names import DATABASE_SUFFIX, DEFAULT_DATABASE, Identifier
from bucketlake.env.env import Env
from bucketlake.env.new_file import put_new
from bucketlake.env.storage import Storage, threads_for
from bucketlake.errors import AlreadyExistsError, InvalidError, StorageError, UnsupportedError
from bucketlake.file_names import fault_of, lies_in
from bucketlake.ops.table.parallel import parallel
from bucketlake.paths import TablePaths
from bucketlake.values import dataclass

if TYPE_CHECKING:
    from bucketlake.table import Table


ATTEMPTS = 5  # at a folder that writers put something into
DELETED_AT_ONCE = 10_000  # files: of a table of any size a part is listed at a time


@dataclass(frozen=True, slots=True)
class FileSystem(NoViews):
    """Every call looks at the storage: nothing is remembered but the connection."""

    env: Env
    warehouse: str

    kind = "filesystem"
    title = "FileSystemCatalog"
    has_folder = True
    is_folders = True

    # ---- databases

    def databases(self) -> set[str]:
        """See Metastore."""
        return {
            info.name.removesuffix(DATABASE_SUFFIX)
            for info in self.env.storage.list(self.warehouse)
            if info.is_dir and info.name.endswith(DATABASE_SUFFIX)
        }

    def has_database(self, name: str) -> bool:
        """See Metastore. Looks at its folder alone: who asks so of every database looks at each once."""
        found = None if fault_of(name) else self.env.storage.info(self.database_path(name))
        return found is not None and found.is_dir

    def create_database(self, name: str, properties: Mapping[str, str]) -> None:
        """See Metastore. There is no place for properties: they are dropped with a warning, a `location` is refused."""
        if "location" in properties:
            raise UnsupportedError(
                "Cannot specify location for a database when using fileSystem catalog.", database=name
            )
        if properties:
            warnings.warn(
                f"database {name}: a filesystem catalog stores no properties: {sorted(properties)}", stacklevel=3
            )
        self.env.storage.make_dir(self.database_path(name))

    def properties_of(self, name: str) -> dict[str, str]:
        """None are stored."""
        return {}

    def alter_database(self, name: str, changes: Mapping[str, str | None]) -> None:
        """Refused: there is no place for properties."""
        raise UnsupportedError("Alter database is not supported.", database=name, properties=sorted(changes))

    def drop_database(self, name: str, cascade: bool) -> None:
        """See Metastore. Without `cascade` no file goes: what a job writes for a table that is not published yet, or
        what another program keeps there."""
        path = self.database_path(name)
        within = self.env.of_table(path).storage
        if cascade:
            for info in within.list(path):
                if info.is_dir:
                    remove_table(self.env, info.path)
        else:
            _remove_folders(within, path)
            links = (info for info in within.list(path) if info.is_link)
            found = next(chain(within.walk(path), links), None)
            if found is not None:
                raise not_empty(name, file=found.path)
        self.env.storage.delete_tree(path)
        if self.env.storage.info(path) is not None:
            raise StorageError(
                "the database is empty, but an object that stands for its folder remains",
                path=f"{path}/",
                remedy="remove it with the store's own tools: obstore cannot",
            )

    def database_path(self, name: str) -> str:
        """See Metastore."""
        return f"{self.warehouse}/{name}{DATABASE_SUFFIX}"

    # ---- tables

    def tables(self, database: str) -> list[str]:
        """See Metastore. Folders that hold no schema are none."""
        folder = self.database_path(database)
        folders = [info for info in self.env.storage.list(folder) if info.is_dir]
        there = parallel(lambda info: has_schema(self.env, f"{folder}/{info.name}"), folders, threads_for(folder))
        return sorted(info.name for info, is_table in zip(folders, there, strict=True) if is_table)

    def find(self, name: Identifier) -> Found | None:
        """See Metastore."""
        found = self.place(name)
        return found if has_schema(self.env, found.path) else None

    def place(self, name: Identifier) -> Found:
        """See Metastore."""
        return Found(f"{self.database_path(name.database)}/{name.table}", self.env)

    def publish(self, draft: Table, name: Identifier) -> bool:
        """See Metastore: one put-if-absent of its schema. InvalidError where snapshots lie there that would be its."""
        refuse_old_snapshots(self.env, draft.store.paths)
        path = draft.store.paths.schema(draft.schema.id)
        return put_new(self.env.storage, path, draft.schema.encode())

    def withdraw(self, published: Table, name: Identifier) -> bool:
        """See Metastore. Nothing but the schema file is removed: data files are their writers' affair."""
        store = published.store
        folder, file = store.paths.schema(published.schema.id).rsplit("/", 1)
        others = [info.name for info in self.env.storage.list(folder) if info.name.startswith("schema-")]
        if others != [file] or store.latest_snapshot() is not None:
            return False
        self.env.storage.delete(f"{folder}/{file}")
        if store.latest_snapshot() is None:
            return True
        self.env.storage.put_if_absent(f"{folder}/{file}", published.schema.encode())  # a commit came between
        return False

    def adopt(self, name: Identifier) -> None:
        """Nothing: what lies in the warehouse is in the catalog."""

    def drop_table(self, name: Identifier) -> bool:
        """See Metastore."""
        path = self.place(name).path
        if not has_schema(self.env, path):
            return False
        self._keep_database(name.database)
        remove_table(self.env, path)
        return True

    def rename_table(self, old: Identifier, new: Identifier) -> None:
        """See Metastore. Not atomic on object stores."""
        self._keep_database(old.database)
        move_table(self.env, self.place(old).path, self.place(new).path)

    def _keep_database(self, name: str) -> None:
        """Where folders exist by what lies in them alone, let a database outlive its last table."""
        if name != DEFAULT_DATABASE:
            self.env.storage.make_dir(self.database_path(name))


def move_table(env: Env, source: str, target: str) -> None:
    """Move a table's folder. Empty folders and hints, as writers and expiries leave of a table that was dropped or
    renamed, are nothing. AlreadyExistsError where more lies there."""
    within, paths = env.of_table(target).storage, TablePaths(target)
    hints = [paths.latest_hint, paths.earliest_hint, paths.changelog_latest_hint, paths.changelog_earliest_hint]
    left = [info.path for info in islice(within.walk(target), len(hints) + 1)]
    if all(path in hints for path in left):
        within.delete_all(left)
        _remove_folders(within, target)
    try:
        env.storage.rename(source, target)
    except AlreadyExistsError as error:
        raise AlreadyExistsError(
            "other files lie where the table would be moved to",
            path=target,
            remedy="look what they are: of a table that was dropped or renamed, a writer may have left them there "
            "later; remove the folder if nobody needs it, or choose another name",
        ) from error


def _remove_folders(within: Storage, path: str) -> None:
    """Remove the folders that are empty below a path, and its own. `within`: shows links as such."""
    for info in within.list(path):
        if info.is_dir:
            _remove_folders(within, info.path)
    within.delete_empty(path)


def has_schema(env: Env, path: str) -> bool:
    """Whether a folder is a table's: whether it holds a schema."""
    paths = TablePaths(path)
    first = paths.schema(0)
    if env.storage.info(first) is not None:
        return True
    return any(info.name.startswith("schema-") for info in env.storage.list(first.rsplit("/", 1)[0]))


def remove_table(env: Env, path: str) -> None:
    """Remove a table's folder. What names its rows goes first and its schemas go last: whoever dies on the way leaves a
    table that can be dropped again, and no rows for a new one of its name. Of links the link goes.

    What writers put there meanwhile goes, too; a table that is made in its place meanwhile stays.
    """
    within, paths = env.of_table(path).storage, TablePaths(path)
    _remove_rows(within, paths)
    others = (info.path for info in within.walk(path) if not lies_in(info.path, paths.schema_dir))
    while some := list(islice(others, DELETED_AT_ONCE)):
        within.delete_all(some)
    _remove_rows(within, paths)
    _remove_schemas(within, paths)
    for left in reversed(range(ATTEMPTS)):
        if has_schema(env, path):
            return
        try:
            env.storage.delete_tree(path)
        except StorageError:
            if not left:
                raise
        else:
            if not old_snapshots(env, paths):
                return


def _remove_schemas(within: Storage, paths: TablePaths) -> None:
    """Remove the schemas. One of an ALTER that was under way may come when they were listed: a table that is made anew
    has a first one, too."""
    for attempt in range(ATTEMPTS):
        found = [info.path for info in within.list(paths.schema_dir) if not info.is_dir]
        if not found or (attempt and paths.schema(0) in found):
            return
        within.delete_all(found)


def _remove_rows(within: Storage, paths: TablePaths) -> None:
    """Remove all that names rows: snapshots, tags, branches."""
    names = {place.rpartition("/")[2] for place in (paths.snapshot_dir, paths.tag_dir, paths.branch_dir)}
    for info in within.list(paths.root):
        if info.is_dir and info.name in names:
            for left in reversed(range(ATTEMPTS)):
                try:
                    within.delete_tree(info.path)
                    break
                except StorageError:  # of writers that put something there meanwhile
                    if not left:
                        raise


def old_snapshots(env: Env, paths: TablePaths) -> list[str]:
    """Names of snapshots in a folder that is no table's, since it has no schema."""
    found = [info.name for info in env.storage.list(paths.snapshot_dir) if info.name.startswith("snapshot-")]
    return found if found and not has_schema(env, paths.root) else []


def refuse_old_snapshots(env: Env, paths: TablePaths) -> None:
    """InvalidError where a folder that is to be a new table's holds snapshots."""
    found = old_snapshots(env, paths)
    if found:
        raise InvalidError(
            "the folder of the new table holds snapshots of one whose schema is gone: its removal was interrupted",
            path=paths.root,
            snapshots=len(found),
            remedy="remove the folder, or put the schema back",
        )
