"""Forms of queries that the grammar does not make, over tables of many kinds with the same rows.

`{t}`, `{u}`, `{v}` stand for tables, `{c}` for a condition over the columns of `x`.
"""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa
from tests.queries import rarer_forms
from tests.queries.conditions import Column, condition

from bucketlake.spark.session import Lake

_UTC = dt.timezone.utc
COUNT, OLD = 40, 9  # rows, and those that were written before types changed
DDL = (
    "id INT NOT NULL, i INT, l BIGINT, s STRING, d DOUBLE, n DECIMAL(10,2), b BOOLEAN, dt DATE, ts TIMESTAMP_NTZ, "
    "tz TIMESTAMP, arr ARRAY<INT>, m MAP<STRING,INT>, st STRUCT<x:INT,y:STRUCT<z:STRING>>, "
    "ast ARRAY<STRUCT<a:INT,b:STRING>>, bin BINARY"
)
_KINDS = (("i", "int"), ("s", "text"), ("d", "double"), ("n", "decimal"), ("b", "flag"), ("dt", "date"))
SHOWN = [Column(f"x.{name}", kind) for name, kind in (("id", "int"), *_KINDS, ("ts", "local"), ("tz", "zoned"))]
KINDS = {
    "plain": "",
    "vectors": "TBLPROPERTIES ('bucket' = '-1', 'deletion-vectors.enabled' = 'true')",
    "keyed": "TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '2', 'write-only' = 'true')",
    "marked": "TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '2', 'deletion-vectors.enabled' = 'true')",
    "dynamic": "TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '-1')",
    "partial": "TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1', 'merge-engine' = 'partial-update', 'write-only' = 'true')",
    "by_int": "PARTITIONED BY (i)",
    "by_date": "PARTITIONED BY (dt)",
    "by_text": "PARTITIONED BY (s)",
    "by_time": "PARTITIONED BY (ts)",
    "by_two": "PARTITIONED BY (b, n)",
    "bucketed": "TBLPROPERTIES ('bucket' = '3', 'bucket-key' = 's')",
    "tracked": "TBLPROPERTIES ('row-tracking.enabled' = 'true')",
    "evolving": "TBLPROPERTIES ('row-tracking.enabled' = 'true', 'data-evolution.enabled' = 'true')",
    "orc": "TBLPROPERTIES ('file.format' = 'orc')",
    "avro": "TBLPROPERTIES ('file.format' = 'avro')",
    "blooms": "TBLPROPERTIES ('deletion-vectors.enabled' = 'true', 'file-index.bloom-filter.columns' = 'id,i,l,s,d,dt,ts,tz,bin')",
    "bitmaps": "TBLPROPERTIES ('file-index.bitmap.columns' = 'id,i,l,s,d,b,dt,ts,tz', 'file-index.in-manifest-threshold' = '1 b')",
    "ranges": "TBLPROPERTIES ('file-index.bsi.columns' = 'id,i,l,dt,tz', 'file-index.range-bitmap.columns' = 's,d,n,b,ts')",
    "cut": "TBLPROPERTIES ('metadata.stats-mode' = 'truncate(1)', 'file.format' = 'orc')",
    "changed": "",
    "fallback": "PARTITIONED BY (b)",
}


