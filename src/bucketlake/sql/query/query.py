"""Queries over lake tables: each reference becomes a DataFrame argument of `spark.sql`, the rest stays as written.

Per reference the plan is told what is proved to be enough of the table (`sql/query/pushdown.py`): this only prunes
files, columns and rows, and Spark still evaluates the statement itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException, ParseException, PySparkValueError
from sqlglot import exp

from bucketlake.env.storage import threads_for
from bucketlake.errors import BucketlakeError, InvalidError
from bucketlake.ops.table.parallel import parallel
from bucketlake.ops.table.retry import on_newest
from bucketlake.spark.instants import shown_schema, unproved
from bucketlake.spark.read.hidden import Wanted, offered
from bucketlake.spark.read.hidden import read as hidden_read
from bucketlake.spark.read.reader import SMALL_ROWS, Need, pruned
from bucketlake.spark.read.united import apart
from bucketlake.spark.settings import is_case_sensitive, settings_of
from bucketlake.spark.types import quoted
from bucketlake.sql.query import as_written, current, hidden, input_file, max_pt, sys_functions
from bucketlake.sql.query.aggregate import asked, may_ask, reduced
from bucketlake.sql.query.explain import Read, with_tables
from bucketlake.sql.query.functions import Call, calls
from bucketlake.sql.query.given import Braces
from bucketlake.sql.query.joined import Use, narrowed
from bucketlake.sql.query.moment import asks_time, query_at_moment
from bucketlake.sql.query.named import named_query
from bucketlake.sql.query.parser import Settings, Source
from bucketlake.sql.query.projection import projected
from bucketlake.sql.query.pushdown import Proof, proof
from bucketlake.sql.query.qualified import Plain, own_names, qualified_pieces, token_pieces
from bucketlake.sql.query.retold import remember
from bucketlake.sql.query.top import WORTH_ROWS, bounded, top
from bucketlake.sql.query.travel import Travel, session_options, travels
from bucketlake.sql.query.tree import lists_predicates, named_tables, parsed_of
from bucketlake.sql.query.unknown import explained
from bucketlake.sql.query.views import view_pieces
from bucketlake.sql.text import between, lexemes, names
from bucketlake.sql.text.cursor import Hint, option_hints, sample_end
from bucketlake.sql.text.plain import plain_pieces
from bucketlake.sql.text.tokens import Token, blank, explain_length, splice, tokenize
from bucketlake.values import dataclass

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from bucketlake.ops.scan.select import Selection
    from bucketlake.spark.session import Lake
    from bucketlake.table import Table


FEW_FRAMES = 4  # of one table in a statement, each of what one place needs


@dataclass(slots=True)
class Reference:
    """One use of a lake table in a query: `text[start:end]` names it, `until` is where its hint or AS OF ends.
    `call`: the options of the table function that it stands in."""

    name: names.LakeName
    start: int
    end: int
    until: int
    node: exp.Table | None = None
    options: dict[str, str] = field(default_factory=dict)
    call: dict[str, str] = field(default_factory=dict)

    @property
    def exposed(self) -> str:
        """The name by which the query's columns may qualify it."""
        return self.node.alias if self.node is not None and self.node.alias else self.name.table

    @property
    def aliased(self) -> bool:
        """Whether the query gives it a name of its own."""
        return self.node is not None and bool(self.node.alias)


@dataclass(frozen=True, slots=True)
class Place:
    """A reference, by where its name starts in the statement, and the DataFrame to bind it to instead of its rows."""

    start: int
    frame: DataFrame


