"""Makes the archive of an older release, in an environment that holds it.

    python3.11 -m venv older && older/bin/pip install apache-flink==1.20.1 'setuptools<81'
    cp paimon-flink-1.20-RELEASE.jar flink-shaded-hadoop-2-uber-2.8.3-10.0.jar older/lib/python3.11/site-packages/pyflink/lib
    JVM_ARGS=-Duser.timezone=UTC older/bin/python -m tests.corpus.older.make RELEASE

Jars of releases before 0.9 are `paimon-flink-1.19` (0.8) and `paimon-flink-1.18` (0.7). What a release cannot do is left
out, and printed. Some five minutes.
"""

from __future__ import annotations

import json
import sys
import tarfile
import tempfile
from collections.abc import Callable, Sequence
from datetime import date, datetime
from pathlib import Path
from typing import Any

from pyflink.table import EnvironmentSettings, TableEnvironment
from tests.corpus.older import DATABASE, archive

TYPES = {
    "bo": "BOOLEAN",
    "ti": "TINYINT",
    "si": "SMALLINT",
    "i": "INT",
    "l": "BIGINT",
    "f": "FLOAT",
    "d": "DOUBLE",
    "de": "DECIMAL(10, 2)",
    "dl": "DECIMAL(30, 5)",
    "s": "STRING",
    "c": "CHAR(5)",
    "vc": "VARCHAR(9)",
    "dt": "DATE",
    "tm": "TIME(0)",
    "ts": "TIMESTAMP(3)",
    "t6": "TIMESTAMP(6)",
    "t9": "TIMESTAMP(9)",
    "tz": "TIMESTAMP(6) WITH LOCAL TIME ZONE",
    "by": "BYTES",
    "bi": "BINARY(3)",
    "ar": "ARRAY<INT>",
    "m": "MAP<STRING, INT>",
    "r": "ROW<x INT, y STRING>",
}
AS_TEXT = ("de", "dl", "dt", "tm", "ts", "t6", "t9", "by", "bi")
FORMATS = ("orc", "parquet", "avro")
COLUMNS = "pt STRING, k INT, v INT, w STRING"
ROWS = range(9)


def values(k: int) -> str:
    """A row of every type, every fourth one of nulls."""
    if k % 4 == 3:
        return f"({k}, {', '.join(f'CAST(NULL AS {kind})' for kind in TYPES.values())})"
    second = f"{k % 60:02}"
    found = {
        "bo": "true" if k % 2 else "false",
        **{"ti": k, "si": k * 100, "i": k * 1000, "l": k * 10**10, "f": f"{k}.5", "d": f"{k}.25", "de": f"{k}.12"},
        **{"dl": f"'{k}123456789012345678901.12345'", "s": f"'s{k}'", "c": f"'c{k % 10}'", "vc": f"'vc{k}'"},
        "dt": f"DATE '20{10 + k % 80}-01-0{1 + k % 9}'",
        "tm": f"TIME '10:11:{second}'",
        "ts": f"TIMESTAMP '2020-01-01 00:00:{second}.123'",
        "t6": f"TIMESTAMP '1960-01-01 00:00:{second}.123456'",
        "t9": f"TIMESTAMP '2020-01-01 00:00:{second}.123456789'",
        "tz": f"TO_TIMESTAMP_LTZ({k * 1000 + 7}, 3)",
        **{"by": f"'by{k}'", "bi": f"'b{k % 10}x'"},
    }
    scalars = ", ".join(f"CAST({value} AS {TYPES[name]})" for name, value in found.items())
    return f"({k}, {scalars}, ARRAY[{k}, CAST(NULL AS INT)], MAP['a', {k}], ROW({k}, 'y{k}'))"


def every_type(table: str, ks: Sequence[int]) -> str:
    """An INSERT of rows of every type."""
    kinds = [kind.replace("(9)", "(6)") if "avro" in table and "TIMESTAMP" in kind else kind for kind in TYPES.values()]
    casts = ", ".join(f"CAST(c{number} AS {kind})" for number, kind in enumerate(kinds))
    names = ", ".join(f"c{number}" for number in range(len(kinds)))
    return f"INSERT INTO `{table}` SELECT k, {casts} FROM (VALUES {', '.join(map(values, ks))}) AS x(k, {names})"


