"""A small star schema (dates, items, stores, customers, sales, returns, stocks) and queries over it of many shapes.

Keys are of different types on both sides of a join, some are null, some have no counterpart; texts are CHAR and VARCHAR.
"""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from random import Random
from typing import Any

_UTC = dt.timezone.utc
_FIRST, _DAYS = 2451500, 160  # the first day's key, and how many there are


def _dimensions(chance: Random) -> dict[str, list[dict[str, Any]]]:
    start = dt.date(1999, 11, 20)
    days = [start + dt.timedelta(i) for i in range(_DAYS)]
    pick = chance.choice
    return {
        "date_dim": [
            {
                "d_date_sk": _FIRST + i,
                "d_date_id": f"D{i:06d}",
                "d_date": day,
                "d_year": day.year,
                "d_moy": day.month,
                "d_dom": day.day,
                "d_qoy": (day.month + 2) // 3,
                "d_week_seq": i // 7,
                "d_day_name": day.strftime("%A"),
                "d_holiday": pick(["Y", "N", None]),
            }
            for i, day in enumerate(days)
        ],
        "item": [
            {
                "i_item_sk": i,
                "i_item_id": f"AAAA{i // 2:04d}",
                "i_brand": pick(["b#1", "b%3", "b_4", None]),
                "i_class": pick("xyz"),
                "i_category": pick(["Books", "Music", "Home", None]),
                "i_current_price": pick([None, Decimal(chance.randint(9, 9999)).scaleb(-2)]),
                "i_color": pick(["red", "  grey", "é", ""]),
                "i_manufact_id": pick([None, *range(20)]),
            }
            for i in range(60)
        ],
        "store": [
            {
                "s_store_sk": i,
                "s_store_id": f"S{i}",
                "s_store_name": pick(["ought", "able", None]),
                "s_state": pick(["TN", "CA", "T ", None]),
                "s_tax": Decimal(chance.randint(0, 11)).scaleb(-2),
                "s_open": pick([True, False, None]),
            }
            for i in range(8)
        ],
        "customer": [
            {
                "c_customer_sk": i,
                "c_customer_id": f"C{i:05d}",
                "c_first_name": pick(["Ann", "bob ", "Zoë", None, ""]),
                "c_birth": pick([None, dt.date(1924 + chance.randint(0, 70), 2, 3)]),
                "c_addr_sk": pick([None, *range(9)]),
                "c_last_review": pick([None, dt.datetime(2000, 1, 1) + dt.timedelta(seconds=chance.randint(0, 10**7))]),
                "c_pref": pick(["Y", "N", None]),
            }
            for i in range(150)
        ],
    }


def _facts(chance: Random) -> dict[str, list[dict[str, Any]]]:
    def some(value: Any, missing: float = 0.04) -> Any:
        return None if chance.random() < missing else value

    def money(low: int = 0) -> Any:
        return some(Decimal(chance.randint(low, 20000)).scaleb(-2))

    def day(beyond: int = 0) -> Any:
        return some(_FIRST + chance.randint(0, _DAYS + beyond))

    pick, number = chance.choice, chance.randint
    sales = [
        {
            "ss_id": i,
            "ss_sold_date_sk": day(3),
            "ss_item_sk": number(0, 65),
            "ss_customer_sk": some(number(0, 160)),
            "ss_store_sk": some(number(0, 9)),
            "ss_ticket": i // 3,
            "ss_quantity": some(number(1, 100)),
            "ss_price": money(),
            "ss_cost": money(),
            "ss_profit": money(-9999),
            "ss_disc": pick([None, 0.0, -0.0, 0.1, float("nan")]),
        }
        for i in range(1500)
    ]
    return {
        "store_sales": sales,
        "store_returns": [
            {
                "sr_id": i,
                "sr_returned_date_sk": day(),
                "sr_item_sk": sale["ss_item_sk"],
                "sr_customer_sk": sale["ss_customer_sk"],
                "sr_ticket": sale["ss_ticket"],
                "sr_amt": money(),
                "sr_reason": pick(["late", "r%", None]),
            }
            for i, sale in enumerate(chance.sample(sales, 200))
        ],
        "web_sales": [
            {
                "ws_id": i,
                "ws_sold_date_sk": day(),
                "ws_item_sk": number(0, 59),
                "ws_bill_customer_sk": some(number(0, 149)),
                "ws_ship": some(dt.datetime(2000, 1, 1, tzinfo=_UTC) + dt.timedelta(minutes=number(-100000, 100000))),
                "ws_price": money(),
                "ws_quantity": some(number(1, 100)),
                "ws_tags": pick([None, [], ["a"], ["a", "b", None]]),
                "ws_site": pick(["s1", "s2"]),
            }
            for i in range(600)
        ],
        "inventory": [
            {
                "inv_date_sk": _FIRST + 7 * week,
                "inv_item_sk": i,
                "inv_store_sk": k,
                "inv_qty": some(number(0, 1000), 0.1),
            }
            for week in range(12)
            for i in range(0, 60, 3)
            for k in range(3)
        ],
    }