def run(
    lake: Lake,
    statement: str,
    args: Any = None,
    place: Place | None = None,
    prune: bool = True,
    given: Braces | None = None,
) -> DataFrame:
    """Run a query or any statement that reads: lake tables are bound, everything else reaches Spark as written.
    `prune`: tables leave out what the statement does not need. `given`: what the user's own braces stand for, whose
    columns nobody knows here."""
    prune = prune and given is None
    written, started = statement, place
    as_written.refuse_operators(lake, statement)
    for said in _SAID:
        pieces = said(lake, statement)
        if pieces:
            place = None if place is None else replace(place, start=moved(place.start, pieces))
            statement = splice(statement, pieces)
    reads: list[Read] | None = [] if statement.lstrip()[:7].upper() == "EXPLAIN" else None
    bound, frames, titles = bind(lake, statement, place, prune, reads)
    text_of, values_of = (bound if frames else statement), dict[str, Any](frames)
    if given is not None:
        text_of, values_of = given.bound(text_of, frames)
    else:
        found = None if args else projected(lake.spark, bound, frames)
        found = named_query(lake.spark, bound, args, frames, titles) if found is None else found
        if found is not None:
            return found
    try:
        found = lake.spark.sql(text_of, args, **values_of) if args else lake.spark.sql(text_of, **values_of)
        return with_tables(lake.spark, found, reads) if reads is not None and frames else found
    except AnalysisException as error:
        unresolved = str(error.getCondition()).startswith(("UNRESOLVED_COLUMN", "UNRESOLVED_USING_COLUMN"))
        if frames and prune and unresolved:
            return run(
                lake, written, args, started, prune=False, given=given
            )  # Spark suggests the columns that it knows
        if frames and isinstance(error, ParseException):
            aliased = as_written.meant(lake, written)
            if aliased is not None and started is None and given is None:
                return run(lake, aliased, args, prune=prune)
        known = explained(lake, error) or (None if frames else _hinted(lake, statement, error))
        if known is None:
            remember(error, text_of, bool(frames))
            raise
        raise known from None  # its own message is about names that the user did not write
    except PySparkValueError as error:
        if given is None:
            raise
        raise InvalidError(f"SQL: {given.told(str(error))}") from error


def _hinted(lake: Lake, statement: str, error: AnalysisException) -> BucketlakeError | None:
    """What is wrong with a query whose OPTIONS hints Spark cannot read: a table that is missing, or one that is no lake
    table; None for other errors."""
    tokens = tokenize(statement)
    hints = option_hints(statement, tokens) if isinstance(error, ParseException) else []
    plain = blank(statement, [(hint.start, hint.end) for hint in hints])
    parsed = parsed_of(plain) if hints else None
    if parsed is None or not isinstance(parsed.tree, exp.Query):
        return None
    try:
        lake.spark.sql(plain)
    except AnalysisException as other:
        return explained(lake, other)
    return InvalidError("SQL: an OPTIONS hint follows no lake table", hint=hints[0].options, remedy="put it after one")


def _plain(_lake: Lake, statement: str) -> list[tuple[int, int, str]]:
    return plain_pieces(statement)


def _views(lake: Lake, statement: str) -> list[tuple[int, int, str]]:
    return view_pieces(lake, statement, partial(names_today, lake))


def names_today(lake: Lake, statement: str) -> list[str] | None:
    """The names of the columns of a query that names no view; None where it is none. No table's files are planned."""
    for said in (_plain, _values):
        statement = splice(statement, said(lake, statement))
    text, frames, _ = bind(lake, statement, prune=False, empty=True)
    try:
        return list(lake.spark.sql(text, **frames).columns if frames else lake.spark.sql(statement).columns)
    except AnalysisException:
        return None  # the statement that names the view says what is wrong


def _values(lake: Lake, statement: str) -> list[tuple[int, int, str]]:
    """What stands for the functions that the catalog or the table's files answer."""
    return [
        *max_pt.pieces(lake, statement),
        *sys_functions.function_pieces(lake, statement),
        *input_file.pieces(lake, statement),
        *current.pieces(lake, statement),
    ]


_SAID = (_plain, _views, _plain, _values)  # a view's text may say TABLE t itself


