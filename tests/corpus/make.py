"""Make the corpus anew with Flink: `python -m tests.corpus.make [--only NAME ...] [--keep FOLDER]`.

File names and times differ from run to run, so a new archive is a new corpus: review it as such. `--only` writes
nothing to the repository and is for trying a table's statements.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import json
import re
import shutil
import sys
import tarfile
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.corpus import ARCHIVE, HERE, SUMS, encode, sort_rows
from tests.corpus.statements import DATABASE, Table
from tests.corpus.tables import catalogue
from tests.peers.flink import FlinkPaimon, Result
from tests.peers.rpc import PeerError


def make(tables: Sequence[Table], folder: Path) -> list[str]:
    """Write the tables to `folder`/warehouse and their truths to `folder`/expected; returns what failed."""
    (folder / "expected").mkdir(parents=True)
    failures = []
    with FlinkPaimon(folder / "warehouse") as flink:
        flink.run([f"CREATE DATABASE IF NOT EXISTS {DATABASE}", f"USE {DATABASE}"])
        for table in tables:
            start = time.monotonic()
            try:
                flink.run(table.statements)
                truth = _truth(flink, table)
            except PeerError as error:
                failures.append(f"{table.name}: {error}")
                print(f"{table.name}: FAILED", file=sys.stderr, flush=True)
                continue
            (folder / "expected" / f"{table.name}.json").write_text(json.dumps(truth, indent=1, ensure_ascii=False))
            print(f"{table.name}: {len(truth['rows'])} rows, {time.monotonic() - start:.1f} s", file=sys.stderr)
    return failures


def _truth(flink: FlinkPaimon, table: Table) -> dict[str, Any]:
    head = flink.sql(f"SELECT * FROM {table.name}")
    snapshots = flink.sql(f"SELECT * FROM `{table.name}$snapshots` ORDER BY snapshot_id").dicts()
    versions = dict(table.versions)
    if table.history:
        for snapshot in snapshots:
            at = snapshot["snapshot_id"]
            versions[f"snapshot {at}"] = f"{table.name} /*+ OPTIONS('scan.snapshot-id' = '{at}') */"
    return {
        "covers": table.covers,
        "statements": list(table.statements),
        "columns": head.columns,
        "types": head.types,
        "rows": _encoded(head),
        "versions": {label: _version(flink, source) for label, source in versions.items()},
        "files": _files(flink, table.name),
        "snapshots": [{key: encode(value) for key, value in snapshot.items()} for snapshot in snapshots],
    }


def _version(flink: FlinkPaimon, source: str) -> dict[str, Any]:
    read = flink.sql(f"SELECT * FROM {source}")
    return {"columns": read.columns, "rows": _encoded(read)}


def _encoded(result: Result) -> list[list[Any]]:
    return [[encode(value) for value in row] for row in sort_rows(result.rows)]


def _files(flink: FlinkPaimon, name: str) -> list[dict[str, Any]]:
    files = flink.sql(f"SELECT * FROM `{name}$files`").dicts()
    for file in files:
        for column in ("min_key", "max_key", "min_value_stats", "max_value_stats"):
            file[column] = file[column] and JAVA_ARRAY.sub("bytes", file[column])
        file["file_name"] = file.pop("file_path").rsplit("/", 1)[-1]
        del file["creation_time"]
    return [
        {key: encode(value) for key, value in file.items()}
        for file in sorted(files, key=lambda file: (str(file["partition"]), file["bucket"], file["file_name"]))
    ]


def pack(folder: Path, archive: Path) -> None:
    """Pack `folder` with no owners and times; files of a kind stand together, which halves the size."""
    paths = [path for path in folder.rglob("*") if not path.name.endswith(".crc")]
    paths.sort(key=lambda path: (path.is_file(), _kind(path.relative_to(folder)), path.relative_to(folder).as_posix()))
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path in paths:
            tar.add(path, arcname=path.relative_to(folder).as_posix(), recursive=False, filter=_anonymous)
    archive.write_bytes(gzip.compress(packed.getvalue(), compresslevel=9, mtime=0))


def _kind(path: Path) -> str:
    return path.suffix + path.name.rstrip("-0123456789abcdef.")


def _anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    member.mtime = 0
    member.mode = 0o755 if member.isdir() else 0o644
    return member


JAVA_ARRAY = re.compile(r"\[B@[0-9a-f]+")
README = """\
# Corpus: tables that Apache Paimon {version} wrote

`{archive}` holds one warehouse with the database `{database}` ({tables} tables), written by Apache Paimon
{version} through Flink SQL {flink}, and for each table `expected/<table>.json`: the statements that made it, its
rows as Flink read them (of every snapshot where "history" is said, and of tags and branches), and the rows of its
`$files` and `$snapshots`. Checksum files (`.crc`) are left out. The archive's digest stands in `SHA256SUMS`.

    from tests import corpus
    warehouse = corpus.unpack(tmp_path)          # checks the digest
    truth = corpus.expected("pk_level_0")        # .columns .types .rows .versions .files .snapshots .statements
    assert corpus.sort_rows(mine) == truth.rows

Values are Python's, as `tests/peers/flink.py` documents at `Result`. Note that timestamps with a precision above 6
are text with nine digits, that a FLOAT is the shortest decimal that rounds to it, and that statistics of BINARY
and BYTES show as `bytes`. NaN equals nothing: compare rows that hold it by `corpus.encode`.

`python -m tests.corpus.make` makes it anew (some minutes; it installs Flink first, see `tests/peers/install.py`),
together with this page. The tables are defined in `tables.py` and `typed_tables.py`.

| table | what it covers | rows | files | snapshots |
|---|---|---|---|---|
"""


def write_readme(tables: Sequence[Table], folder: Path) -> None:
    """The catalogue of the tables in `folder`, as README.md."""
    head = README.format(version="2.0.0", archive=ARCHIVE.name, database=DATABASE, tables=len(tables), flink="2.0.2")
    lines = []
    for table in tables:
        truth = json.loads((folder / "expected" / f"{table.name}.json").read_text())
        covers = table.covers.replace("|", "\\|") + (" (history)" if table.history else "")
        counts = " | ".join(str(len(truth[key])) for key in ("rows", "files", "snapshots"))
        lines.append(f"| `{table.name}` | {covers} | {counts} |\n")
    (HERE / "README.md").write_text(head + "".join(lines))


def main(arguments: Sequence[str]) -> int:
    """Make the corpus; 1 if a table failed, and then nothing is written to the repository."""
    parser = argparse.ArgumentParser(description="Make the corpus anew.")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="try these tables, write nothing here")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="work in this folder and leave it")
    given = parser.parse_args(arguments)
    tables = [table for table in catalogue() if not given.only or table.name in given.only]
    folder = given.keep or Path(tempfile.mkdtemp(prefix="corpus-"))
    if given.keep:
        shutil.rmtree(folder, ignore_errors=True)
    failures = make(tables, folder)
    for failure in failures:
        print(failure, file=sys.stderr)
    if not failures and not given.only:
        pack(folder, ARCHIVE)
        digest = hashlib.sha256(ARCHIVE.read_bytes()).hexdigest()
        SUMS.write_text(f"{digest}  {ARCHIVE.name}\n")
        write_readme(tables, folder)
        print(f"{ARCHIVE.name}: {ARCHIVE.stat().st_size} bytes", file=sys.stderr)
    if not given.keep:
        shutil.rmtree(folder)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
