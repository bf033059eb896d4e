"""Times of files, which Paimon stores as milliseconds of the local wall clock, and epoch milliseconds."""

from __future__ import annotations

import time
from datetime import datetime, timedelta

from bucketlake.types.wall_clock import epoch_of


def local_from_epoch(epoch_millis: int) -> int:
    """The wall clock of this machine's zone at an instant, as milliseconds; Paimon stores creation times so."""
    return epoch_millis + time.localtime(epoch_millis // 1000).tm_gmtoff * 1000


def local_to_epoch(local_millis: int) -> int:
    """Epoch milliseconds of a file's creation time, which Paimon stores as local wall clock."""
    return epoch_of(datetime(1970, 1, 1) + timedelta(milliseconds=local_millis))
