"""`python -m bucketlake`: the command where no script is on the path."""

from __future__ import annotations

import sys

from bucketlake.cli import main

if __name__ == "__main__":
    sys.exit(main())