class Maker:
    """Makes the tables in one catalog."""

    def __init__(self, release: str, warehouse: Path) -> None:
        self.release = tuple(int(part) for part in release.split(".")[:2])
        self.flink = TableEnvironment.create(EnvironmentSettings.in_batch_mode())
        for key, value in {
            "table.dml-sync": "true",
            "parallelism.default": "1",
            "table.local-time-zone": "UTC",
        }.items():
            self.flink.get_config().set(key, value)
        self.flink.execute_sql(f"CREATE CATALOG p WITH ('type' = 'paimon', 'warehouse' = 'file://{warehouse}')")
        for text in ("USE CATALOG p", f"CREATE DATABASE {DATABASE}", f"USE {DATABASE}"):
            self.flink.execute_sql(text)

    def run(self, *statements: str) -> None:
        """Run statements; the first that the release refuses ends it."""
        for text in statements:
            try:
                self.flink.execute_sql(text).wait()
            except Exception as error:
                causes = [line for line in str(error).splitlines() if "Exception" in line]
                print(f"left out: {text[:80]}: {causes[-1][:200] if causes else error}", flush=True)
                return

    def table(self, name: str, columns: str, key: str = "", parts: str = "", **options: Any) -> None:
        """Create a table; "_" in the names of options stands for "."."""
        given = {k.replace("_", "."): v for k, v in options.items()}
        primary = f", PRIMARY KEY ({key}) NOT ENFORCED" if key else ""
        settings = ", ".join(f"'{k}' = '{v}'" for k, v in {"bucket": -1, **given}.items())
        partitioned = f" PARTITIONED BY ({parts})" if parts else ""
        self.run(f"CREATE TABLE `{name}` ({columns}{primary}){partitioned} WITH ({settings})")

    def upserts(self, name: str, rounds: int = 3, *, delete: bool = True, compact: bool = False) -> None:
        """Rows that overlap in keys, a commit each; some deleted; compacted in full."""
        for number in range(rounds):
            rows = [
                f"({'CAST(NULL AS STRING)' if name == 'null_parts' and k % 5 == 4 else repr(f'p{k % 2}')}, "
                f"{k}, {k * 10 + number}, 'w{number}')"
                for k in (number * 3 + row for row in ROWS)
            ]
            self.run(f"INSERT INTO `{name}` VALUES {', '.join(rows)}")
        if delete:
            self.run(f"DELETE FROM `{name}` WHERE k IN (4, 7)")
        if compact:
            named = "`table` => " if self.release >= (0, 9) else ""
            self.run(f"CALL sys.compact({named}'{DATABASE}.{name}')")

    def rows(self, query: str) -> list[list[Any]]:
        with self.flink.execute_sql(query).collect() as found:
            return sorted(([plain(value) for value in row] for row in found), key=str)


def plain(value: Any) -> Any:
    """A value as JSON has it."""
    if isinstance(value, (date, datetime)):
        return str(value)
    return [plain(one) for one in value] if isinstance(value, (list, tuple)) else value


def typed(make: Maker) -> None:
    """Every type in every format, appended and with a key."""
    for form in FORMATS:
        kinds = {k: kind.replace("(9)", "(6)") if form == "avro" and k == "t9" else kind for k, kind in TYPES.items()}
        columns = f"k INT, {', '.join(f'`{name}` {kind}' for name, kind in kinds.items())}"
        make.table(f"types_{form}", columns, file_format=form)
        make.table(f"keyed_types_{form}", columns, "k", file_format=form, bucket=2)
        for start in (0, 4):
            make.run(every_type(f"types_{form}", range(start, start + 4)))
            make.run(every_type(f"keyed_types_{form}", range(start, start + 8)))
        make.run(f"DELETE FROM keyed_types_{form} WHERE k = 5")


