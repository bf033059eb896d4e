"""A year of flights in a lake, as `bucketlake demo` shows it: `src/bucketlake/demo/flights.py` is what to read.

Run it with `make demo`, or `bucketlake demo` where `bucketlake[spark,demo]` is installed.
"""

from __future__ import annotations

import sys

from bucketlake.cli import main

if __name__ == "__main__":
    place = ["--warehouse", sys.argv[1]] if len(sys.argv) > 1 else []
    sys.exit(main(["demo", *place, "--again"]))
