"""What an attachment knows: its lake, which names are the lake's, and whether this thread is inside one of its calls.

The lake itself calls `spark.sql` and the like of the session that it is attached to: inside, these are Spark's own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from functools import wraps
from typing import TYPE_CHECKING, Any

from bucketlake.errors import InvalidError, UnsupportedError
from bucketlake.sql.query import query
from bucketlake.sql.tables import catalog_views
from bucketlake.sql.tables.create import LAKE_PROVIDERS
from bucketlake.sql.text import names
from bucketlake.types.model import quote_identifier

if TYPE_CHECKING:
    from bucketlake.spark.session import Lake

LAYER = "_bucketlake_layer"  # on the class of an attached session
_inside = threading.local()


class Layer:
    """One attachment. `kind`: makes the session's class; `below`: the one that it had before; `frame`: that of its
    DataFrames."""

    def __init__(self, lake: Lake, catalog: str, frame: type, kind: Callable[[Layer], type]) -> None:
        self.lake = lake
        self.catalog = catalog
        self.below = type(lake.spark)
        self.frame = frame
        self.kind = kind

    def cover(self, session: Any, lake: Lake) -> None:
        """Attach a session that goes with this one's: the tables and names of `lake`, through that session."""
        own = copy(lake)
        own.spark, own.cached = session, {}
        for frames in ("kept", "nothing"):  # of the other session
            vars(own).pop(frames, None)
        layer = Layer(own, self.catalog, self.frame, self.kind)
        own.working = layer.inside
        session.__class__ = self.kind(layer)

    @property
    def is_busy(self) -> bool:
        """Whether this thread is inside a call of this lake."""
        return id(self) in getattr(_inside, "layers", ())

    @contextmanager
    def inside(self) -> Iterator[Lake]:
        """While the lake works, what it asks the session is Spark's to answer, or a layer's below."""
        before: tuple[int, ...] = getattr(_inside, "layers", ())
        _inside.layers = (*before, id(self))
        try:
            yield self.lake
        finally:
            _inside.layers = before

    def find(self, name: str, views: bool = True) -> names.LakeName | None:
        """The lake table that is there under a name, None for what is Spark's: also texts that are no names. Temporary
        views hide it unless `views` is false."""
        parts = parts_of(name)
        if parts is None:
            return None
        with self.inside() as lake:
            if len(parts) == 1 and not views and not lake.in_spark_catalog:
                parts = (lake.current_database, *parts)
            try:
                return names.find(lake, parts)
            except InvalidError:
                return None  # of letters that no lake table's name has

    def is_hidden(self, name: str) -> bool:
        """Whether a temporary view has a name."""
        with self.inside() as lake:
            return _is_view(lake, parts_of(name) or ())

    def has_view(self, name: str) -> bool:
        """Whether a name is a persistent view's of the lake: one that its catalog stores."""
        parts = parts_of(name)
        if parts is None or self.find(name) is not None:
            return False
        with self.inside() as lake:
            try:
                place = catalog_views.place_of(lake, parts)
                hidden = _is_view(lake, parts)
                return place is not None and not hidden and catalog_views.find(lake, place) is not None
            except InvalidError:
                return False

    def read_view(self, name: str) -> Any:
        """The rows of a persistent view."""
        with self.inside() as lake:
            return query.run(lake, "SELECT * FROM " + ".".join(map(quote_identifier, parts_of(name) or ())))

    def at(self, path: Any) -> names.LakeName | None:
        """The lake table whose folder a path is, None where it is another place."""
        with self.inside() as lake:
            return names.of_folder(lake, path)

    def to_make(self, name: str, provider: str | None = None) -> names.LakeName | None:
        """The lake table that something is to be written to, there or not; None where a table of Spark's is meant.
        Temporary views hide neither."""
        found = self.find(name, views=False)
        if found is not None:
            return found
        parts = parts_of(name)
        if parts is None or len(parts) > 3 or (provider is not None and provider.lower() not in LAKE_PROVIDERS):
            return None
        with self.inside() as lake:
            if len(parts) == 3 and parts[0].lower() not in lake.catalog_names:
                return None
            own = (lake.spark.catalog.currentDatabase(), *parts) if _is_view(lake, parts) else parts
            if len(parts) < 3 and (lake.in_spark_catalog or names.is_sparks(lake, own)):
                return None
            return names.target(lake, parts)

    def refuse_format(self, table: names.LakeName, provider: str | None) -> None:
        """UnsupportedError for another format than the lake's, said of a table that the lake has."""
        if provider is None or provider.lower() in LAKE_PROVIDERS:
            return
        with self.inside() as lake:
            if lake.catalog.table_exists(table.full):
                raise UnsupportedError(
                    "another format for a lake table",
                    table=table.full,
                    format=provider,
                    remedy=f"leave the format out, or name a table of Spark's own: spark_catalog.{table.full}",
                )

    def has_database(self, name: str | None) -> str | None:
        """The lake's database of a name, which may have the catalog's before it; None: the current one's."""
        lake = self.lake
        if name is None:
            return None if lake.in_spark_catalog else lake.current_database
        parts = parts_of(name)
        if parts is None or len(parts) > 2:
            return None
        if len(parts) == 2:
            return parts[1] if parts[0].lower() in lake.catalog_names else None
        return parts[0] if not lake.in_spark_catalog and lake.catalog.database_exists(parts[0]) else None


def _is_view(lake: Lake, parts: tuple[str, ...]) -> bool:
    return len(parts) == 1 and names.is_temp_view(lake, parts[0])


def parts_of(name: Any) -> tuple[str, ...] | None:
    """The parts of a name, None for what is none: Spark says what is wrong with that."""
    if not isinstance(name, str):
        return None
    try:
        parts = names.parts_of(name)
    except InvalidError:
        return None
    return parts if all(parts) else None


def layer_of(session: Any) -> Layer | None:
    """The newest attachment of a session; None: it has none."""
    return getattr(type(session), LAYER, None)


def layers_of(session: Any) -> list[Layer]:
    """All of its attachments, the newest first."""
    return [vars(kind)[LAYER] for kind in type(session).__mro__ if LAYER in vars(kind)]


def when_idle(layer: Layer, own: Callable[..., Any], theirs: Callable[..., Any]) -> Callable[..., Any]:
    """A method that is `own` but inside the lake's calls, where it is what stood there before."""

    @wraps(theirs)
    def method(self: Any, *args: Any, **named: Any) -> Any:
        return theirs(self, *args, **named) if layer.is_busy else own(self, *args, **named)

    return method