def buckets(make: Maker) -> None:
    """Every bucket mode."""
    make.table("dynamic", COLUMNS, "pt, k", "pt", **{"dynamic-bucket_target-row-num": 5})
    make.table("dynamic_whole", COLUMNS, "k", **{"dynamic-bucket_target-row-num": 5})
    make.table("crossing", COLUMNS, "k", "pt")
    make.table("postponed", COLUMNS, "k", bucket=-2)
    make.table("append_buckets", COLUMNS, bucket=3, **{"bucket-key": "k"})
    make.table("null_parts", COLUMNS, "", "pt")
    make.upserts("dynamic")
    make.upserts("dynamic_whole", compact=True)
    make.upserts("crossing")
    make.upserts("append_buckets", delete=False, compact=True)
    make.upserts("null_parts", delete=False, compact=True)
    if make.release >= (1, 1):
        make.upserts("postponed", 2, delete=False)


def changelogs(make: Maker) -> None:
    """Changelog producers and deletion vectors, those included that a full compaction of 1.2 to 1.4 leaves behind."""
    for producer in ("input", "lookup", "full-compaction"):
        name = f"told_by_{producer.replace('-', '_')}"
        make.table(name, COLUMNS, "pt, k", "pt", bucket=2, **{"changelog-producer": producer})
        make.upserts(name)
    vectors = {"deletion-vectors_enabled": "true"}
    make.table("vectors", COLUMNS, "k", bucket=2, **vectors)
    make.upserts("vectors")
    make.table("vectors_compacted", COLUMNS, "pt, k", "pt", **vectors)
    make.upserts("vectors_compacted", compact=True)
    make.table("append_vectors", COLUMNS, **vectors)
    make.upserts("append_vectors", delete=False)
    make.table("expired", COLUMNS, "k", bucket=1, **{"snapshot_num-retained_min": 2, "snapshot_num-retained_max": 2})
    make.upserts("expired", 5)


def engines(make: Maker) -> None:
    """Merge engines and sequence fields."""
    groups = {"merge-engine": "partial-update", "fields_g_sequence-group": "h", "bucket": 1}
    make.table("partial", "k INT, a INT, b STRING, g INT, h INT", "k", **groups)
    null = "CAST(NULL AS STRING)"
    make.run(
        f"INSERT INTO `partial` VALUES (1, 1, {null}, 5, 50), (2, 2, 'b', 1, 10)",
        f"INSERT INTO `partial` VALUES (1, CAST(NULL AS INT), 'x', 4, 40), (2, 3, {null}, 2, 20)",
    )
    functions = {"s": "sum", "m": "max", "l": "last_non_null_value", "ls": "listagg", "c": "collect", "p": "product"}
    functions |= {"bo": "bool_and", "fv": "first_value"}
    how = {f"fields_{column}_aggregate-function": name for column, name in functions.items()}
    columns = "k INT, s BIGINT, m INT, l STRING, ls STRING, c ARRAY<INT>, p INT, bo BOOLEAN, fv INT"
    make.table("aggregated", columns, "k", bucket=1, **{"merge-engine": "aggregation"}, **how)
    for n in range(3):
        text = null if n == 2 else f"'l{n}'"
        row = f"(1, {n}, {5 - n}, {text}, 'x{n}', ARRAY[{n}], {n + 1}, {'true' if n else 'false'}, {n})"
        make.run(f"INSERT INTO aggregated VALUES {row}, (2, 1, 1, 'a', 'b', ARRAY[1], 1, true, 1)")
    make.table("first_rows", COLUMNS, "k", bucket=2, **{"merge-engine": "first-row", "changelog-producer": "lookup"})
    make.upserts("first_rows", delete=False)
    make.table("sequenced", "k INT, v INT, s INT", "k", bucket=1, sequence_field="s")
    make.run(
        "INSERT INTO sequenced VALUES (1, 1, 10), (2, 2, 10)", "INSERT INTO sequenced VALUES (1, 9, 5), (2, 9, 15)"
    )


