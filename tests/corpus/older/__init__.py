"""Tables that older releases of Apache Paimon wrote, and their rows as these read them: an archive a release.

`python -m tests.corpus.older.make RELEASE` makes one anew. Checksum files (`.crc`) are left out.
"""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
DATABASE = "older"
RELEASES = sorted(path.name.removeprefix("paimon-").removesuffix(".tar.xz") for path in HERE.glob("paimon-*.tar.xz"))
Rows = list[list[Any]]


def archive(release: str) -> Path:
    """Where the tables of a release lie."""
    return HERE / f"paimon-{release}.tar.xz"


def unpack(release: str, folder: Path) -> dict[str, Rows]:
    """Put a release's warehouse into a folder; rows by table, in the order of their texts. Dates and the like are text."""
    with tarfile.open(archive(release)) as packed:
        packed.extractall(folder, filter="data")
    rows: dict[str, Rows] = json.loads((folder / "rows.json").read_text())
    return rows