def run_at(lake: Lake, statement: str, millis: int) -> DataFrame:
    """The rows of a query that has been looked at, which sees this time, in epoch milliseconds."""
    for said in _SAID:
        statement = splice(statement, said(lake, statement))
    if not asks_time(statement):
        return run(lake, statement)
    text, frames, _ = bind(lake, statement)
    return query_at_moment(lake.spark, text, frames, millis)


def bind(
    lake: Lake,
    statement: str,
    place: Place | None = None,
    prune: bool = True,
    reads: list[Read] | None = None,
    empty: bool = False,
) -> tuple[str, dict[str, DataFrame], dict[str, str]]:
    """The statement with lake tables replaced by `{t0}`, `{t1}`, …, the DataFrame that each one stands for (all columns
    and rows, unless `prune`), and the name of its table. `reads` takes down what is read of which table. `empty`: the
    DataFrames have the columns alone."""
    tokens = tokenize(statement)
    if names_no_table(tokens):
        return statement, {}, {}
    hints = option_hints(statement, tokens)
    found = travels(statement, tokens)
    called = calls(statement, tokens)
    cut = [(hint.start, hint.end) for hint in hints] + [(t.start, t.end) for t in found]
    cut += [*between.comments(statement, tokens), *((call.opens, call.end) for call in called.values())]
    plain = blank(statement, cut)
    parsed = parsed_of(blank(plain, [_explain(tokens)]))
    tree = parsed.tree if parsed is not None else None
    references = list(_references(lake, plain, tree, called, is_case_sensitive(lake.spark)))
    if not references:
        return statement, {}, {}
    settings = settings_of(lake.spark)
    for reference in references:
        _attach(lake, reference, plain, [*hints, *found], settings)
    pieces = _after_aliases(references, plain, hints)
    extra = _with_hidden(lake, references, statement, place)
    pieces += hidden.star_pieces(tokens, [hidden.Bound(r.start, r.exposed, extra[r.start]) for r in references])
    proved = None
    if prune and parsed is not None and all(any(r.start < t.start < r.until for r in references) for t in found):
        proved = proof(parsed, Settings(lake.spark), statement)
    counts = proved is not None and place is None and not any(extra.values())
    counted = _counted(lake, references, proved) if counts and proved is not None else None
    if counted is not None:
        pieces.extend(counted[1])
        frames, names_of = {"t0": counted[0]}, ["t0"]
    elif empty:
        frames, names_of = _layouts(lake, references, extra)
    else:
        if reads is not None:
            _take_down(lake, references, proved, reads)
        first = references[0].name.full
        frames, names_of = on_newest(
            lambda: lake.table(first).table.store, lambda: _frames(lake, references, proved, place, extra)
        )
    if lists_predicates(plain, tree):
        frames = {name: apart(frame) for name, frame in frames.items()}
    own = _own_names(lake, references, tree, plain, pieces)
    pieces = [(start, until, _braced(piece)) for start, until, piece in pieces]  # names may hold braces
    for reference, name in zip(references, names_of, strict=True):
        pieces.extend(_bound(reference, name, plain, own.get(reference.start, reference.name.table)))
    escaped = _braced(statement)
    titles = {name: reference.name.full for reference, name in zip(references, names_of, strict=True)}
    return splice(escaped, _shifted(statement, pieces)), frames, titles


def _frames(
    lake: Lake,
    references: Sequence[Reference],
    proved: Proof | None,
    place: Place | None,
    extra: Mapping[int, tuple[str, ...]],
) -> tuple[dict[str, DataFrame], list[str]]:
    """What each name stands for, and the name of each reference: all that read one table the same see one snapshot."""
    frames: dict[str, DataFrame] = {}
    plans: dict[tuple[Any, ...], str] = {}
    chosen: list[str] = []
    uses = _uses(lake, references, proved, place)
    for reference, use, need in zip(references, uses, _needs(references, uses, proved), strict=True):
        table, selection = use.table, use.selection
        own = place is not None and place.start == reference.start
        key = (reference.name, tuple(reference.options.items()), need, own, extra[reference.start])
        if key not in plans:
            plans[key] = f"t{len(plans)}"
            if place is not None and own:
                frames[plans[key]] = place.frame
            elif extra[reference.start]:
                elsewhere = any(extra[other.start] and other.name != reference.name for other in references)
                wanted = Wanted(need.columns, extra[reference.start], need.predicate, elsewhere)
                frames[plans[key]] = hidden_read(lake.spark, table, selection, wanted)
            else:
                frames[plans[key]] = pruned(lake.spark, table, selection, need, lake.kept)
        chosen.append(plans[key])
    return frames, chosen