def histories(make: Maker) -> None:
    """Schemas that changed, file indexes, tags, branches, odd partitions, row ids."""
    for name, key in (("evolved", "k"), ("append_evolved", "")):
        make.table(name, "k INT, a INT, b INT, c STRING", key, bucket=1 if key else -1)
        changes = ("ADD n STRING", "MODIFY a BIGINT", "DROP b", "RENAME c TO cc")
        make.run(
            f"INSERT INTO `{name}` VALUES (1, 1, 1, 'c1')",
            *(f"ALTER TABLE `{name}` {change}" for change in changes),
            f"INSERT INTO `{name}` VALUES (2, 20, 'c2', 'n2')",
            f"ALTER TABLE `{name}` ADD b INT",
            f"INSERT INTO `{name}` VALUES (3, 30, 'c3', 'n3', 3)",
        )
    for kind in ("bloom-filter", "bitmap"):
        name = f"indexed_{kind.replace('-', '_')}"
        make.table(name, "k INT, v INT, w STRING", **{f"file-index_{kind}_columns": "v,w"})
        for start in (0, 5):
            rows = ", ".join(f"({k}, {k}, 'w{k}')" for k in range(start, start + 5))
            make.run(f"INSERT INTO `{name}` VALUES {rows}")
    make.table("tagged", COLUMNS, "k", bucket=1)
    make.upserts("tagged", 2)
    make.run(
        f"CALL sys.create_tag('{DATABASE}.tagged', 'one', 1)",
        f"CALL sys.create_branch('{DATABASE}.tagged', 'br', 'one')",
    )
    make.run("INSERT INTO `tagged$branch_br` VALUES ('p0', 77, 7, 'br')")
    make.run("INSERT INTO tagged VALUES ('p1', 99, 9, 'after')")
    make.table("dated", "d DATE, k INT, t TIMESTAMP(3), v INT", "d, t, k", "d, t", bucket=1)
    first, second = "TIMESTAMP '2024-01-01 00:00:00.000'", "TIMESTAMP '2024-01-01 10:20:30.123'"
    make.run(f"INSERT INTO dated VALUES (DATE '2024-02-29', 1, {first}, 1), (DATE '1969-12-31', 2, {second}, 2)")
    if make.release >= (1, 3):
        make.table("tracked", "k INT, v INT", **{"row-tracking_enabled": "true"})
        make.table("evolving", "k INT, v INT", **{"row-tracking_enabled": "true", "data-evolution_enabled": "true"})
        for name in ("tracked", "evolving"):
            make.run(*(f"INSERT INTO `{name}` VALUES ({n}, {n}), ({n + 10}, {n})" for n in range(2)))


PARTS: tuple[Callable[[Maker], None], ...] = (typed, buckets, changelogs, engines, histories)


def query_of(table: str) -> str:
    """What is read of a table: values that JSON lacks as Flink's text."""
    if "types" not in table:
        return f"SELECT * FROM `{table}`"
    columns = [f"CAST(`{name}` AS STRING)" if name in AS_TEXT else f"`{name}`" for name in list(TYPES)[:-3]]
    columns[list(TYPES).index("tz")] = "CAST(CAST(tz AS TIMESTAMP(6)) AS STRING)"
    return f"SELECT k, {', '.join(columns)}, ar[1], m['a'], r.x, r.y FROM {table}"


def main(release: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        make = Maker(release, Path(folder))
        for part in PARTS:
            part(make)
        names = [row[0] for row in make.rows("SHOW TABLES")]
        found = {name: make.rows(query_of(name)) for name in [*names, "tagged$branch_br"]}
        tagged = "SELECT * FROM tagged /*+ OPTIONS('scan.tag-name' = 'one') */"
        found["tagged at one"] = make.rows(tagged)
        (Path(folder) / "rows.json").write_text(json.dumps(found))
        with tarfile.open(archive(release), "w:xz") as packed:
            for name in ("rows.json", f"{DATABASE}.db"):
                packed.add(Path(folder, name), name, filter=lambda item: None if item.name.endswith(".crc") else item)


if __name__ == "__main__":
    main(sys.argv[1])
