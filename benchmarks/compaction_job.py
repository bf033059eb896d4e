"""What commits on the way cost a compaction: `python -m benchmarks.compaction_job [rows] [rounds]`.

One table of 64 buckets, four sorted runs each, in one process; copies of it are compacted in turns with one commit at
the end, and with one for about every second of work. Prints core seconds, medians with their spread, and the share.
"""

from __future__ import annotations

import os
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

import bucketlake
from bucketlake.ops.table.store import clear_cache

COLUMNS = pa.schema([("k", pa.int64()), ("value", pa.int64()), ("text", pa.string()), ("x", pa.float64())])
WAYS = {"one commit": "1 h", "every second": "1 s"}


def main() -> None:
    """Build, copy, compact."""
    rows, rounds = (list(map(int, sys.argv[1:])) + [6_000_000, 4][len(sys.argv) - 1 :])[:2]
    print(f"load {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory() as root:
        options = {"bucket": "64", "write-only": "true", "target-file-size": "1 gb"}
        table = bucketlake.open(root).create_table("t", COLUMNS, primary_keys=["k"], options=options)
        chance = np.random.default_rng(3)
        for _ in range(4):
            keys = chance.choice(rows, rows // 4, replace=False)
            texts = pa.array(keys % 9973).cast(pa.string())
            table.write_arrow(pa.table([keys, keys * 7, texts, chance.random(len(keys))], schema=COLUMNS))
        taken: dict[str, list[float]] = {name: [] for name in WAYS}
        commits: dict[str, int] = {}
        for turn in range(rounds + 1):
            for name, interval in WAYS.items():
                copy = Path(root) / f"{turn}-{interval[-1]}"
                shutil.copytree(table.path, copy / "default.db" / "t")
                found, _ = bucketlake.open(str(copy)).table("t"), clear_cache()
                before, start = found.latest_snapshot(), time.process_time()
                after = found.compact(**{"compaction.commit-interval": interval})
                if turn:
                    taken[name].append(time.process_time() - start)
                assert before is not None
                assert after is not None
                commits[name] = after.id - before.id
                shutil.rmtree(copy)
        for name, values in taken.items():
            told = f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f}) core s"
            print(f"{name}: {commits[name]} commits, {told}")
        one, many = (statistics.median(values) for values in taken.values())
        extra = (many - one) / (commits["every second"] - commits["one commit"])
        print(f"share {many / one - 1:.1%}, {extra * 1000:.0f} ms a commit; load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