def rows() -> dict[str, list[dict[str, Any]]]:
    """The rows of each table."""
    chance = Random(3)
    return {**_dimensions(chance), **_facts(chance)}


DDL = {
    "date_dim": "d_date_sk INT NOT NULL, d_date_id CHAR(16), d_date DATE, d_year INT, d_moy INT, d_dom INT, d_qoy INT, d_week_seq INT, d_day_name CHAR(9), d_holiday CHAR(1)",
    "item": "i_item_sk BIGINT NOT NULL, i_item_id CHAR(16), i_brand VARCHAR(50), i_class CHAR(5), i_category CHAR(10), i_current_price DECIMAL(7,2), i_color VARCHAR(20), i_manufact_id INT",
    "store": "s_store_sk SMALLINT NOT NULL, s_store_id CHAR(16), s_store_name VARCHAR(50), s_state CHAR(2), s_tax DECIMAL(5,2), s_open BOOLEAN",
    "customer": "c_customer_sk INT NOT NULL, c_customer_id CHAR(16), c_first_name CHAR(20), c_birth DATE, c_addr_sk INT, c_last_review TIMESTAMP_NTZ, c_pref CHAR(1)",
    "store_sales": "ss_id BIGINT NOT NULL, ss_sold_date_sk INT, ss_item_sk INT NOT NULL, ss_customer_sk BIGINT, ss_store_sk INT, ss_ticket BIGINT NOT NULL, ss_quantity INT, ss_price DECIMAL(7,2), ss_cost DECIMAL(7,2), ss_profit DECIMAL(7,2), ss_disc DOUBLE",
    "store_returns": "sr_id BIGINT NOT NULL, sr_returned_date_sk BIGINT, sr_item_sk INT, sr_customer_sk BIGINT, sr_ticket BIGINT, sr_amt DECIMAL(7,2), sr_reason STRING",
    "web_sales": "ws_id BIGINT NOT NULL, ws_sold_date_sk INT, ws_item_sk SMALLINT, ws_bill_customer_sk INT, ws_ship TIMESTAMP, ws_price DECIMAL(7,2), ws_quantity INT, ws_tags ARRAY<STRING>, ws_site STRING",
    "inventory": "inv_date_sk INT NOT NULL, inv_item_sk INT NOT NULL, inv_store_sk SMALLINT NOT NULL, inv_qty INT",
}
# Of each table its key, what may partition it (never null in a key), and what may be its bucket key.
PLACES = {
    "date_dim": ("d_date_sk", "d_year", "d_moy"),
    "item": ("i_item_sk", "i_category", "i_item_sk"),
    "store": ("s_store_sk", "s_state", "s_store_sk"),
    "customer": ("c_customer_sk", "c_birth", "c_customer_id"),
    "store_sales": ("ss_id", "ss_sold_date_sk", "ss_item_sk"),
    "store_returns": ("sr_id", "sr_returned_date_sk", "sr_customer_sk"),
    "web_sales": ("ws_id", "ws_sold_date_sk", "ws_item_sk"),
    "inventory": ("inv_date_sk,inv_item_sk,inv_store_sk", "inv_date_sk", "inv_item_sk"),
}
KINDS = {
    "append": "TBLPROPERTIES ('bucket' = '-1')",
    "parts": "PARTITIONED BY ({part}) TBLPROPERTIES ('bucket' = '-1')",
    "bucketed": "TBLPROPERTIES ('bucket' = '4', 'bucket-key' = '{bucket}')",
    "both": "PARTITIONED BY ({part}) TBLPROPERTIES ('bucket' = '2', 'bucket-key' = '{bucket}')",
    "keyed": "TBLPROPERTIES ('primary-key' = '{key}', 'bucket' = '3', 'write-only' = 'true')",
    "vectors": "TBLPROPERTIES ('primary-key' = '{key}', 'bucket' = '2', 'deletion-vectors.enabled' = 'true')",
    "partial": "TBLPROPERTIES ('primary-key' = '{key}', 'bucket' = '2', 'merge-engine' = 'partial-update', 'write-only' = 'true')",
    "first": "TBLPROPERTIES ('primary-key' = '{key}', 'bucket' = '2', 'merge-engine' = 'first-row')",
    "dynamic": "TBLPROPERTIES ('primary-key' = '{key}', 'bucket' = '-1')",
    "postponed": "TBLPROPERTIES ('primary-key' = '{key}', 'bucket' = '-2')",
    "mapped": "TBLPROPERTIES ('metadata.stats-mode' = 'none', 'file-index.bitmap.columns' = '{bucket}')",
    "indexed": "TBLPROPERTIES ('row-tracking.enabled' = 'true', 'data-evolution.enabled' = 'true')",
}

