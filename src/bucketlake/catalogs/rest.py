"""The REST catalog: a server holds databases, tables and views, decides about commits, and says where files lie.

Spec: docs/catalogs.md#rest
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

from bucketlake.catalogs.model import DialectChange, Found, View
from bucketlake.catalogs.names import Identifier
from bucketlake.catalogs.rest_client import RestClient, connected
from bucketlake.catalogs.rest_keeper import RestKeeper
from bucketlake.catalogs.rest_token import TokenStorage
from bucketlake.catalogs.view_schema import ANEW, view_from_json, view_to_json
from bucketlake.env.env import Clock, Env, SystemClock
from bucketlake.env.object_store import STORAGE_PREFIXES, open_env, storage_for
from bucketlake.errors import (
    AlreadyExistsError,
    BucketlakeError,
    CorruptError,
    InvalidError,
    NotFoundError,
    StorageError,
    UnsupportedError,
)
from bucketlake.format.guard import decoding
from bucketlake.options.catalog import ALLOWED_EXTERNAL
from bucketlake.types.model import format_field
from bucketlake.values import dataclass

if TYPE_CHECKING:
    from bucketlake.schema.schema import TableSchema
    from bucketlake.table import Table


@dataclass(frozen=True, slots=True)
class Nowhere:
    """The storage of what has no place yet: the server says where a table lies once it has made it. `settings`: of the
    stores of the catalog, for what lies beside its tables."""

    what: str
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)

    def within(self, roots: Sequence[str]) -> Nowhere:
        """The same."""
        return self

    def delete_empty(self, path: str) -> bool:
        """There is no folder to remove."""
        return False

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        raise UnsupportedError(
            f"{self.what} has no folder here: the catalog's server says where tables lie, once they are there",
            operation=name,
            remedy="create the table first, then write to it; or do this at the server",
        )


class RestMetastore:
    """What one server has of one warehouse. Every call asks the server: nothing is remembered."""

    kind = "rest"
    title = "RESTCatalog"
    has_folder = False
    is_folders = False

    def __init__(self, client: RestClient, options: Mapping[str, str], clock: Clock) -> None:
        self.client = client
        self._clock = clock
        wanted = (*STORAGE_PREFIXES, ALLOWED_EXTERNAL)
        self.storage_options = {key: value for key, value in options.items() if key.startswith(wanted)}
        self._data_tokens = options.get("data-token.enabled", "false").strip().lower() == "true"

    # ---- databases

    def databases(self) -> set[str]:
        """See Metastore."""
        return set(self.client.names("databases", "databases"))

    def has_database(self, name: str) -> bool:
        """See Metastore."""
        try:
            self.client.get("databases", name)
        except NotFoundError:
            return False
        return True

    def create_database(self, name: str, properties: Mapping[str, str]) -> None:
        """See Metastore."""
        try:
            body = {"name": name, "options": dict(properties)}
            self.client.post_change(f"create the database {name}", "databases", body=body)
        except AlreadyExistsError as error:
            raise AlreadyExistsError("database exists", database=name) from error

    def properties_of(self, name: str) -> dict[str, str]:
        """See Metastore."""
        found = self.client.get("databases", name)
        with decoding("not a database of a REST catalog", name):
            properties = {str(key): str(value) for key, value in (found.get("options") or {}).items()}
            return {**properties, **({"location": str(found["location"])} if found.get("location") else {})}

    def alter_database(self, name: str, changes: Mapping[str, str | None]) -> None:
        """See Metastore."""
        removals = [key for key, value in changes.items() if value is None]
        updates = {key: value for key, value in changes.items() if value is not None}
        body = {"removals": removals, "updates": updates}
        self.client.post_change("alter the database", "databases", name, body=body)

    def drop_database(self, name: str, cascade: bool) -> None:
        """See Metastore."""
        self.client.remove("databases", name)

    def database_path(self, name: str) -> str:
        """See Metastore."""
        location = self.properties_of(name).get("location")
        if location is None:
            raise UnsupportedError("the catalog's server does not say where the database lies", database=name)
        return location

    # ---- tables

    def tables(self, database: str) -> list[str]:
        """See Metastore."""
        return self.client.names("tables", "databases", database, "tables") if self.has_database(database) else []

    def find(self, name: Identifier) -> Found | None:
        """See Metastore. Of an external table the server knows the place alone: its commits are files, as anywhere."""
        try:
            told = self.client.get("databases", name.database, "tables", name.table)
        except NotFoundError:
            return None
        with decoding("not a table of a REST catalog", name.text):
            path, table_id, external = str(told["path"]), str(told["id"]), bool(told.get("isExternal"))
        env, root = open_env(path, self.storage_options)
        own = Identifier(name.database, name.table)
        if external:
            return Found(root, replace(env, clock=self._clock))
        if self._data_tokens:
            storage: Any = TokenStorage(path, self.storage_options, self._clock, lambda: self._token(own))
            root = storage_for(path, self.storage_options)[1]
            env = replace(env, storage=storage)
        return Found(root, replace(env, clock=self._clock, keeper=RestKeeper(self.client, own, table_id)))

    def _token(self, name: Identifier) -> tuple[Mapping[str, str], int]:
        told = self.client.get("databases", name.database, "tables", name.table, "token")
        with decoding("not a data token", name.text):
            token = {str(key): str(value) for key, value in told["token"].items()}
            expires = told.get("expiresAt", told.get("expiresAtMillis"))
            if isinstance(expires, bool) or not isinstance(expires, int):
                raise ValueError("it does not say until when it is good")
            return token, expires

    def place(self, name: Identifier) -> Found:
        """See Metastore: nowhere, until the server has made the table."""
        storage: Any = Nowhere(f"a table that is not there yet ({name.text})")
        return Found(f"/{name.database}.db/{name.table}", Env(storage, self._clock))

    def publish(self, draft: Table, name: Identifier) -> bool:
        """See Metastore."""
        body = {
            "identifier": {"database": name.database, "object": name.table},
            "schema": schema_to_json(draft.store.schema),
        }
        try:
            self.client.post_change(f"create the table {name.text}", "databases", name.database, "tables", body=body)
        except AlreadyExistsError:
            return False
        return True

    def withdraw(self, published: Table, name: Identifier) -> bool:
        """See Metastore: the very table that was made, while it has no snapshot and no other schema."""
        found = self.find(name)
        if found is None or found.path != published.path or published.latest_snapshot() is not None:
            return False
        if published.store.latest_schema().id != published.store.schema.id:
            return False
        wanted = found.env.keeper.table_id if isinstance(found.env.keeper, RestKeeper) else None
        return self.client.remove("databases", name.database, "tables", name.table, wanted=wanted)

    def adopt(self, name: Identifier) -> None:
        """Refused: files are not put into the place of a table that the server has not made."""
        raise UnsupportedError("a server's catalog takes up no tables", table=name.text, remedy="do it at the server")

    def drop_table(self, name: Identifier) -> bool:
        """See Metastore."""
        return self.client.remove("databases", name.database, "tables", name.table)

    def rename_table(self, old: Identifier, new: Identifier) -> None:
        """See Metastore."""
        ends = {"source": old, "destination": new}
        body = {end: {"database": name.database, "object": name.table} for end, name in ends.items()}
        before = self._id_of(old)
        try:
            self.client.post_change(f"rename {old.text} to {new.text}", "tables", "rename", body=body)
        except AlreadyExistsError as error:
            raise AlreadyExistsError("table exists", table=new.text) from error
        except StorageError:
            if before is None or self._id_of(new) != before:
                raise

    def _id_of(self, name: Identifier) -> str | None:
        """The id of a table; None without one."""
        try:
            return str(self.client.get("databases", name.database, "tables", name.table)["id"])
        except (NotFoundError, KeyError):
            return None

    # ---- views

    def views(self, database: str) -> list[str]:
        """See Metastore. A server without views has none."""
        try:
            return self.client.names("views", "databases", database, "views")
        except (UnsupportedError, NotFoundError):
            return []

    def view(self, name: Identifier) -> View | None:
        """See Metastore."""
        schema = self._view_of(name)
        return None if schema is None else view_from_json(schema, name.text)

    def _view_of(self, name: Identifier) -> dict[str, Any] | None:
        try:
            found = self.client.get("databases", name.database, "views", name.table)
        except (UnsupportedError, NotFoundError):
            return None
        with decoding("not a view of a REST catalog", name.text, ANEW):
            schema = found["schema"]
            if not isinstance(schema, dict):
                raise ValueError("it has no schema")
            return schema

    def create_view(self, name: Identifier, view: View, replace: bool) -> None:
        """See Metastore. The document has no replacing: a view that is there is dropped first, and made again where the
        server does not take the new one."""
        before: dict[str, Any] | None = None
        if replace:
            with suppress(CorruptError):  # a damaged one is made anew
                before = self._view_of(name)
            self.drop_view(name)
        try:
            self._make_view(name, view_to_json(view))
        except BaseException:
            if before is not None:
                with suppress(BucketlakeError):
                    self._make_view(name, before)
            raise

    def _make_view(self, name: Identifier, schema: Mapping[str, Any]) -> None:
        body = {"identifier": {"database": name.database, "object": name.table}, "schema": schema}
        try:
            self.client.post_change(f"create the view {name.text}", "databases", name.database, "views", body=body)
        except AlreadyExistsError as error:
            raise AlreadyExistsError("view exists", view=name.text) from error

    def change_view(self, name: Identifier, change: DialectChange) -> None:
        """See Metastore."""
        told = {"action": f"{change.action}Dialect", "dialect": change.dialect}
        if change.query is not None:
            told["query"] = change.query
        path = ("databases", name.database, "views", name.table)
        self.client.post_change(f"alter the view {name.text}", *path, body={"changes": [told]})

    def drop_view(self, name: Identifier) -> bool:
        """See Metastore."""
        return self.client.remove("databases", name.database, "views", name.table)

    def __reduce__(self) -> tuple[object, ...]:
        raise InvalidError(
            "a connection to a catalog's server does not leave its process",
            uri=self.client.base,
            remedy="open the catalog where it is used; tables can be sent, and are read there",
        )

    def __repr__(self) -> str:
        return f"RestMetastore({self.client.base!r})"


def schema_to_json(schema: TableSchema) -> dict[str, Any]:
    """`Schema` of the document."""
    made: dict[str, Any] = {
        "fields": [format_field(item) for item in schema.fields],
        "partitionKeys": list(schema.partition_keys),
        "primaryKeys": list(schema.primary_keys),
        "options": dict(schema.options),
    }
    return made if schema.comment is None else {**made, "comment": schema.comment}


def open_rest(warehouse: str, options: Mapping[str, str]) -> tuple[Env, dict[str, str], RestMetastore]:
    """The catalog of a warehouse that the server at `uri` knows by a name: where its own files would lie (nowhere), the
    options as the server completes them, and what it has."""
    clock = SystemClock()
    client, merged = connected({**options, "warehouse": warehouse}, clock)
    server = RestMetastore(client, merged, clock)
    storage: Any = Nowhere("the warehouse of a REST catalog", server.storage_options)
    return Env(storage, clock), merged, server
