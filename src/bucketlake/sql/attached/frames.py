"""DataFrames, readers and writers of attached sessions.

A reader or writer that Spark made takes a subclass of its class that takes down what is said to it, and where a lake
table is named at the end does the lake's work with that. The class of DataFrames has four members replaced while some
session is attached, which for other sessions' frames are what they were.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import cache, wraps
from typing import Any

from bucketlake.catalogs.names import name_of_folder
from bucketlake.errors import InvalidError, UnsupportedError
from bucketlake.options.options import option_keys, option_text
from bucketlake.schema.merging import MERGE_SCHEMA
from bucketlake.spark.assignment import goes_by_place
from bucketlake.spark.cluster import is_connect
from bucketlake.spark.column_text import alias_of, condition_text
from bucketlake.spark.datasource import FORMAT, OWN_OPTIONS, READ_CHANGELOG
from bucketlake.spark.merge.builder import MergeBuilder
from bucketlake.spark.raised import told_as_ours
from bucketlake.spark.session import Saving
from bucketlake.sql.attached.layer import Layer, layer_of, layers_of
from bucketlake.sql.attached.said import Said, is_lakes, listed, write_table
from bucketlake.sql.query.travel import session_options
from bucketlake.sql.tables.create import LAKE_PROVIDERS
from bucketlake.sql.tables.save import check_definition
from bucketlake.sql.text.names import LakeName, target

_SAID = "_bucketlake_said"
_OF_SOURCE = frozenset(OWN_OPTIONS) - {READ_CHANGELOG}  # what only the data source knows
_OF_QUERY = ("format", "outputMode", "partitionBy", "queryName")  # what the last call may say of a query
_APART = ("catalog", "database", "table")
_MEMBERS = ("write", "writeStream", "writeTo", "mergeInto")
_wrapped: dict[type, tuple[int, dict[str, Any], dict[str, Any]]] = {}  # how often, what was there, what is

Own = Mapping[str, Callable[..., Any]]


def attached(item: Any, session: Any, own: Own, about: Any = None) -> Any:
    """The reader or writer, taking down what is said to it; `own`: what ends a sentence."""
    kind: Any = type(item)
    item.__class__ = _listening(kind, tuple(sorted(own.items())))
    setattr(item, _SAID, Said(session if about is None else about, session))
    return item


_LISTENED = (
    "mode",
    "format",
    "schema",
    "partitionBy",
    "bucketBy",
    "sortBy",
    "clusterBy",
    "outputMode",
    "trigger",
    "queryName",
)


@cache
def _listening(base: Any, own: Any) -> type:
    def option(self: Any, key: str, value: Any) -> Any:
        getattr(self, _SAID).options[key] = value
        base.option(self, key, value)
        return self

    def options(self: Any, **options: Any) -> Any:
        getattr(self, _SAID).options.update(options)
        base.options(self, **options)
        return self

    def foreach_batch(self: Any, func: Any) -> Any:
        base.foreachBatch(self, _covered(getattr(self, _SAID).session, func))
        return self

    def listened(name: str) -> Callable[..., Any]:
        theirs = getattr(base, name)

        @wraps(theirs)
        def method(self: Any, *args: Any, **named: Any) -> Any:
            theirs(self, *args, **named)
            getattr(self, _SAID).calls[name] = named if named else args[0] if len(args) == 1 else list(args)
            return self

        return method

    def ending(name: str, action: Callable[..., Any]) -> Callable[..., Any]:
        theirs = getattr(base, name)

        @wraps(theirs)
        def method(self: Any, *args: Any, **named: Any) -> Any:
            said = getattr(self, _SAID)

            def foreign() -> Any:
                return _by_source(self, base, said, lambda *a, **n: theirs(self, *a, **n), args, named)

            return action(said, foreign, *args, **named)

        return method

    members: dict[str, Any] = {"option": wraps(base.option)(option), "options": wraps(base.options)(options)}
    members |= {name: listened(name) for name in _LISTENED if hasattr(base, name)}
    if hasattr(base, "foreachBatch"):
        members["foreachBatch"] = wraps(base.foreachBatch)(foreach_batch)
    members |= {name: ending(name, action) for name, action in own}
    kept = {"__module__": base.__module__, "__qualname__": base.__qualname__, "__doc__": base.__doc__}
    return type(base.__name__, (base,), members | kept)


def _by_source(
    item: Any, base: Any, said: Said, theirs: Callable[..., Any], args: Sequence[Any], named: dict[str, Any]
) -> Any:
    """What Spark makes of a sentence that names no table of the lake: the data source, where a lake's format was said,
    by the name that Spark knows it by."""
    if len(args) > 1 and is_lakes(args[1]):
        args = (args[0], FORMAT, *args[2:])
    elif is_lakes(named.get("format")):
        named = {**named, "format": FORMAT}
    elif is_lakes(said.calls.get("format")):
        base.format(item, FORMAT)
    return theirs(*args, **named)


def _covered(session: Any, take: Any) -> Any:
    """A function for `foreachBatch`: the frames that it is given are of a session that Spark made for the query, which
    is attached as the query's is, with the names as they are now. On Spark Connect it runs elsewhere, as it is."""
    if is_connect(session) or type(take).__module__.startswith("bucketlake."):
        return take
    kept = [(layer, copy(layer.lake)) for layer in reversed(layers_of(session))]

    @wraps(take)
    def taken(frame: Any, number: int) -> Any:
        attached_now, own = layers_of(session), frame.sparkSession
        for layer, lake in kept if layer_of(own) is None else ():
            if layer in attached_now:
                layer.cover(own, lake)
        return take(frame, number)

    return taken


