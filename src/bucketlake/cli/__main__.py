"""`python -m bucketlake.cli`: the command where no script was installed."""

from __future__ import annotations

import sys

from bucketlake.cli import main

if __name__ == "__main__":
    sys.exit(main())
