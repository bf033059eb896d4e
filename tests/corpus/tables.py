"""What the corpus holds: each table's name, what it covers, and the Flink SQL that makes it."""

from __future__ import annotations

from collections.abc import Iterator

from tests.corpus.metadata_tables import metadata_tables
from tests.corpus.statements import DATABASE, KV, Table, compact, create, delete, insert, rows_of, set_options
from tests.corpus.typed_tables import codec_tables, key_tables, type_tables


def _lsm_tables() -> Iterator[Table]:
    yield Table(
        "pk_one_bucket",
        "one bucket, five commits, compaction inline (trigger 3)",
        [
            create("pk_one_bucket", KV, bucket="1", num_sorted_run__compaction_trigger="3"),
            *(insert("pk_one_bucket", *rows_of(at * 4, at * 4 + 8, f"c{at}-")) for at in range(4)),
            delete("pk_one_bucket", "k IN (2, 7, 13)"),
        ],
        history=True,
    )
    yield Table(
        "pk_three_buckets",
        "three buckets, levels 5 and 0 together, deletes in both",
        [
            create("pk_three_buckets", KV, bucket="3"),
            insert("pk_three_buckets", *rows_of(0, 30, "a")),
            delete("pk_three_buckets", "k < 3"),
            compact("pk_three_buckets"),
            insert("pk_three_buckets", *rows_of(10, 20, "b")),
            delete("pk_three_buckets", "k IN (12, 25)"),
        ],
        history=True,
    )
    for form in ("orc", "avro"):
        name = f"pk_{form}"
        yield Table(
            name,
            f"key-value files in {form}: level 5 and level 0",
            [
                create(
                    name,
                    f"{KV[: -len(', PRIMARY KEY (k) NOT ENFORCED')]}, t TIMESTAMP(3), PRIMARY KEY (k) NOT ENFORCED",
                    bucket="2",
                    file__format=form,
                ),
                insert(name, *(f"{row}, TIMESTAMP '2024-01-01 00:00:00.123'" for row in rows_of(0, 8, "a"))),
                compact(name),
                insert(name, *(f"{row}, CAST(NULL AS TIMESTAMP(3))" for row in rows_of(4, 6, "b"))),
                delete(name, "k = 1"),
            ],
        )
    yield Table(
        "pk_level_0",
        "write-only: four overlapping level-0 runs with deletes and a key that comes back",
        [
            create("pk_level_0", KV, bucket="1", write_only="true"),
            insert("pk_level_0", *rows_of(0, 10, "a")),
            delete("pk_level_0", "k IN (3, 4)"),
            insert("pk_level_0", *rows_of(4, 12, "b")),
            insert("pk_level_0", "0, CAST(NULL AS STRING)"),
        ],
        history=True,
    )
    yield Table(
        "pk_thin_mode",
        "data-file.thin-mode: no key columns in the files; level 5 and level 0",
        [
            create("pk_thin_mode", KV, bucket="1", data_file__thin_mode="true"),
            insert("pk_thin_mode", *rows_of(0, 6, "a")),
            compact("pk_thin_mode"),
            insert("pk_thin_mode", *rows_of(3, 5, "b")),
        ],
    )
    for kind in ("mod", "hive"):
        name = f"pk_bucket_{kind}"
        if kind == "mod":
            columns, rows = "k INT, v STRING, PRIMARY KEY (k) NOT ENFORCED", ["-5, 'a'", "-1, 'b'", "0, 'c'", "7, 'd'"]
        else:
            columns = "k STRING, n BIGINT, v STRING, PRIMARY KEY (k, n) NOT ENFORCED"
            rows = ["'', -5, 'a'", "'abc', -1, 'b'", "'żółć', 0, 'c'", "'🦭', 5000000000, 'd'"]
        yield Table(
            name,
            f"bucket-function.type = {kind}, negative keys among them",
            [create(name, columns, bucket="3", bucket_function__type=kind), insert(name, *rows)],
        )
    yield Table(
        "pk_names",
        "data-file.path-directory, data-file.prefix, changelog-file.prefix, file.suffix.include.compression",
        [
            create(
                "pk_names",
                f"p STRING, {KV.replace('(k)', '(p, k)')}",
                "p",
                bucket="1",
                data_file__path_directory="data",
                data_file__prefix="mine-",
                changelog_file__prefix="ours-",
                file__suffix__include__compression="true",
                changelog_producer="input",
            ),
            insert("pk_names", *(f"'x', {row}" for row in rows_of(0, 3, "a"))),
            insert("pk_names", *(f"'y', {row}" for row in rows_of(2, 5, "b"))),
        ],
    )

    yield Table(
        "pk_format_per_level",
        "file.format.per.level and file.compression.per.level: avro at level 0, orc at level 5; stats by level",
        [
            create("pk_format_per_level", KV, bucket="1").removesuffix(")")
            + ", 'file.format.per.level' = '0:avro,5:orc', 'file.compression.per.level' = '0:snappy,5:zstd',"
            " 'metadata.stats-mode.per.level' = '0:none')",
            insert("pk_format_per_level", *rows_of(0, 6, "a")),
            compact("pk_format_per_level"),
            insert("pk_format_per_level", *rows_of(3, 8, "b")),
        ],
    )
    yield Table(
        "pk_snapshot_ordering",
        "write-only with sequence.snapshot-ordering: sequence numbers are snapshot ids",
        [
            create("pk_snapshot_ordering", KV, bucket="1", write_only="true", sequence__snapshot_ordering="true"),
            insert("pk_snapshot_ordering", *rows_of(0, 6, "a")),
            insert("pk_snapshot_ordering", *rows_of(3, 8, "b")),
        ],
    )
    yield Table(
        "pk_sequence_init_snapshot",
        "write.sequence-number-init-mode = snapshot: the greatest sequence number is a property of the snapshot",
        [
            create("pk_sequence_init_snapshot", KV, bucket="1", write__sequence_number_init_mode="snapshot"),
            insert("pk_sequence_init_snapshot", *rows_of(0, 6, "a")),
            insert("pk_sequence_init_snapshot", *rows_of(3, 8, "b")),
        ],
    )
    yield Table(
        "pk_drop_stats",
        "manifest.delete-file-drop-stats: a compaction's DELETE entries carry no statistics",
        [
            create("pk_drop_stats", KV, bucket="1", manifest__delete_file_drop_stats="true"),
            insert("pk_drop_stats", *rows_of(0, 6, "a")),
            insert("pk_drop_stats", *rows_of(3, 8, "b")),
            compact("pk_drop_stats"),
        ],
    )