def _layouts(
    lake: Lake, references: Sequence[Reference], extra: Mapping[int, tuple[str, ...]]
) -> tuple[dict[str, DataFrame], list[str]]:
    """As `_frames`, without a row."""
    frames = {}
    for at, reference in enumerate(references):
        table, _ = _selected(lake, (reference.name, tuple(reference.options.items())))
        schema = shown_schema(table.schema.fields, table.options)
        for name in extra[reference.start]:
            schema = schema.add(name, "string")
        frames[f"t{at}"] = lake.spark.createDataFrame([], schema)
    return frames, list(frames)


def _needs(references: Sequence[Reference], uses: Sequence[Use], proved: Proof | None) -> list[Need]:
    """What is read for each reference: the same for all of a small table that is named often, since a frame costs more
    than its rows."""
    needs: list[Need] = []
    together: dict[Any, list[int]] = {}
    for at, (reference, use) in enumerate(zip(references, uses, strict=True)):
        need = use.need
        if proved is not None and use.source is not None:
            need = _first_rows(use.table, use.selection, proved, use.source, need)
        if any(option.startswith("incremental") for option in reference.options):
            need = replace(need, limit=None)  # what came between two snapshots is less than its files hold
        needs.append(need)
        together.setdefault((reference.name, tuple(reference.options.items())), []).append(at)
    for places in together.values():
        snapshot = uses[places[0]].selection.snapshot
        small = snapshot is not None and snapshot.total_record_count <= SMALL_ROWS
        if small and len({needs[at] for at in places}) > FEW_FRAMES:
            named = [needs[at].columns for at in places]
            every = None if None in named else tuple(dict.fromkeys(chain.from_iterable(filter(None, named))))
            for at in places:
                needs[at] = Need(every)
    return needs


def _uses(lake: Lake, references: Sequence[Reference], proved: Proof | None, place: Place | None = None) -> list[Use]:
    """What is read of which table for each reference: of one table by the same options one snapshot."""
    reads = list({(reference.name, tuple(reference.options.items())): None for reference in references})
    opened = parallel(partial(_selected, lake), reads, threads_for(lake.catalog.warehouse))
    selected = dict(zip(reads, opened, strict=True))
    uses = []
    for reference in references:
        table, selection = selected[reference.name, tuple(reference.options.items())]
        own = place is not None and place.start == reference.start
        source = None if own else _source(reference, table)
        need = Need() if proved is None or source is None else _need(proved, source)
        uses.append(Use(table, selection, source, need))
    needs = [use.need for use in uses] if proved is None or len(uses) < 2 else narrowed(proved, uses)
    return [replace(use, need=need) for use, need in zip(uses, needs, strict=True)]


def _selected(lake: Lake, read: tuple[names.LakeName, tuple[tuple[str, str], ...]]) -> tuple[Table, Selection]:
    name, options = read
    return lake.table(name.full).table.as_of(dict(options))


def _take_down(lake: Lake, references: Sequence[Reference], proved: Proof | None, reads: list[Read]) -> None:
    """What a query reads of its tables."""
    for reference, use in zip(references, _uses(lake, references, proved), strict=True):
        reads.append(Read(reference.name.full, use.table, use.selection, use.need.columns, use.need.predicate))


