"""The files that tell other programs that a tag is there."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

import bucketlake


def test_success_files_tell_of_tags_that_are_there(tmp_path: Path) -> None:
    """Those of tags that a rename, a rollback, a merge or a fast-forward takes away stayed; a renamed tag had none."""
    options = {"tag.create-success-file": "true"}
    table = bucketlake.open(tmp_path).create_table("t", pa.schema([("k", pa.int64())]), options=options)
    for number in range(3):
        table.write_arrow(pa.table({"k": [number]}))
    for number in (1, 3):
        table.create_tag(f"v{number}", number)
    table.create_branch("dev", "v1")
    table.with_options(branch="dev").write_arrow(pa.table({"k": [9]}))
    table.merge_branch("dev")
    table.rename_tag("v1", "first")
    table.rollback_to(2)
    table.fast_forward("dev")
    assert {path.name for path in Path(table.path).rglob("*_SUCCESS")} == {"first_SUCCESS"}
