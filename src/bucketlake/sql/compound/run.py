"""A script that changes tables, run statement by statement.

Its variables are the session's while it runs: a statement finds them there, behind the columns of its tables, as in
Spark's own scripts. Where one hides another of the script, that one is put away and comes back. What stands before a
dot in the script and labels variables is one of the session's, too: a struct of their values, so that `label.variable`
is found in their place.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import field
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException
from pyspark.sql import functions as F
from pyspark.sql import types as T

from bucketlake.errors import AlreadyExistsError, InvalidError, UnsupportedError
from bucketlake.lazy import pa
from bucketlake.spark.arrow_rows import collected, framed
from bucketlake.spark.raised import condition_of, interrupts_stay, told_as_ours
from bucketlake.spark.types import as_nullable, quoted, sql_type
from bucketlake.sql.compound.targets import SetName, into_targets, qualifiers, set_targets
from bucketlake.sql.compound.tree import HIDES, Block, Branch, Declared, Each, Handler, Jump, Loop, Node, Run, Text
from bucketlake.sql.query.immediate import is_query
from bucketlake.sql.query.named import passing_views
from bucketlake.sql.text.pieces import Piece, located
from bucketlake.sql.text.tokens import splice, tokenize
from bucketlake.types.model import quote_text
from bucketlake.values import dataclass

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from bucketlake.spark.session import Lake


class _Jumped(BaseException):
    """Control goes to the block or loop of this label: behind it, or into its next round (`again`). No error, so for no
    handler."""

    def __init__(self, jump: Jump) -> None:
        super().__init__(jump.label)
        self.jump = jump


@dataclass(slots=True)
class Scope:
    """The variables of a block, or of the rows of a FOR. `made`: as they are spelled, with where what each one hides
    was put; `held`: the session's variable that holds each one, by its name in lower case; `told`: those that the
    variable of its label has."""

    label: str
    made: dict[str, str | None] = field(default_factory=dict)
    held: dict[str, str] = field(default_factory=dict)
    told: tuple[str, ...] = ()


@dataclass(slots=True)
class Script:
    """One run of a script, whose text is `text`. `variables`: by their names in lower case those that there are, the
    innermost last: as it is spelled, and what declares it anew. `scopes`: the innermost last; `qualifiers`: the names
    before a dot. `rows`: of the last query, with their types."""

    lake: Lake
    text: str
    args: Any = None
    variables: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    scopes: list[Scope] = field(default_factory=list)
    qualifiers: frozenset[str] = frozenset()
    rows: tuple[pa.Table, T.StructType] | None = None
    handling: bool = False  # a handler runs

    def run(self, block: Block) -> DataFrame:
        """The rows of the last query that was run."""
        if self.args and not isinstance(self.args, dict):
            raise UnsupportedError("? markers in a script (BEGIN … END) that changes tables", remedy="name them: :name")
        self.qualifiers = qualifiers(self.text)
        self._block(block)
        return self.lake.nothing if self.rows is None else _frame(self.lake.spark, *self.rows)

    def _body(self, nodes: Sequence[Node]) -> None:
        for node in nodes:
            if isinstance(node, Run):
                self._statement(node)
            elif isinstance(node, Block):
                self._block(node)
            elif isinstance(node, Branch):
                self._branch(node)
            elif isinstance(node, Loop):
                self._loop(node)
            elif isinstance(node, Each):
                self._each(node)
            else:
                raise _Jumped(node)

    # ------------------------------------------------------------------------------------------------ statements

    def _sql(self, said: Text, before: str = "", after: str = "") -> DataFrame:
        """A statement of the script's text, with what makes it one; errors tell their place in the script."""
        try:
            return self.lake.sql(before + said.text + after, self.args or None)
        except Exception as error:
            piece = Piece(1, 1, max(said.start - len(before), 0), said.text)
            raise located(error, self.text, piece) from error.__cause__

    def _statement(self, node: Run) -> None:
        targets = set_targets(node.said.text) if node.variables else into_targets(node.said.text)
        said = self._with_held(node.said, targets)
        if node.variables:
            self._sql(said, "SET VARIABLE ")
            self._tell()
            return
        found = self._sql(said)
        if targets:
            self._tell()
        told = tokenize(node.said.text)[0].is_word("EXECUTE") and found.columns
        if told or is_query(node.said.text):
            with told_as_ours():
                self.rows = collected(found), as_nullable(found.schema)

    def _with_held(self, said: Text, targets: Sequence[SetName]) -> Text:
        """The statement with the session's variables in the places of `label.variable` that it sets. InvalidError
        for a script's variable as one of the session."""
        pieces = []
        for target in targets:
            label, name = target.parts[0].lower(), target.parts[-1].lower()
            if len(target.parts) > 1 and target.parts[-2].lower() == "session" and name in self.variables:
                told = ".".join(map(quoted, target.parts))
                raise InvalidError(f"[UNRESOLVED_VARIABLE] Cannot resolve variable {told}: it is the script's")
            held = next((scope.held.get(name) for scope in reversed(self.scopes) if scope.label == label), None)
            if len(target.parts) == 2 and held is not None:
                pieces.append((target.start, target.end, quoted(held).ljust(target.end - target.start)))
        return Text(splice(said.text, pieces), said.start) if pieces else said

    def _holds(self, condition: Text, before: str = "(") -> bool:
        """Whether a condition is true: it is not where it is NULL."""
        frame = self._sql(condition, f"SELECT {before}", ")")
        kind = frame.schema[0].dataType
        if not isinstance(kind, T.BooleanType):
            raise InvalidError(
                "a condition of a script is not BOOLEAN", condition=condition.text, type=kind.simpleString()
            )
        with told_as_ours():
            return frame.collect()[0][0] is True

    # ------------------------------------------------------------------------------------------ blocks and loops

    def _block(self, block: Block) -> None:
        with self._declared(block.label, block.declared):
            if block.handlers and any(len(found) > 1 for found in self.variables.values()):  # by a column of FOR
                raise UnsupportedError(HIDES, remedy="give the columns of FOR names of their own")
            try:
                try:
                    with interrupts_stay():  # no handler is for Ctrl-C
                        self._body(block.body)
                except Exception as error:
                    handler = _handler(block.handlers, error)
                    if handler is None:
                        raise
                    self._handle(handler)
            except _Jumped as jumped:
                if not block.label or jumped.jump.label != block.label:
                    raise

    def _handle(self, handler: Handler) -> None:
        around, self.handling = self.handling, True
        try:
            self._body(handler.body)
        finally:
            self.handling = around

    def _branch(self, node: Branch) -> None:
        if node.value is None:
            self._first(node, "(")
            return
        value = self._sql(node.value, "SELECT (", ") AS c0")
        name = self._fresh()
        with self._of_rows("", [name], [sql_type(value.schema[0].dataType)]):
            self._fill([name], ["c0"], value)
            self._first(node, f"({name} = ")

    def _first(self, node: Branch, before: str) -> None:
        """Run the body of the first case that holds."""
        chosen = next((body for condition, body in node.cases if self._holds(condition, before)), node.otherwise)
        self._body(chosen)

    def _loop(self, node: Loop) -> None:
        while True:
            if node.first and node.condition is not None and not self._holds(node.condition):
                return
            if not self._goes_on(node.label, node.body):
                return
            if not node.first and node.condition is not None and self._holds(node.condition):
                return

    def _goes_on(self, label: str, body: Sequence[Node]) -> bool:
        """Run one round of a loop: whether another may follow."""
        try:
            self._body(body)
        except _Jumped as jumped:
            if not label or jumped.jump.label != label:
                raise
            return jumped.jump.again
        return True

    def _each(self, node: Each) -> None:
        if not is_query(node.query.text):
            raise InvalidError("FOR takes a query", statement=node.query.text)
        frame = self._sql(node.query)
        with told_as_ours():
            rows, schema = collected(frame), as_nullable(frame.schema)
        names = list(schema.names)
        if len({name.lower() for name in names}) < len(names):
            raise InvalidError("a name of FOR is there twice", columns=names, remedy="rename it")
        told = T.StructType([T.StructField(f"c{place}", item.dataType) for place, item in enumerate(schema)])
        rows = rows.rename_columns(told.names)
        with self._of_rows(node.row, names, [sql_type(item.dataType) for item in schema]):
            for place in range(rows.num_rows):
                self._fill(names, told.names, _frame(self.lake.spark, rows.slice(place, 1), told))
                self._tell()
                if not self._goes_on(node.label, node.body):
                    return

    def _fill(self, names: Sequence[str], values: Sequence[str], row: DataFrame) -> None:
        """Set variables to values over a row."""
        with passing_views(self.lake.spark) as made:
            made.append(self._fresh())
            row.createTempView(made[0])
            listed = ", ".join(map(quoted, names))
            self.lake.spark.sql(f"SET VARIABLE ({listed}) = (SELECT {', '.join(values)} FROM {made[0]})")

    # ------------------------------------------------------------------------------------------------- variables

    @contextmanager
    def _declared(self, label: str, declared: Sequence[Declared]) -> Iterator[None]:
        """While this lasts, these variables are there."""
        with self._scope(label) as scope:
            for each in declared:
                for name in each.names:
                    if name.lower() in scope.held:
                        what = "[VARIABLE_ALREADY_EXISTS] the block declares the variable twice"
                        raise AlreadyExistsError(what, variable=name)
                    self._enter(scope, name, each.rest)
                self._tell()
            yield

    @contextmanager
    def _of_rows(self, label: str, names: Sequence[str], types: Sequence[str]) -> Iterator[None]:
        """While this lasts, variables of these types are there."""
        with self._scope(label) as scope:
            for name, kind in zip(names, types, strict=True):
                self._enter(scope, name, Text(kind, 0))
            yield

    @contextmanager
    def _scope(self, label: str) -> Iterator[Scope]:
        """A scope without variables; all is as before when it ends."""
        scope = Scope(label)
        self.scopes.append(scope)
        try:
            yield scope
        finally:
            if scope.told:
                self._drop(label)
            for name, hidden in reversed(scope.made.items()):
                self._restore(name, hidden)
            self.scopes.pop()

    def _enter(self, scope: Scope, name: str, rest: Text) -> None:
        """Declare a variable of the innermost scope."""
        scope.made[name] = self._put_away(name)
        self._declare(name, rest)
        scope.held[name.lower()] = name

    def _tell(self) -> None:
        """Let the variables of labels have what those that they label are now."""
        for scope in self.scopes:
            if scope.label not in self.qualifiers or not scope.held:
                continue
            if scope.label in self.variables:
                raise UnsupportedError(
                    "a label that is also a variable's name, in a script (BEGIN … END) that changes tables",
                    label=scope.label,
                    remedy="rename one of them",
                )
            values = ", ".join(f"{quote_text(name)}, {quoted(held)}" for name, held in scope.held.items())
            row, label = f"named_struct({values})", quoted(scope.label)
            if len(scope.told) < len(scope.held):
                kind = sql_type(self.lake.spark.sql(f"SELECT {row}").schema[0].dataType)
                if scope.told:
                    self._drop(scope.label)
                self._session_variable(scope.label, Text(kind, 0))
                scope.told = tuple(scope.held)
            self.lake.spark.sql(f"SET VARIABLE {label} = {row}")

    def _declare(self, name: str, rest: Text) -> None:
        self._session_variable(name, rest)
        self.variables.setdefault(name.lower(), []).append((name, rest.text))

    def _session_variable(self, name: str, rest: Text) -> None:
        try:
            self._sql(rest, f"DECLARE VARIABLE {quoted(name)} ")
        except AnalysisException as error:
            if error.getCondition() != "VARIABLE_ALREADY_EXISTS":
                raise
            remedy = f"rename it, or DROP TEMPORARY VARIABLE {quoted(name)} first"
            raise AlreadyExistsError("the session has the variable of a script", variable=name, remedy=remedy) from None

    def _put_away(self, name: str) -> str | None:
        """Where the value of the script's own variable of this name was put, None where it has none."""
        hidden = self.variables.get(name.lower())
        if not hidden:
            return None
        if self.handling:  # by a column of FOR
            raise UnsupportedError(HIDES, remedy="give the columns of FOR names of their own")
        kept = self._fresh()
        self.lake.spark.sql(f"DECLARE VARIABLE {kept} = session.{quoted(hidden[-1][0])}")
        self._drop(hidden[-1][0])
        self._hold(name, kept)
        return kept

    def _hold(self, name: str, place: str) -> None:
        """The variable of the innermost scope that has it lies in another of the session's now."""
        scope = next(scope for scope in reversed(self.scopes) if name.lower() in scope.held)
        scope.held[name.lower()] = place

    def _restore(self, name: str, kept: str | None) -> None:
        """Let the variable go, or be again what it hid."""
        known = self.variables.get(name.lower(), [])
        if len(known) > (kept is not None):  # it was declared
            known.pop()
            if not known:
                del self.variables[name.lower()]
            self._drop(name)
        self.scopes[-1].held.pop(name.lower(), None)
        if kept is not None:
            hidden, rest = known[-1]
            self._sql(Text(rest, 0), f"DECLARE VARIABLE {quoted(hidden)} ")
            self.lake.spark.sql(f"SET VARIABLE {quoted(hidden)} = {kept}")
            self._drop(kept)
            self._hold(name, hidden)

    def _drop(self, name: str) -> None:
        with suppress(AnalysisException):  # the script may have dropped it
            self.lake.spark.sql(f"DROP TEMPORARY VARIABLE {quoted(name)}")

    def _fresh(self) -> str:
        return f"script_{self.lake.catalog.env.clock.new_uuid().replace('-', '')}"