QUERIES = {
    "q3": "SELECT dt.d_year, item.i_brand brand, sum(ss_price) sum_agg FROM date_dim dt, store_sales, item WHERE dt.d_date_sk = store_sales.ss_sold_date_sk AND store_sales.ss_item_sk = item.i_item_sk AND item.i_manufact_id < 9 AND dt.d_moy = 12 GROUP BY dt.d_year, item.i_brand ORDER BY dt.d_year, sum_agg DESC, brand LIMIT 20",
    "q1": "WITH ctr AS (SELECT sr_customer_sk AS cust, ss_store_sk AS st, sum(sr_amt) AS tot FROM store_returns JOIN store_sales ON sr_ticket = ss_ticket AND sr_item_sk = ss_item_sk GROUP BY sr_customer_sk, ss_store_sk) SELECT c_customer_id FROM ctr c1, store, customer WHERE c1.tot > (SELECT avg(tot) * 1.2 FROM ctr c2 WHERE c1.st = c2.st) AND s_store_sk = c1.st AND s_state = 'TN' AND c1.cust = c_customer_sk ORDER BY c_customer_id LIMIT 100",
    "q27_rollup": "SELECT i_item_id, s_state, grouping(s_state) g, avg(ss_quantity) a, count(*) c FROM store_sales, date_dim, store, item WHERE ss_sold_date_sk = d_date_sk AND ss_item_sk = i_item_sk AND ss_store_sk = s_store_sk AND d_year = 2000 GROUP BY ROLLUP (i_item_id, s_state)",
    "cube": "SELECT s_state, i_class, sum(ss_profit) p, grouping_id(s_state, i_class) gid FROM store_sales JOIN store ON ss_store_sk = s_store_sk JOIN item ON ss_item_sk = i_item_sk GROUP BY CUBE (s_state, i_class) HAVING sum(ss_profit) IS NOT NULL",
    "gsets": "SELECT d_year, d_moy, count(DISTINCT ss_customer_sk) c FROM store_sales LEFT JOIN date_dim ON ss_sold_date_sk = d_date_sk GROUP BY GROUPING SETS ((d_year, d_moy), (d_year), ())",
    "gsets_one": "SELECT ss_sold_date_sk, count(*) c FROM store_sales GROUP BY GROUPING SETS ((ss_sold_date_sk), ())",
    "window": "SELECT * FROM (SELECT i_category, i_item_sk, sum(ss_price) s, rank() OVER (PARTITION BY i_category ORDER BY sum(ss_price) DESC, i_item_sk) rk, avg(sum(ss_price)) OVER (PARTITION BY i_category) av FROM store_sales, item WHERE ss_item_sk = i_item_sk GROUP BY i_category, i_item_sk) WHERE rk <= 3",
    "window_named": "SELECT ss_store_sk, ss_id, lag(ss_price, 2) OVER w l, first_value(ss_price) IGNORE NULLS OVER w f, sum(ss_quantity) OVER (PARTITION BY ss_store_sk ORDER BY ss_id ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) s FROM store_sales WHERE ss_item_sk IN (3, 5, 7) WINDOW w AS (PARTITION BY ss_store_sk ORDER BY ss_sold_date_sk NULLS LAST, ss_id)",
    "window_range": "SELECT d_date, sum(c) OVER (ORDER BY d_date RANGE BETWEEN INTERVAL 3 DAYS PRECEDING AND CURRENT ROW) s FROM (SELECT d_date, count(*) c FROM store_sales JOIN date_dim ON d_date_sk = ss_sold_date_sk GROUP BY d_date)",
    "exists": "SELECT count(*) c, min(c_customer_id) m FROM customer c WHERE EXISTS (SELECT * FROM store_sales, date_dim WHERE c.c_customer_sk = ss_customer_sk AND ss_sold_date_sk = d_date_sk AND d_moy BETWEEN 1 AND 2) AND (EXISTS (SELECT 1 FROM web_sales WHERE c.c_customer_sk = ws_bill_customer_sk) OR NOT EXISTS (SELECT 1 FROM store_returns WHERE sr_customer_sk = c.c_customer_sk))",
    "notin": "SELECT c_customer_sk FROM customer WHERE c_customer_sk NOT IN (SELECT ss_customer_sk FROM store_sales WHERE ss_item_sk < 30)",
    "notin2": "SELECT c_customer_sk FROM customer WHERE c_customer_sk NOT IN (SELECT ss_customer_sk FROM store_sales WHERE ss_item_sk < 30 AND ss_customer_sk IS NOT NULL)",
    "notin_null_left": "SELECT ss_id FROM store_sales WHERE ss_store_sk NOT IN (SELECT s_store_sk FROM store WHERE s_state = 'CA')",
    "in_or": "SELECT ss_id FROM store_sales WHERE ss_store_sk IN (SELECT s_store_sk FROM store WHERE s_state = 'TN') OR ss_item_sk IN (SELECT i_item_sk FROM item WHERE i_category = 'Books')",
    "in_sub": "SELECT ss_id, ss_price FROM store_sales WHERE ss_sold_date_sk IN (SELECT d_date_sk FROM date_dim WHERE d_date BETWEEN DATE '2000-01-03' AND DATE '2000-01-03' + INTERVAL 7 DAYS) AND ss_price > 100",
    "intersect": "SELECT count(*) c FROM (SELECT DISTINCT c_customer_id, d_date FROM store_sales, date_dim, customer WHERE ss_sold_date_sk = d_date_sk AND ss_customer_sk = c_customer_sk INTERSECT SELECT DISTINCT c_customer_id, d_date FROM web_sales, date_dim, customer WHERE ws_sold_date_sk = d_date_sk AND ws_bill_customer_sk = c_customer_sk)",
    "except_all": "SELECT ss_item_sk FROM store_sales WHERE ss_store_sk = 1 EXCEPT ALL SELECT ws_item_sk FROM web_sales WHERE ws_site = 's1'",
    "intersect_all": "(SELECT ss_item_sk, ss_sold_date_sk FROM store_sales) INTERSECT ALL (SELECT ws_item_sk, ws_sold_date_sk FROM web_sales)",
    "lateral_view": "SELECT ws_site, t, pos, count(*) c FROM web_sales LATERAL VIEW OUTER posexplode(ws_tags) x AS pos, t WHERE ws_quantity > 50 GROUP BY ws_site, t, pos",
    "lateral_sub": "SELECT s.s_store_id, l.m FROM store s LEFT JOIN LATERAL (SELECT max(ss_price) m FROM store_sales x WHERE x.ss_store_sk = s.s_store_sk AND x.ss_quantity < 50) l ON l.m > 10",
    "pivot": "SELECT * FROM (SELECT ss_store_sk, d_day_name, ss_price FROM store_sales, date_dim WHERE ss_sold_date_sk = d_date_sk) PIVOT (sum(ss_price) AS p, count(*) AS c FOR d_day_name IN ('Sunday' AS sun, 'Monday' AS mon))",
    "unpivot": "SELECT k, count(v) c, sum(v) s FROM store_sales UNPIVOT INCLUDE NULLS (v FOR k IN (ss_price, ss_cost AS cost, ss_profit)) GROUP BY k",
    "selfjoin": "SELECT a.ss_ticket, count(*) c FROM store_sales a JOIN store_sales b ON a.ss_ticket = b.ss_ticket AND a.ss_item_sk < b.ss_item_sk WHERE a.ss_quantity > 20 AND b.ss_quantity > 20 GROUP BY a.ss_ticket",
    "full": "SELECT coalesce(a.k, b.k) k, a.s sa, b.s sb FROM (SELECT ss_item_sk k, sum(ss_price) s FROM store_sales WHERE ss_store_sk = 1 GROUP BY ss_item_sk) a FULL OUTER JOIN (SELECT ws_item_sk k, sum(ws_price) s FROM web_sales WHERE ws_sold_date_sk > 2451600 GROUP BY ws_item_sk) b ON a.k = b.k",
    "full_raw": "SELECT count(*) c, count(ss_id) a, count(ws_id) b FROM store_sales FULL JOIN web_sales ON ss_sold_date_sk = ws_sold_date_sk AND ss_item_sk = ws_item_sk AND ss_quantity > 10 AND ws_quantity > 10",
    "left_where": "SELECT c_customer_sk, sr_id FROM customer LEFT JOIN store_returns ON c_customer_sk = sr_customer_sk AND sr_amt > 50 WHERE sr_reason IS NULL AND c_pref = 'Y'",
    "left_filter_right": "SELECT ss_id, d_date FROM store_sales LEFT JOIN date_dim ON ss_sold_date_sk = d_date_sk AND d_moy = 1 AND ss_quantity > 90 WHERE ss_store_sk = 2",
    "right": "SELECT s_store_id, ss_id FROM store_sales RIGHT JOIN store ON ss_store_sk = s_store_sk AND ss_item_sk = 7 WHERE s_state <> 'CA' OR s_state IS NULL",
    "anti": "SELECT i_item_sk FROM item LEFT ANTI JOIN store_sales ON ss_item_sk = i_item_sk AND ss_sold_date_sk > 2451640",
    "semi": "SELECT i_item_sk, i_color FROM item LEFT SEMI JOIN web_sales ON ws_item_sk = i_item_sk AND ws_price < 5",
    "nonequi": "SELECT d1.d_date_sk, count(*) c FROM date_dim d1 JOIN inventory ON inv_date_sk BETWEEN d1.d_date_sk - 7 AND d1.d_date_sk WHERE d1.d_dom = 1 GROUP BY d1.d_date_sk",
    "nullsafe": "SELECT a.ss_sold_date_sk, count(*) c FROM store_sales a JOIN store_returns b ON a.ss_sold_date_sk <=> b.sr_returned_date_sk GROUP BY a.ss_sold_date_sk",
    "limit_offset": "SELECT ss_id, ss_sold_date_sk FROM store_sales ORDER BY ss_sold_date_sk DESC NULLS FIRST, ss_id LIMIT 10 OFFSET 5",
    "topn": "SELECT ss_id, ss_price FROM store_sales ORDER BY ss_id DESC LIMIT 7",
    "topn2": "SELECT * FROM store_sales ORDER BY ss_price NULLS LAST, ss_id LIMIT 12",
    "topn3": "SELECT ss_sold_date_sk, ss_id FROM store_sales ORDER BY ss_sold_date_sk ASC NULLS LAST, ss_id DESC LIMIT 9",
    "topn4": "SELECT inv_date_sk, inv_item_sk, inv_store_sk FROM inventory ORDER BY inv_date_sk DESC, 2, 3 LIMIT 5",
    "limit0": "SELECT * FROM customer LIMIT 0",
    "limit_count": "SELECT count(*) c FROM (SELECT * FROM customer LIMIT 77)",
    "limit_off_count": "SELECT count(*) c FROM (SELECT * FROM customer LIMIT 77 OFFSET 100)",
    "sample": "SELECT count(*) > 0 c FROM store_sales TABLESAMPLE (100 PERCENT)",
    "sample_rows": "SELECT count(*) c FROM store_sales TABLESAMPLE (13 ROWS) s",
    "qualify": "SELECT ss_store_sk, ss_id FROM store_sales QUALIFY row_number() OVER (PARTITION BY ss_store_sk ORDER BY ss_price DESC NULLS LAST, ss_id) = 1",
    "having": "SELECT ss_store_sk, count(*) c FROM store_sales WHERE ss_item_sk > 10 GROUP BY ss_store_sk HAVING count(*) > 100 AND max(ss_price) > 100",
    "distinct_aggs": "SELECT count(DISTINCT ss_item_sk, ss_store_sk) a, count(DISTINCT ss_customer_sk) b, sum(DISTINCT ss_quantity) c, avg(ss_price) d, count(ss_price) e FROM store_sales WHERE ss_sold_date_sk < 2451600",
    "percentile": "SELECT ss_store_sk, percentile(ss_quantity, 0.5) p, median(ss_price) m, mode() WITHIN GROUP (ORDER BY ss_quantity) mo, percentile_cont(0.25) WITHIN GROUP (ORDER BY ss_quantity) pc FROM store_sales WHERE ss_quantity < 10 GROUP BY ss_store_sk",
    "filter": "SELECT count_if(ss_price > 50) a, count(*) FILTER (WHERE ss_store_sk = 1) b, max(ss_id) FILTER (WHERE ss_quantity < 5) c, bool_or(ss_quantity > 99) d, any_value(1) e, max_by(ss_id, ss_id) f FROM store_sales",
    "collect": "SELECT ws_site, sort_array(collect_set(ws_item_sk)) s, size(collect_list(ws_tags)) t, listagg(ws_site, ',') WITHIN GROUP (ORDER BY ws_id) FROM web_sales WHERE ws_quantity = 7 GROUP BY ws_site",
    "minmax": "SELECT min(ss_sold_date_sk) a, max(ss_sold_date_sk) b, count(*) c, min(ss_price) d, max(ss_price) e, min(ss_id) f FROM store_sales",
    "minmax_char": "SELECT min(c_customer_id) a, max(c_first_name) b, max(c_birth) c, min(c_last_review) d, max(c_pref) e FROM customer",
    "minmax_part": "SELECT ss_sold_date_sk, count(*) c, min(ss_id) a FROM store_sales GROUP BY ss_sold_date_sk HAVING count(*) > 10 ORDER BY 1 NULLS LAST LIMIT 20",
    "count_part": "SELECT count(*) c FROM store_sales WHERE ss_sold_date_sk IS NULL OR ss_sold_date_sk > 2451600",
    "count_char_part": "SELECT i_category, count(*) c FROM item WHERE i_category = 'Books' OR i_category IS NULL GROUP BY i_category",
    "min_partnull": "SELECT min(ss_sold_date_sk) a, max(ss_sold_date_sk) b, count(1) c FROM store_sales WHERE ss_sold_date_sk IS NULL",
    "char_eq": "SELECT d_date_sk FROM date_dim WHERE d_day_name = 'Sunday' AND d_holiday IN ('Y', 'N ')",
    "char_pad": "SELECT i_item_sk, i_class, length(i_class) l, concat('<', i_category, '>') c FROM item WHERE i_category = 'Books     ' OR i_class LIKE 'x%'",
    "char_join": "SELECT count(*) c FROM item a JOIN item b ON a.i_item_id = b.i_item_id WHERE a.i_class IN ('x', 'y') AND b.i_class > 'x'",
    "varchar": "SELECT i_item_sk FROM item WHERE i_color = 'grey' OR i_color = '  grey' OR i_brand LIKE 'b\\\\%%' OR i_brand LIKE 'b\\\\_4'",
    "dates": "SELECT d_date_sk, date_add(d_date, 30) a, d_date + INTERVAL 1 MONTH b, datediff(d_date, DATE '2000-01-01') c, last_day(d_date) e, trunc(d_date, 'QUARTER') f, extract(DOW FROM d_date) g, date_format(d_date, 'yyyy-MM') h FROM date_dim WHERE d_date BETWEEN '2000-02-25' AND cast('2000-03-02' AS DATE)",
    "interval_cmp": "SELECT c_customer_sk FROM customer WHERE c_last_review - TIMESTAMP_NTZ '2000-01-05 00:00:00' < INTERVAL '10' DAY AND c_last_review >= '2000-01-10'",
    "tz": "SELECT ws_id, hour(ws_ship) h, to_date(ws_ship) d FROM web_sales WHERE ws_ship >= TIMESTAMP '2000-01-10 00:00:00' AND ws_ship < '2000-01-11' ",
    "tz2": "SELECT count(*) c FROM web_sales WHERE ws_ship BETWEEN '2000-01-10 03:00:00' AND TIMESTAMP '2000-01-12 03:00:00+05:00'",
    "tz3": "SELECT to_date(ws_ship) d, count(*) c, min(ws_ship) m FROM web_sales WHERE date_trunc('MONTH', ws_ship) = DATE '2000-02-01' GROUP BY 1",
    "cte_twice": "WITH t AS (SELECT ss_store_sk st, d_week_seq w, sum(ss_price) p FROM store_sales, date_dim WHERE d_date_sk = ss_sold_date_sk GROUP BY ss_store_sk, d_week_seq) SELECT a.st, a.w, a.p, b.p nxt FROM t a LEFT JOIN t b ON a.st = b.st AND a.w = b.w - 1 WHERE a.w < 5",
    "scalar": "SELECT (SELECT count(*) FROM store_sales WHERE ss_quantity BETWEEN 1 AND 20) a, CASE WHEN (SELECT count(*) FROM store_sales WHERE ss_quantity BETWEEN 21 AND 40) > 10 THEN (SELECT avg(ss_price) FROM store_sales WHERE ss_quantity > 90) ELSE 0 END b FROM store WHERE s_store_sk = 1",
    "scalar_corr": "SELECT i_item_sk, (SELECT max(ss_price) FROM store_sales WHERE ss_item_sk = i_item_sk AND ss_store_sk = 3) m FROM item WHERE i_current_price > (SELECT 0.5 * avg(j.i_current_price) FROM item j WHERE j.i_category <=> item.i_category)",
    "union_all": "SELECT channel, sum(p) s, count(*) c FROM (SELECT 'store' channel, ss_price p FROM store_sales WHERE ss_store_sk IS NULL UNION ALL SELECT 'web', ws_price FROM web_sales WHERE ws_bill_customer_sk IS NULL UNION ALL SELECT 'ret', sr_amt FROM store_returns) GROUP BY ROLLUP(channel)",
    "returns": "SELECT c_customer_sk, count(*) c FROM store_sales LEFT OUTER JOIN store_returns ON sr_item_sk = ss_item_sk AND ss_ticket = sr_ticket, customer WHERE ss_customer_sk = c_customer_sk AND sr_id IS NULL GROUP BY c_customer_sk HAVING count(*) > 20",
    "inv_ratio": "SELECT inv_store_sk, i_item_id, sum(CASE WHEN d_date < DATE'2000-01-11' THEN inv_qty ELSE 0 END) b, sum(CASE WHEN d_date >= DATE'2000-01-11' THEN inv_qty ELSE 0 END) a FROM inventory, item, date_dim WHERE i_item_sk = inv_item_sk AND inv_date_sk = d_date_sk AND d_date BETWEEN DATE'2000-01-11' - INTERVAL 30 DAYS AND DATE'2000-01-11' + INTERVAL 30 DAYS GROUP BY inv_store_sk, i_item_id",
    "stddev": "SELECT inv_store_sk, stddev_samp(inv_qty) s, mean(inv_qty) m FROM inventory, date_dim WHERE inv_date_sk = d_date_sk AND d_year = 2000 GROUP BY inv_store_sk",
    "hints": "SELECT /*+ MERGE(store_sales), COALESCE(2) */ count(*) c FROM store_sales JOIN store ON ss_store_sk = s_store_sk WHERE s_open",
    "hints2": "SELECT /*+ BROADCAST(d) */ d.d_qoy, count(*) c FROM store_sales s JOIN date_dim d ON s.ss_sold_date_sk = d.d_date_sk AND d.d_qoy = 1 GROUP BY d.d_qoy",
    "nan": "SELECT ss_disc, count(*) c FROM store_sales WHERE ss_disc >= 0 GROUP BY ss_disc",
    "nan2": "SELECT count(*) c FROM store_sales WHERE NOT (ss_disc > 0.05) OR ss_disc = -0.0",
    "distinct": "SELECT DISTINCT ss_store_sk, ss_sold_date_sk IS NULL n FROM store_sales",
    "using": "SELECT count(*) c FROM (SELECT ss_item_sk AS i_item_sk, ss_id FROM store_sales) JOIN item USING (i_item_sk)",
    "natural": "SELECT count(*) c FROM (SELECT ss_store_sk AS s_store_sk FROM store_sales) NATURAL JOIN store",
    "values": "SELECT v.x, count(*) c FROM store_sales JOIN (VALUES (2451510), (2451520), (NULL)) v(x) ON ss_sold_date_sk = v.x GROUP BY v.x",
    "nested_cte": "WITH a AS (WITH b AS (SELECT d_date_sk k FROM date_dim WHERE d_moy = 2) SELECT k FROM b WHERE k > 2451590), store AS (SELECT k AS s_store_sk FROM a) SELECT count(*) c FROM store_sales s JOIN store ON s.ss_sold_date_sk = store.s_store_sk",
    "correlated_in": "SELECT s_store_sk FROM store s WHERE s_store_sk IN (SELECT ss_store_sk FROM store_sales WHERE ss_item_sk = s.s_store_sk * 2)",
    "multi_in": "SELECT ss_id FROM store_sales WHERE (ss_item_sk, ss_ticket) IN (SELECT sr_item_sk, sr_ticket FROM store_returns WHERE sr_amt > 150)",
    "emptysmall": "SELECT count(*) c, sum(ss_price) s FROM store_sales JOIN date_dim ON ss_sold_date_sk = d_date_sk WHERE d_year = 1900",
    "emptyleft": "SELECT count(*) c FROM store_sales LEFT JOIN (SELECT * FROM date_dim WHERE d_year = 1900) d ON ss_sold_date_sk = d.d_date_sk",
    "emptyanti": "SELECT count(*) c FROM store_sales LEFT ANTI JOIN (SELECT * FROM date_dim WHERE d_year = 1900) d ON ss_sold_date_sk = d.d_date_sk",
    "outer_mixed": "SELECT count(*) c FROM store_sales s LEFT JOIN store_returns r ON s.ss_ticket = r.sr_ticket JOIN date_dim d ON r.sr_returned_date_sk = d.d_date_sk WHERE d.d_moy = 1",
    "orderall": "SELECT ss_store_sk, count(*) c FROM store_sales GROUP BY ALL ORDER BY ALL",
    "lateral_alias": "SELECT ss_price + ss_cost AS total, total * 2 AS twice FROM store_sales WHERE ss_id < 50",
    "except_col": "SELECT * EXCEPT (ss_disc, ss_id) FROM store_sales WHERE ss_item_sk = 4",
    "pipe": "FROM store_sales |> WHERE ss_store_sk = 1 |> AGGREGATE sum(ss_price) s, count(*) c GROUP BY ss_item_sk |> WHERE c > 3 |> ORDER BY ss_item_sk |> LIMIT 10",
    "recursive": "WITH RECURSIVE r(n) AS (SELECT 2451500 UNION ALL SELECT n + 30 FROM r WHERE n < 2451600) SELECT n, count(ss_id) c FROM r LEFT JOIN store_sales ON ss_sold_date_sk = n GROUP BY n",
    "case_pred": "SELECT count(*) c FROM store_sales WHERE CASE WHEN ss_store_sk = 1 THEN ss_quantity > 50 ELSE ss_quantity < 5 END",
    "like_any": "SELECT c_customer_sk FROM customer WHERE c_first_name LIKE ANY ('A%', 'Zo%') AND c_customer_id NOT LIKE '%1%'",
    "having_only": "SELECT max(ss_quantity) m FROM store_sales HAVING count(*) > 100000",
    "count_group_empty": "SELECT ss_sold_date_sk, count(*) c FROM store_sales WHERE ss_sold_date_sk = 1 GROUP BY ss_sold_date_sk",
    "sets_null": "SELECT ss_store_sk FROM store_sales MINUS SELECT s_store_sk FROM store",
}
