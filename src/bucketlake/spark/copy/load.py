"""COPY INTO a table: files read by Spark, checked value by value, written as one commit, then remembered as loaded.

    list → leave out what was loaded → read with each row's file → count what is wrong, by file → write → remember

Each file is loaded once, whatever dies and whoever loads beside: see `ops.commit.loads`.

Texts (CSV, JSON) are read as they are and cast: what cannot be cast is an error of its row, as is a malformed record.

Spec: docs/sql/copy-into.md
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field
from urllib.parse import unquote

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from bucketlake.errors import InvalidError, UnsupportedError
from bucketlake.ops.commit.loads import Loading, SourceFile, loaded, record_loaded, without_loaded
from bucketlake.ops.write.prepare import new_commit_user
from bucketlake.schema.schema import TableSchema
from bucketlake.spark.assignment import Rules
from bucketlake.spark.copy.casts import cast_value
from bucketlake.spark.copy.formats import FileFormat
from bucketlake.spark.copy.sources import list_files, literal_path
from bucketlake.spark.instants import shown_type
from bucketlake.spark.types import as_nullable, quoted, spark_type
from bucketlake.spark.write.kept import decided
from bucketlake.spark.write.writer import WriteRequest, write
from bucketlake.table import Table
from bucketlake.types.model import type_text
from bucketlake.values import dataclass

ABORT, CONTINUE, SKIP_FILE = "ABORT_STATEMENT", "CONTINUE", "SKIP_FILE"
RESULT = T.StructType(
    [
        T.StructField("file_name", T.StringType(), False),
        T.StructField("status", T.StringType(), False),
        T.StructField("rows_loaded", T.LongType(), False),
        T.StructField("rows_parsed", T.LongType(), False),
        T.StructField("errors_seen", T.LongType(), False),
        T.StructField("first_error", T.StringType(), True),
    ]
)
_FILE, _CORRUPT, _BAD = "__bucketlake_file", "__bucketlake_corrupt", "__bucketlake_bad"
_NESTED = (T.StructType, T.ArrayType, T.MapType)
_UNREAD = re.compile(r"\[FAILED_READ_FILE[^\n]*")
_UNMERGED = re.compile(r"\[CANNOT_MERGE_SCHEMAS\].*?(STRUCT<[^\n]*>).*?(STRUCT<[^\n]*>)", re.DOTALL)
_BY_QUERY = "leave it out of the column list, or INSERT … SELECT … FROM {}.`{}`"
_CAST = "Source data contains values that cannot be converted to the target type."


@dataclass(frozen=True, slots=True)
class Load:
    """What a COPY INTO asks for. `columns`: those that the files give, None: all of the table."""

    source: str
    format: FileFormat
    columns: Sequence[str] | None = None
    pattern: str | None = None
    force: bool = False
    on_error: str = ABORT


@dataclass(slots=True)
class _Seen:
    """What a file holds: rows, how many of them are malformed or cannot be cast, and the first that is said of one.
    `told`: its name as rows of Spark's have it, in a URL's escapes."""

    told: str = ""
    rows: int = 0
    errors: int = 0
    first: str | None = None


def load(spark: SparkSession, table: Table, request: Load) -> list[tuple[object, ...]]:
    """Load files in one commit; a row of `RESULT` a file.

    Errors: InvalidError (options, columns, values that do not fit under ABORT_STATEMENT), NotFoundError (folder), and
    those of a write. Nothing is loaded then.
    """
    options = request.format.reader_options()
    rules = Rules.of(spark)
    columns = _target_columns(table.schema, request.columns, rules)

    def once() -> list[tuple[object, ...]]:
        files = list_files(spark, request.source, request.pattern)
        skipped = set() if request.force else loaded(table.store, files)
        wanted = [file for file in files if file not in skipped]
        result: list[tuple[object, ...]] = []
        if wanted:
            result = _Run(spark, table, request, columns, rules).run(wanted, options)
        return result + [(file.name, "SKIPPED", 0, 0, 0, None) for file in files if file in skipped]

    return without_loaded(once)


def _target_columns(schema: TableSchema, given: Sequence[str] | None, rules: Rules) -> list[str]:
    """The table's columns that the files give, in the order given."""
    if given is None:
        return list(schema.field_names)
    fold: Callable[[str], str] = str if rules.sensitive else str.lower
    known = {fold(name): name for name in schema.field_names}
    found: list[str] = []
    for name in given:
        own = known.get(fold(name))
        if own is None:
            listed = ", ".join(schema.field_names)
            raise InvalidError(f"Column '{name}' does not exist in target table. Available columns: {listed}")
        if own in found:
            raise InvalidError(f"Duplicate columns in column list: {name}")
        found.append(own)
    for item in schema.fields:
        if item.name not in found and not item.type.nullable and item.default is None:
            raise InvalidError(f"Non-nullable column '{item.name}' is not in the column list and has no default value")
    return found


