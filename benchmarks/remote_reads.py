"""Data files that lie behind a slow network, read by ranges, against the whole file in one request.

python -m benchmarks.remote_reads [--rows 2000000] [--runs 3] [--wait 0.03] [--rate 60]

Each request waits (seconds) before its first byte, and each connection gives so many MB a second.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
import obstore
import pyarrow as pa
from obstore.store import HTTPStore

from benchmarks.datafile import seconds
from benchmarks.datafile import write as written
from bucketlake.env.object_parts import end_of
from bucketlake.env.remote_input import RemoteInput
from bucketlake.env.storage import Storage
from bucketlake.format.data.datafile import Recorded, read_recorded
from bucketlake.types.model import DataField, canonical_batch, from_arrow_type

STEP = 1 << 18


class Slow(BaseHTTPRequestHandler):
    """Ranges of the files of a folder."""

    protocol_version = "HTTP/1.1"
    folder, wait, rate = Path(), 0.0, 0.0

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""

    def do_GET(self) -> None:
        """One range, from the end too, or all."""
        time.sleep(self.wait)
        with (self.folder / self.path[1:]).open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            first, _, last = self.headers.get("Range", "bytes=0-").removeprefix("bytes=").partition("-")
            start = int(first) if first else max(0, size - int(last))
            end = min(size, int(last) + 1) if first and last else size
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{end - 1}/{size}")
            self.send_header("Content-Length", str(end - start))
            self.send_header("Last-Modified", "Mon, 30 Nov 2026 10:00:00 GMT")
            self.end_headers()
            self.wfile.flush()
            began, sent = time.perf_counter(), 0
            while start + sent < end:
                sent += os.sendfile(self.wfile.fileno(), file.fileno(), start + sent, min(STEP, end - start - sent))
                time.sleep(max(0.0, sent / self.rate - (time.perf_counter() - began)))


class Far(RemoteInput):
    """A file of the server."""

    requests = 0

    def __init__(self, store: Any, name: str) -> None:
        self._store, self._name = store, name
        Far.requests += 1
        super().__init__(*end_of(store, name))

    def _fetch(self, place: int, count: int) -> bytes:
        Far.requests += 1
        return bytes(obstore.get_range(self._store, self._name, start=place, length=count))


class FarStorage:
    """As much of a storage as reading data files takes."""

    def __init__(self, port: int) -> None:
        self.store = HTTPStore.from_url(f"http://127.0.0.1:{port}", client_options={"allow_http": True})

    def open_input(self, path: str) -> BinaryIO:
        """See Storage."""
        return cast("BinaryIO", Far(self.store, path.removeprefix("far://")))


@contextmanager
def served(folder: str, wait: float, rate: float) -> Iterator[int]:
    """The port at which a process of its own serves a folder."""
    asked = [sys.executable, "-m", "benchmarks.remote_reads", "--serve", folder, f"--wait={wait}", f"--rate={rate}"]
    with subprocess.Popen(asked, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield int(process.stdout.readline())
        finally:
            process.kill()


def serve(folder: str, wait: float, rate: float) -> None:
    """Until it is killed."""
    Slow.folder, Slow.wait, Slow.rate = Path(folder), wait, rate * 1e6
    with ThreadingHTTPServer(("127.0.0.1", 0), Slow) as server:
        print(server.server_address[1], flush=True)
        server.serve_forever()


def rows_of(count: int) -> tuple[list[DataField], list[pa.RecordBatch]]:
    """Six columns, hardly to be compressed."""
    random = np.random.default_rng(1)
    columns: dict[str, Any] = {f"v{n}": random.integers(0, 1 << 40, count) for n in range(4)}
    columns |= {"k": np.arange(count), "s": pa.array(random.integers(0, 1 << 40, count).astype(str))}
    table = pa.table(columns)
    fields = [DataField(n, item.name, from_arrow_type(item.type)) for n, item in enumerate(table.schema)]
    return fields, [canonical_batch(batch, fields) for batch in table.to_batches(65_536)]


def main(rows: int, runs: int, wait: float, rate: float) -> None:
    """All formats."""
    fields, batches = rows_of(rows)
    with tempfile.TemporaryDirectory() as folder, served(folder, wait, rate) as port:
        storage = FarStorage(port)
        for name in ("data.parquet", "data.orc", "data.avro"):
            written(Path(folder) / name, fields, batches, "none")
            recorded = Recorded(f"far://{name}", name.partition(".")[2])

            def read(recorded: Recorded = recorded, columns: Sequence[str] | None = None) -> None:
                found = read_recorded(cast("Storage", storage), recorded, fields, columns)
                assert sum(batch.num_rows for _, batch in found) == rows

            whole = seconds(lambda name=name: obstore.get(storage.store, name).bytes(), runs)  # type: ignore[misc]
            print(f"{name}: {(Path(folder) / name).stat().st_size / 1e6:.0f} MB, in one request {whole:.2f} s")
            for said, columns in (("all columns", None), ("two of six", ["k", "v1"])):
                Far.requests = 0
                took = seconds(lambda columns=columns, read=read: read(columns=columns), runs)  # type: ignore[misc]
                print(f"    {said:12} {took:6.2f} s   {took / whole:.2f}   {Far.requests / runs:.0f} requests")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--wait", type=float, default=0.03)
    parser.add_argument("--rate", type=float, default=60.0)
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve(given.serve, given.wait, given.rate)
    else:
        main(given.rows, given.runs, given.wait, given.rate)