def rows() -> list[dict[str, Any]]:
    """The rows of every table: nulls, empty values, NaN and both zeros."""
    pick = (chance := Random(1)).choice
    found = []
    for key in range(COUNT):
        at = dt.datetime(2020, 1, 1) + dt.timedelta(hours=chance.randint(0, 90))
        found.append(
            {
                "id": key,
                "i": pick([None, 0, 1, 2, 3, -1]),
                "l": pick([None, 1, 2, 3, -5] if key < OLD else [None, 1, 2, 3, 1 << 40, -5]),
                "s": pick([None, "", "a", "b", "A", "a%", "ä", "x y", "b/c", "null"]),
                "d": pick([None, 0.0, -0.0, 1.5, -2.5, float("nan"), float("inf")]),
                "n": pick([None, *map(Decimal, ("0.00", "1.50", "-3.25", "99999999.99"))]),
                "b": pick([None, True, False]),
                "dt": pick([None, dt.date(1969, 12, 31), *(dt.date(2020, 1, day) for day in (1, 2, 3))]),
                "ts": pick([None, at, dt.datetime(2020, 1, 1), dt.datetime(1969, 12, 31, 23, 59, 58, 999)]),
                "tz": pick([None, at.replace(tzinfo=_UTC), dt.datetime(2020, 1, 1, tzinfo=_UTC)]),
                "arr": pick([None, [], [1], [1, None, 3], [3, 2, 1]]),
                "m": pick([None, [], [("a", 1)], [("a", None), ("b", 2)]]),
                "st": pick([None, {"x": None, "y": None}, {"x": 1, "y": {"z": "q"}}, {"x": 2, "y": {"z": None}}]),
                "ast": pick([None, [], [{"a": 1, "b": "x"}], [{"a": None, "b": "y"}, None, {"a": 3, "b": None}]]),
                "bin": pick([None, b"", b"\x00\xff", b"abc"]),
            }
        )
    return found


def load(lake: Lake, kind: str) -> None:
    """The table `db.<kind>` with `rows()`, in several files, older versions and deleted rows among them."""
    first = DDL.replace("i INT, l BIGINT", "was SMALLINT, l INT") if kind == "changed" else DDL
    lake.sql(f"CREATE TABLE db.{kind} ({first}) {KINDS[kind]}")
    held = rows()
    if kind == "changed":
        _append(lake, kind, [{**row, "was": row["i"]} for row in held[:OLD]])
        for change in ("RENAME COLUMN was TO i", "ALTER COLUMN i TYPE INT", "ALTER COLUMN l TYPE BIGINT"):
            lake.sql(f"ALTER TABLE db.{kind} {change}")
        held = held[OLD:]
    elif kind == "fallback":
        lake.sql("CALL sys.create_branch('db.fallback', 'other')")
        lake.sql("ALTER TABLE db.fallback SET TBLPROPERTIES ('scan.fallback-branch' = 'other')")
        _append(lake, "`fallback$branch_other`", [row for row in held if not row["b"]])
        held = [row for row in held if row["b"]]
    elif kind in ("keyed", "marked", "dynamic"):
        _append(lake, kind, [{**row, "i": 9, "s": "old", "d": 9.0} for row in held[::2]])
    gone = (
        [{**row, "id": row["id"] + 1000} for row in held[:3]]
        if kind in ("vectors", "keyed", "marked", "tracked")
        else []
    )
    for start in range(0, len(held), 13):
        _append(lake, kind, held[start : start + 13] + (gone if start == 13 else []))
    if gone:
        lake.sql(f"DELETE FROM db.{kind} WHERE id >= 1000")


def _append(lake: Lake, name: str, held: list[dict[str, Any]]) -> None:
    table = lake.catalog.table(f"db.{name}")
    names = table.schema.field_names
    table.write_arrow(pa.Table.from_pylist([{key: row[key] for key in names} for row in held], table.arrow_schema))


def form(seed: int) -> str:
    """The query of a seed."""
    chance = Random(seed)
    text = ALL[seed % len(ALL)]
    for mark, kind in zip(("{t}", "{u}", "{v}"), chance.sample(sorted(KINDS), 3), strict=True):
        text = text.replace(mark, kind)
    while "{c}" in text:
        text = text.replace("{c}", f"({condition(chance, SHOWN)})", 1)
    return text


