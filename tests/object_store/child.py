"""A writer in a process of its own: `child.py {"warehouse": …, "options": …, "action": …, …}`."""

from __future__ import annotations

import json
import os
import signal
import sys
from dataclasses import dataclass
from typing import Any, BinaryIO

import pyarrow as pa

import bucketlake
from bucketlake.env.env import Env
from bucketlake.env.object_store import ObjectStorage
from bucketlake.table import open_table


@dataclass(frozen=True, slots=True)
class DyingStorage(ObjectStorage):
    """The process is killed when it publishes ("before", "after") or opens its second data file ("between")."""

    moment: str = ""
    opened: Any = None

    def put_if_absent(self, path: str, data: bytes) -> bool:
        if self.moment == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        done = ObjectStorage.put_if_absent(self, path, data)
        if self.moment == "after":
            os.kill(os.getpid(), signal.SIGKILL)
        return done

    def open_output(self, path: str) -> BinaryIO:
        self.opened.append(path)
        if self.moment == "between" and sum("/data-" in name for name in self.opened) == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return ObjectStorage.open_output(self, path)


def main(given: dict[str, Any]) -> None:
    catalog = bucketlake.open(given["warehouse"], given["options"])
    table = catalog.table("t")
    if given["action"] == "die":
        known = catalog.env.storage
        assert isinstance(known, ObjectStorage)
        table = open_table(table.path, Env(DyingStorage(known.url, known.options, given["moment"], [])), name="t")
        table.write_arrow(pa.table({"k": range(4000), "v": [-1] * 4000}))
        return
    sys.stdin.readline()  # until all are ready
    for turn in range(given["turns"]):
        keys = list(range(turn, 40, 2))
        table.write_arrow(pa.table({"k": keys, "v": [given["number"] * 100 + turn] * len(keys)}))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