def _frame(spark: SparkSession, rows: pa.Table, schema: T.StructType) -> DataFrame:
    """A frame of rows in the driver: Spark Connect takes intervals of days from Arrow as such to seconds alone."""
    if not any(isinstance(item.dataType, T.DayTimeIntervalType) for item in schema):
        return framed(spark, rows, schema)
    names = [f"c{place}" for place in range(len(schema))]
    kinds = [
        T.DayTimeIntervalType() if isinstance(item.dataType, T.DayTimeIntervalType) else item.dataType
        for item in schema
    ]
    wide = T.StructType([T.StructField(name, kind) for name, kind in zip(names, kinds, strict=True)])
    found = framed(spark, rows.rename_columns(names), wide)
    columns = [F.col(name).cast(item.dataType) for name, item in zip(names, schema, strict=True)]
    return found.select(*columns).toDF(*schema.names)


def _handler(handlers: Sequence[Handler], error: Exception) -> Handler | None:
    """The handler of a block for an error: of its condition, else of its state, else of all."""
    condition, state = (told or "" for told in condition_of(error))
    general = "NOT FOUND" if state[:2] == "02" else "SQLEXCEPTION"
    for wanted in (condition, condition.split(".")[0], state, general):
        found = next((each for each in handlers if wanted and wanted in each.conditions), None)
        if found is not None:
            return found
    return None
