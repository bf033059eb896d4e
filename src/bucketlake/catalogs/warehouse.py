"""What the rooms of this package ask of the catalog above them, for their annotations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from bucketlake.catalogs.model import Found, Metastore
from bucketlake.env.env import Env
from bucketlake.table import Table
from bucketlake.types.model import DataField


class Warehouse(Protocol):
    """The databases and tables of one warehouse; `bucketlake.catalog.Catalog` is one, and says more of each call."""

    @property
    def env(self) -> Env:
        """How its files are reached."""

    @property
    def warehouse(self) -> str:
        """Its folder."""

    @property
    def options(self) -> Mapping[str, str]:
        """The catalog's options."""

    @property
    def metastore(self) -> Metastore:
        """What holds the names."""

    def list_databases(self) -> list[str]:
        """Names of all databases."""

    def create_database(self, name: str, ignore_if_exists: bool = ...) -> None:
        """Make an empty database."""

    def require_database(self, name: str) -> None:
        """NotFoundError where the database of a table's name is not there."""

    def table_exists(self, name: str) -> bool:
        """Whether the table is there."""

    def table(self, name: str, /) -> Table:
        """A table's handle."""

    def placed(self, name: str) -> Found:
        """Where a table lies or is to lie."""

    def adopt_table(self, name: str) -> None:
        """Take up a table whose files lie in its place."""

    def draft_table(
        self,
        name: str,
        schema: Sequence[DataField],
        partition_keys: Sequence[str] = ...,
        primary_keys: Sequence[str] = ...,
        options: Mapping[str, Any] | None = ...,
        comment: str | None = ...,
    ) -> Table:
        """A table that is not there yet."""

    def publish_table(self, draft: Table) -> bool:
        """Make a drafted table be there; False if its name was taken meanwhile."""
