"""`python -m benchmarks.run --scale 1`: measure, print ratios to the floors beside the marks, write JSON."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from benchmarks.data import lineitem
from benchmarks.measure import Measurements
from benchmarks.spark_bench import SparkBench


def main() -> None:
    """Run the benchmarks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="TPC-H scale factor; 1 is 6.0M rows")
    parser.add_argument("--runs", type=int, default=3, help="runs a case; medians count")
    cases = "append, filtered, keyed, upserts, compaction, small, inline, vectors, dynamic, cross, postpone, rescale"
    parser.add_argument("--only", default="", help=f"comma-separated: {cases}, sorted")
    parser.add_argument("--memory", default="6g", help="memory of the Spark driver")
    parser.add_argument("--json", type=Path, default=Path("benchmarks/data/results.json"))
    parser.add_argument("--unpaired", action="store_true", help="measure the floors once, not before every run")
    arguments = parser.parse_args()
    source = lineitem(arguments.scale)
    measurements = Measurements(arguments.runs, not arguments.unpaired)
    with tempfile.TemporaryDirectory(prefix="bucketlake-bench-") as folder:
        bench = SparkBench(source, Path(folder), measurements, arguments.memory)
        if arguments.only:
            bench.floors()
            for name in arguments.only.split(","):
                getattr(bench, name)()
        else:
            bench.run()
            bench.verify()
        bench.lake.spark.stop()
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    measurements.write(arguments.json, scale=arguments.scale)
    print(f"written to {arguments.json}")


if __name__ == "__main__":
    main()
