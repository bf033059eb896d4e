"""What a REST server decides of one table: its newest snapshot, which commits are made, its schemas and branches.

A commit is one request with the snapshot and the uuid of the one before. What the server says is final; where an answer
is lost the commit is sent again with the same bytes, and who is told then that the place is taken looks whether it is
its own snapshot that has it (`ops.commit.publish`).

Spec: docs/catalogs.md#rest
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import field
from typing import Any

from bucketlake.catalogs.names import Identifier
from bucketlake.catalogs.rest_changes import changes_to_json
from bucketlake.catalogs.rest_client import RestClient
from bucketlake.env.keeper import Publication, sealed
from bucketlake.env.storage import Storage
from bucketlake.errors import (
    AlreadyExistsError,
    BucketlakeError,
    CommitError,
    InvalidError,
    NotFoundError,
    StorageError,
    UnsupportedError,
)
from bucketlake.format.guard import decoding
from bucketlake.values import dataclass


@dataclass(frozen=True, slots=True)
class RestKeeper:
    """A server's say over one table. `table_id`: the server's name for this very table, whatever it is called."""

    client: RestClient
    name: Identifier
    table_id: str
    _seen: set[str] = field(default_factory=set, compare=False, repr=False)  # the uuid of a snapshot known as its own

    manages = True

    def publish(self, storage: Storage, publication: Publication) -> bool:
        """See Keeper."""
        snapshot = {key: value for key, value in json.loads(publication.data).items() if value is not None}
        body = {
            "tableId": self.table_id,
            "baseSnapshotUuid": publication.base,
            "snapshot": snapshot,
            "statistics": list(publication.statistics()),
        }
        try:
            told = self.client.post(*self._path(publication.branch), "commit", body=body)
        except StorageError:
            raise
        except (InvalidError, NotFoundError, UnsupportedError, AlreadyExistsError) as error:
            raise CommitError(
                "the catalog's server refused the commit", table=self.name.text, reason=str(error)
            ) from error
        success = told.get("success")
        if not isinstance(success, bool):
            raise StorageError("the catalog's server did not say whether it committed", table=self.name.text)
        if success:
            self._see(snapshot.get("uuid"))
        return success

    def put_schema(self, storage: Storage, path: str, data: bytes) -> bool:
        """See Keeper: never by a file."""
        raise UnsupportedError("the catalog's server makes schemas itself", path=path)

    def newest(self, branch: str) -> bytes | None:
        """See Keeper."""
        try:
            found = self.client.get(*self._path(branch), "snapshot")
        except NotFoundError as error:
            if str(error.details.get("resource", "")).upper() == "SNAPSHOT":
                self._check()
                return None
            raise
        with decoding("not a snapshot of a REST catalog", self.name.text):
            inner = found["snapshot"]
            snapshot = None if inner is None else dict(inner["snapshot"])
        if snapshot is None or snapshot.get("uuid") not in self._seen:
            self._check()
            self._see(None if snapshot is None else snapshot.get("uuid"))
        return None if snapshot is None else json.dumps(snapshot).encode()

    def _see(self, uuid: Any) -> None:
        self._seen.clear()
        if isinstance(uuid, str):
            self._seen.add(uuid)

    def _check(self) -> None:
        """NotFoundError where the name is another table's by now: all but commits are asked for by name alone."""
        found = self.client.get("databases", self.name.database, "tables", self.name.table)
        if str(found.get("id")) != self.table_id:
            raise NotFoundError(
                "the table was dropped or renamed, and another one has its name now",
                table=self.name.text,
                remedy="open it again by its name of today",
            )

    def call(self, operation: str, branch: str, **given: Any) -> Any:
        """See Keeper."""
        doing: dict[str, Callable[..., Any]] = {
            "alter": self._alter,
            "rollback": self._rollback,
            "create_branch": self._create_branch,
            "drop_branch": self._drop_branch,
            "rename_branch": self._rename_branch,
            "forward_branch": self._forward_branch,
        }
        self._check()
        return doing[operation](branch, **given)

    def _alter(self, branch: str, changes: Any) -> None:
        self.client.post_change("alter the table", *self._path(branch), body=changes_to_json(changes))

    def _rollback(self, branch: str, snapshot: int | None = None, tag: str | None = None) -> None:
        instant = {"type": "tag", "tagName": tag} if tag is not None else {"type": "snapshot", "snapshotId": snapshot}
        body = {"instant": instant, "fromSnapshot": None}
        self.client.post_change("roll the table back", *self._path(branch), "rollback", body=body)

    def _create_branch(self, branch: str, name: str, tag: str | None) -> None:
        try:
            body = {"branch": name, "fromTag": tag}
            self.client.post_change("create the branch", *self._path(branch), "branches", body=body)
        except AlreadyExistsError as error:
            raise AlreadyExistsError(f"Branch name '{name}' already exists.", table=self.name.text) from error
        except NotFoundError as error:
            raise _missing(error, "TAG", f"Tag '{tag}' doesn't exist.", self.name) from error

    def _drop_branch(self, branch: str, name: str) -> None:
        if not self.client.delete(*self._path(branch), "branches", name):
            raise NotFoundError(f"Branch name '{name}' doesn't exist.", table=self.name.text)

    def _rename_branch(self, branch: str, name: str, target: str) -> None:
        path = (*self._path(branch), "branches", name, "rename")
        self.client.post_change("rename the branch", *path, body={"toBranch": target})

    def _forward_branch(self, branch: str, name: str) -> None:
        path = (*self._path(branch), "branches", name, "forward")
        self.client.post_change("forward to the branch", *path, body={"branch": name})

    def _path(self, branch: str) -> tuple[str, ...]:
        name = self.name.table if branch == "main" else f"{self.name.table}$branch_{branch}"
        return "databases", self.name.database, "tables", name

    def __reduce__(self) -> tuple[Any, ...]:
        return sealed, ()


def _missing(error: BucketlakeError, resource: str, message: str, name: Identifier) -> BucketlakeError:
    return NotFoundError(message, table=name.text) if error.details.get("resource") == resource else error
