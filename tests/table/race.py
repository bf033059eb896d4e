"""A process that races others for one table's name: it writes, keeps up, reads, or takes the table away and makes
another in its place. What it does, and what became of it, it writes down.

    python -m tests.table.race ROLE SEED ROUNDS WAREHOUSE JOURNAL

Each table that is made has a number, its comment, which its rows carry: a row of another number in it is one of another
table.
"""

from __future__ import annotations

import json
import os
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

import bucketlake
from bucketlake.catalog import Catalog
from bucketlake.errors import (
    AlreadyExistsError,
    BucketlakeError,
    CommitError,
    CommitUnknownError,
    ConflictError,
    InvalidError,
    NotFoundError,
)
from bucketlake.schema.change import SetOption
from bucketlake.table import Table

NAME = "db.t"
TYPES = {"id": pa.int64(), "made": pa.int32(), "w": pa.int32(), "s": pa.string()}
KINDS: list[tuple[list[str], list[str], dict[str, str]]] = [  # partition keys, primary keys, options
    ([], [], {}),
    ([], [], {"deletion-vectors.enabled": "true"}),
    ([], [], {"row-tracking.enabled": "true"}),
    ([], [], {"bucket": "2", "bucket-key": "id"}),
    (["w"], ["id", "w"], {"bucket": "2"}),
    ([], ["id"], {"bucket": "1", "changelog-producer": "lookup"}),
    (["w"], ["id", "w"], {"bucket": "-1", "dynamic-bucket.target-row-num": "20"}),
    (["w"], ["id"], {"bucket": "-1"}),
    ([], ["id"], {"bucket": "-2"}),
]
COMMON = {"snapshot.num-retained.max": "50", "snapshot.num-retained.min": "1", "commit.max-retries": "30"}
LOST_RACES = (NotFoundError, ConflictError, CommitError, AlreadyExistsError)
STANDS = ("has no snapshot, no need to", "new bucket num")  # refusals of what the others did before


class Racer:
    """One process. `chance` chooses; `say` writes a line of the journal."""

    def __init__(self, role: str, seed: int, warehouse: Path, journal: Path) -> None:
        self.role, self.warehouse = role, warehouse
        self.chance = random.Random(f"{seed} {role}")
        self.catalog: Catalog = bucketlake.open(warehouse)
        self._journal = (journal / f"{role}-{os.getpid()}").open("a", buffering=1)

    def say(self, what: str, **more: Any) -> None:
        """Write down what is begun, done, or wrong."""
        self._journal.write(json.dumps({"what": what, **more}) + "\n")

    def run(self, rounds: int) -> None:
        """Act so often. What loses a race says so by its kind of error; any other is a fault."""
        act: Callable[[int], None] = getattr(self, self.role.rstrip("0123456789"))
        for number in range(rounds):
            try:
                act(number)
            except LOST_RACES as error:
                self.say("lost", error=f"{type(error).__name__} {error}")
            except InvalidError as error:
                if not any(known in str(error) for known in STANDS):
                    self.say("fault", error=f"{self.role}: {error}")
            except Exception as error:
                self.say("fault", error=f"{self.role}: {type(error).__name__} {error}")

    def opened(self) -> tuple[Table, int]:
        """The table that has the name now, and its number."""
        table = self.catalog.table(NAME)
        return table, int(table.schema.comment or -1)

    # ---- roles

    def writer(self, number: int) -> None:
        """Append or upsert rows of its own; sometimes delete one."""
        table, made = self.opened()
        ids = [os.getpid() * 10**6 + 10 * number + i for i in range(self.chance.choice([1, 1, 3]))]
        columns = {"id": ids, "made": [made] * len(ids), "w": [self.chance.randrange(3)] * len(ids)}
        columns["s"] = [f"s{i}" for i in ids]
        names = [item.name for item in table.schema.fields]
        try:
            table.write_arrow(pa.table({name: pa.array(columns[name], TYPES[name]) for name in names}))
        except CommitUnknownError:
            return
        except BucketlakeError as error:
            self.say("maybe" if "committed" in str(error) else "refused", made=made, ids=ids)
            raise
        self.say("put", made=made, ids=ids)
        if self.chance.random() < 0.3:
            self.say("maybe", made=made, ids=ids[:1])
            if self.chance.random() < 0.5 or self.opened()[1] == made:
                table.delete(f"id = {ids[0]}")
                self.say("deleted", made=made, ids=ids[:1])

    def keeper(self, number: int) -> None:
        """Compact, rescale, expire, tag, alter, clean."""
        table, _ = self.opened()
        buckets = self.chance.choice([1, 2, 3])
        actions: list[Callable[[], Any]] = [
            table.compact,
            lambda: table.compact(full=False),
            lambda: table.expire_snapshots(retain_max=self.chance.choice([1, 3]), retain_min=1),
            table.compact_manifests,
            table.remove_orphan_files,
            lambda: (table.create_tag(f"x{number}"), table.delete_tag(f"x{number}")),
            lambda: table.alter(SetOption("snapshot.num-retained.max", str(self.chance.randrange(50, 90)))),
        ]
        if int(table.options.get("bucket")) > 0:
            actions.append(lambda: (table.rescale(buckets), table.alter(SetOption("bucket", str(buckets)))))
        self.chance.choice(actions)()

    def reader(self, number: int) -> None:
        """Read; all rows are of the table that was opened, and no key is there twice."""
        table, made = self.opened()
        rows = table.to_arrow(columns=list(TYPES)).to_pylist()
        wrong = [row for row in rows if row["made"] != made or row["s"] != f"s{row['id']}"]
        if wrong or len({row["id"] for row in rows}) < len(rows):
            self.say("fault", error=f"read of {made}: {wrong[:3] or 'a key twice'}")

    def dropper(self, number: int) -> None:
        """Drop the table, put it away under another name, or take it away and back; make another where none is."""
        try:
            table, made = self.opened()
        except NotFoundError:
            self.make(number + 1)
            return
        what = self.chance.choice(["drop", "keep", "away", "read"])
        if what == "drop":
            self.catalog.drop_table(NAME)
        elif what == "keep":
            self.catalog.rename_table(NAME, f"db.kept_{made}")
        elif what == "away":
            self.catalog.rename_table(NAME, "db.aside")
            self.catalog.rename_table("db.aside", NAME)
        else:
            table.to_arrow()
            return
        if what != "away":
            self.make(number + 1)

    def make(self, number: int) -> None:
        """Make the table, of some kind, with its columns in some order."""
        partitions, keys, options = self.chance.choice(KINDS)
        order = self.chance.sample(list(TYPES), len(TYPES))
        fields = [pa.field(name, TYPES[name], name not in ("id", "w")) for name in order]
        stored = {**COMMON, **options}
        self.catalog.create_table(NAME, pa.schema(fields), partitions, keys, stored, comment=str(number))


if __name__ == "__main__":
    role, seed, rounds, warehouse, journal = sys.argv[1:]
    Racer(role, int(seed), Path(warehouse), Path(journal)).run(int(rounds))
