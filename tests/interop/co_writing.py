"""A random table under the hands of Bucketlake and Apache Paimon (its Java API), and what both say of it.

A history plays on three tables alike: `m`, which both write in turns, `a`, which Bucketlake writes alone, and `b`,
which Paimon does. After each turn both engines read the same rows of `m`, each reads the other's table, and where rows
do not depend on when files are compacted all three hold the same ones. At the end: branches, commits around one another,
every snapshot and tag, spans of snapshots, system tables, fsck.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from tests.interop.differences import different, differing
from tests.interop.peer_fails import FAILS, KnownFail
from tests.interop.random_tables import Change, Spec, kind_of, rows, some_kind
from tests.interop.rarer_changes import rarer_change
from tests.interop.rarer_tables import meant
from tests.interop.values import arrow_rows, canonical
from tests.peers.flink import FlinkPaimon
from tests.peers.python_peers import PyPaimon
from tests.peers.rpc import PeerError

import bucketlake
from bucketlake import BucketlakeError, Table
from bucketlake.errors import ConflictError, InvalidError, UnsupportedError
from bucketlake.ops.check.fault import LEVELS
from bucketlake.ops.check.fsck import FsckRequest, fsck
from bucketlake.ops.write.prepare import new_commit_user, prepare_write
from bucketlake.ops.write.write import write_batches
from bucketlake.schema.change import AddColumn, DropColumn, RenameColumn, UpdateColumnType
from bucketlake.schema.schema import KIND_FIELD
from bucketlake.types.model import INT, DataField, arrow_schema, format_type, type_text

DATABASE = "db"
SYSTEM = (
    *("snapshots", "schemas", "options", "files", "partitions", "manifests", "buckets", "tags", "branches"),
    *("statistics", "aggregation_fields", "table_indexes"),
)
IMAGE = re.compile(r"b'(?:[^'\\\\]|\\\\.){80,}'|b\"(?:[^\"\\\\]|\\\\.){80,}\"")  # a sketch's bytes
RETYPED = {
    "TINYINT": "INT",
    "SMALLINT": "BIGINT",
    "INT": "BIGINT",
    "FLOAT": "DOUBLE",
    "DATE": "STRING",
    "BOOLEAN": "STRING",
    "VARBINARY(6)": "BINARY(4)",
    "CHAR(4)": "BINARY(6)",
    "TIMESTAMP(3)": "TIMESTAMP(0)",
    "TIMESTAMP(6)": "DATE",
    "TIMESTAMP_LTZ(6)": "TIMESTAMP_LTZ(2)",
    "DECIMAL(18, 4)": "DECIMAL(38, 2)",
}
# What Paimon's commit says where another took files away that it needs, and of its own overwrites of bucketed appends.
THEIR_CONFLICT = re.compile(r"conflict|not previously added|expected", re.IGNORECASE)


def arrow(fields: Sequence[DataField], changes: Sequence[Change], kinds: bool) -> pa.Table:
    """Rows as Arrow; `kinds`: with their kinds in a column `_VALUE_KIND`."""
    schema = arrow_schema(fields)
    columns = {item.name: pa.array([row.get(item.name) for _, row in changes], item.type) for item in schema}
    if kinds:
        columns[KIND_FIELD.name] = pa.array([kind for kind, _ in changes], pa.int8())
    return pa.table(columns)


class World:
    """One warehouse. `paimon(operation, …)`: an operation of tests.peers.paimon_api on it."""

    def __init__(self, folder: Path, flink: FlinkPaimon, pypaimon: PyPaimon | None = None) -> None:
        self.folder, self.flink = folder.resolve(), flink.use(folder)
        self.python = None if pypaimon is None else pypaimon.use(folder)
        self.catalog = bucketlake.open(folder)
        self.catalog.create_database(DATABASE)
        self._count = 0

    def paimon(self, operation: str, **args: Any) -> Any:
        return self.flink.api(operation, warehouse=str(self.folder), **args)

    def read(self, name: str, options: dict[str, str] | None = None) -> tuple[list[DataField], list[tuple[Any, ...]]]:
        """What Paimon reads: columns and rows."""
        path = self.folder / f"read-{self._next()}.parquet"
        columns = self.paimon("read", name=name, path=str(path), options=options or {})
        fields = [DataField(at, name, kind_of(text)) for at, (name, text) in enumerate(columns)]
        found = pq.ParquetFile(path).read()
        path.unlink()
        return fields, arrow_rows(found, fields)

    def stage(self, fields: Sequence[DataField], changes: Sequence[Change]) -> str:
        """A table of these rows, their kinds in a last column, for Paimon to write."""
        named = [(item.name, item.type.with_nullable(True)) for item in fields]
        staged = [DataField(at, name, kind) for at, (name, kind) in enumerate([*named, ("_kind", INT)])]
        table = self.catalog.create_table(f"{DATABASE}.staged{self._next()}", staged)
        rows = arrow(fields, changes, False).append_column("_kind", pa.array([kind for kind, _ in changes], pa.int32()))
        table.write_arrow(rows)
        return table.name

    def _next(self) -> int:
        self._count += 1
        return self._count


@dataclass
class Step:
    """One operation on a table, by Bucketlake and by Paimon. `ours_alone`: only Bucketlake has it. `told`: for the log.
    `python`: by pypaimon, of what it can do."""

    told: str
    ours: Callable[[Table], Any]
    paimon: Callable[[str], Any]
    ours_alone: bool = False
    python: Callable[[str], Any] | None = None


@dataclass
class History:
    """One table's history, by a seed. `problems`: what went wrong, `log`: what was done."""

    world: World
    spec: Spec
    turns: int
    problems: list[str] = field(default_factory=list)
    log: list[str] = field(default_factory=list)
    known: set[KnownFail] = field(default_factory=set)  # what Paimon is known to fail in, and did

    def __post_init__(self) -> None:
        self.chance = random.Random(f"history {self.spec.seed}")
        self.columns = dict(self.spec.columns)
        self.by_python = False  # whether pypaimon wrote: it does not choose every row's bucket as Paimon does
        self.added, self.tags, self.expired = 0, 0, False
        self.states: list[dict[str, int]] = []  # what to roll back to: table -> snapshot

    def play(self) -> None:
        """All of it; stops at the first problem with rows."""
        spec = self.spec
        for which in "mab":
            name = self.name(which)
            self.world.catalog.create_table(name, spec.fields(), spec.partitions, spec.keys, spec.options)
        for turn in range(self.turns):
            if not self._turn(turn):
                return
        if not spec.crosses and not spec.postpones and self.newest("m") and self._branch():
            self._around()
        self._past()
        self._system()
        found = fsck(self.table("m").store, FsckRequest(level=LEVELS[-1])).errors
        if found:
            self.problems.append(f"fsck: {found[:3]}")

    # ---- names and tables

    def name(self, which: str) -> str:
        return f"{DATABASE}.{which}{self.spec.seed}"

    def table(self, which: str) -> Table:
        return self.world.catalog.table(self.name(which))

    def newest(self, which: str) -> int:
        snapshot = self.table(which).latest_snapshot()
        return snapshot.id if snapshot else 0

    @property
    def kinds(self) -> bool:
        return bool(self.spec.keys)

    # ---- turns

    def _turn(self, turn: int) -> bool:
        step = self._write() if turn == 0 else self._drawn()
        actor = self.chance.choice(["ours", "paimon"])
        if step.python is not None and self.chance.random() < 0.3 and self._python_wrote(step.python, step.told):
            actor = "python"
        self.log.append(IMAGE.sub("<image>", f"{turn} {actor} {step.told}"))
        done = {which: self._done(step, which, by) for which, by in (("m", actor), ("a", "ours"), ("b", "paimon"))}
        failed = {which: error for which, error in done.items() if error is not None and not self._known(step, error)}
        if failed:
            refused = all(isinstance(error, (InvalidError, UnsupportedError)) for error in failed.values())
            if len(failed) < 3 and not any(THEIR_CONFLICT.search(str(error)) for error in failed.values()):
                self.problems.append(f"turn {turn}: {failed}")
            return step.ours_alone and refused and len(failed) == 3
        newest = {which: self.newest(which) for which in "mab"}
        if all(newest.values()):
            self.states.append(newest)
        return self._agree(f"turn {turn}", turn == self.turns - 1)

    def _known(self, step: Step, error: Exception) -> bool:
        """Whether Paimon fails here as it is known to, in what changes no rows."""
        altered = self.columns != dict(self.spec.columns)
        found = [fail for fail in FAILS if fail.is_this(self.spec, altered, step.told, error)]
        self.known.update(found)
        self.log += [f"known: {error}" for _ in found]
        return isinstance(error, PeerError) and bool(found)

    def _python_wrote(self, write: Callable[[str], Any], told: str) -> bool:
        """Whether pypaimon did it to `m`; what it cannot write others do."""
        before = self.newest("m")
        try:
            write(self.name("m"))
        except PeerError as error:
            self.log.append(f"pypaimon: {str(error)[-300:]}")
            assert self.newest("m") == before, told
            return False
        self.by_python = True
        return True

    def _done(self, step: Step, which: str, by: str) -> Exception | None:
        try:
            if by == "python":
                return None
            if by == "ours" or step.ours_alone:
                step.ours(self.table(which))
            else:
                step.paimon(self.name(which))
        except (BucketlakeError, PeerError) as error:
            return error
        return None

    def _drawn(self) -> Step:
        lot, chance = self.chance.random(), self.chance
        if lot < 0.58:
            return self._write()
        if lot < 0.63:
            return self._compact(chance.random() < 0.7)
        if lot < 0.70:
            return self._statement()
        if lot < 0.78:
            # Paimon's overwrite looks keys up in what it takes away: keys that merge get the partition where a row lay,
            # and with first-row a key that moves is lost, the old row and the new.
            looks = self.spec.crosses and self.spec.engine in ("aggregation", "partial-update", "first-row")
            return self._write() if looks else self._overwrite()
        if lot < 0.82:
            return self._removal()
        if lot < 0.90:
            return self._alter()
        if lot < 0.95:
            return self._kept()
        if self.states[:-1]:
            return self._back(chance.choice(self.states[:-1]))
        return Step("compact manifests", Table.compact_manifests, self._committing("compactManifests"))

    def rows(self) -> list[Change]:
        return rows(self.chance, self.spec, self.columns, self.chance.choice([1, 3, 6, 12, 20]))

    def _write(self) -> Step:
        changes, staged = self.rows(), []

        def paimon(name: str) -> None:
            if not staged:
                staged.append(self.world.stage(self.table("m").schema.fields, changes))
            self._paimon_writes(name, staged[0], None)

        def python(name: str) -> None:
            database, table = name.split(".")
            self.world.python.write(database, table, arrow(self.table("m").schema.fields, changes, False))

        plain = self.world.python is not None and not any(kind for kind, _ in changes) and not self.spec.crosses
        return Step(
            f"write {changes}",
            lambda table: table.write_arrow(arrow(table.schema.fields, changes, self.kinds)),
            paimon,
            python=python if plain else None,
        )

    def _paimon_writes(self, name: str, staged: str, overwrite: dict[str, str] | None) -> None:
        if self.spec.crosses:  # through a job: their assigner is an operator of Flink's
            columns = ", ".join(f"`{column}`" for column in self.columns)
            into = "INSERT INTO" if overwrite is None else "INSERT OVERWRITE"
            self.world.flink.sql(f"{into} {name} ({columns}) SELECT {columns} FROM {staged}")
            return
        self.world.paimon("write", name=name, staged=staged, options={}, overwrite=overwrite, kinds=self.kinds)

    def _overwrite(self) -> Step:
        changes: list[Change] = [(0, row) for _, row in self.rows()]
        part: dict[str, Any] = {}
        if self.spec.partitions and not self.spec.crosses and self.chance.random() < 0.5:
            first = changes[0][1]
            part = {name: first[name] for name in self.spec.partitions}
            part = {} if None in part.values() else part
            changes = [change for change in changes if all(change[1][key] == value for key, value in part.items())]
        staged: list[str] = []

        def paimon(name: str) -> None:
            if not staged:
                staged.append(self.world.stage(self.table("m").schema.fields, changes))
            self._paimon_writes(name, staged[0], {key: partition_text(value) for key, value in part.items()})

        def ours(table: Table) -> None:
            table.write_arrow(arrow(table.schema.fields, changes, self.kinds), "overwrite", part or None)

        return Step(f"overwrite {part} {changes}", ours, paimon)

    def _compact(self, full: bool) -> Step:
        def paimon(name: str) -> None:
            if self.spec.postpones or self.spec.evolves:  # a job places rows, and merges columns
                self.world.flink.sql(f"CALL sys.compact(`table` => '{name}')")
            else:
                self.world.paimon("compact", name=name, options={}, full=full)

        return Step(f"compact {full}", lambda table: table.compact(full=full), paimon)

    def _statement(self) -> Step:
        low = self.chance.randint(-3, 12)
        where = self.chance.choice([f"w = {low}", f"v > {low + 3}", f"w IN ({low}, {low + 1})", "v IS NULL"])
        if self.chance.random() < 0.6:
            return Step(f"delete {where}", lambda table: table.delete(where), _nothing, ours_alone=True)
        return Step(f"update {where}", lambda table: table.update({"w": 5}, where), _nothing, ours_alone=True)

    def _removal(self) -> Step:
        row = self.rows()[0][1]
        part = {name: row[name] for name in self.spec.partitions}
        if not part or None in part.values():
            return Step("truncate", Table.truncate, self._committing("truncateTable"))
        texts = {key: partition_text(value) for key, value in part.items()}
        return Step(
            f"drop {part}", lambda table: table.drop_partitions([part]), self._committing("truncatePartitions", [texts])
        )

    def _committing(self, method: str, *arguments: Any) -> Callable[[str], Any]:
        return lambda name: self.world.paimon("committed", name=name, method=method, arguments=list(arguments))

    def _alter(self) -> Step:
        options = self.spec.options.items()
        named = {part for key, value in options for part in (*key.split("."), *value.split(","))}
        held = {*self.spec.keys, *self.spec.partitions, "v", "w", *named}
        free = [name for name in self.columns if name not in held]
        if self.chance.random() < 0.5:
            self.added += 1
            found = rarer_change(self.chance, self.columns, free, self.added, dict(self.spec.options))
            if found is not None:
                return self._altering(*found)
        lot = self.chance.random()
        if lot < 0.4 or not free:
            self.added += 1
            name, text = f"n{self.added}", some_kind(self.chance, False)
            self.columns[name] = text
            theirs = ["addColumn", name, f"type:{json.dumps(format_type(kind_of(text)))}"]
            return self._altering(AddColumn(name, kind_of(text)), theirs)
        name = self.chance.choice(free)
        if lot < 0.6:
            del self.columns[name]
            return self._altering(DropColumn((name,)), ["dropColumn", name])
        other = RETYPED.get(self.columns[name])
        if other is not None:
            self.columns[name] = other
            theirs = ["updateColumnType", name, f"type:{json.dumps(format_type(kind_of(other)))}"]
            return self._altering(UpdateColumnType((name,), kind_of(other)), theirs)
        self.added += 1
        renamed = f"r{self.added}"
        self.columns = {renamed if key == name else key: text for key, text in self.columns.items()}
        return self._altering(RenameColumn((name,), renamed), ["renameColumn", name, renamed])

    def _altering(self, change: Any, theirs: list[Any]) -> Step:
        return Step(
            f"alter {theirs}",
            lambda table: table.alter(change),
            lambda name: self.world.paimon("alter", name=name, changes=[theirs]),
        )

    def _kept(self) -> Step:
        if self.chance.random() < 0.5:
            self.tags += 1
            tag = f"t{self.tags}"
            return Step(f"tag {tag}", lambda table: table.create_tag(tag), self._calling("createTag", tag))
        keep = self.chance.choice([1, 2, 3])
        self.states, self.expired = [], True
        options = {
            f"{what}.{key}": value
            for what in ("snapshot", "changelog")
            for key, value in (
                ("num-retained.min", str(keep)),
                ("num-retained.max", str(keep)),
                ("time-retained", "0 s"),
            )
        }
        return Step(
            f"expire {keep}",
            lambda table: table.with_options(options).expire_snapshots(),
            lambda name: self.world.paimon("expire", name=name, keep=keep),
        )

    def _calling(self, method: str, *arguments: Any) -> Callable[[str], Any]:
        return lambda name: self.world.paimon("call", name=name, method=method, arguments=list(arguments))

    def _back(self, state: dict[str, int]) -> Step:
        number = {self.name(which): snapshot for which, snapshot in state.items()}
        if self.chance.random() < 0.5:
            call = "CALL sys.rollback_to_as_latest(`table` => '{}', snapshot_id => {})"
            return Step(
                f"back to {state} as the latest",
                lambda table: table.rollback_to_as_latest(number[table.name]),
                lambda name: self.world.flink.sql(call.format(name, number[name])),
            )
        self.states = [known for known in self.states if all(known[which] <= state[which] for which in "mab")]
        return Step(
            f"back to {state}",
            lambda table: table.rollback_to(number[table.name]),
            lambda name: self.world.paimon("rollback", name=name, snapshot=number[name]),
        )

    # ---- what both read

    def _agree(self, when: str, last: bool) -> bool:
        """Both read the mixed table alike, each the other's, and all hold the same; at the end each reads all."""
        found = {("m", by): self._read("m", by) for by in ("ours", "paimon")}
        for which, by in (("a", "paimon"), ("b", "ours"), *([("a", "ours"), ("b", "paimon")] if last else [])):
            found[which, by] = self._read(which, by)
        good = self._same(when, found["m", "ours"], found["m", "paimon"], "m, ours and theirs")
        if last:
            for which in "ab":
                good &= self._same(when, found[which, "ours"], found[which, "paimon"], f"{which}, ours and theirs")
        if good and not self.spec.moves:
            good &= self._same(when, found["a", "paimon"], found["b", "ours"], "a and b")
            good &= self.by_python or self._same(when, found["m", "ours"], found["b", "ours"], "m and b")
        return good

    def _same(self, when: str, left: Any, right: Any, what: str) -> bool:
        if left != right:
            self.problems.append(f"{when}: {what}: {different(left, right)}")
        return bool(left == right)

    def _read(self, which: str, by: str, options: dict[str, str] | None = None, suffix: str = "") -> list[str] | str:
        """Rows in canonical form, or an error, which both are alike to each other."""
        name = self.name(which) + suffix
        try:
            if by == "ours":
                given = {re.sub(r"[.-]", "_", key): value for key, value in (options or {}).items()}
                table = self.world.catalog.table(name)
                fields = table.as_of(given)[0].schema.fields
                found = arrow_rows(table.to_arrow(**given), fields)
            else:
                fields, found = self.world.read(name, options)
        except (BucketlakeError, PeerError) as error:
            return f"{by}: {error}"
        for at, name in enumerate(item.name for item in fields):
            if self.spec.special.get(name, "time") != "time":
                found = [(*row[:at], meant(self.spec.special[name], row[at]), *row[at + 1 :]) for row in found]
        if self.spec.unordered:
            found = [tuple(sorted(cell, key=repr) if isinstance(cell, list) else cell for cell in row) for row in found]
        return canonical(found)

    def _both(self, when: str, options: dict[str, str] | None = None, suffix: str = "") -> bool:
        ours, theirs = (self._read("m", by, options, suffix) for by in ("ours", "paimon"))
        if isinstance(ours, str) and isinstance(theirs, str):
            return True
        return self._same(when, ours, theirs, "ours and theirs")

    # ---- at the end

    def _branch(self) -> bool:
        """Both write a branch, and neither sees it on main; one made of a tag takes main's place."""
        tags = list(self.table("m").tags())
        tag = self.chance.choice(tags) if tags and self.chance.random() < 0.6 else None
        # Paimon's branch of a tag names the changelog that expired with the tag's snapshot: fsck would say so.
        if tag is None or self.expired or self.chance.random() < 0.5:
            self.table("m").create_branch("side", tag)
        else:
            self._calling("createBranch", "side", tag)(self.name("m"))
        good = True
        for by in self.chance.sample(["ours", "paimon"], 2):
            branch = self.world.catalog.table(f"{self.name('m')}$branch_side")
            changes = self._fitting(branch)
            self.log.append(f"branch of {tag}: {by} writes {changes}")
            if by == "ours":
                branch.write_arrow(arrow(branch.schema.fields, changes, self.kinds))
            else:
                self._paimon_writes(branch.name, self.world.stage(branch.schema.fields, changes), None)
            good &= self._both(f"branch of {tag} by {by}", suffix="$branch_side") and self._both("main beside")
        if tag is not None and good:
            held = self._read("m", "paimon", suffix="$branch_side")
            self.table("m").fast_forward("side")
            good = self._both("main after a fast forward")
            good &= self._same("fast forward", self._read("m", "ours"), held, "main and branch")
        return good

    def _fitting(self, table: Table) -> list[Change]:
        """Rows for a table of another schema: columns may have other types there, too."""
        columns = {item.name: type_text(item.type) for item in table.schema.fields}
        return rows(self.chance, self.spec, columns, self.chance.choice([1, 3, 6, 12, 20]))

    def _around(self) -> None:
        """Each commits, or compacts, between the other's writing and commit."""
        if set(self.table("m").schema.field_names) != set(self.columns):
            return
        for _ in range(2):
            way = self.chance.choice(["write", "compact"])
            # Paimon does not see that another gave its keys to other buckets meanwhile.
            dynamic = self.spec.keys and self.spec.options["bucket"] == "-1"
            who = "ours" if dynamic and way == "write" else self.chance.choice(["ours", "paimon"])
            changes = self.rows()
            self.log.append(f"{who} around a {way}: {changes}")
            try:
                if who == "paimon":
                    self._paimon_around(changes, way)
                else:
                    self._ours_around(changes, way)
            except ConflictError:
                self.log.append("a conflict")
            except PeerError as error:
                if not THEIR_CONFLICT.search(str(error)):
                    raise
            if not self._both(f"{who} around a {way}"):
                return
            keys = self.table("m").to_arrow(columns=list(self.spec.keys)).to_pylist() if self.spec.keys else []
            if len({repr(key) for key in keys}) != len(keys) and not self.by_python:
                self.problems.append(f"{who} around a {way}: a key twice")
                return
        self._compact(True).ours(self.table("m"))
        self._both("compacted after commits around others")

    def _paimon_around(self, changes: list[Change], way: str) -> None:
        fields = self.table("m").schema.fields
        staged = self.world.stage(fields, changes)
        self.world.paimon("begin", name=self.name("m"), staged=staged, options={}, kinds=self.kinds)
        try:
            if way == "write":
                self.table("m").write_arrow(arrow(fields, self.rows(), self.kinds))
            else:
                self.table("m").compact()
        finally:
            self.world.paimon("finish")

    def _ours_around(self, changes: list[Change], way: str) -> None:
        table = self.table("m")
        fields, store, user = table.schema.fields, table.store, new_commit_user(table.store)
        task = prepare_write(store, store.latest_snapshot(), commit_user=user)
        kinds = [KIND_FIELD.name] if self.kinds else []
        messages = write_batches(store, arrow(fields, changes, self.kinds).to_batches(), task, *kinds)
        if way == "write":
            self._paimon_writes(table.name, self.world.stage(fields, self.rows()), None)
        else:
            self._compact(True).paimon(table.name)
        table.compacted(table.commit(messages, user), messages)

    def _past(self) -> None:
        table = self.table("m")
        snapshots = [snapshot.id for snapshot in table.snapshots()]
        for number in snapshots[-4:]:
            self._both(f"snapshot {number}", {"scan.snapshot-id": str(number)})
        for tag in table.tags():
            self._both(f"tag {tag}", {"scan.tag-name": tag})
        if len(snapshots) < 2 or self.spec.evolves:  # spans of such tables are refused here
            return
        first, last = sorted(self.chance.sample(snapshots, 2))
        for mode in ("auto", "delta", "changelog"):
            span = {"incremental-between": f"{first},{last}", "incremental-between-scan-mode": mode}
            self._both(f"{mode} of {first},{last}", span)
            self._both(f"{mode} of {first},{last}, told", span, "$audit_log")

    def _system(self) -> None:
        for which in "mab":
            for name in SYSTEM:
                full = f"{self.name(which)}${name}"
                try:
                    fields, theirs = self.world.read(full)
                except PeerError:
                    continue  # there is no such table for it
                names = [item.name for item in fields]
                ours = self.world.catalog.table(full).to_arrow(columns=names).to_pylist()
                found = differing(names, [list(row.values()) for row in ours], theirs)
                if found:
                    self.problems.append(f"{full}: {found}")


def _nothing(name: str) -> None:
    raise AssertionError("Bucketlake alone")


def partition_text(value: Any) -> str:
    """A partition's value as Paimon's specifications spell it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