# ------------------------------------------------------------------------------------------------- what ends a sentence


def _read(said: Said, theirs: Callable[[], Any], tableName: str) -> Any:
    found = said.find(tableName)
    if found is None:
        layer = next((layer for layer in said.idle() if layer.has_view(tableName)), None)
        if layer is not None and said.options:
            remedy = "read a table, or a view without options"
            raise UnsupportedError("options of a view's read", view=tableName, options=[*said.options], remedy=remedy)
        return theirs() if layer is None else layer.read_view(tableName)
    with found[0].inside() as lake:
        return lake.read_table(found[1].full, **_listing(said.options))


def _listing(told: Mapping[str, Any]) -> dict[str, Any]:
    """Options of a read by their keys, its `columns` as a list: an option is text. InvalidError for one that is none,
    other arguments of the call among them."""
    own = {key: told[key] for key in ("columns", "where") if key in told}
    if isinstance(own.get("columns"), str):
        own["columns"] = [one.strip() for one in own["columns"].split(",")]
    return {**option_keys({key: value for key, value in told.items() if key not in own}), **own}


def _load(
    said: Said,
    theirs: Callable[[], Any],
    path: Any = None,
    format: str | None = None,
    schema: Any = None,
    **options: Any,
) -> Any:
    place, told = _place(path, {**said.options, **options})
    found = _named_apart(said, place, format, told) or _to_load(said, place, format, schema, told)
    if found is None:
        return theirs()
    with found[0].inside() as lake:
        return lake.read_table(found[1].full, **_listing(told))


def _named_apart(said: Said, path: Any, format: str | None, told: dict[str, Any]) -> tuple[Layer, LakeName] | None:
    """The table that the options `catalog`, `database` and `table` name, which are taken out; the folder stands for
    what is not said of the latter two. None without a catalog of an attachment."""
    keys = {key.lower(): key for key in told}
    if "catalog" not in keys or not is_lakes(format or said.calls.get("format")):
        return None
    catalog = str(told[keys["catalog"]])
    layer = next((one for one in said.idle() if catalog.lower() in one.lake.catalog_names), None)
    if layer is None:
        return None
    placed = name_of_folder(path) if isinstance(path, str) else None
    given = {key: told.pop(keys[key]) for key in _APART if key in keys}
    with layer.inside() as lake:
        database = given.get("database") or (placed.database if placed is not None else lake.current_database)
        table = given.get("table") or (placed.object if placed is not None else "")
        return layer, target(lake, (catalog, database, table))