@dataclass
class _Run:
    """One load of files that were not loaded yet."""

    spark: SparkSession
    table: Table
    request: Load
    columns: Sequence[str]
    rules: Rules
    _values: dict[str, Column] = field(default_factory=dict, init=False)
    _lost: dict[str, Column] = field(default_factory=dict, init=False)

    def run(self, files: Sequence[SourceFile], options: Mapping[str, str]) -> list[tuple[object, ...]]:
        """Read, check, write, remember."""
        with _told_of_files(self.request.format.name):
            frame = self._read(files, options)
            for name in self.columns:
                self._values[name], self._lost[name] = self._value(name, frame)
            self._require_casts(frame)
            # What is counted and what is written are the same rows, whatever becomes of files and executors meanwhile.
            frame = decided(frame.withColumn(_BAD, self._wrong(frame)))
            seen = self._seen(frame)
        return self._load(frame, files, seen)

    def _read(self, files: Sequence[SourceFile], options: Mapping[str, str]) -> DataFrame:
        """The files' columns under the names that they have, each row's file, and what is malformed."""
        paths, name = [literal_path(file.path) for file in files], self.request.format.name
        if name == "PARQUET":
            # Without it one file says what columns all of them have, and what others have beside these is lost.
            merged = {"mergeSchema": "true"} if len(paths) > 1 else {}
            frame = self.spark.read.options(**options, **merged).parquet(*paths)
            return frame.select("*", _file_of(frame), F.lit(None).cast("string").alias(_CORRUPT))
        given = self.columns if name == "JSON" else [f"_c{place}" for place in range(len(self.columns))]
        fields = [T.StructField(column, T.StringType()) for column in given]
        fields.append(T.StructField(_CORRUPT, T.StringType()))
        mode = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
        reader = self.spark.read.options(**{**options, **mode}).schema(T.StructType(fields))
        frame = reader.json(paths) if name == "JSON" else reader.csv(paths)
        texts = [self._text(F.col(quoted(own))).alias(column) for own, column in zip(given, self.columns, strict=True)]
        return frame.select(*texts, _file_of(frame), _CORRUPT)

    def _text(self, column: Column) -> Column:
        """A text of a file, null where the format says so."""
        nulls = [*self.request.format.null_if, *([""] if self.request.format.empty_is_null else [])]
        return F.when(~F.coalesce(column.isin(nulls), F.lit(False)), column) if nulls else column

    def _source(self, name: str, frame: DataFrame) -> str | None:
        """The frame's column for one of the table's."""
        fold: Callable[[str], str] = str if self.rules.sensitive else str.lower
        return next((own for own in frame.columns if fold(own) == fold(name)), None)

    def _value(self, name: str, frame: DataFrame) -> tuple[Column, Column]:
        """A column's value in the table's type, null where it cannot be cast; whether anything of it was lost so."""
        own, source = self.table.schema.field(name).type, self._source(name, frame)
        # Spark casts nothing to members that are NOT NULL: the writer looks for their nulls.
        kind, shown = (as_nullable(spark_type(one)) for one in (own, shown_type(own, self.table.options)))
        if source is None:
            return F.lit(None).cast(kind), F.lit(False)
        column, given = F.col(quoted(source)), as_nullable(frame.schema[source].dataType)
        if given == kind:
            return column, F.lit(False)
        if isinstance(kind, _NESTED) and isinstance(given, T.StringType):
            told, name = self.request.format.name, self.table.schema.field(name).name
            remedy = _BY_QUERY.format(told.lower(), self.request.source)
            raise UnsupportedError(f"nested values from {told} files", column=name, remedy=remedy)
        try:
            found, lost = cast_value(column, given, shown, self.rules)
        except InvalidError as error:
            raise self._uncast(name, source, frame) from error
        return (found if shown == kind else found.cast(kind)), lost

    def _require_casts(self, frame: DataFrame) -> None:
        """InvalidError for a column of the files of whose type no value is one of the table's, as of a ROW with other
        members."""
        if _mismatch(frame, list(self._values.values())) is None:
            return
        for name, value in self._values.items():
            source, error = self._source(name, frame), _mismatch(frame, [value])
            if source is not None and error is not None:
                raise self._uncast(name, source, frame) from error

    def _uncast(self, name: str, source: str, frame: DataFrame) -> InvalidError:
        return InvalidError(
            "a column of the files cannot be cast to the table's type",
            column=name,
            of_files=frame.schema[source].dataType.simpleString(),
            of_table=type_text(self.table.schema.field(name).type),
            remedy=_BY_QUERY.format(self.request.format.name.lower(), self.request.source),
        )

    def _wrong(self, frame: DataFrame) -> Column:
        """The first column whose value cannot be cast, null where all can."""
        found: Column = F.lit(None).cast("string")
        for name in reversed(self.columns):
            source = self._source(name, frame)
            if source is not None:
                found = F.when(self._lost[name], F.lit(source)).otherwise(found)
        return F.when(F.col(_CORRUPT).isNull(), found)

    def _seen(self, frame: DataFrame) -> dict[str, _Seen]:
        """By file's name, in one pass."""
        wrong = F.col(_CORRUPT).isNotNull() | F.col(_BAD).isNotNull()
        rows = frame.groupBy(_FILE).agg(
            F.count(F.lit(1)),
            F.count(F.when(wrong, 1)),
            F.first(_CORRUPT, ignorenulls=True),
            F.first(_BAD, ignorenulls=True),
        )
        found: dict[str, _Seen] = {}
        for name, count, errors, corrupt, column in rows.collect():
            cast = None if column is None else f"Cast failure in column '{column}'. {_CAST}"
            found[unquote(name)] = _Seen(
                name, count, errors, cast if corrupt is None else f"Malformed record: {corrupt}"
            )
        return found

    def _load(
        self, frame: DataFrame, files: Sequence[SourceFile], seen: Mapping[str, _Seen]
    ) -> list[tuple[object, ...]]:
        failed = [name for name, one in seen.items() if one.errors]
        if failed and self.request.on_error == ABORT:
            raise InvalidError(f"ON_ERROR = ABORT_STATEMENT: {seen[min(failed)].first}", file=min(failed))
        whole = self.request.on_error == SKIP_FILE
        good = {name: 0 if whole and one.errors else one.rows - one.errors for name, one in seen.items()}
        kept = [file for file in files if good.get(file.name, 0) or not seen.get(file.name, _Seen()).errors]
        given = [(file, good.get(file.name, 0)) for file in kept]
        if any(good.values()):
            if failed:
                frame = frame.where(F.col(_CORRUPT).isNull() & F.col(_BAD).isNull())
            if failed and whole:
                frame = frame.where(~F.col(_FILE).isin([seen[name].told for name in failed]))
            self._commit(frame.select(*[value.alias(name) for name, value in self._values.items()]), given)
        else:
            record_loaded(self.table.store, given, 0)
        return [_row(file, seen.get(file.name, _Seen()), good.get(file.name, 0)) for file in files]

    def _commit(self, rows: DataFrame, files: Sequence[tuple[SourceFile, int]]) -> None:
        """Once: see `ops.commit.loads`."""
        store = self.table.store
        with Loading(store, new_commit_user(store), files, again=self.request.force) as loading:
            loading.finish(write(self.spark, self.table, rows, WriteRequest(loading=loading)))


