"""What is Spark's own beside the lake: the tables of its catalog, temporary views."""

from __future__ import annotations

import pytest
from pyspark.errors import AnalysisException

from bucketlake.errors import InvalidError, NotFoundError
from bucketlake.spark.session import Lake


def test_use_of_sparks_own_catalog(classic: Lake) -> None:
    lake = classic
    lake.sql("CREATE TABLE db.mine (id INT)")
    lake.sql("USE db")
    lake.sql("USE spark_catalog.default")
    try:
        lake.sql("CREATE TABLE mine (dt STRING, n INT) USING parquet PARTITIONED BY (dt)")
        lake.sql("INSERT OVERWRITE mine PARTITION (dt) SELECT 7 AS n, 'x' AS dt")
        assert [tuple(row) for row in lake.sql("SELECT n, dt FROM mine").collect()] == [(7, "x")]
        assert lake.sql("SELECT * FROM bucketlake.db.mine").columns == ["id"]
        assert lake.sql("SHOW CURRENT NAMESPACE").collect()[0][0] == "spark_catalog"
        with pytest.raises(InvalidError, match=r"USE bucketlake\.db first"):
            lake.sql("CALL sys.compact(table => 'mine')")
        lake.sql("CREATE TABLE bucketlake.db.only_here (id INT)")
        with pytest.raises(NotFoundError, match=r"write bucketlake\.db\.only_here"):  # "is found where it is named"
            lake.sql("SELECT * FROM db.only_here")
        with pytest.raises(NotFoundError, match=r"did you mean 'bucketlake\.db\.only_here'"):
            lake.sql("SELECT * FROM only_her")
        lake.sql("USE paimon.db")
        assert lake.sql("SELECT * FROM mine").columns == ["id"]
    finally:
        lake.sql("USE spark_catalog.default")
        lake.sql("DROP TABLE IF EXISTS mine")
        lake.sql("USE bucketlake.db")
    assert list(lake.table("mine").schema.field_names) == ["id"]


def test_what_sparks_own_catalog_lacks_is_sparks_to_tell(classic: Lake) -> None:
    classic.sql("DROP TABLE IF EXISTS spark_catalog.default.nowhere")
    for statement in ("DROP TABLE spark_catalog.default.nowhere", "DESCRIBE spark_catalog.default.nowhere"):
        with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
            classic.sql(statement)


def test_rows_of_temporary_views_are_not_changed(classic: Lake) -> None:
    """Spark spoke of a table `unknown`, or of an internal error."""
    classic.sql("CREATE TABLE db.hidden (id INT)")
    classic.sql("USE db")
    for view, remedy in (("seen", "the table that it reads"), ("hidden", "hides the table db.hidden")):
        classic.sql("SELECT 1 AS id").createOrReplaceTempView(view)
        try:
            for text, verb in (
                (f"UPDATE {view} SET id = 2", "UPDATE"),
                (f"DELETE FROM {view} WHERE id = 1", "DELETE"),
                (f"MERGE INTO {view} t USING (SELECT 1 AS id) s ON t.id = s.id WHEN MATCHED THEN DELETE", "MERGE"),
                (f"INSERT OVERWRITE {view} VALUES (2)", "INSERT"),
                (f"WITH s AS (SELECT 1) INSERT INTO {view} SELECT * FROM s", "INSERT"),
            ):
                told = rf"EXPECT_TABLE_NOT_VIEW.*{verb} expects a table but `{view}` is a temporary view: .*{remedy}"
                with pytest.raises(InvalidError, match=told) as caught:
                    classic.sql(text)
                assert isinstance(caught.value, AnalysisException), text
        finally:
            classic.spark.catalog.dropTempView(view)