def _place(path: Any, told: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The folder that is meant, and the options without it: it may be one of them. Said twice it is refused."""
    key = next((key for key in told if key.lower() == "path"), None)
    if path is not None or key is None:
        return path, told
    return told[key], {name: value for name, value in told.items() if name != key}


def _to_load(
    said: Said, path: Any, format: str | None, schema: Any, told: dict[str, Any]
) -> tuple[Layer, LakeName] | None:
    """The lake and the table that are loaded; None for what is Spark's or the data source's."""
    of_source = any(key.lower() in _OF_SOURCE for key in told)
    return None if schema is not None or of_source else said.at(path, format)


def _store(
    said: Said,
    theirs: Callable[[], Any],
    path: Any = None,
    format: str | None = None,
    mode: str | None = None,
    partitionBy: Any = None,
    **options: Any,
) -> None:
    how = str(mode or said.calls.get("mode") or "error")
    place, told = _place(path, {**said.options, **options})
    found = _named_apart(said, place, format, told) or said.at(place, format)
    if found is None:
        if not is_lakes(format or said.calls.get("format")):
            said.refuse_folder(place)
        theirs()
        return
    said.refuse("bucketBy", "sortBy", "clusterBy")
    with found[0].inside() as lake:
        given = {**session_options(lake, found[1]), **option_keys(told, unknown=True)}  # the write looks at the others
        table = lake.table(found[1].full).with_options({k: v for k, v in given.items() if k == MERGE_SCHEMA})
        names, frame = table.schema.field_names, said.about
        if goes_by_place(frame.columns, names) and not table.options.get(MERGE_SCHEMA):
            frame = frame.toDF(*names)
        keys = listed(partitionBy or said.calls.get("partitionBy") or ())
        write_table(lake, frame, Saving(found[1].full, how, keys, options=told))


def _store_files(said: Said, theirs: Callable[[], Any], path: Any, *_args: Any, **_named: Any) -> None:
    said.refuse_folder(path)
    theirs()


def _read_stream(said: Said, theirs: Callable[[], Any], tableName: str) -> Any:
    found = said.find(tableName)
    if found is None:
        return theirs()
    with found[0].inside() as lake:
        return lake.table(found[1].full).read_stream(**_listing(said.options))


def _load_stream(
    said: Said,
    theirs: Callable[[], Any],
    path: Any = None,
    format: str | None = None,
    schema: Any = None,
    **options: Any,
) -> Any:
    place, told = _place(path, {**said.options, **options})
    kind = str(format or said.calls.get("format")).lower()
    # The data source reads streams by its own name, into checkpoints of its own; the lake's other name is nobody's.
    named = _named_apart(said, place, format, told)
    found = named or (None if kind == FORMAT else _to_load(said, place, format, schema, told))
    if found is None:
        return theirs()
    with found[0].inside() as lake:
        return lake.table(found[1].full).read_stream(**_listing(told))


def _save(
    said: Said,
    theirs: Callable[[], Any],
    name: str,
    format: str | None = None,
    mode: str | None = None,
    partitionBy: Any = None,
    **options: Any,
) -> None:
    given = {"format": format, "mode": mode, "partitionBy": partitionBy}
    said.calls.update({key: value for key, value in given.items() if value is not None})
    found = said.to_make(name)
    told = {**said.options, **options}
    if found is None:
        said.refuse_folder(_place(None, told)[0])
        theirs()
        return
    said.refuse("bucketBy", "sortBy", "clusterBy")
    if "path" in told:
        raise UnsupportedError("a lake table by name at a path", table=found[1].full, remedy="leave the path out")
    keys, how = listed(said.calls.get("partitionBy") or ()), str(said.calls.get("mode") or "error")
    with found[0].inside() as lake:
        write_table(lake, said.about, Saving(found[1].full, how, keys, options=told))


def _insert(said: Said, theirs: Callable[[], Any], tableName: str, overwrite: bool | None = None) -> None:
    found = said.find(tableName)
    if found is None:
        theirs()
        return
    said.refuse("partitionBy", "bucketBy", "sortBy", "clusterBy")
    if overwrite is None:  # of a table that is there: every other mode adds, `error` and `ignore` too, as with Spark
        overwrite = str(said.calls.get("mode")).lower() == "overwrite"
    mode = "overwrite" if overwrite else "append"
    with found[0].inside() as lake:
        write_table(lake, said.about, Saving(found[1].full, mode, by_position=True, options=said.options))


def _to_table(said: Said, theirs: Callable[[], Any], tableName: str, *args: Any, **named: Any) -> Any:
    given = _named(args, named)
    said.calls.update({key: value for key, value in given.items() if key in _OF_QUERY and value is not None})
    found = said.to_make(tableName)
    return theirs() if found is None else _stream_into(found, said, {**said.options, **given})


def _start(said: Said, theirs: Callable[[], Any], path: Any = None, *args: Any, **named: Any) -> Any:
    place, told = _place(path, {**said.options, **_named(args, named)})
    said.calls.update({key: told[key] for key in _OF_QUERY if told.get(key) is not None})
    found = _named_apart(said, place, None, told) or said.at(place, None)
    if found is not None:
        return _stream_into(found, said, told)
    if not is_lakes(told.get("format") or said.calls.get("format")):
        said.refuse_folder(place)
    return theirs()


def _named(args: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
    return {**named, **dict(zip(_OF_QUERY, args, strict=False))}


def _stream_into(found: tuple[Layer, LakeName], said: Said, told: Mapping[str, Any]) -> Any:
    """Write the stream, to a table that is made where it is missing; `told`: what the last call says, and options."""
    calls, keys = said.calls, said.calls.get("partitionBy") or ()
    options = {key: value for key, value in told.items() if key not in _OF_QUERY}
    checkpoint = options.pop("checkpointLocation", None)
    if checkpoint is None:
        raise InvalidError("a stream needs its own folder", remedy="give .option('checkpointLocation', …)")
    with found[0].inside() as lake:
        if not lake.catalog.table_exists(found[1].full):
            rows = lake.spark.createDataFrame([], said.about.schema)
            write_table(lake, rows, Saving(found[1].full, "ignore", listed(keys), options=options))
        table, mode = lake.table(found[1].full), calls.get("outputMode") or "append"
        check_definition(table, Saving(table.name, partition_by=listed(keys)), options)
        stored = {"primary-key": options.get("primary-key"), **table.schema.options}  # what need not be said again
        own = option_keys({key: value for key, value in options.items() if stored.get(key) != option_text(value)})
        own |= {"query_name": calls["queryName"]} if calls.get("queryName") else {}
        return table.write_stream(said.about, checkpoint, mode, calls.get("trigger"), **own)


READER: Own = {"table": _read, "load": _load}
STREAM_READER: Own = {"table": _read_stream, "load": _load_stream}
_FILES = dict.fromkeys(("csv", "json", "orc", "parquet", "text", "xml"), _store_files)
WRITER: Own = {"saveAsTable": _save, "insertInto": _insert, "save": _store, **_FILES}
STREAM_WRITER: Own = {"toTable": _to_table, "start": _start}


class LakeWriter:
    """`df.writeTo` of a lake table, `table`: as it was written. `theirs` makes Spark's writer, for a provider that is
    not the lake's."""

    def __init__(self, said: Said, place: tuple[Layer, LakeName], table: str, theirs: Callable[[], Any]) -> None:
        self._said, self._place, self._table, self._theirs = said, place, table, theirs
        self._keys: list[str] = []

    def using(self, provider: str) -> Any:
        """The format of the table that is made."""
        self._place[0].refuse_format(self._place[1], provider)
        return self if provider.lower() in LAKE_PROVIDERS else self._theirs().using(provider)

    def option(self, key: str, value: Any) -> LakeWriter:
        """An option of the write, or of the table that is made."""
        self._said.options[key] = value
        return self

    def options(self, **options: Any) -> LakeWriter:
        """Several of them."""
        self._said.options.update(options)
        return self

    def tableProperty(self, property: str, value: str) -> LakeWriter:
        """An option of the table that is made."""
        self._said.options[property] = value
        return self

    def partitionedBy(self, col: Any, *cols: Any) -> LakeWriter:
        """The columns that the table is partitioned by, by name."""
        for one in (col, *cols):
            name = one if isinstance(one, str) else self._said.about.select(one).columns[0]
            if name not in self._said.about.columns:
                raise UnsupportedError("partitioned by an expression", column=name, remedy="add it as a column first")
            self._keys.append(name)
        return self

    def clusterBy(self, col: str, *cols: str) -> LakeWriter:
        """Refused: the table's own options say how it lies."""
        raise UnsupportedError("clusterBy of a lake table", remedy="tableProperty('clustering.columns', …)")

    def create(self) -> None:
        """Make the table with the rows."""
        self._write("create")

    def replace(self) -> None:
        """Another table in its place."""
        self._write("replace")

    def createOrReplace(self) -> None:
        """A new table, or another one in its place."""
        self._write("create_or_replace")

    def append(self) -> None:
        """Add the rows, by the columns' names."""
        self._require()
        self._write("append")

    def overwritePartitions(self) -> None:
        """Replace the partitions that the rows are in."""
        self._require()
        self._write("overwrite_partitions")

    def overwrite(self, condition: Any) -> None:
        """Replace the rows of a condition over partition columns, a Column or SQL text; of all rows: true."""
        self._require()
        condition = condition_text(condition)
        if not isinstance(condition, str):
            raise InvalidError("overwrite by no condition", given=condition, remedy="give a Column, or SQL text")
        whole = condition.strip().lower() == "true"
        # Without a condition all rows go, whatever the session says of dynamic overwrites.
        how = {"dynamic-partition-overwrite": "false"} if whole else {"replace_where": condition}
        self._write("overwrite", how)

    def _require(self) -> None:
        """InvalidError for a temporary view's name, NotFoundError where there is no table."""
        layer, name = self._place
        with told_as_ours(), layer.inside() as lake:
            if layer.is_hidden(self._table):
                remedy = "drop the view, or write the table's name with its database"
                raise InvalidError("[VIEW_WRITE_NOT_ALLOWED] rows go into tables", view=self._table, remedy=remedy)
            lake.table(name.full)

    def _write(self, mode: str, more: Mapping[str, Any] | None = None) -> None:
        layer, name = self._place
        with layer.inside() as lake:
            options = {**self._said.options, **(more or {})}
            write_table(lake, self._said.about, Saving(name.full, mode, tuple(self._keys), options=options))


# --------------------------------------------------------------------------------------------------- the frames' class


def wrap(frame: Any) -> None:
    """Let frames of this class, of attached sessions, write to lake tables; counted, for `unwrap`."""
    times, before, after = _wrapped.get(frame, (0, {}, {}))
    if not times:
        before = {name: vars(frame)[name] for name in _MEMBERS if name in vars(frame)}
        after = {name: _member(name, item) for name, item in before.items()}
        for name, item in after.items():
            setattr(frame, name, item)
    _wrapped[frame] = (times + 1, before, after)


def unwrap(frame: Any) -> None:
    """Undo one `wrap`; after the last the class has what it had, but what somebody else has put there since."""
    times, before, after = _wrapped.get(frame, (0, {}, {}))
    if times > 1:
        _wrapped[frame] = (times - 1, before, after)
        return
    _wrapped.pop(frame, None)
    for name, item in before.items():
        if vars(frame).get(name) is after[name]:
            setattr(frame, name, item)


def _member(name: str, theirs: Any) -> Any:
    return {"write": _write, "writeStream": _write_stream, "writeTo": _write_to, "mergeInto": _merge_into}[name](theirs)


def _session_of(frame: Any) -> Any:
    """The frame's session, where an attachment of it is not at work itself."""
    session = frame.sparkSession
    layer = layer_of(session)
    return None if layer is None or layer.is_busy else session


def _write(theirs: Any) -> Any:
    def write(self: Any) -> Any:
        writer, session = theirs.__get__(self, type(self)), _session_of(self)
        return writer if session is None else attached(writer, session, WRITER, self)

    return property(write, doc=theirs.__doc__)


def _write_stream(theirs: Any) -> Any:
    def writeStream(self: Any) -> Any:
        writer, session = theirs.__get__(self, type(self)), _session_of(self)
        return writer if session is None else attached(writer, session, STREAM_WRITER, self)

    return property(writeStream, doc=theirs.__doc__)


def _write_to(theirs: Any) -> Any:
    @wraps(theirs)
    def writeTo(self: Any, table: str) -> Any:
        session = _session_of(self)
        said = None if session is None else Said(self, session)
        place = None if said is None else said.to_make(table)
        if said is None or place is None:
            return theirs(self, table)
        return LakeWriter(said, place, table, lambda: theirs(self, table))

    return writeTo


def _merge_into(theirs: Any) -> Any:
    @wraps(theirs)
    def mergeInto(self: Any, table: str, condition: Any) -> Any:
        session = _session_of(self)
        found = None if session is None else Said(self, session).find(table)
        if found is not None:
            return _merger(self, found, condition)
        return theirs(self, table, condition)

    return mergeInto


def _merger(frame: Any, place: tuple[Layer, LakeName], condition: Any) -> MergeBuilder:
    """The merge of a frame into a lake table; columns of the frame go by its alias, if it has one."""
    layer, name = place
    with layer.inside() as lake:
        said = lake.table(name.full).merge(frame, condition, source_alias=alias_of(frame) or "source")

    def run(asked: MergeBuilder) -> Any:
        with layer.inside():
            return said.run(asked)

    return replace(said, run=run)