def _engine_tables() -> Iterator[Table]:
    yield Table(
        "engine_sequence_field",
        "deduplicate with sequence.field: late rows lose",
        [
            create("engine_sequence_field", f"s INT, {KV}", bucket="1", write_only="true", sequence__field="s"),
            insert("engine_sequence_field", "5, 1, 'five'", "1, 2, 'one'"),
            insert("engine_sequence_field", "3, 1, 'three'", "1, 2, 'one again'", "CAST(NULL AS INT), 3, 'null'"),
        ],
    )
    yield Table(
        "engine_partial_update",
        "partial-update with a sequence group",
        [
            create(
                "engine_partial_update",
                "k INT, a STRING, b INT, g INT, c STRING, PRIMARY KEY (k) NOT ENFORCED",
                bucket="1",
                write_only="true",
                merge_engine="partial-update",
                fields__g__sequence_group="c",
            ),
            insert("engine_partial_update", "1, 'a', CAST(NULL AS INT), 5, 'c5'", "2, 'x', 1, 1, 'c1'"),
            insert("engine_partial_update", "1, CAST(NULL AS STRING), 7, 3, 'c3'"),
            insert("engine_partial_update", "2, 'y', CAST(NULL AS INT), 2, 'c2'"),
        ],
    )
    yield Table(
        "engine_aggregation",
        "aggregation: sum, max, min, last_non_null_value, first_value, listagg, bool_or, product, collect",
        [
            create(
                "engine_aggregation",
                "k INT, f_sum BIGINT, f_max INT, f_min INT, f_last STRING, f_first STRING, f_list STRING, f_or BOOLEAN,"
                " f_product DECIMAL(10, 2), f_collect ARRAY<INT>, PRIMARY KEY (k) NOT ENFORCED",
                bucket="1",
                write_only="true",
                merge_engine="aggregation",
            ).removesuffix(")")
            + "".join(
                f", 'fields.{column}.aggregate-function' = '{function}'"
                for column, function in {
                    "f_sum": "sum",
                    "f_max": "max",
                    "f_min": "min",
                    "f_last": "last_non_null_value",
                    "f_first": "first_value",
                    "f_list": "listagg",
                    "f_or": "bool_or",
                    "f_product": "product",
                    "f_collect": "collect",
                }.items()
            )
            + ")",
            insert("engine_aggregation", "1, 10, 1, 1, 'l1', 'f1', 'a', FALSE, 2, ARRAY[1]"),
            insert("engine_aggregation", "1, 5, 3, -3, CAST(NULL AS STRING), 'f2', 'b', TRUE, 1.5, ARRAY[2, 1]"),
            insert("engine_aggregation", "2, CAST(NULL AS BIGINT), 3, -3, 'l', 'f', 'b', TRUE, 1.5, ARRAY[2, 1]"),
        ],
    )
    yield Table(
        "engine_first_row",
        "first-row; level 0 is invisible until compacted, so compacted twice",
        [
            create("engine_first_row", KV, bucket="1", merge_engine="first-row"),
            insert("engine_first_row", *rows_of(0, 3, "a")),
            insert("engine_first_row", *rows_of(1, 5, "b")),
            compact("engine_first_row"),
        ],
    )
    for name, options in (("engine_rowkind_field", {}), ("engine_ignore_delete", {"ignore_delete": "true"})):
        yield Table(
            name,
            "rowkind.field: a column says whether a row is an insert or a delete"
            + ("; ignore-delete: deletes are dropped" if options else ""),
            [
                create(name, f"kind STRING, {KV}", bucket="1", write_only="true", rowkind__field="kind", **options),
                insert(name, "'+I', 1, 'a'", "'+I', 2, 'b'"),
                insert(name, "'-D', 1, 'a'", "'+U', 2, 'c'"),
            ],
        )
    for producer in ("input", "lookup", "full-compaction"):
        name = f"changelog_{producer.replace('-', '_')}"
        yield Table(
            name,
            f"changelog-producer = {producer}: changelog files beside the data",
            [
                create(name, KV, bucket="1", changelog_producer=producer),
                insert(name, *rows_of(0, 4, "a")),
                insert(name, *rows_of(2, 5, "b")),
                delete(name, "k = 0"),
                compact(name),
            ],
        )


