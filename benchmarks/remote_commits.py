"""How long small writes and reads of an object store take, whose every request waits, and how many requests they are.

python -m benchmarks.remote_commits [--wait 0.03] [--runs 5]

moto's S3 as a process of this machine answers each request after `wait` seconds. "turns": the time over the wait, that
is about how many requests follow one another. The tables have one bucket and files of 1,000 rows.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa

import bucketlake

ROWS = 1000
SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.float64())])
COUNT = "/-/count"


def serve(wait: float) -> None:
    """The store: prints its port; `GET /-/count` gives the number of requests since it was asked last."""
    from moto.server import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server

    inner, asked = DomainDispatcherApplication(create_backend_app), [0]

    def application(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        if environ["PATH_INFO"] == COUNT:
            data, asked[0] = json.dumps(asked[0]).encode(), 0
            start_response("200 OK", [("Content-Length", str(len(data)))])
            return [data]
        asked[0] += 1
        time.sleep(wait)
        answer: Iterable[bytes] = inner(environ, start_response)
        return answer

    server = make_server("127.0.0.1", 0, application, threaded=True)
    print(server.server_port, flush=True)
    server.serve_forever()


@contextmanager
def served(wait: float) -> Iterator[str]:
    """The address of a store with a bucket named `lake`."""
    command = [sys.executable, "-m", "benchmarks.remote_commits", "--serve", "--wait", str(wait)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        try:
            endpoint = f"http://127.0.0.1:{int(process.stdout.readline())}"
            urllib.request.urlopen(urllib.request.Request(f"{endpoint}/lake", method="PUT")).read()
            yield endpoint
        finally:
            os.kill(process.pid, signal.SIGKILL)


def some(number: int, step: int) -> pa.Table:
    """The rows of one file, whose keys begin at so many steps."""
    keys = np.arange(ROWS) + number * step
    return pa.table({"k": keys, "v": np.random.default_rng(number).random(ROWS)}, schema=SCHEMA)


def measure(endpoint: str, wait: float, runs: int) -> None:
    """Run all cases."""
    options = {"s3.endpoint": endpoint, "s3.access-key": "a", "s3.secret-key": "b", "s3.path.style.access": "true"}
    catalog = bucketlake.open("s3://lake/wh", options)
    keyed: dict[str, Any] = {"primary_keys": ["k"], "options": {"bucket": "1", "write-only": "true"}}
    append, upsert, apart, met = (
        catalog.create_table(name, SCHEMA, **how)
        for name, how in [("append", {}), ("upsert", keyed), ("apart", keyed), ("met", keyed)]
    )
    for number in range(8):
        apart.write_arrow(some(number, ROWS))
        met.write_arrow(some(number, ROWS))
        met.write_arrow(some(number, ROWS + ROWS // 2))

    def show(case: str, action: Callable[[int], object]) -> None:
        action(0)
        times, requests = [], 0
        for number in range(1, runs + 1):
            urllib.request.urlopen(endpoint + COUNT).read()
            started = time.perf_counter()
            action(number)
            times.append(time.perf_counter() - started)
            requests = json.loads(urllib.request.urlopen(endpoint + COUNT).read())
        middle = statistics.median(times)
        spread = f"({1000 * min(times):.0f} to {1000 * max(times):.0f})"
        print(f"{case:32} {1000 * middle:5.0f} ms {spread:16} {middle / wait:5.1f} turns {requests:3} requests")

    show("append", lambda number: append.write_arrow(some(number, ROWS)))
    show("upsert", lambda number: upsert.write_arrow(some(number, ROWS // 2)))
    show("delete of a key", lambda number: upsert.delete(f"k = {number}"))
    show("read of 8 files apart", lambda _: apart.to_arrow())
    show("read of 16 files that meet", lambda _: met.to_arrow())
    show("open and read of 8 files", lambda _: catalog.table("apart").to_arrow())


def main() -> None:
    """Run the benchmark, or with `--serve` its store."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--wait", type=float, default=0.03, help="seconds before each answer")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve(given.wait)
        return
    with served(given.wait) as endpoint:
        measure(endpoint, given.wait, given.runs)


if __name__ == "__main__":
    main()
