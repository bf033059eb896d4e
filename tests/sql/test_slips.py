"""Misspelt names are told with what is meant, in the words and at the places of the statement."""

from __future__ import annotations

import pytest

from bucketlake.errors import BucketlakeError, InvalidError
from bucketlake.spark.raised import StatementError
from bucketlake.spark.session import Lake

SLIPS = [
    ("INSERT INTO t PARTITION (dya = 'a') (id) VALUES (1)", "did you mean 'day'?"),
    ("INSERT INTO t BY NAME SELECT 1 AS id, 'a' AS nmae", "did you mean 'name'? Else leave these columns out"),
    ("UPDATE t o SET o.nmae = 'b'", "did you mean 'name'?"),
    ("UPDATE db.t SET db.t.nmae = 'b'", "did you mean 'name'?"),
    ("UPDATE t o SET p.name = 'b'", "did you mean 'o.name'?"),
    ("UPDATE t o SET t.name = 'b'", "did you mean 'o.name'?"),
    ("ANALYZE TABLE t COMPUTE STATISTICS FOR COLUMNS nmae", "did you mean 'name'?"),
    ("ALTER TABLE t CREATE TGA x", "did you mean CREATE TAG?"),
    ("ALTER TABLE t RENAM TO u", "did you mean RENAME?"),
    ("ALTER TABLE t DELET TAG x", "did you mean DELETE TAG?"),
    ("DESCRIBE t info.citty", "DESCRIBE of a member of a column [column=info]: DESCRIBE … info shows its whole type"),
    ("USE dbb", "did you mean 'db'?"),
    ("CREATE TABLE u (a INT, b ARRAY<INTT>)", "[column=b, type=ARRAY<INTT>, position=6]: did you mean 'INT'?"),
    ("ALTER TABLE t ADD COLUMN info.zip STRNG", "[column=info.zip, type=STRNG, position=0]: did you mean 'STRING'?"),
    ("ALTER TABLE t ALTER COLUMN id TYPE DECIMAL(40)", "[column=id, precision=40]"),
    (
        "COPY INTO t FROM /in/a FILE_FORMAT = (TYPE = CSV)",
        "near=/in/a FILE_FORMAT = (TYPE = CSV)]: paths stand in quotes",
    ),
    ("SET spark.paimon.scan.snapsht-id = 1", "did you mean 'scan.snapshot-id'?"),
    ("SET spark.paimon.paimon.db.t.scan.snapsht-id = 1", "did you mean 'scan.snapshot-id'?"),
]


def test_slips_of_the_pen_are_told_with_what_is_meant(classic: Lake) -> None:
    classic.sql("CREATE TABLE db.t (id INT, name STRING, info STRUCT<city: STRING>, day STRING) PARTITIONED BY (day)")
    classic.sql("USE db")
    for statement, told in SLIPS:
        with pytest.raises(BucketlakeError) as raised:
            classic.sql(statement)
        assert told in str(raised.value), statement


def test_an_option_of_the_session_that_nobody_knows_is_told_with_its_setting(classic: Lake) -> None:
    """It was told as one of the statement, read or write that failed for it."""
    classic.sql("CREATE TABLE db.t (id INT)")
    for setting in ("spark.paimon.scan.snapsht-id", "spark.paimon.*.db.t.scan.snapsht-id"):
        classic.spark.conf.set(setting, "1")
        try:
            for call in (lambda: classic.sql("SELECT * FROM db.t"), lambda: classic.read_table("db.t")):
                with pytest.raises(InvalidError) as raised:
                    call()
                assert f"setting={setting}]: did you mean 'scan.snapshot-id'? RESET {setting}" in str(raised.value)
            classic.sql(f"RESET {setting}")
            assert classic.sql("SELECT * FROM db.t").count() == 0
        finally:
            classic.spark.conf.unset(setting)


def test_names_with_a_dollar_are_shown_as_they_were_written(classic: Lake) -> None:
    classic.sql("CREATE TABLE db.t (id INT)")
    for statement, piece in (
        ("SELECT snapshot FROM db.t$snapshots", "snapshot"),
        ("SELECT 1 FROM db.t$snapshots a, db.t$files b WHERE a.nope = 1", "a.nope"),
    ):
        with pytest.raises(StatementError) as raised:
            classic.sql(statement)
        place = statement.index(piece)
        assert str(raised.value).endswith(
            f"line 1, column {place + 1}:\n{statement}\n{' ' * place}{'^' * len(piece)}"
        ), str(raised.value)