def _append_tables() -> Iterator[Table]:
    yield Table(
        "append_unaware",
        "no buckets, three commits, two files compacted into one",
        [
            create("append_unaware", "k INT, v STRING", bucket="-1", compaction__min__file_num="2"),
            *(insert("append_unaware", *rows_of(at, at + 4, f"c{at}-")) for at in range(3)),
            compact("append_unaware"),
            insert("append_unaware", "99, CAST(NULL AS STRING)"),
        ],
        history=True,
    )
    yield Table(
        "append_bucketed",
        "four buckets by bucket-key, sequence numbers per bucket",
        [
            create("append_bucketed", "k INT, v STRING, w BIGINT", bucket="4", bucket_key="v,k"),
            *(insert("append_bucketed", *(f"{row}, {at}" for row in rows_of(0, 6, f"c{at}-"))) for at in range(3)),
        ],
    )
    yield Table(
        "append_file_index",
        "file indexes: bloom filter, bitmap and bit-sliced, in the manifest, and beyond a threshold as .index files",
        [
            create("append_file_index", "k INT, v STRING, w BIGINT", bucket="-1").removesuffix(")")
            + ", 'file-index.bloom-filter.columns' = 'k', 'file-index.bloom-filter.k.items' = '100',"
            " 'file-index.bitmap.columns' = 'v', 'file-index.bsi.columns' = 'w')",
            insert("append_file_index", *(f"{row}, {at * 7}" for at, row in enumerate(rows_of(0, 9, "a")))),
            "ALTER TABLE append_file_index SET ('file-index.in-manifest-threshold' = '1 b')",
            insert("append_file_index", *(f"{row}, {at * -7}" for at, row in enumerate(rows_of(9, 18, "b")))),
        ],
    )
    for name in ("parquet", "orc"):
        table = f"map_shredded_{name}"
        yield Table(
            table,
            f"maps shredded over two columns in {name}, among files of plain maps; keys that overflow, nulls, no keys",
            [
                create(table, "k INT, m MAP<STRING NOT NULL, BIGINT>", bucket="-1", file__format=name),
                insert(table, "1, MAP['a', 1, 'b', 2, 'c', 3]"),
                f"ALTER TABLE {table} SET ('fields.m.map.storage-layout' = 'shared-shredding', "
                "'fields.m.map.shared-shredding.max-columns' = '2')",
                insert(table, "2, MAP['a', 1, 'b', 2, 'ü日', CAST(NULL AS BIGINT)]", "3, MAP['z', 9, 'b', 8]"),
                f"INSERT INTO {table} SELECT 4, CAST(NULL AS MAP<STRING NOT NULL, BIGINT>)",
                f"ALTER TABLE {table} SET ('fields.m.map.storage-layout' = 'default')",
                insert(table, "5, MAP['plain', 1]"),
            ],
            history=True,
        )
    yield Table(
        "described",
        "comments of table and columns, NOT NULL columns, statistics by ANALYZE TABLE",
        [
            "CREATE TABLE described (k INT NOT NULL COMMENT 'the ''key''', v STRING COMMENT 'ü') COMMENT 'a table'"
            " WITH ('bucket' = '-1')",
            insert("described", *rows_of(0, 4, "a")),
            "ANALYZE TABLE described COMPUTE STATISTICS FOR ALL COLUMNS",
        ],
    )
    yield Table("empty_append", "no snapshot at all", [create("empty_append", "k INT, v STRING")])
    yield Table("empty_pk", "no snapshot at all, primary key", [create("empty_pk", KV, bucket="1")])
    yield Table(
        "emptied_pk",
        "every row deleted, then compacted away",
        [
            create("emptied_pk", KV, bucket="1"),
            insert("emptied_pk", *rows_of(0, 3, "a")),
            delete("emptied_pk", "k >= 0"),
            compact("emptied_pk"),
        ],
    )