def _counted(
    lake: Lake, references: Sequence[Reference], proved: Proof
) -> tuple[DataFrame, Sequence[tuple[int, int, str]]] | None:
    """A few rows of metadata that answer the whole statement, with what is spliced into its text; None: rows do."""
    reference = references[0]
    if (
        len(references) != 1
        or reference.call
        or not may_ask(proved)
        or any(key.startswith("incremental") for key in reference.options)
    ):
        return None
    handle = lake.table(reference.name.full).table

    def once() -> tuple[DataFrame, Sequence[tuple[int, int, str]]] | None:
        table, selection = handle.as_of(reference.options)
        source = _source(reference, table)
        wanted = asked(proved, source, table.schema.partition_keys) if table.view is None else None
        if wanted is None:
            return None
        found = reduced(lake.spark, table.store, table.planned(proved.predicate(source), selection), wanted)
        return None if found is None else (found, wanted.pieces)

    return on_newest(handle.store, once)


def _source(reference: Reference, table: Table) -> Source:
    fields = table.schema.fields
    return Source(reference.node, reference.exposed, fields, unproved(fields, table.options))


def moved(start: int, pieces: Sequence[tuple[int, int, str]]) -> int:
    """Where a place of a statement is once these pieces are spliced in, none of which holds it."""
    return start + sum(len(text) - (until - begin) for begin, until, text in pieces if until <= start)


def _with_hidden(
    lake: Lake, references: Sequence[Reference], statement: str, place: Place | None
) -> dict[int, tuple[str, ...]]:
    """The metadata columns that each reference is bound with, by its place: those that the statement names."""
    wanted = hidden.named(statement)
    found: dict[int, tuple[str, ...]] = {}
    for reference in references:
        found[reference.start] = ()
        if wanted and not (place is not None and place.start == reference.start):
            table = lake.table(reference.name.full).table
            if table.view is None:
                known = offered(table.schema)
                found[reference.start] = tuple(name for name in wanted if name in known)
    return found


def _first_rows(table: Table, selection: Selection, proved: Proof, source: Source, need: Need) -> Need:
    """What is needed, less what lies behind the first rows where these alone are asked for."""
    rows = selection.snapshot.total_record_count if selection.snapshot is not None else None
    plain = need == Need(need.columns) and selection.span is None and table.view is None
    wanted = top(proved, source) if plain and (rows or 0) >= WORTH_ROWS else None
    if wanted is None:
        return need
    return replace(need, predicate=bounded(table.store, table.planned(None, selection), wanted))


def _need(proved: Proof, source: Source) -> Need:
    """What of a table is read: all that the statement may need of it."""
    columns, predicate = proved.columns(source), proved.predicate(source)
    limit = proved.limit(source) if predicate is None else None
    return Need(None if columns is None else tuple(columns), predicate, limit)


def _bound(reference: Reference, name: str, plain: str, own: str) -> list[tuple[int, int, str]]:
    """The marker in a reference's place, and its `own` name, behind a TABLESAMPLE clause if there is one."""
    marker = (reference.start, reference.until, "{" + name + "}")
    if reference.aliased:
        return [marker]
    alias = _braced(f" AS {quoted(own)}")
    end = sample_end(plain, reference.until)
    if end is None:
        return [(*marker[:2], marker[2] + alias)]
    return [marker, (end, end, alias)]


def _braced(written: str) -> str:
    """A text whose braces are letters beside the markers."""
    return written.replace("{", "{{").replace("}", "}}")


def _shifted(statement: str, pieces: list[tuple[int, int, str]]) -> list[tuple[int, int, str]]:
    """The pieces' places once braces have been doubled."""

    def moved(place: int) -> int:
        head = statement[:place]
        return place + head.count("{") + head.count("}")

    return [(moved(start), moved(end), piece) for start, end, piece in pieces]


def names_no_table(tokens: Sequence[Token]) -> bool:
    """Whether a statement is a query without a word that a table's name follows: to parse many rows takes long."""
    if not tokens or tokens[0].value.upper() not in ("SELECT", "VALUES", "WITH", "("):
        return False
    return not any(token.kind == "word" and token.value.upper() in ("FROM", "JOIN", "TABLE") for token in tokens)


