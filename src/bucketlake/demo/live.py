"""The live part of the tour: corrections stream into a board of one day's flights, and what they change streams out.

Nothing here is special to the demo: `write_stream` writes each micro-batch as one commit, `process_stream` gives each
batch of changes to a function, with the row as it was and as it is.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from bucketlake.env.env import new_scratch_folder
from bucketlake.env.local import LocalStorage

if TYPE_CHECKING:
    from bucketlake.demo.screen import Screen
    from bucketlake.spark.session import Lake

TABLES = ("board", "corrections")
ROUNDS = (("EWR", 15), ("LGA", 30), ("JFK", 45))
SHOWN = 3
PATIENCE = 25.0  # seconds, after which the tour goes on
DAY = "month = 12 AND day = 24"


def live(lake: Lake, screen: Screen) -> None:
    """Corrections in, changes out, while both queries run."""
    folder, seen = new_scratch_folder(), Seen()
    with screen.step("A board of the flights of 24 December, with a changelog"):
        lake.sql("""
            CREATE TABLE board (origin STRING, carrier STRING, flight INT, dest STRING, arr_delay INT)
            TBLPROPERTIES ('primary-key' = 'origin,carrier,flight', 'bucket' = '1', 'changelog-producer' = 'lookup')
        """)
        lake.sql("CREATE TABLE corrections (origin STRING, carrier STRING, flight INT, dest STRING, arr_delay INT)")
        lake.sql(f"INSERT INTO board SELECT origin, carrier, flight, dest, arr_delay FROM flights WHERE {DAY}")
    board, corrections = lake.table("board"), lake.table("corrections")
    changes = board.process_stream(
        seen.take,
        f"{folder}/changes",
        trigger={"processingTime": "200 ms"},
        read_changelog=True,
        scan_snapshot_id=board.snapshots()[-1].id + 1,  # said here: "latest" is what is there when the query gets to it
    )
    arriving = corrections.read_stream()
    query = board.write_stream(arriving, f"{folder}/board", trigger={"processingTime": "1 second"})
    try:
        with screen.step("Corrections stream in, changes stream out"):
            clock = lake.catalog.env.clock
            until = clock.now_millis() / 1000 + PATIENCE
            for number, (origin, delay) in enumerate(ROUNDS, 1):
                lake.sql(f"""
                    INSERT INTO corrections SELECT origin, carrier, flight, dest, {delay} FROM board
                    WHERE origin = '{origin}' AND arr_delay IS NULL OR origin = '{origin}' AND arr_delay > 60
                    ORDER BY carrier, flight LIMIT {SHOWN}
                """)
                if not seen.wait(number, until - clock.now_millis() / 1000):
                    break
    finally:
        query.stop()
        changes.stop()
        LocalStorage().delete_tree(folder)
    tell(screen, seen.rows())


def tell(screen: Screen, rows: list[list[str]]) -> None:
    """What came, or that nothing did in time."""
    if rows:
        screen.grid(("", "from", "flight", "to", "late by"), rows, "What the changelog told, as it came")
    else:
        screen.say(f"No change came within {PATIENCE:.0f} seconds: this machine has much else to do. The tour goes on.")


class Seen:
    """Changes as they come, by the airport that they are of."""

    def __init__(self) -> None:
        self._told: list[list[str]] = []
        self._changed = threading.Condition()

    def take(self, frame: Any, number: int) -> None:
        """One batch of changes."""
        rows = frame.select("rowkind", "origin", "carrier", "flight", "dest", "arr_delay").collect()
        with self._changed:
            for kind, origin, carrier, flight, dest, delay in rows:
                late = "never arrived" if delay is None else f"{delay} min"
                self._told.append([kind, origin, f"{carrier} {flight}", dest, late])
            self._changed.notify_all()

    def wait(self, rounds: int, seconds: float) -> bool:
        """Whether so many airports' changes have come, within so many seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: len({row[1] for row in self._told}) >= rounds, seconds)

    def rows(self) -> list[list[str]]:
        """All that came."""
        return list(self._told)
