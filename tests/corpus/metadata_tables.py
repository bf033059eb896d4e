"""Tables of the corpus by what happened to their metadata."""

from __future__ import annotations

from collections.abc import Iterator

from tests.corpus.statements import DATABASE, KV, Table, create, insert, rows_of, set_options


def metadata_tables() -> Iterator[Table]:
    """Tables whose schema, statistics, manifests and snapshots have a history."""
    for name, key, options in (
        ("evolved_append", "", {"bucket": "-1"}),
        ("evolved_orc", "", {"bucket": "-1", "file__format": "orc"}),
        ("evolved_avro", "", {"bucket": "-1", "file__format": "avro"}),
        ("evolved_pk", ", PRIMARY KEY (k) NOT ENFORCED", {"bucket": "1"}),
    ):
        yield Table(
            name,
            "add, drop, rename and widen columns, reuse a dropped name, move a column; data before and after each",
            [
                create(name, f"k INT, a INT, b STRING, c FLOAT, d DECIMAL(5, 2){key}", **options),
                insert(name, "1, 10, 'b1', CAST(1.5 AS FLOAT), 1.25"),
                f"ALTER TABLE {name} ADD (e STRING)",
                insert(name, "2, 20, 'b2', CAST(2.5 AS FLOAT), 2.25, 'e2'"),
                f"ALTER TABLE {name} RENAME b TO bb",
                insert(name, "3, 30, 'b3', CAST(3.5 AS FLOAT), 3.25, 'e3'"),
                f"ALTER TABLE {name} MODIFY a BIGINT",
                f"ALTER TABLE {name} MODIFY c DOUBLE",
                f"ALTER TABLE {name} MODIFY d DECIMAL(12, 2)",
                insert(name, "4, 40000000000, 'b4', CAST(0.1 AS DOUBLE), 1234567890.25, 'e4'"),
                f"ALTER TABLE {name} DROP e",
                insert(name, "5, 50, 'b5', CAST(5.5 AS DOUBLE), 5.25"),
                f"ALTER TABLE {name} ADD e INT FIRST",
                insert(name, "6, 6, 60, 'b6', CAST(6.5 AS DOUBLE), 6.25"),
                *([insert(name, "7, 1, 11, 'b1 again', CAST(1 AS DOUBLE), 1")] if key else []),
            ],
            history=True,
        )
    yield Table(
        "evolved_nested",
        "fields of a ROW widened, added and dropped; a field added to the ROWs of an ARRAY",
        [
            create("evolved_nested", "k INT, r ROW<a INT, b STRING>, l ARRAY<ROW<a INT>>", bucket="-1"),
            "INSERT INTO evolved_nested SELECT 1, CAST(ROW(1, 'x') AS ROW<a INT, b STRING>),"
            " CAST(ARRAY[ROW(1)] AS ARRAY<ROW<a INT>>)",
            "ALTER TABLE evolved_nested MODIFY (r ROW<a BIGINT, b STRING, c DOUBLE>, l ARRAY<ROW<a INT, n STRING>>)",
            "INSERT INTO evolved_nested SELECT 2, CAST(ROW(5000000000, 'y', 2.5) AS ROW<a BIGINT, b STRING, c DOUBLE>),"
            " CAST(ARRAY[ROW(2, 'n')] AS ARRAY<ROW<a INT, n STRING>>)",
            "ALTER TABLE evolved_nested MODIFY r ROW<a BIGINT, c DOUBLE>",
            "INSERT INTO evolved_nested SELECT 3, CAST(ROW(3, 3.5) AS ROW<a BIGINT, c DOUBLE>),"
            " CAST(ARRAY[ROW(3, 'm')] AS ARRAY<ROW<a INT, n STRING>>)",
        ],
    )
    modes = ("none", "counts", "full", "truncate(4)", "truncate(16)")
    columns = "k INT, s STRING, b BYTES, t TIMESTAMP(9), n STRING"
    rows = [
        f"{at}, '{text}', x'{'ff' * 20}', TIMESTAMP '2024-01-01 00:00:00.123456789', CAST(NULL AS STRING)"
        for at, text in enumerate(["abcdefghijklmnopqrstuvwxyz", "🦭🦭🦭🦭🦭🦭🦭🦭🦭", "\U0010ffff" * 20])
    ]
    yield Table(
        "stats_modes",
        f"metadata.stats-mode {', '.join(modes)}, one a commit; one column by its own mode; dense store off at the end",
        [
            create("stats_modes", columns, bucket="-1"),
            *(
                text
                for mode in modes
                for text in (set_options("stats_modes", metadata__stats_mode=mode), insert("stats_modes", *rows))
            ),
            "ALTER TABLE stats_modes SET ('metadata.stats-mode' = 'none', 'fields.k.stats-mode' = 'full')",
            insert("stats_modes", *rows),
            set_options("stats_modes", metadata__stats_dense_store="false"),
            insert("stats_modes", *rows),
        ],
    )
    yield Table(
        "manifests",
        "manifest.compression none, snappy and zstd, one a commit; manifests merged at the end",
        [
            create("manifests", "k INT, v STRING", bucket="-1", manifest__merge_min_count="4"),
            *(
                text
                for at, codec in enumerate(["null", "snappy", "zstd", "zstd", "zstd"])
                for text in (
                    set_options("manifests", manifest__compression=codec),
                    insert("manifests", f"{at}, '{codec}'"),
                )
            ),
        ],
    )
    yield Table(
        "tagged",
        "a tag on the first snapshot, a branch from it with a commit of its own",
        [
            create("tagged", KV, bucket="1"),
            insert("tagged", *rows_of(0, 3, "a")),
            f"CALL sys.create_tag(`table` => '{DATABASE}.tagged', tag => 'first', snapshot_id => 1)",
            insert("tagged", *rows_of(1, 5, "b")),
            f"CALL sys.create_branch('{DATABASE}.tagged', 'side', 'first')",
            "INSERT INTO `tagged$branch_side` VALUES (100, 'side')",
        ],
        history=True,
        versions={
            "tag first": "tagged /*+ OPTIONS('scan.tag-name' = 'first') */",
            "branch side": "`tagged$branch_side`",
        },
    )
    yield Table(
        "expired",
        "six commits, the first four snapshots expired: schema and snapshot ids do not start at 0 and 1",
        [
            create("expired", KV, bucket="1"),
            *(insert("expired", *rows_of(at, at + 3, f"c{at}-")) for at in range(6)),
            f"CALL sys.expire_snapshots(`table` => '{DATABASE}.expired', retain_max => 2, retain_min => 1)",
        ],
    )
