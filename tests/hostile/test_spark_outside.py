"""On Spark: its own scans follow no link of a table's folder, tasks clean no folder elsewhere, plans show no secrets."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pytest

from bucketlake import CorruptError
from bucketlake.ops.table.store import clear_cache
from bucketlake.spark.read.native import FileAt, scan
from bucketlake.spark.session import Lake

pytestmark = pytest.mark.spark
ROWS = pa.table({"k": [1, 2], "v": [3, 4]})


def test_links_and_secrets(classic: Lake, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = classic.catalog.create_table("db.t", ROWS.schema)
    table.write_arrow(ROWS)
    reader = classic.spark.read.format("bucketlake").option("s3.secret-key", "hushhush").option("columns", "k")
    reader.load(table.path).explain(True)
    assert "hushhush" not in capsys.readouterr().out

    (file,) = table.files()
    found = [FileAt(file.path, file.file)]
    assert scan(classic.spark, table.store, found, table.schema.fields).count() == 2

    away = tmp_path / "away"
    away.mkdir()
    (away / "data-x-0.parquet").write_bytes(b"1")
    os.utime(away / "data-x-0.parquet", (10**9, 10**9))
    (Path(table.path) / "bucket-7").symlink_to(away)
    classic.sql("CALL sys.remove_orphan_files(table => 'db.t', mode => 'distributed')").collect()
    assert (away / "data-x-0.parquet").exists()

    Path(file.path).rename(away / "data")
    Path(file.path).symlink_to(away / "data")
    clear_cache()
    with pytest.raises(CorruptError, match="symbolic link"):
        scan(classic.spark, table.store, found, table.schema.fields)
    with pytest.raises(CorruptError, match="symbolic link"):
        classic.sql("SELECT * FROM db.t").collect()
