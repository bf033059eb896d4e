"""A lake table's folder is known however it is spelled: what Spark writes of its own into one would end the table."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

import bucketlake
from bucketlake.errors import UnsupportedError
from bucketlake.sql.tables.foreign import refuse_folder
from bucketlake.sql.text import names


def _on_s3(scheme: str) -> Any:
    """A lake whose warehouse is on a store, as far as names ask."""
    root = f"{scheme}://lake/wh"
    catalog = SimpleNamespace(
        metastore=SimpleNamespace(has_folder=True),
        warehouse=root,
        table_exists=lambda name: name == "db.t",
        table_path=lambda name: f"{root}/db.db/{name.partition('.')[2]}",
        database_exists=lambda name: name == "db",
    )
    return SimpleNamespace(catalog=catalog)


@pytest.mark.parametrize("scheme", ["s3", "s3a"])
@pytest.mark.parametrize("spelled", ["s3://lake", "s3a://lake", "s3n://lake/", "S3A://lake", "s3a://lake/x/.."])
def test_folders_of_a_store(scheme: str, spelled: str) -> None:
    lake = _on_s3(scheme)
    for place in ("wh/db.db/t", "wh//db.db/t/", "wh/db.db/t/bucket-0", "wh/db.db", "wh", ""):
        with pytest.raises(UnsupportedError, match="files of another format"):
            refuse_folder(lake, f"{spelled}/{place}")
    for place in ("wh/db.db/other", "wh/db.db/t2", "wh2", "out/db.db/t"):
        refuse_folder(lake, f"{spelled}/{place}")
    refuse_folder(lake, "s3://other/wh/db.db/t")


def test_folders_of_this_machine(tmp_path: Path) -> None:
    (tmp_path / "wä rm").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "wä rm")
    root = f"{tmp_path}/wä rm/wh"
    catalog = bucketlake.open(f"file://{root}")
    catalog.create_table("t", pa.schema([("k", pa.int64())]))
    lake: Any = SimpleNamespace(catalog=catalog)
    for start in (root, f"file:{root}", f"file://localhost{root}", f"file:{root}/../wh", f"{tmp_path}/link/wh"):
        for place in ("default.db/t", "/default.db/./t/", "default.db/t/bucket-0", "default.db", ""):
            with pytest.raises(UnsupportedError, match="files of another format"):
                refuse_folder(lake, f"{start}/{place}")
        assert names.of_folder(lake, f"{start}/default.db/t") == names.LakeName("default", "t")
        refuse_folder(lake, f"{start}/default.db/other")
