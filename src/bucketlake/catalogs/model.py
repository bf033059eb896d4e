"""What the engine asks of a catalog: the one interface of the file system, SQL and REST catalogs.

    databases, tables, views     which there are, made, changed and removed
    find(name)                   where a table lies, how its files are reached, and who decides about its commits
    publish, withdraw            the moment at which a drafted table is there

`bucketlake.catalog.Catalog` is what everybody holds: it checks names, knows `default` and `sys`, suggests what is near,
and opens tables. A metastore says what it has and does as it is told. Branches, tags, snapshots and schemas are the
table's affair and lie in its folder; where the catalog has a say in them, the table's `Env` holds a keeper
(`bucketlake.env.keeper`), and that alone is why `find` gives an `Env` and not a path.

What a metastore holds of connections and secrets stays in its process: it refuses to be pickled where it has any.
Tables that it gave out can be sent to tasks.

Spec: docs/catalogs.md
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from typing import TYPE_CHECKING, Protocol

from bucketlake.catalogs.names import Identifier
from bucketlake.env.env import Env
from bucketlake.errors import AlreadyExistsError, InvalidError, NotFoundError, UnsupportedError
from bucketlake.types.model import DataField
from bucketlake.values import dataclass

if TYPE_CHECKING:
    from bucketlake.table import Table


@dataclass(frozen=True, slots=True)
class Found:
    """A table that is there: its folder, and the environment that its files are reached by."""

    path: str
    env: Env


@dataclass(frozen=True, slots=True)
class View:
    """A persistent view: its columns, its text (and other engines' texts by dialect), comment and options."""

    fields: tuple[DataField, ...]
    query: str
    dialects: Mapping[str, str] = field(default_factory=dict)
    comment: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DialectChange:
    """Another text of a view for one engine. `action`: add, update or drop; `query`: None where it is dropped."""

    action: str
    dialect: str
    query: str | None = None

    def of(self, view: View, name: Identifier) -> View:
        """The view as it is then. AlreadyExistsError, NotFoundError for the dialect."""
        if (self.action == "add") is (self.dialect in view.dialects):
            kind, what = (AlreadyExistsError, "exists") if self.action == "add" else (NotFoundError, "doesn't exist")
            raise kind(f"Dialect {self.dialect} in view {name.text} {what}", view=name.text, dialect=self.dialect)
        texts = {**view.dialects, self.dialect: self.query}
        return replace(view, dialects={dialect: text for dialect, text in texts.items() if text is not None})


class Metastore(Protocol):
    """Databases and tables of one warehouse. Names are checked already, `sys` never gets here. StorageError where the
    metastore itself fails; each operation is done or not done when it returns, and says so if it cannot tell."""

    @property
    def kind(self) -> str:
        """What the option `metastore` says: filesystem, jdbc, rest."""

    @property
    def title(self) -> str:
        """What upstream calls it in its messages: FileSystemCatalog, JdbcCatalog, RESTCatalog."""

    @property
    def has_folder(self) -> bool:
        """Whether the warehouse is a folder that tables lie in, at `table_path`: else the server alone knows where, and
        only once they are there."""

    @property
    def is_folders(self) -> bool:
        """Whether a table is there where its folder holds a schema, and nothing else says so: to open it is to find
        it."""

    # ---- databases

    def databases(self) -> set[str]:
        """Names of all databases that are known."""

    def has_database(self, name: str) -> bool:
        """Whether one is known."""

    def create_database(self, name: str, properties: Mapping[str, str]) -> None:
        """Make one; AlreadyExistsError where the name is taken, UnsupportedError for properties that have no place."""

    def properties_of(self, name: str) -> dict[str, str]:
        """What is stored of one that is there, `location` and `comment` too where the catalog has them."""

    def alter_database(self, name: str, changes: Mapping[str, str | None]) -> None:
        """Set properties, remove those that are None; UnsupportedError where none are stored."""

    def drop_database(self, name: str, cascade: bool) -> None:
        """Remove one, with all that it has if `cascade`; else InvalidError where it has anything, come meanwhile or
        no table's."""

    def database_path(self, name: str) -> str:
        """Its folder; UnsupportedError where the server knows it alone."""

    # ---- tables

    def tables(self, database: str) -> list[str]:
        """Names of its tables, sorted."""

    def find(self, name: Identifier) -> Found | None:
        """The table of this name, None where there is none. What stands behind `$` is not looked at."""

    def place(self, name: Identifier) -> Found:
        """Where a new table of this name is to lie, and how files are written for it before it is there."""

    def publish(self, draft: Table, name: Identifier) -> bool:
        """Make a drafted table be there; False if its name is taken: one of several callers gets True."""

    def withdraw(self, published: Table, name: Identifier) -> bool:
        """Take back a table that `publish` has just made, unless it is used: then False, and it stays."""

    def adopt(self, name: Identifier) -> None:
        """Take up a table whose files were put into its folder by other means than `publish`."""

    def drop_table(self, name: Identifier) -> bool:
        """Remove a table and its files; False where there is none."""

    def rename_table(self, old: Identifier, new: Identifier) -> None:
        """Move a table to a name that was free a moment ago; AlreadyExistsError where it is not any more."""

    # ---- views

    def views(self, database: str) -> list[str]:
        """Names of its views, sorted; none where the catalog has no place for views."""

    def view(self, name: Identifier) -> View | None:
        """A view, None where there is none of this name."""

    def create_view(self, name: Identifier, view: View, replace: bool) -> None:
        """Store a view; AlreadyExistsError where a table, or without `replace` a view, has the name."""

    def change_view(self, name: Identifier, change: DialectChange) -> None:
        """Give a view another text for one engine; AlreadyExistsError, NotFoundError for dialects and views."""

    def drop_view(self, name: Identifier) -> bool:
        """Remove a view; False where there is none."""


class NoViews:
    """The part of a metastore that has no place for views."""

    title: str

    def views(self, database: str) -> list[str]:
        """See Metastore."""
        return []

    def view(self, name: Identifier) -> View | None:
        """See Metastore."""
        return None

    def create_view(self, name: Identifier, view: View, replace: bool) -> None:
        """Refused."""
        raise UnsupportedError(
            "Persistent views are not supported by a file-system catalog: CREATE VIEW",
            view=name.text,
            remedy="CREATE TEMPORARY VIEW, which lasts as long as the session",
        )

    def change_view(self, name: Identifier, change: DialectChange) -> None:
        """There is none."""
        raise NotFoundError("no such view", view=name.text)

    def drop_view(self, name: Identifier) -> bool:
        """See Metastore."""
        return False


def not_empty(database: str, **found: object) -> InvalidError:
    """The error for a database that is to be removed without what it has."""
    remedy = "drop its tables, remove what else lies there, or use CASCADE"
    return InvalidError("database is not empty", database=database, **found, remedy=remedy)
