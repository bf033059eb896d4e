"""`attach` and `detach`: a session takes a subclass of its class while it is attached, and its class again after.

What is no name of the lake's goes to Spark, or to an attachment below, as it was given. Attachments of a session lie
on each other; a session made by `newSession` has none.

Spec: docs/attach.md
"""

from __future__ import annotations

import re
import threading
from functools import wraps
from typing import TYPE_CHECKING, Any

from bucketlake.errors import InvalidError, check_flags
from bucketlake.options.session import CATALOG_NAMES
from bucketlake.sql import compound, statements
from bucketlake.sql.attached import frames
from bucketlake.sql.attached.catalog import catalog_class
from bucketlake.sql.attached.layer import LAYER, Layer, layer_of, layers_of, when_idle
from bucketlake.sql.text.names import SPARK_CATALOG
from bucketlake.sql.text.tokens import tokenize

if TYPE_CHECKING:
    from bucketlake.spark.session import Lake

_lock = threading.RLock()
_NAME = re.compile(r"[A-Za-z_]\w*")
_CATALOG = "spark.sql.catalog."


def attach(lake: Lake, catalog: str, current: bool) -> None:
    """Let the calls of the lake's session reach the lake, as catalog `catalog`. Errors: InvalidError (`catalog`)."""
    check_flags(current=current)
    session = lake.spark
    name = catalog.lower()
    if not _NAME.fullmatch(catalog) or name == SPARK_CATALOG:
        raise InvalidError("not a catalog's name", catalog=catalog, remedy="use letters, digits and '_'")
    settings = dict(session.conf.getAll)
    theirs = {key[len(_CATALOG) :].split(".")[0].lower() for key in settings if key.startswith(_CATALOG)}
    if name in theirs:
        raise InvalidError("Spark has a catalog of this name", catalog=catalog, remedy="attach by another name")
    with _lock:
        below = {layer.catalog for layer in layers_of(session)}
        lake.catalog_names = (name, *(own for own in CATALOG_NAMES if own not in theirs | below | {name}))
        lake.other_catalogs = frozenset((theirs | below | {SPARK_CATALOG}) - {name})
        lake.in_spark_catalog = not current
        layer = Layer(lake, name, type(session.range(0)), _session_class)
        lake.working = layer.inside
        session.__class__ = _session_class(layer)
        frames.wrap(layer.frame)


def detach(session: Any) -> bool:
    """Give the session what it had before its last `attach`; False where there is none to undo.

    Errors: InvalidError where something else has changed the session's class meanwhile.
    """
    with _lock:
        layer = layer_of(session)
        if layer is None:
            return False
        if LAYER not in vars(type(session)):
            raise InvalidError("something else has changed the session since", remedy="undo that first")
        session.__class__ = layer.below
        frames.unwrap(layer.frame)  # without a word to the session, which may be stopped
        return True


def _session_class(layer: Layer) -> type:
    base: Any = layer.below

    def sql(self: Any, sqlQuery: str, args: Any = None, **kwargs: Any) -> Any:
        if not isinstance(sqlQuery, str) or not _is_read_here(sqlQuery, bool(kwargs)):
            return base.sql(self, sqlQuery, args, **kwargs)
        with layer.inside() as lake:
            return statements.run(lake, sqlQuery, args, kwargs)

    def table(self: Any, tableName: str) -> Any:
        found = layer.find(tableName)
        if found is None:
            return layer.read_view(tableName) if layer.has_view(tableName) else base.table(self, tableName)
        with layer.inside() as lake:
            return lake.read_table(found.full)

    def fresh(name: str) -> Any:
        @wraps(getattr(base, name))
        def method(self: Any, *args: Any, **named: Any) -> Any:
            made = getattr(base, name)(self, *args, **named)
            if layer_of(made) is not None:
                made.__class__ = layers_of(made)[-1].below
            return made

        return method

    def read(self: Any) -> Any:
        reader = base.read.__get__(self)
        return reader if layer.is_busy else frames.attached(reader, self, frames.READER)

    def readStream(self: Any) -> Any:
        reader = base.readStream.__get__(self)
        return reader if layer.is_busy else frames.attached(reader, self, frames.STREAM_READER)

    def catalog(self: Any) -> Any:
        theirs = base.catalog.__get__(self, type(self))
        return theirs if layer.is_busy else catalog_class(layer, type(theirs), theirs)(self)

    own = {
        "sql": when_idle(layer, sql, base.sql),
        "table": when_idle(layer, table, base.table),
        **{name: fresh(name) for name in ("newSession", "cloneSession") if hasattr(base, name)},
        "read": property(read, doc=base.read.__doc__),
        "readStream": property(readStream, doc=base.readStream.__doc__),
        "catalog": property(catalog, doc=base.catalog.__doc__),
        LAYER: layer,
        "__module__": base.__module__,
        "__qualname__": base.__qualname__,
        "__doc__": base.__doc__,
    }
    return type(base.__name__, (base,), own)


def _is_read_here(text: str, braces: bool) -> bool:
    """Whether a text is one statement that can be read, or a script without `braces`; of others Spark says what they
    are."""
    try:
        tokens = tokenize(text)
    except InvalidError:
        return False
    if not tokens or tokens[0].is_word("DECLARE"):
        return False
    if compound.is_compound(text):
        return not braces
    ends = [at for at, token in enumerate(tokens) if token.kind == "sign" and token.value == ";"]
    return not ends or ends[0] == len(tokens) - len(ends)
