"""Frames of small tables are kept while the same rows are asked for; nobody can tell."""

from __future__ import annotations

from typing import Any

import pytest
from tests.sql.sessions import session

from bucketlake.spark.read.kept import KeptFrames
from bucketlake.spark.session import Lake

pytestmark = pytest.mark.spark


@pytest.fixture
def kept(classic: Lake) -> KeptFrames:
    classic.sql("CREATE TABLE db.t (k INT, c CHAR(3), at TIMESTAMP_LTZ)")
    classic.sql("INSERT INTO db.t VALUES (1, 'a', TIMESTAMP_LTZ'2025-01-01 00:00:00+00:00'), (2, NULL, NULL)")
    return classic.kept


def keys(lake: Lake, text: str = "SELECT k FROM db.t ORDER BY k") -> list[Any]:
    return [row[0] for row in lake.sql(text).collect()]


def test_two_frames_of_the_same_rows_can_be_joined(classic: Lake, kept: KeptFrames) -> None:
    left, right = classic.sql("SELECT * FROM db.t"), classic.sql("SELECT * FROM db.t")
    assert len(kept.cache) == 1
    assert left.join(right, left.k == right.k).count() == 2
    assert left.join(right, left.k < right.k).select(left.k, right.k).collect()[0][:] == (1, 2)


def test_other_rows_are_other_frames(classic: Lake, kept: KeptFrames) -> None:
    assert keys(classic) == [1, 2]
    classic.sql("INSERT INTO db.t VALUES (3, NULL, NULL)")
    assert keys(classic) == [1, 2, 3]
    classic.sql("DELETE FROM db.t WHERE k = 1")
    assert keys(classic) == [2, 3]
    classic.sql("ALTER TABLE db.t ADD COLUMN n INT")
    assert classic.sql("SELECT * FROM db.t").columns == ["k", "c", "at", "n"]
    assert keys(classic, "SELECT n FROM db.t") == [None, None]
    assert keys(classic, "SELECT k FROM db.t VERSION AS OF 1 ORDER BY k") == [1, 2]
    classic.sql("DROP TABLE db.t")
    classic.sql("CREATE TABLE db.t (k INT, c CHAR(3), at TIMESTAMP_LTZ)")
    assert keys(classic) == []


def test_what_the_session_says_holds_for_frames_that_were_kept(classic: Lake, kept: KeptFrames) -> None:
    text = "SELECT concat(c, '|'), cast(at AS STRING) FROM db.t WHERE k = 1"
    with session(classic, {"spark.sql.session.timeZone": "UTC"}):
        assert classic.sql(text).collect()[0][:] == ("a  |", "2025-01-01 00:00:00")
    with session(classic, {"spark.sql.session.timeZone": "Asia/Tokyo"}):
        assert classic.sql(text).collect()[0][:] == ("a  |", "2025-01-01 09:00:00")


def test_frames_beyond_the_limit_go(classic: Lake, kept: KeptFrames, monkeypatch: pytest.MonkeyPatch) -> None:
    keys(classic)
    monkeypatch.setattr(kept.cache, "capacity", 1)
    classic.sql("INSERT INTO db.t VALUES (3, NULL, NULL)")
    assert keys(classic) == [1, 2, 3] and len(kept.cache) == 1