FORMS = (
    "SELECT id FROM {t} x WHERE i NOT IN (SELECT i FROM {u})",
    "SELECT id FROM {t} x WHERE i NOT IN (SELECT i FROM {u} WHERE i IS NOT NULL AND id > 30)",
    "SELECT id FROM {t} x WHERE (i, s) IN (SELECT i, s FROM {u} WHERE id < 20)",
    "SELECT id FROM {t} x WHERE (i, s) NOT IN (SELECT i, s FROM {u} WHERE id < 20 AND i = 1)",
    "SELECT id, (SELECT max(y.l) FROM {u} y WHERE y.i = x.i AND y.id < x.id) mx FROM {t} x",
    "SELECT id, (SELECT count(*) FROM {u} y WHERE y.i = x.i) c FROM {t} x",
    "SELECT id, EXISTS (SELECT 1 FROM {u} y WHERE y.s = x.s AND y.id > 35) e FROM {t} x",
    "SELECT id FROM {t} x WHERE EXISTS (SELECT 1 FROM {u} y WHERE y.id = x.id AND NOT EXISTS (SELECT 1 FROM {v} z WHERE z.id = y.id + 1 AND z.i = 1))",
    "SELECT x.id, l.* FROM {t} x, LATERAL (SELECT y.id AS yid, y.d FROM {u} y WHERE y.i = x.i AND y.l > 0) l",
    "SELECT x.id, e FROM {t} x, LATERAL explode(x.arr) AS q(e)",
    "SELECT x.id, k, v FROM {t} x LATERAL VIEW OUTER explode(m) q AS k, v",
    "SELECT x.id, a, b FROM {t} x LATERAL VIEW inline(ast) q AS a, b",
    "SELECT id, sum(l) OVER (PARTITION BY i ORDER BY id ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING) w, lag(s, 1, 'none') OVER (PARTITION BY b ORDER BY id) g, ntile(3) OVER (ORDER BY id) t3, percent_rank() OVER (PARTITION BY b ORDER BY n) pr FROM {t}",
    "SELECT id, sum(n) OVER (ORDER BY dt RANGE BETWEEN INTERVAL '1' DAY PRECEDING AND CURRENT ROW) w FROM {t} WHERE id < 30",
    "SELECT id, nth_value(s, 2) IGNORE NULLS OVER (PARTITION BY i ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) w FROM {t}",
    "SELECT i, b, s, count(*) c, sum(n) sn, grouping_id(i, b, s) g FROM {t} GROUP BY CUBE(i, b, s)",
    "SELECT i, b, count(*) c, grouping(i) g FROM {t} GROUP BY ROLLUP(i, b) HAVING count(*) > 1",
    "SELECT i, dt, count(DISTINCT s) c FROM {t} GROUP BY GROUPING SETS ((i), (dt), (i, dt), ())",
    "SELECT i, dt, count(*) c FROM {t} GROUP BY i, dt WITH ROLLUP",
    "SELECT i, count(*) c FROM {t} GROUP BY i, GROUPING SETS ((b), ())",
    "SELECT * FROM (SELECT i, b, l FROM {t}) PIVOT (sum(l) s, count(l) c FOR b IN (true tr, false fa))",
    "SELECT * FROM (SELECT i, b, s, l FROM {t}) PIVOT (max(l) FOR (b, s) IN ((true, 'a') ta, (false, 'b') fb))",
    "SELECT id, nm, val FROM {t} UNPIVOT INCLUDE NULLS (val FOR nm IN (i AS `the i`, id))",
    "SELECT id, nm, v1, v2 FROM {t} UNPIVOT ((v1, v2) FOR nm IN ((i, s) AS x, (id, s)))",
    "SELECT i, s FROM {t} WHERE id < 20 EXCEPT SELECT i, s FROM {u} WHERE id > 10",
    "SELECT i, s FROM {t} EXCEPT ALL SELECT i, s FROM {u} WHERE id % 2 = 0",
    "SELECT i FROM {t} INTERSECT ALL SELECT i FROM {u} WHERE id > 10",
    "(SELECT id FROM {t} ORDER BY id DESC NULLS LAST LIMIT 3) UNION ALL (SELECT id FROM {u} ORDER BY id LIMIT 3) ORDER BY id",
    "SELECT * FROM {t} UNION BY NAME SELECT * FROM {t}",
    "SELECT id, i FROM {t} UNION ALL BY NAME SELECT s, i FROM {u}",
    "WITH {u} AS (SELECT id, i FROM {t} WHERE id < 5) SELECT * FROM {u}",
    "WITH a AS (WITH {t} AS (SELECT id FROM {u} WHERE id < 3) SELECT * FROM {t}) SELECT a.id, x.i FROM a JOIN {t} x USING (id)",
    "WITH {t} AS (SELECT id + 100 AS id FROM {t}) SELECT * FROM {t}",
    "WITH RECURSIVE r(n, p) AS (SELECT id, CAST(s AS STRING) FROM {t} WHERE id = 0 UNION ALL SELECT r.n + 1, x.s FROM r JOIN {u} x ON x.id = r.n + 1 WHERE r.n < 6) SELECT * FROM r",
    "SELECT id, transform(arr, (e, ix) -> e + ix + i) tr, filter(ast, e -> e.a > 0) f, aggregate(arr, 0, (acc, e) -> acc + coalesce(e, 0)) g, exists(arr, e -> e = 3) ex, map_filter(m, (k, v) -> v > 1) mf, zip_with(arr, arr, (p, q) -> p * q) z FROM {t}",
    "SELECT id, arr[0] a0, try_element_at(arr, 2) a1, m['a'] ma, st.x, st.y.z, ast.b, ast[0].a FROM {t} WHERE size(arr) > 0",
    "SELECT id FROM {t} WHERE st.x = 1 AND st.y.z = 'q'",
    "SELECT id FROM {t} WHERE st.y IS NULL OR m['a'] IS NULL",
    "SELECT id FROM {t} WHERE st = named_struct('x', 1, 'y', named_struct('z', 'q'))",
    "FROM {t} |> WHERE id < 30 |> EXTEND id * 2 AS tw |> SET i = coalesce(i, 0) |> AGGREGATE sum(tw) st, count(*) c GROUP BY i |> ORDER BY i |> LIMIT 3",
    "FROM {t} |> JOIN {u} USING (id) |> SELECT id, {t}.i, {u}.s",
    "FROM {t} |> AS q |> WHERE q.id > 5 |> DROP arr, m, st, ast |> UNION ALL (SELECT * EXCEPT (arr, m, st, ast) FROM {t})",
    "FROM {t} |> SELECT i, b, l |> PIVOT (sum(l) FOR b IN (true, false))",
    "SELECT count(*) c FROM {t} TABLESAMPLE (100 PERCENT) x WHERE x.id < 10",
    "SELECT id, i, s FROM {t} ORDER BY i DESC NULLS FIRST, s NULLS LAST, id LIMIT 7 OFFSET 3",
    "SELECT id, d FROM {t} ORDER BY d DESC, id LIMIT 5",
    "SELECT id, d FROM {t} ORDER BY d NULLS LAST, id LIMIT 9",
    "SELECT id, ts FROM {t} ORDER BY ts, id DESC LIMIT 9",
    "SELECT id, bin FROM {t} ORDER BY bin DESC, id DESC LIMIT 9",
    "SELECT id FROM {t} ORDER BY st.x, id OFFSET 35",
    "SELECT count(*), count(i), count(1), count(NULL), min(id), max(id), min(i), max(i), min(dt), max(ts), min(n), max(d), min(d) FROM {t}",
    "SELECT max(s), min(s), max(b), min(b), max(bin), min(tz), max(tz) FROM {t}",
    "SELECT count(*) FROM {t} WHERE i = 1",
    "SELECT max(id) FROM {t} WHERE i = 1 OR i IS NULL",
    "SELECT min(id) + 1 AS x, count(*) * 2 y FROM {t} HAVING max(id) > 5",
    "SELECT count(DISTINCT i, s) c, count(i, s) d, approx_count_distinct(id) a, any_value(1) v, count_if(b) ci, bool_or(b) bo, max_by(s, id) mb, mode(b) FROM {t} WHERE id < 30",
    "SELECT min(id) FILTER (WHERE i > 0) f, count(*) FILTER (WHERE s = 'a') c FROM {t}",
    "SELECT DISTINCT b, i FROM {t}",
    "SELECT DISTINCT dt FROM {t} ORDER BY dt LIMIT 2",
    "SELECT b, max(dt) FROM {t} GROUP BY ALL",
    "SELECT i, first_value(id) f FROM (SELECT * FROM {t} ORDER BY id) GROUP BY 1",
    "SELECT parse_json('{\"a\":' || id || '}'):a::int v, id FROM {t}",
    "SELECT id, dt + INTERVAL '1' MONTH mo, ts - TIMESTAMP_NTZ'2020-01-01 00:00:00' df, dt - DATE'2020-01-01' dd, make_interval(0, 0, 0, id) mi FROM {t} WHERE id < 8",
    "SELECT id FROM {t} WHERE ts - INTERVAL '1' HOUR > TIMESTAMP_NTZ'2020-01-01 12:00:00'",
    "SELECT id FROM {t} WHERE dt BETWEEN DATE'2020-01-01' AND DATE'2020-01-01' + INTERVAL 1 DAY",
    "SELECT id FROM {t} WHERE tz > '2020-01-01 10:00:00' AND tz < TIMESTAMP'2020-01-03 00:00:00'",
    "SELECT id FROM {t} WHERE ts > '2020-01-01' OR dt = '1969-12-31'",
    "SELECT id FROM {t} WHERE ts = DATE'2020-01-01' OR tz = DATE'2020-01-01'",
    "SELECT id FROM {t} WHERE year(dt) = 2020 AND month(ts) = 1 AND hour(tz) < 12",
    "SELECT id FROM {t} WHERE date(ts) = DATE'2020-01-02' OR to_date(s) IS NOT NULL",
    "SELECT id FROM {t} WHERE s LIKE 'a%' OR s RLIKE '^b' OR s ILIKE 'A' OR startswith(s, 'x') OR s = 'b/c'",
    "SELECT id FROM {t} WHERE s LIKE 'a\\\\%'",
    "SELECT id FROM {t} WHERE s > 'A' AND s <= 'b' COLLATE UTF8_BINARY",
    "SELECT id FROM {t} WHERE s COLLATE UTF8_LCASE = 'a'",
    "SELECT id FROM {t} WHERE d = 'NaN' OR d = 0 OR d = CAST('Infinity' AS DOUBLE)",
    "SELECT id FROM {t} WHERE d > 1 AND NOT (d <= 2)",
    "SELECT id FROM {t} WHERE d <> 0 AND d NOT IN (1.5, double('nan'))",
    "SELECT id FROM {t} WHERE n > 1.499 AND n < 1e9 OR n = -3.25BD OR n <=> NULL",
    "SELECT id FROM {t} WHERE i = 1.0 OR i > 2.5 OR l = '1099511627776' OR i = true",
    "SELECT id FROM {t} WHERE i IN ('1', '2') OR l IN (1, 2.5)",
    "SELECT id FROM {t} WHERE b OR NOT b IS NOT NULL",
    "SELECT id FROM {t} WHERE b = 'true' OR b IN (true)",
    "SELECT id FROM {t} WHERE bin = X'00ff' OR bin = 'abc' OR bin > X''",
    "SELECT id FROM {t} WHERE coalesce(i, 5) = 5 AND nvl(s, 'z') <> 'z' OR nullif(i, 1) IS NULL",
    "SELECT id FROM {t} WHERE (i IS NULL) = (s IS NULL) AND ((i > 0) IS NOT TRUE)",
    "SELECT id FROM {t} WHERE i IS DISTINCT FROM 1 AND s IS NOT DISTINCT FROM NULL",
    "SELECT id FROM {t} WHERE CASE i WHEN 1 THEN s = 'a' WHEN 2 THEN b ELSE id > 35 END",
    "SELECT id FROM {t} WHERE if(b, i, l) = 1 OR decode(i, 1, 'one', 'other') = 'one' AND id < 9",
    "SELECT id FROM {t} WHERE array_contains(arr, 1) AND NOT arrays_overlap(arr, array(2)) OR m = map('a', 1)",
    "SELECT `id`, `{t}`.`i`, db.{t}.s FROM db.{t}",
    "SELECT ID, S AS Id2 FROM {t} WHERE Id = 3 AND {t}.I IS NOT NULL OR iD IN (SELECT ID FROM {u} WHERE iD < 3)",
    "SELECT * FROM IDENTIFIER('{t}') WHERE IDENTIFIER('id') < 3",
    "SELECT id FROM {t} x JOIN {u} y USING (id) JOIN {v} z USING (id) WHERE x.i = y.i OR z.s IS NULL",
    "SELECT x.id, y.id FROM {t} x FULL OUTER JOIN {u} y ON x.id = y.id + 20 AND x.i = 1",
    "SELECT x.id, y.id FROM {t} x LEFT JOIN {u} y ON x.i = y.i AND y.s = 'a' WHERE y.id IS NULL OR x.b",
    "SELECT id FROM {t} NATURAL JOIN (SELECT id FROM {u} WHERE b) q",
    "SELECT /*+ MERGE(x) */ x.id FROM {t} x JOIN {u} y ON x.s = y.s AND x.d = y.d",
    "SELECT x.id FROM {t} x JOIN {u} y ON x.dt = y.ts",
    "SELECT x.id FROM {t} x JOIN {u} y ON x.i = y.l WHERE y.dt = DATE'2020-01-02'",
    "SELECT x.id FROM {t} x JOIN {u} y ON x.s = y.i",
    "SELECT x.id FROM {t} x LEFT ANTI JOIN {u} y ON x.i = y.i AND y.id > 20",
    "SELECT x.id FROM {t} x LEFT SEMI JOIN {u} y ON x.dt <=> y.dt AND y.i = 1",
    "SELECT x.id FROM {t} x WHERE x.n > ALL (SELECT n FROM {u})",
    "SELECT count(*) FROM (SELECT id FROM {t} LIMIT 5) JOIN (SELECT id FROM {u} LIMIT 0) USING (id)",
    "VALUES (1), ((SELECT count(*) FROM {t} WHERE i = 1))",
    "TABLE {t}",
    "SELECT stack(2, id, s, i, 'q') FROM {t} WHERE id < 3",
    "SELECT * EXCEPT (st.y) FROM {t}",
    "SELECT st.*, id FROM {t}",
    "SELECT struct(x.*) r, x FROM {t} x WHERE id < 3",
    "SELECT x FROM {t} AS x WHERE x.id = 4",
    "SELECT {t} FROM {t} WHERE id = 4",
    "SELECT count(*) FROM {t} x WHERE x IS NOT NULL",
    "SELECT count({t}.*), count(DISTINCT {t}.*) FROM {t}",
    "SELECT min({t}) FROM (SELECT id FROM {t}) {t}",
    "SELECT id + 1 AS a, a * 2 AS bb FROM {t} WHERE a > 5",
    "SELECT i AS id, id AS i FROM {t} WHERE i = 1",
    "SELECT i AS id FROM {t} GROUP BY id, i HAVING id = 1",
    "SELECT i AS k, count(*) FROM {t} GROUP BY k HAVING k > 0 ORDER BY k",
    "SELECT id AS i, s FROM {t} ORDER BY i LIMIT 3",
    "SELECT -id AS id FROM {t} ORDER BY id LIMIT 3",
    "SELECT -id AS id, i FROM {t} ORDER BY {t}.id LIMIT 3",
    "SELECT x.id FROM {t} x ORDER BY x.i IS NULL, x.i, x.id LIMIT 4",
    "SELECT listagg(s, ',') WITHIN GROUP (ORDER BY s) FROM {t}",
    "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY id) FROM {t} WHERE i > 0",
    "SELECT id FROM {t} WHERE i = (SELECT i FROM {u} WHERE id = 3) OR id = (SELECT max(id) FROM {v})",
    "SELECT id FROM {t} WHERE i > (SELECT avg(i) FROM {u} WHERE {u}.s = {t}.s)",
    "SELECT x.id FROM {t} x WHERE x.l = (SELECT max(l) FROM {u} WHERE i = x.i)",
    "SELECT id, i FROM {t} WHERE (id, i) = (SELECT id, i FROM {u} WHERE id = 2)",
    "SELECT id FROM {t} SORT BY id",
    "SELECT b, collect_list(struct(id, s)) FROM (SELECT * FROM {t} DISTRIBUTE BY b SORT BY id) GROUP BY b",
    "SELECT map_from_entries(collect_list((id, s))) FROM {t} WHERE id < 3",
    "SELECT width_bucket(id, 0, 40, 4) w, count(*) FROM {t} GROUP BY w",
    "SELECT window.start, count(*) FROM {t} GROUP BY window(tz, '1 day')",
    "SELECT window(ts, '12 hours').end e, max(id) FROM {t} GROUP BY e",
    "SELECT id FROM {t} WHERE id = 3 AND 1 = 0",
    "SELECT id FROM {t} WHERE NULL",
    "SELECT count(*) FROM {t} WHERE false",
    "SELECT max(id) FROM {t} GROUP BY ()",
    "SELECT sum(cnt) FROM (SELECT count(*) cnt FROM {t} UNION ALL SELECT count(*) FROM {u} WHERE i > 1)",
    "SELECT (SELECT count(*) FROM {t}) a, (SELECT max(id) FROM {u}) bb",
    "SELECT x.c + y.c FROM (SELECT count(*) c FROM {t}) x CROSS JOIN (SELECT count(*) c FROM {u}) y",
    "SELECT id FROM {t} x WHERE {c} AND i NOT IN (SELECT i FROM {u} x WHERE {c})",
    "SELECT id, (SELECT count(*) FROM {u} y WHERE y.i = x.i AND y.id > 9) n FROM {t} x WHERE {c}",
    "SELECT x.id FROM {t} x WHERE {c} EXCEPT SELECT x.id FROM {u} x WHERE {c}",
    "SELECT id, rank() OVER (PARTITION BY b ORDER BY id) r FROM {t} x WHERE {c}",
    "SELECT b, i, count(*) n FROM {t} x WHERE {c} GROUP BY CUBE(b, i)",
    "SELECT count(*) n, max(id) m, min(dt) d FROM {t} x WHERE {c}",
    "SELECT id FROM {t} x WHERE {c} ORDER BY id LIMIT 4",
    "SELECT x.id, e FROM {t} x, LATERAL explode(x.arr) AS q(e) WHERE {c}",
    "FROM {t} |> AS x |> WHERE {c} |> EXTEND id % 3 AS m |> AGGREGATE count(*) n GROUP BY m",
    "WITH {u} AS (SELECT * FROM {t} x WHERE {c}) SELECT id, s FROM {u} x WHERE {c}",
    "SELECT x.id FROM {t} x LEFT JOIN {u} y ON x.id = y.id + 3 AND y.i > 0 WHERE {c}",
    "SELECT db.{t}.id FROM db.{t} WHERE EXISTS (SELECT 1 FROM db.{u} AS {t} WHERE {t}.id = db.{t}.id + 7)",
    "SELECT db.{t}.st.y.z, db.{t}.id FROM db.{t} JOIN db.{u} x ON db.{t}.id = x.id WHERE {c}",
    "SELECT {t}.id, n FROM db.{t}, LATERAL (SELECT count(*) n FROM db.{u} x WHERE x.i = db.{t}.i AND {c}) l",
)
ALL = (*FORMS, *rarer_forms.FORMS)