def _partition_tables() -> Iterator[Table]:
    strings = ["'plain'", "''", "'  '", "CAST(NULL AS STRING)", "'a/b=c:d%e'", "'ü 🦭'", "'q\"#*?{}[]^\\'", "'it''s'"]
    kinds: dict[str, tuple[str, list[str], dict[str, str]]] = {
        "string": ("STRING", strings, {}),
        "int": ("INT", ["-1", "0", "2147483647", "CAST(NULL AS INT)"], {}),
        "bigint": ("BIGINT", ["CAST('-9223372036854775808' AS BIGINT)", "5000000000"], {}),
        "boolean": ("BOOLEAN", ["TRUE", "FALSE", "CAST(NULL AS BOOLEAN)"], {}),
        "decimal": ("DECIMAL(10, 2)", ["CAST(-1.50 AS DECIMAL(10, 2))", "CAST(100 AS DECIMAL(10, 2))"], {}),
        "date": ("DATE", ["DATE '2024-01-01'", "DATE '1969-12-31'", "CAST(NULL AS DATE)"], {}),
        "date_plain": (
            "DATE",
            ["DATE '2024-01-01'", "DATE '1969-12-31'", "CAST(NULL AS DATE)"],
            {"partition__legacy_name": "false"},
        ),
        "timestamp": ("TIMESTAMP(3)", ["TIMESTAMP '2024-01-01 12:30:00.123'", "TIMESTAMP '1969-12-31 00:00:00'"], {}),
        "timestamp_plain": (
            "TIMESTAMP(6)",
            ["TIMESTAMP '2024-01-01 12:30:00.123456'", "TIMESTAMP '1969-12-31 00:00:00'"],
            {"partition__legacy_name": "false"},
        ),
        "default_name": ("STRING", ["'a'", "CAST(NULL AS STRING)"], {"partition__default_name": "none_such"}),
    }
    for label, (kind, values, options) in kinds.items():
        name = f"pt_{label}"
        said = "".join(f", {key.replace('__', '.').replace('_', '-')} = {value}" for key, value in options.items())
        yield Table(
            name,
            f"partitioned by {kind}{said}"
            + ("; null, blank and characters that paths escape" if label == "string" else ""),
            [
                create(name, f"k INT, p {kind}", "p", bucket="-1", **options),
                insert(name, *(f"{number}, {value}" for number, value in enumerate(values))),
            ],
        )
    yield Table(
        "pt_several",
        "primary-key table partitioned by STRING, INT and DATE, nulls among them; upserts; one partition dropped",
        [
            create(
                "pt_several",
                "a STRING, k INT, b INT, c DATE, v STRING, PRIMARY KEY (a, b, c, k) NOT ENFORCED",
                "a, b, c",
                bucket="2",
            ),
            insert("pt_several", "'x', 1, 1, DATE '2024-01-01', 'v1'", "'x', 2, 1, DATE '2024-01-02', 'v2'"),
            insert("pt_several", "'x', 1, 1, DATE '2024-01-01', 'v3'", "'y', 1, 2, DATE '2024-01-02', 'v4'"),
            "ALTER TABLE pt_several DROP PARTITION (a = 'x', b = 1, c = '2024-01-02')",
        ],
        history=True,
    )
    yield Table(
        "overwritten",
        "INSERT OVERWRITE: of one partition, of those touched, and of a table without partitions (next)",
        [
            create("overwritten", "k INT, v STRING, p INT", "p", bucket="-1"),
            insert("overwritten", "1, 'a', 1", "2, 'b', 2", "3, 'c', 3"),
            "INSERT OVERWRITE overwritten PARTITION (p = 1) VALUES (10, 'a2')",
            "INSERT OVERWRITE overwritten VALUES (20, 'b2', 2), (40, 'd', 4)",
        ],
        history=True,
    )
    yield Table(
        "overwritten_pk",
        "INSERT OVERWRITE of a whole primary-key table",
        [
            create("overwritten_pk", KV, bucket="2"),
            insert("overwritten_pk", *rows_of(0, 6, "a")),
            "INSERT OVERWRITE overwritten_pk VALUES (1, 'new'), (100, 'other')",
            insert("overwritten_pk", "1, 'newer'"),
        ],
        history=True,
    )


