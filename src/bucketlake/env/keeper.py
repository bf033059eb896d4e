"""What a catalog has a say in of a table's files: who may publish, and which snapshot is the newest.

Most tables have no keeper: a name is taken by the storage's own put-if-absent, and what lies in the folder is true. A
keeper belongs to the process that opened its catalog. What is pickled, as every `Env` that travels to Spark's tasks,
holds `SEALED` in its place: tasks read and write files and hold no way into the catalog, and no secret of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from bucketlake.errors import CommitError, UnsupportedError
from bucketlake.values import dataclass

if TYPE_CHECKING:
    from bucketlake.env.storage import Storage


@dataclass(frozen=True, slots=True)
class Publication:
    """A snapshot that is to be published: where its file lies, what is in it, on which branch ("main") and base (its
    uuid). `statistics`: what it changes in each partition, as the REST catalog is told."""

    path: str
    data: bytes
    branch: str
    base: str | None
    statistics: Callable[[], Sequence[Mapping[str, Any]]]


class Keeper(Protocol):
    """A catalog's say over one table. Errors: CommitError where nothing was published for certain; StorageError where
    that is not known, or where asking again may help."""

    @property
    def manages(self) -> bool:
        """Whether snapshots, schemas and branches are published by the catalog alone, which knows the newest snapshot.
        Else the catalog only guards the moment at which a file takes its name."""

    def publish(self, storage: Storage, publication: Publication) -> bool:
        """Publish a snapshot, or False if another has its place."""

    def put_schema(self, storage: Storage, path: str, data: bytes) -> bool:
        """Publish a schema, or False if its name is taken."""

    def newest(self, branch: str) -> bytes | None:
        """The newest snapshot's file, None for a branch without one; only where the catalog manages the table."""

    def call(self, operation: str, branch: str, **given: Any) -> Any:
        """Have a catalog that manages the table do what changes more than one file: "alter", "rollback",
        "create_branch", "drop_branch", "rename_branch", "forward_branch"."""


class _Sealed:
    """Stands for a keeper where its catalog is not: files can be read and written, nothing can be published."""

    manages = False

    def publish(self, storage: Storage, publication: Publication) -> bool:
        """See Keeper."""
        raise _sealed(publication.path)

    def put_schema(self, storage: Storage, path: str, data: bytes) -> bool:
        """See Keeper."""
        raise _sealed(path)

    def newest(self, branch: str) -> bytes | None:
        """See Keeper."""
        return None

    def call(self, operation: str, branch: str, **given: Any) -> Any:
        """See Keeper."""
        raise _sealed(operation)

    def __reduce__(self) -> tuple[Any, ...]:
        return sealed, ()


def _sealed(what: str) -> CommitError:
    return CommitError(
        "this table's catalog decides about commits, and this process has no way into it",
        name=what,
        remedy="commit in the process that opened the catalog, or open it here",
    )


SEALED = _Sealed()


def sealed() -> Keeper:
    """What keepers are when they are unpickled."""
    return SEALED


def refuse_managed(keeper: Keeper | None, what: str, remedy: str, **details: Any) -> None:
    """UnsupportedError where a catalog manages the table, and what is asked for would go past it."""
    if keeper is not None and keeper.manages:
        raise UnsupportedError(
            f"{what} is not offered by the catalog that manages this table", remedy=remedy, **details
        )