def _explain(tokens: list[Token]) -> tuple[int, int]:
    """Where EXPLAIN and its mode stand; nowhere, in other statements."""
    count = explain_length(tokens)
    return 0, tokens[count - 1].end if count else 0


def _of_call(lake: Lake, call: Call, node: exp.Table | None) -> Reference:
    name, options = call.read(lake)
    return Reference(name, call.start, call.end, call.end, node, call=options)


def _references(
    lake: Lake, statement: str, tree: exp.Expr | None, called: Mapping[int, Call], sensitive: bool
) -> Iterator[Reference]:
    named = list(named_tables(statement, tree, sensitive))
    asked = [found.parts for found in named if found.table and found.start not in called]
    meant = iter(names.find_all(lake, asked))
    for found in named:
        if found.start in called:
            yield _of_call(lake, called[found.start], found.node)
        elif found.table and (name := next(meant)) is not None:
            yield Reference(name, found.start, found.end, found.end, found.node)


def _attach(
    lake: Lake, reference: Reference, plain: str, clauses: list[Hint | Travel], settings: Mapping[str, str]
) -> None:
    """Give a reference the session's options, its call's, then the hint and AS OF that follow it directly."""
    reference.options = {**session_options(lake, reference.name, settings), **reference.call}
    moved = True
    while moved:
        moved = False
        for clause in clauses:
            follows = clause.start >= reference.until and not plain[reference.until : clause.start].strip()
            if follows and clause.end > reference.until:
                if reference.call and isinstance(clause, Travel):
                    raise InvalidError(
                        "SQL: AS OF after a table function", clause=clause.value, remedy="leave out one of them"
                    )
                reference.until = clause.end
                reference.options.update(clause.options if isinstance(clause, Hint) else clause.scan(lake, run))
                moved = True


def _after_aliases(references: list[Reference], plain: str, hints: list[Hint]) -> list[tuple[int, int, str]]:
    """Hints that follow a table's alias (`t AS a /*+ OPTIONS(…) */`) taken up; the places to cut them out."""
    cuts = []
    for hint in hints:
        if any(reference.start < hint.start < reference.until for reference in references):
            continue
        for reference in references:
            after = _alias_end(reference)
            if after and hint.start >= after and not plain[after : hint.start].strip():
                reference.options.update(hint.options)
                cuts.append((hint.start, hint.end, ""))
                break
        else:
            raise InvalidError(
                "SQL: an OPTIONS hint follows no lake table", hint=hint.options, remedy="put it after one"
            )
    return cuts


def _own_names(
    lake: Lake,
    references: Sequence[Reference],
    tree: exp.Expr | None,
    plain: str,
    pieces: list[tuple[int, int, str]],
) -> dict[int, str]:
    """The names, by their places, of tables that cannot be called by their last; what stands for the qualifiers of
    columns is added to the pieces."""
    if tree is None:
        named = {(r.start, r.end): r.name for r in references if not r.aliased}
        pieces.extend(token_pieces(plain, named, lake.catalog_names))
        return {}
    tables = {r.start: Plain(r.name, r.node, lake.catalog_names) for r in references if not r.aliased}
    own = own_names(tree, list(tables.values()))

    def has(name: names.LakeName, column: str) -> bool:
        schema = lake.table(name.full).table.schema
        known = {*schema.field_names, *offered(schema)}
        return lexemes.fold(column) in {lexemes.fold(field) for field in known}

    pieces.extend(qualified_pieces(tree, list(tables.values()), own, has))
    return {start: own[table.whole] for start, table in tables.items() if table.whole in own}


def _alias_end(reference: Reference) -> int:
    """Where the reference's alias ends, 0 without one."""
    if reference.node is None or not reference.aliased:
        return 0
    return int(reference.node.args["alias"].this.meta.get("end", -1)) + 1