def _bucket_mode_tables() -> Iterator[Table]:
    yield Table(
        "dynamic_bucket",
        "bucket -1 with dynamic-bucket.target-row-num 5: hash index files; partitions; upserts",
        [
            create(
                "dynamic_bucket",
                f"p STRING, {KV.replace('(k)', '(p, k)')}",
                "p",
                bucket="-1",
                dynamic_bucket__target_row_num="5",
            ),
            insert("dynamic_bucket", *(f"'x', {row}" for row in rows_of(0, 12, "a"))),
            insert("dynamic_bucket", *(f"'x', {row}" for row in rows_of(8, 16, "b")), "'y', 1, 'other'"),
            delete("dynamic_bucket", "k = 9"),
        ],
        history=True,
    )
    yield Table(
        "index_dir",
        "index-file-in-data-file-dir: hash index and deletion vectors lie in the buckets' folders",
        [
            create(
                "index_dir",
                KV,
                bucket="-1",
                dynamic_bucket__target_row_num="5",
                index_file_in_data_file_dir="true",
                deletion_vectors__enabled="true",
            ),
            insert("index_dir", *rows_of(0, 8, "a")),
            insert("index_dir", *rows_of(6, 10, "b")),
        ],
    )
    yield Table(
        "cross_partition",
        "key without the partition column: a row moves to the partition of its newest version",
        [
            create("cross_partition", f"p STRING, {KV}", "p", bucket="-1", dynamic_bucket__target_row_num="5"),
            insert("cross_partition", *(f"'x', {row}" for row in rows_of(0, 8, "a"))),
            insert("cross_partition", *(f"'y', {row}" for row in rows_of(6, 10, "b"))),
        ],
    )
    for name, extra in (("dv_pk", {}), ("dv_pk_bitmap64", {"deletion_vectors__bitmap64": "true"})):
        yield Table(
            name,
            "primary key with deletion vectors" + (" of 64 bits" if extra else "") + "; upserts and deletes",
            [
                create(name, KV, bucket="2", deletion_vectors__enabled="true", **extra),
                insert(name, *rows_of(0, 20, "a")),
                insert(name, *rows_of(5, 8, "b")),
                delete(name, "k IN (1, 2, 15)"),
            ],
            history=True,
        )
    yield Table(
        "postpone_pending",
        "bucket -2: pending files only, which batch reads do not see",
        [
            create("postpone_pending", KV, bucket="-2", postpone__batch_write_fixed_bucket="false"),
            insert("postpone_pending", *rows_of(0, 4, "a")),
            insert("postpone_pending", *rows_of(2, 6, "b")),
        ],
        versions={"merge on read": "postpone_pending /*+ OPTIONS('postpone.merge-on-read' = 'true') */"},
    )
    yield Table(
        "postpone_mixed",
        "bucket -2: compacted into real buckets, then pending files again with an upsert and a delete",
        [
            create(
                "postpone_mixed",
                KV,
                bucket="-2",
                postpone__batch_write_fixed_bucket="false",
                postpone__default_bucket_num="2",
            ),
            insert("postpone_mixed", *rows_of(0, 6, "a")),
            compact("postpone_mixed"),
            insert("postpone_mixed", *rows_of(4, 8, "b")),
            delete("postpone_mixed", "k = 0"),
        ],
        versions={"merge on read": "postpone_mixed /*+ OPTIONS('postpone.merge-on-read' = 'true') */"},
    )
    yield Table(
        "postpone_batch",
        "bucket -2 written in batch by the default rule: straight into fixed buckets",
        [
            create("postpone_batch", KV, bucket="-2"),
            insert("postpone_batch", *rows_of(0, 6, "a")),
            insert("postpone_batch", *rows_of(4, 8, "b")),
        ],
    )
    yield Table(
        "rescaled",
        "primary key, bucket count changed from 1 to 3 by a rewrite",
        [
            create("rescaled", KV, bucket="1"),
            insert("rescaled", *rows_of(0, 12, "a")),
            set_options("rescaled", bucket="3"),
            f"CALL sys.rescale(`table` => '{DATABASE}.rescaled', bucket_num => 3)",
            insert("rescaled", *rows_of(6, 14, "b")),
        ],
        history=True,
    )


def catalogue() -> list[Table]:
    """Every table of the corpus, in the order in which README.md lists them."""
    groups = (
        type_tables,
        codec_tables,
        key_tables,
        _append_tables,
        _lsm_tables,
        _engine_tables,
        _partition_tables,
        metadata_tables,
        _bucket_mode_tables,
    )
    return [table for group in groups for table in group()]