def _mismatch(frame: DataFrame, values: Sequence[Column]) -> AnalysisException | None:
    """What Spark says of casts from a type to one that nothing of it is cast to; None where there are none."""
    try:
        frame.select(*values).schema  # noqa: B018 (here Spark looks at them)
    except AnalysisException as error:
        if str(error.getCondition()).startswith("DATATYPE_MISMATCH"):
            return error
        raise
    return None


@contextmanager
def _told_of_files(format_name: str) -> Iterator[None]:
    """InvalidError for files that are not what FILE_FORMAT says: Spark's names them among traces."""
    try:
        yield
    except Exception as error:
        schemas = _UNMERGED.search(str(error))
        if schemas is not None:
            raise InvalidError(
                "columns of one name have other types in other files",
                schemas=[schema[:500] for schema in schemas.groups()],
                remedy="load such files apart: PATTERN says which are read",
            ) from error
        reason = _UNREAD.search(str(error))
        if reason is None:
            raise
        what = f"a file that is not {format_name}, or is damaged"
        raise InvalidError(what, reason=reason[0][:500], remedy="leave it out: PATTERN says which are read") from error


def _row(file: SourceFile, one: _Seen, good: int) -> tuple[object, ...]:
    status = "LOADED" if not one.errors else "PARTIALLY_LOADED" if good else "LOAD_FAILED"
    return (file.name, status, good, one.rows, one.errors, one.first)


def _file_of(frame: DataFrame) -> Column:
    """The name of a row's file, whatever columns the files have."""
    return frame.metadataColumn("_metadata").getField("file_name").alias(_FILE)
