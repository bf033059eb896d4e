"""What the corpus holds: each table's name, what it covers, and the Flink SQL that makes it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

DATABASE = "corpus"


@dataclass(frozen=True)
class Table:
    """One table; `statements` run in order in the database `corpus`.

    `versions` are further reads, by a label, each a table expression with its hint.
    `history`: the rows of every snapshot are kept too.
    """

    name: str
    covers: str
    statements: Sequence[str]
    history: bool = False
    versions: dict[str, str] = field(default_factory=dict)


def _create(name: str, columns: str, partitions: str = "", **options: str) -> str:
    """CREATE TABLE; the keyword file__format stands for the option file.format, bucket_key for bucket-key."""
    spelled = {key.replace("__", ".").replace("_", "-"): value for key, value in options.items()}
    listed = ", ".join(f"'{key}' = '{value}'" for key, value in spelled.items())
    partitioned = f" PARTITIONED BY ({partitions})" if partitions else ""
    return f"CREATE TABLE {name} ({columns}){partitioned}" + (f" WITH ({listed})" if listed else "")


def _insert(name: str, *rows: str) -> str:
    return f"INSERT INTO {name} VALUES " + ", ".join(f"({row})" for row in rows)


def _delete(name: str, where: str) -> str:
    return f"DELETE FROM {name} WHERE {where}"


def _compact(name: str) -> str:
    return f"CALL sys.compact(`table` => '{DATABASE}.{name}')"


def _set(name: str, **options: str) -> str:
    spelled = {key.replace("__", ".").replace("_", "-"): value for key, value in options.items()}
    return f"ALTER TABLE {name} SET (" + ", ".join(f"'{key}' = '{value}'" for key, value in spelled.items()) + ")"


KV = "k INT, v STRING, PRIMARY KEY (k) NOT ENFORCED"

# Column, type, then the values: smallest, largest, one between, and an awkward one. A row of nulls is added.
TYPES: list[tuple[str, str, list[str]]] = [
    ("c_boolean", "BOOLEAN", ["FALSE", "TRUE", "TRUE", "FALSE"]),
    ("c_tinyint", "TINYINT", ["-128", "127", "7", "0"]),
    ("c_smallint", "SMALLINT", ["-32768", "32767", "7", "-1"]),
    ("c_int", "INT", ["'-2147483648'", "2147483647", "7", "0"]),
    ("c_bigint", "BIGINT", ["'-9223372036854775808'", "'9223372036854775807'", "7", "-1"]),
    ("c_float", "FLOAT", ["'-3.4028235E38'", "'3.4028235E38'", "'1.25'", "'1.4E-45'"]),
    ("c_double", "DOUBLE", ["'-1.7976931348623157E308'", "'1.7976931348623157E308'", "'0.1'", "'4.9E-324'"]),
    ("c_decimal_5_2", "DECIMAL(5, 2)", ["'-999.99'", "'999.99'", "'1.50'", "'-0.01'"]),
    ("c_decimal_18_4", "DECIMAL(18, 4)", ["'-99999999999999.9999'", "'99999999999999.9999'", "'1.5'", "'-0.0001'"]),
    (
        "c_decimal_38_10",
        "DECIMAL(38, 10)",
        [f"'-{'9' * 28}.{'9' * 10}'", f"'{'9' * 28}.{'9' * 10}'", "'1.5'", "'-0.0000000001'"],
    ),
    ("c_char_5", "CHAR(5)", ["'a'", "'zzzzz'", "'äöüß€'", "''"]),
    ("c_varchar_10", "VARCHAR(10)", ["''", "'zzzzzzzzzz'", "'żółć'", "' '"]),
    ("c_string", "STRING", ["''", "'𝒳 is outside the basic plane 🦭'", "'a tab\tand a quote \"'", "'line\nbreak'"]),
    ("c_binary_4", "BINARY(4)", ["x'00000000'", "x'ffffffff'", "x'0102037f'", "x'80000000'"]),
    ("c_varbinary_8", "VARBINARY(8)", ["x''", "x'ffffffffffffffff'", "x'00'", "x'80'"]),
    ("c_bytes", "BYTES", ["x''", "x'ff'", "x'00010203040506070809'", "x'c3'"]),
    ("c_date", "DATE", ["'1700-01-01'", "'2262-04-11'", "'2024-02-29'", "'1969-12-31'"]),
    ("c_time_0", "TIME(0)", ["'00:00:00'", "'23:59:59'", "'12:34:56'", "'00:00:01'"]),
    ("c_time_3", "TIME(3)", ["'00:00:00.001'", "'23:59:59.999'", "'12:34:56.789'", "'00:00:00'"]),
    *(
        (
            f"c_{name}_{digits}",
            f"{kind}({digits})",
            [
                "'1700-01-01 00:00:00'",
                f"'2262-04-11 23:47:16{'.' + '854775807'[:digits] if digits else ''}'",
                f"'2024-02-29 12:34:56{'.' + '123456789'[:digits] if digits else ''}'",
                f"'1969-12-31 23:59:59{'.' + '999999999'[:digits] if digits else ''}'",
            ],
        )
        for name, kind, all_digits in (("timestamp", "TIMESTAMP", (0, 3, 6, 9)), ("ltz", "TIMESTAMP_LTZ", (3, 6, 9)))
        for digits in all_digits
    ),
    (
        "c_array",
        "ARRAY<INT>",
        ["ARRAY[1, 2, 3]", "ARRAY[CAST(NULL AS INT)]", "ARRAY_REMOVE(ARRAY[1], 1)", "ARRAY[0, CAST(NULL AS INT), -1]"],
    ),
    (
        "c_array_string",
        "ARRAY<STRING>",
        ["ARRAY['', 'b']", "ARRAY[CAST(NULL AS STRING), 'ü']", "ARRAY['x']", "ARRAY_REMOVE(ARRAY['x'], 'x')"],
    ),
    (
        "c_map",
        "MAP<STRING, INT>",
        ["MAP['a', 1, 'b', CAST(NULL AS INT)]", "MAP['', 0]", "MAP['ü', -1]", "MAP['k', 2147483647]"],
    ),
    (
        "c_map_int_array",
        "MAP<INT, ARRAY<STRING>>",
        ["MAP[1, ARRAY['a', 'b']]", "MAP[-1, ARRAY['c']]", "MAP[0, ARRAY['']]", "MAP[2, ARRAY['d'], 3, ARRAY['e']]"],
    ),
    (
        "c_row",
        "ROW<a INT, b ROW<c STRING, d DECIMAL(10, 2)>>",
        ["ROW(1, ROW('x', 1.25))", "ROW(CAST(NULL AS INT), ROW('', -1))", "ROW(3, ROW('ü', 0))", "ROW(4, ROW('y', 9))"],
    ),
    (
        "c_array_row",
        "ARRAY<ROW<a INT, b STRING>>",
        ["ARRAY[ROW(1, 'x')]", "ARRAY[ROW(2, ''), ROW(3, 'ü')]", "ARRAY[ROW(0, 'y')]", "ARRAY[ROW(-1, 'z')]"],
    ),
]


def _typed_rows(columns: Sequence[tuple[str, str, list[str]]]) -> list[str]:
    count = len(columns[0][2])
    rows = [
        ", ".join([str(at), *(f"CAST({values[at]} AS {kind})" for _, kind, values in columns)]) for at in range(count)
    ]
    return [*rows, ", ".join([str(count), *(f"CAST(NULL AS {kind})" for _, kind, _ in columns)])]


def _type_tables() -> Iterator[Table]:
    columns = ", ".join(["id INT", *(f"{name} {kind}" for name, kind, _ in TYPES)])
    # One SELECT a row: Flink would unify the types of one VALUES list and pad its CHARs.
    selects = " UNION ALL ".join(f"SELECT {row}" for row in _typed_rows(TYPES))
    for form in ("parquet", "orc", "avro"):
        name = f"types_{form}"
        yield Table(
            name,
            f"every type in {form}: smallest, largest, ordinary and awkward values, and nulls",
            [_create(name, columns, bucket="-1", file__format=form), f"INSERT INTO {name} {selects}"],
        )
    far = [
        ("c_date", "DATE", ["'0001-01-01'", "'9999-12-31'", "'1582-10-15'", "'1582-10-04'"]),
        *(
            (
                f"c_timestamp_{digits}",
                f"TIMESTAMP({digits})",
                ["'0001-01-01 00:00:00'", "'9999-12-31 23:59:59'", "'1582-10-15 00:00:00'", "'1582-10-04 12:00:00'"],
            )
            for digits in (3, 6, 9)
        ),
    ]
    columns = ", ".join(["id INT", *(f"{name} {kind}" for name, kind, _ in far)])
    for form in ("parquet", "orc", "avro"):
        name = f"types_far_{form}"
        yield Table(
            name,
            f"dates and timestamps in {form} outside what 64-bit nanoseconds hold, and around the calendar's change",
            [_create(name, columns, bucket="-1", file__format=form), _insert(name, *_typed_rows(far))],
        )
    columns = "id INT, f FLOAT, d DOUBLE"
    numbers = ["NaN", "Infinity", "-Infinity", "-0.0"]
    rows = [f"{at}, CAST('{text}' AS FLOAT), CAST('{text}' AS DOUBLE)" for at, text in enumerate(numbers)]
    yield Table(
        "types_float_specials",
        "NaN, infinities and minus zero in FLOAT and DOUBLE, and what statistics say of them",
        [_create("types_float_specials", columns, bucket="-1"), _insert("types_float_specials", *rows)],
    )


def _compression_tables() -> Iterator[Table]:
    codecs = {
        "parquet": ("snappy", "none", "gzip", "lz4", "zstd"),
        "orc": ("snappy", "none", "zlib", "lz4", "zstd"),
        "avro": ("snappy", "none", "zstd", "deflate"),
    }
    for form, names in codecs.items():
        name = f"codecs_{form}"
        statements = [_create(name, "k INT, v STRING, d DECIMAL(10, 2)", bucket="-1", file__format=form)]
        for at, codec in enumerate(names):
            rows = [f"{at * 10 + i}, '{codec} {'x' * 20}', {i}.25" for i in range(5)]
            statements += [_set(name, file__compression=codec), _insert(name, *rows)]
        yield Table(name, f"{form} files compressed with {', '.join(names)}, one a commit", statements)


KEYS: dict[str, tuple[str, list[str]]] = {
    "int": ("INT", ["-2147483648", "2147483647", "0", "-1", "42", "7"]),
    "bigint": ("BIGINT", ["'-9223372036854775808'", "'9223372036854775807'", "0", "-1", "42", "5000000000"]),
    "smallint": ("SMALLINT", ["-32768", "32767", "0", "-1", "42", "7"]),
    "tinyint": ("TINYINT", ["-128", "127", "0", "-1", "42", "7"]),
    "boolean": ("BOOLEAN", ["TRUE", "FALSE"]),
    "float": ("FLOAT", ["'-0.0'", "'1.5'", "'-1.5'", "'3.4028235E38'", "'1.4E-45'", "'-7'"]),
    "double": ("DOUBLE", ["'-0.0'", "'1.5'", "'-1.5'", "'1.0E300'", "'4.9E-324'", "'-7'"]),
    "string": ("STRING", ["''", "'a'", "'seven77'", "'eight888'", "'a longer string than that'", "'ünïcödé 🦭'"]),
    "char": ("CHAR(5)", ["'a'", "'abcde'", "'ü'", "'b'", "'zz'", "'  x'"]),
    "decimal_small": ("DECIMAL(10, 2)", ["'-99999999.99'", "'99999999.99'", "'0'", "'-0.01'", "'1.5'", "'42'"]),
    "decimal_large": (
        "DECIMAL(30, 5)",
        [f"'-{'9' * 25}.99999'", f"'{'9' * 25}.99999'", "'0'", "'-0.00001'", "'1.5'", "'42'"],
    ),
    "date": ("DATE", ["'1969-12-31'", "'1970-01-01'", "'2024-02-29'", "'2262-04-11'", "'1700-01-01'", "'2000-01-01'"]),
    "time": ("TIME(3)", ["'00:00:00'", "'23:59:59.999'", "'12:00:00'", "'00:00:00.001'", "'01:02:03'", "'10:00:00'"]),
    "timestamp_3": (
        "TIMESTAMP(3)",
        ["'1969-12-31 23:59:59.999'", "'1970-01-01 00:00:00'", "'2024-02-29 12:34:56.789'", "'1700-01-01 00:00:00'"],
    ),
    "timestamp_6": (
        "TIMESTAMP(6)",
        ["'1969-12-31 23:59:59.999999'", "'1970-01-01 00:00:00'", "'2024-02-29 12:34:56.123456'"],
    ),
    "timestamp_9": (
        "TIMESTAMP(9)",
        ["'1969-12-31 23:59:59.999999999'", "'1970-01-01 00:00:00'", "'2024-02-29 12:34:56.123456789'"],
    ),
    "ltz_3": ("TIMESTAMP_LTZ(3)", ["'1969-12-31 23:59:59.999'", "'1970-01-01 00:00:00'", "'2024-02-29 12:34:56.789'"]),
    "binary": ("BINARY(4)", ["x'00000000'", "x'ffffffff'", "x'0102037f'", "x'80000000'"]),
    "bytes": ("BYTES", ["x''", "x'ff'", "x'00'", "x'00010203040506070809'"]),
}


def _key_tables() -> Iterator[Table]:
    for at, (label, (kind, values)) in enumerate(KEYS.items()):
        name, keys = f"key_{label}", [f"CAST({value} AS {kind})" for value in values]
        write_only = at % 2 == 0
        ending = [] if write_only else [_compact(name), _insert(name, f"{keys[0]}, 300")]
        yield Table(
            name,
            f"primary key of {kind} over 3 buckets, an upsert and a delete; "
            + ("level 0 only" if write_only else "compacted, then one more commit"),
            [
                _create(
                    name,
                    f"k {kind}, v INT, PRIMARY KEY (k) NOT ENFORCED",
                    bucket="3",
                    **({"write_only": "true"} if write_only else {}),
                ),
                _insert(name, *(f"{key}, {number}" for number, key in enumerate(keys))),
                _insert(name, *(f"{key}, {number + 100}" for number, key in enumerate(keys[::2]))),
                _delete(name, f"k = {keys[1]}"),
                *ending,
            ],
        )
    columns = "v INT, s STRING, n INT, d DECIMAL(20, 2), PRIMARY KEY (n, s, d) NOT ENFORCED"
    keys = [
        "'short', 1, CAST(1 AS DECIMAL(20, 2))",
        "'longer than seven bytes', 1, CAST(-1.5 AS DECIMAL(20, 2))",
        "'longer than seven bytes', 2, CAST(-1.5 AS DECIMAL(20, 2))",
        "'żółć żółć', -1, CAST('999999999999999999.99' AS DECIMAL(20, 2))",
    ]
    yield Table(
        "key_composite",
        "key of three columns, its order not the table's, strings beyond 7 bytes, a decimal beyond 18 digits",
        [
            _create("key_composite", columns, bucket="3"),
            _insert("key_composite", *(f"{number}, {key}" for number, key in enumerate(keys))),
            _insert("key_composite", *(f"{number + 100}, {key}" for number, key in enumerate(keys[1:3]))),
        ],
    )


def _rows(start: int, stop: int, label: str) -> list[str]:
    return [f"{key}, '{label}{key}'" for key in range(start, stop)]


def _lsm_tables() -> Iterator[Table]:
    yield Table(
        "pk_one_bucket",
        "one bucket, five commits, compaction inline (trigger 3)",
        [
            _create("pk_one_bucket", KV, bucket="1", num_sorted_run__compaction_trigger="3"),
            *(_insert("pk_one_bucket", *_rows(at * 4, at * 4 + 8, f"c{at}-")) for at in range(4)),
            _delete("pk_one_bucket", "k IN (2, 7, 13)"),
        ],
        history=True,
    )
    yield Table(
        "pk_three_buckets",
        "three buckets, levels 5 and 0 together, deletes in both",
        [
            _create("pk_three_buckets", KV, bucket="3"),
            _insert("pk_three_buckets", *_rows(0, 30, "a")),
            _delete("pk_three_buckets", "k < 3"),
            _compact("pk_three_buckets"),
            _insert("pk_three_buckets", *_rows(10, 20, "b")),
            _delete("pk_three_buckets", "k IN (12, 25)"),
        ],
        history=True,
    )
    for form in ("orc", "avro"):
        name = f"pk_{form}"
        yield Table(
            name,
            f"key-value files in {form}: level 5 and level 0",
            [
                _create(
                    name,
                    f"{KV[: -len(', PRIMARY KEY (k) NOT ENFORCED')]}, t TIMESTAMP(3), PRIMARY KEY (k) NOT ENFORCED",
                    bucket="2",
                    file__format=form,
                ),
                _insert(name, *(f"{row}, TIMESTAMP '2024-01-01 00:00:00.123'" for row in _rows(0, 8, "a"))),
                _compact(name),
                _insert(name, *(f"{row}, CAST(NULL AS TIMESTAMP(3))" for row in _rows(4, 6, "b"))),
                _delete(name, "k = 1"),
            ],
        )
    yield Table(
        "pk_level_0",
        "write-only: four overlapping level-0 runs with deletes and a key that comes back",
        [
            _create("pk_level_0", KV, bucket="1", write_only="true"),
            _insert("pk_level_0", *_rows(0, 10, "a")),
            _delete("pk_level_0", "k IN (3, 4)"),
            _insert("pk_level_0", *_rows(4, 12, "b")),
            _insert("pk_level_0", "0, CAST(NULL AS STRING)"),
        ],
        history=True,
    )
    yield Table(
        "pk_thin_mode",
        "data-file.thin-mode: no key columns in the files; level 5 and level 0",
        [
            _create("pk_thin_mode", KV, bucket="1", data_file__thin_mode="true"),
            _insert("pk_thin_mode", *_rows(0, 6, "a")),
            _compact("pk_thin_mode"),
            _insert("pk_thin_mode", *_rows(3, 5, "b")),
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
            [_create(name, columns, bucket="3", bucket_function__type=kind), _insert(name, *rows)],
        )
    yield Table(
        "pk_names",
        "data-file.path-directory, data-file.prefix, changelog-file.prefix, file.suffix.include.compression",
        [
            _create(
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
            _insert("pk_names", *(f"'x', {row}" for row in _rows(0, 3, "a"))),
            _insert("pk_names", *(f"'y', {row}" for row in _rows(2, 5, "b"))),
        ],
    )


def _engine_tables() -> Iterator[Table]:
    yield Table(
        "engine_sequence_field",
        "deduplicate with sequence.field: late rows lose",
        [
            _create("engine_sequence_field", f"s INT, {KV}", bucket="1", write_only="true", sequence__field="s"),
            _insert("engine_sequence_field", "5, 1, 'five'", "1, 2, 'one'"),
            _insert("engine_sequence_field", "3, 1, 'three'", "1, 2, 'one again'", "CAST(NULL AS INT), 3, 'null'"),
        ],
    )
    yield Table(
        "engine_partial_update",
        "partial-update with a sequence group",
        [
            _create(
                "engine_partial_update",
                "k INT, a STRING, b INT, g INT, c STRING, PRIMARY KEY (k) NOT ENFORCED",
                bucket="1",
                write_only="true",
                merge_engine="partial-update",
                fields__g__sequence_group="c",
            ),
            _insert("engine_partial_update", "1, 'a', CAST(NULL AS INT), 5, 'c5'", "2, 'x', 1, 1, 'c1'"),
            _insert("engine_partial_update", "1, CAST(NULL AS STRING), 7, 3, 'c3'"),
            _insert("engine_partial_update", "2, 'y', CAST(NULL AS INT), 2, 'c2'"),
        ],
    )
    yield Table(
        "engine_aggregation",
        "aggregation: sum, max, min, last_non_null_value, first_value, listagg, bool_or, product, collect",
        [
            _create(
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
            _insert("engine_aggregation", "1, 10, 1, 1, 'l1', 'f1', 'a', FALSE, 2, ARRAY[1]"),
            _insert("engine_aggregation", "1, 5, 3, -3, CAST(NULL AS STRING), 'f2', 'b', TRUE, 1.5, ARRAY[2, 1]"),
            _insert("engine_aggregation", "2, CAST(NULL AS BIGINT), 3, -3, 'l', 'f', 'b', TRUE, 1.5, ARRAY[2, 1]"),
        ],
    )
    yield Table(
        "engine_first_row",
        "first-row; level 0 is invisible until compacted, so compacted twice",
        [
            _create("engine_first_row", KV, bucket="1", merge_engine="first-row"),
            _insert("engine_first_row", *_rows(0, 3, "a")),
            _insert("engine_first_row", *_rows(1, 5, "b")),
            _compact("engine_first_row"),
        ],
    )
    for producer in ("input", "lookup", "full-compaction"):
        name = f"changelog_{producer.replace('-', '_')}"
        yield Table(
            name,
            f"changelog-producer = {producer}: changelog files beside the data",
            [
                _create(name, KV, bucket="1", changelog_producer=producer),
                _insert(name, *_rows(0, 4, "a")),
                _insert(name, *_rows(2, 5, "b")),
                _delete(name, "k = 0"),
                _compact(name),
            ],
        )


def _append_tables() -> Iterator[Table]:
    yield Table(
        "append_unaware",
        "no buckets, three commits, two files compacted into one",
        [
            _create("append_unaware", "k INT, v STRING", bucket="-1", compaction__min__file_num="2"),
            *(_insert("append_unaware", *_rows(at, at + 4, f"c{at}-")) for at in range(3)),
            _compact("append_unaware"),
            _insert("append_unaware", "99, CAST(NULL AS STRING)"),
        ],
        history=True,
    )
    yield Table(
        "append_bucketed",
        "four buckets by bucket-key, sequence numbers per bucket",
        [
            _create("append_bucketed", "k INT, v STRING, w BIGINT", bucket="4", bucket_key="v,k"),
            *(_insert("append_bucketed", *(f"{row}, {at}" for row in _rows(0, 6, f"c{at}-"))) for at in range(3)),
        ],
    )
    yield Table("empty_append", "no snapshot at all", [_create("empty_append", "k INT, v STRING")])
    yield Table("empty_pk", "no snapshot at all, primary key", [_create("empty_pk", KV, bucket="1")])
    yield Table(
        "emptied_pk",
        "every row deleted, then compacted away",
        [
            _create("emptied_pk", KV, bucket="1"),
            _insert("emptied_pk", *_rows(0, 3, "a")),
            _delete("emptied_pk", "k >= 0"),
            _compact("emptied_pk"),
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
                _create(name, f"k INT, p {kind}", "p", bucket="-1", **options),
                _insert(name, *(f"{number}, {value}" for number, value in enumerate(values))),
            ],
        )
    yield Table(
        "pt_several",
        "primary-key table partitioned by STRING, INT and DATE, nulls among them; upserts; one partition dropped",
        [
            _create(
                "pt_several",
                "a STRING, k INT, b INT, c DATE, v STRING, PRIMARY KEY (a, b, c, k) NOT ENFORCED",
                "a, b, c",
                bucket="2",
            ),
            _insert("pt_several", "'x', 1, 1, DATE '2024-01-01', 'v1'", "'x', 2, 1, DATE '2024-01-02', 'v2'"),
            _insert("pt_several", "'x', 1, 1, DATE '2024-01-01', 'v3'", "'y', 1, 2, DATE '2024-01-02', 'v4'"),
            "ALTER TABLE pt_several DROP PARTITION (a = 'x', b = 1, c = '2024-01-02')",
        ],
        history=True,
    )
    yield Table(
        "overwritten",
        "INSERT OVERWRITE: of one partition, of those touched, and of a table without partitions (next)",
        [
            _create("overwritten", "k INT, v STRING, p INT", "p", bucket="-1"),
            _insert("overwritten", "1, 'a', 1", "2, 'b', 2", "3, 'c', 3"),
            "INSERT OVERWRITE overwritten PARTITION (p = 1) VALUES (10, 'a2')",
            "INSERT OVERWRITE overwritten VALUES (20, 'b2', 2), (40, 'd', 4)",
        ],
        history=True,
    )
    yield Table(
        "overwritten_pk",
        "INSERT OVERWRITE of a whole primary-key table",
        [
            _create("overwritten_pk", KV, bucket="2"),
            _insert("overwritten_pk", *_rows(0, 6, "a")),
            "INSERT OVERWRITE overwritten_pk VALUES (1, 'new'), (100, 'other')",
            _insert("overwritten_pk", "1, 'newer'"),
        ],
        history=True,
    )


def _schema_tables() -> Iterator[Table]:
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
                _create(name, f"k INT, a INT, b STRING, c FLOAT, d DECIMAL(5, 2){key}", **options),
                _insert(name, "1, 10, 'b1', CAST(1.5 AS FLOAT), 1.25"),
                f"ALTER TABLE {name} ADD (e STRING)",
                _insert(name, "2, 20, 'b2', CAST(2.5 AS FLOAT), 2.25, 'e2'"),
                f"ALTER TABLE {name} RENAME b TO bb",
                _insert(name, "3, 30, 'b3', CAST(3.5 AS FLOAT), 3.25, 'e3'"),
                f"ALTER TABLE {name} MODIFY a BIGINT",
                f"ALTER TABLE {name} MODIFY c DOUBLE",
                f"ALTER TABLE {name} MODIFY d DECIMAL(12, 2)",
                _insert(name, "4, 40000000000, 'b4', CAST(0.1 AS DOUBLE), 1234567890.25, 'e4'"),
                f"ALTER TABLE {name} DROP e",
                _insert(name, "5, 50, 'b5', CAST(5.5 AS DOUBLE), 5.25"),
                f"ALTER TABLE {name} ADD e INT FIRST",
                _insert(name, "6, 6, 60, 'b6', CAST(6.5 AS DOUBLE), 6.25"),
                *([_insert(name, "7, 1, 11, 'b1 again', CAST(1 AS DOUBLE), 1")] if key else []),
            ],
            history=True,
        )
    yield Table(
        "evolved_nested",
        "columns added to and removed from a ROW, within an ARRAY and a MAP too",
        [
            _create("evolved_nested", "k INT, r ROW<a INT, b STRING>, l ARRAY<ROW<a INT>>", bucket="-1"),
            "INSERT INTO evolved_nested SELECT 1, CAST(ROW(1, 'x') AS ROW<a INT, b STRING>),"
            " CAST(ARRAY[ROW(1)] AS ARRAY<ROW<a INT>>)",
            "ALTER TABLE evolved_nested MODIFY (r ROW<b STRING, c DOUBLE, a BIGINT>, l ARRAY<ROW<a INT, n STRING>>)",
            "INSERT INTO evolved_nested SELECT 2, CAST(ROW('y', 2.5, 2) AS ROW<b STRING, c DOUBLE, a BIGINT>),"
            " CAST(ARRAY[ROW(2, 'n')] AS ARRAY<ROW<a INT, n STRING>>)",
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
            _create("stats_modes", columns, bucket="-1"),
            *(
                text
                for mode in modes
                for text in (_set("stats_modes", metadata__stats_mode=mode), _insert("stats_modes", *rows))
            ),
            "ALTER TABLE stats_modes SET ('metadata.stats-mode' = 'none', 'fields.k.stats-mode' = 'full')",
            _insert("stats_modes", *rows),
            _set("stats_modes", metadata__stats_dense_store="false"),
            _insert("stats_modes", *rows),
        ],
    )
    yield Table(
        "manifests",
        "manifest.compression none, snappy and zstd, one a commit; manifests merged at the end",
        [
            _create("manifests", "k INT, v STRING", bucket="-1", manifest__merge_min_count="4"),
            *(
                text
                for at, codec in enumerate(["null", "snappy", "zstd", "zstd", "zstd"])
                for text in (_set("manifests", manifest__compression=codec), _insert("manifests", f"{at}, '{codec}'"))
            ),
        ],
    )
    yield Table(
        "tagged",
        "a tag on the first snapshot, a branch from it with a commit of its own",
        [
            _create("tagged", KV, bucket="1"),
            _insert("tagged", *_rows(0, 3, "a")),
            f"CALL sys.create_tag(`table` => '{DATABASE}.tagged', tag => 'first', snapshot_id => 1)",
            _insert("tagged", *_rows(1, 5, "b")),
            f"CALL sys.create_branch(`table` => '{DATABASE}.tagged', branch => 'side', tag => 'first')",
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
            _create("expired", KV, bucket="1"),
            *(_insert("expired", *_rows(at, at + 3, f"c{at}-")) for at in range(6)),
            f"CALL sys.expire_snapshots(`table` => '{DATABASE}.expired', retain_max => 2)",
        ],
    )


def _bucket_mode_tables() -> Iterator[Table]:
    yield Table(
        "dynamic_bucket",
        "bucket -1 with dynamic-bucket.target-row-num 5: hash index files; partitions; upserts",
        [
            _create(
                "dynamic_bucket",
                f"p STRING, {KV.replace('(k)', '(p, k)')}",
                "p",
                bucket="-1",
                dynamic_bucket__target_row_num="5",
            ),
            _insert("dynamic_bucket", *(f"'x', {row}" for row in _rows(0, 12, "a"))),
            _insert("dynamic_bucket", *(f"'x', {row}" for row in _rows(8, 16, "b")), "'y', 1, 'other'"),
            _delete("dynamic_bucket", "k = 9"),
        ],
        history=True,
    )
    yield Table(
        "cross_partition",
        "key without the partition column: a row moves to the partition of its newest version",
        [
            _create("cross_partition", f"p STRING, {KV}", "p", bucket="-1", dynamic_bucket__target_row_num="5"),
            _insert("cross_partition", *(f"'x', {row}" for row in _rows(0, 8, "a"))),
            _insert("cross_partition", *(f"'y', {row}" for row in _rows(6, 10, "b"))),
        ],
    )
    for name, extra in (("dv_pk", {}), ("dv_pk_bitmap64", {"deletion_vectors__bitmap64": "true"})):
        yield Table(
            name,
            "primary key with deletion vectors" + (" of 64 bits" if extra else "") + "; upserts and deletes",
            [
                _create(name, KV, bucket="2", deletion_vectors__enabled="true", **extra),
                _insert(name, *_rows(0, 20, "a")),
                _insert(name, *_rows(5, 8, "b")),
                _delete(name, "k IN (1, 2, 15)"),
            ],
            history=True,
        )
    yield Table(
        "postpone_pending",
        "bucket -2: pending files only, which batch reads do not see",
        [
            _create("postpone_pending", KV, bucket="-2", postpone__batch_write_fixed_bucket="false"),
            _insert("postpone_pending", *_rows(0, 4, "a")),
            _insert("postpone_pending", *_rows(2, 6, "b")),
        ],
        versions={"merge on read": "postpone_pending /*+ OPTIONS('postpone.merge-on-read' = 'true') */"},
    )
    yield Table(
        "postpone_mixed",
        "bucket -2: compacted into real buckets, then pending files again with an upsert and a delete",
        [
            _create(
                "postpone_mixed",
                KV,
                bucket="-2",
                postpone__batch_write_fixed_bucket="false",
                postpone__default_bucket_num="2",
            ),
            _insert("postpone_mixed", *_rows(0, 6, "a")),
            _compact("postpone_mixed"),
            _insert("postpone_mixed", *_rows(4, 8, "b")),
            _delete("postpone_mixed", "k = 0"),
        ],
        versions={"merge on read": "postpone_mixed /*+ OPTIONS('postpone.merge-on-read' = 'true') */"},
    )
    yield Table(
        "postpone_batch",
        "bucket -2 written in batch by the default rule: straight into fixed buckets",
        [
            _create("postpone_batch", KV, bucket="-2"),
            _insert("postpone_batch", *_rows(0, 6, "a")),
            _insert("postpone_batch", *_rows(4, 8, "b")),
        ],
    )
    yield Table(
        "rescaled",
        "primary key, bucket count changed from 1 to 3 by a rewrite",
        [
            _create("rescaled", KV, bucket="1"),
            _insert("rescaled", *_rows(0, 12, "a")),
            f"CALL sys.rescale(`table` => '{DATABASE}.rescaled', bucket_num => 3)",
            _insert("rescaled", *_rows(6, 14, "b")),
        ],
        history=True,
    )


def catalogue() -> list[Table]:
    """Every table of the corpus, in the order in which README.md lists them."""
    groups = (
        _type_tables,
        _compression_tables,
        _append_tables,
        _lsm_tables,
        _key_tables,
        _engine_tables,
        _partition_tables,
        _schema_tables,
        _bucket_mode_tables,
    )
    return [table for group in groups for table in group()]
