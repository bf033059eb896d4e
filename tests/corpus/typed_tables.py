"""Tables of the corpus by data type: plain columns, compression codecs, and keys."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tests.corpus.statements import Table, compact, create, delete, insert, set_options

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


FLOATS = [
    ("NaN", "NaN"),
    ("Infinity", "Infinity"),
    ("-Infinity", "-Infinity"),
    ("-0.0", "-0.0"),
    ("3.4028235E38", "1.7976931348623157E308"),
    ("-3.4028235E38", "-1.7976931348623157E308"),
    ("1.4E-45", "4.9E-324"),
    ("16777217.5", "0.30000000000000004"),
]

FAR_TIMES = ["'0001-01-01 00:00:00'", "'9999-12-31 23:59:59'", "'1582-10-15 00:00:00'", "'1582-10-04 12:00:00'"]
FAR = [
    ("c_date", "DATE", ["'0001-01-01'", "'9999-12-31'", "'1582-10-15'", "'1582-10-04'"]),
    *((f"c_timestamp_{digits}", f"TIMESTAMP({digits})", FAR_TIMES) for digits in (3, 6, 9)),
]


def _held_by(form: str, columns: Sequence[tuple[str, str, list[str]]]) -> list[tuple[str, str, list[str]]]:
    """The columns that files of this format can hold: Paimon's avro ends at microseconds."""
    return [column for column in columns if form != "avro" or "(9)" not in column[1]]


def _columns(columns: Sequence[tuple[str, str, list[str]]]) -> str:
    return ", ".join(["id INT", *(f"{name} {kind}" for name, kind, _ in columns)])


def _typed_rows(columns: Sequence[tuple[str, str, list[str]]]) -> list[str]:
    count = len(columns[0][2])
    rows = [
        ", ".join([str(at), *(f"CAST({values[at]} AS {kind})" for _, kind, values in columns)]) for at in range(count)
    ]
    return [*rows, ", ".join([str(count), *(f"CAST(NULL AS {kind})" for _, kind, _ in columns)])]


def type_tables() -> Iterator[Table]:
    """Every type, in every format."""
    for form in ("parquet", "orc", "avro"):
        name, typed = f"types_{form}", _held_by(form, TYPES)
        # One SELECT a row: Flink would unify the types of one VALUES list and pad its CHARs.
        selects = " UNION ALL ".join(f"SELECT {row}" for row in _typed_rows(typed))
        yield Table(
            name,
            f"every type in {form}: smallest, largest, ordinary and awkward values, and nulls",
            [create(name, _columns(typed), bucket="-1", file__format=form), f"INSERT INTO {name} {selects}"],
        )
    for form in ("parquet", "orc", "avro"):
        name, typed = f"types_far_{form}", _held_by(form, FAR)
        yield Table(
            name,
            f"dates and timestamps in {form} outside what 64-bit nanoseconds hold, and around the calendar's change",
            [create(name, _columns(typed), bucket="-1", file__format=form), insert(name, *_typed_rows(typed))],
        )
    for form in ("parquet", "orc", "avro"):
        name, texts = f"types_floats_{form}", f"`default`.floats_as_text_{form}"
        yield Table(
            name,
            f"FLOAT and DOUBLE in {form}: NaN, infinities, minus zero, extremes; a file without them and one with",
            [
                # Through a table of texts: Flink's planner rounds FLOAT constants to 7 digits and fails on NaN.
                f"CREATE TABLE {texts} (id INT, f STRING, d STRING)",
                insert(texts, *(f"{at}, '{f}', '{d}'" for at, (f, d) in enumerate(FLOATS))),
                create(name, "id INT, f FLOAT, d DOUBLE", bucket="-1", file__format=form),
                f"INSERT INTO {name} SELECT id, CAST(f AS FLOAT), CAST(d AS DOUBLE) FROM {texts} WHERE id > 3",
                f"INSERT INTO {name} SELECT id, CAST(f AS FLOAT), CAST(d AS DOUBLE) FROM {texts}",
                f"DROP TABLE {texts}",
            ],
        )


def codec_tables() -> Iterator[Table]:
    """Every compression codec of every format."""
    codecs = {
        "parquet": ("snappy", "none", "gzip", "lz4_raw", "zstd"),
        "orc": ("snappy", "none", "zlib", "lz4", "zstd"),
        "avro": ("snappy", "null", "zstd", "deflate"),
    }
    for form, names in codecs.items():
        name = f"codecs_{form}"
        statements = [create(name, "k INT, v STRING, d DECIMAL(10, 2)", bucket="-1", file__format=form)]
        for at, codec in enumerate(names):
            rows = [f"{at * 10 + i}, '{codec} {'x' * 20}', {i}.25" for i in range(5)]
            statements += [set_options(name, file__compression=codec), insert(name, *rows)]
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


def key_tables() -> Iterator[Table]:
    """A primary key of every type."""
    for at, (label, (kind, values)) in enumerate(KEYS.items()):
        name, keys = f"key_{label}", [f"CAST({value} AS {kind})" for value in values]
        write_only = at % 2 == 0
        ending = [] if write_only else [compact(name), insert(name, f"{keys[0]}, 300")]
        yield Table(
            name,
            f"primary key of {kind} over 3 buckets, an upsert and a delete; "
            + ("level 0 only" if write_only else "compacted, then one more commit"),
            [
                create(
                    name,
                    f"k {kind}, v INT, PRIMARY KEY (k) NOT ENFORCED",
                    bucket="3",
                    **({"write_only": "true"} if write_only else {}),
                ),
                insert(name, *(f"{key}, {number}" for number, key in enumerate(keys))),
                insert(name, *(f"{key}, {number + 100}" for number, key in enumerate(keys[::2]))),
                delete(name, f"k = {keys[1]}"),
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
            create("key_composite", columns, bucket="3"),
            insert("key_composite", *(f"{number}, {key}" for number, key in enumerate(keys))),
            insert("key_composite", *(f"{number + 100}, {key}" for number, key in enumerate(keys[1:3]))),
        ],
    )
