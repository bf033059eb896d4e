"""Progress of long operations: counts, time left, and a line of text for whoever looks."""

from __future__ import annotations

import io

from tests.sim.clock import FakeClock

from bucketlake.ops.progress import Bar, Meter, Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_meter_counts_and_tells() -> None:
    seen: list[Progress] = []
    clock = FakeClock()
    meter = Meter("compact", "db.t", clock, seen.append)
    meter.expect(units=4, rows=100, bytes=1000)
    clock.sleep(10)
    meter.add(rows=25, bytes=500)
    assert (seen[-1].units, seen[-1].rows, seen[-1].share) == (1, 25, 0.5)
    assert round(seen[-1].seconds) == 10 and round(seen[-1].seconds_left or 0) == 10
    meter.commit()
    meter.lose(2)
    meter.finish()
    assert (seen[-1].commits, seen[-1].lost, seen[-1].done, seen[-1].share) == (1, 2, True, 1.0)
    assert len(seen) == 5


def test_nobody_listens_nobody_pays() -> None:
    clock = FakeClock()
    before = clock.millis
    meter = Meter("compact", "db.t", clock)
    meter.add(rows=5)
    assert meter.finish().rows == 5 and clock.millis == before


def test_what_is_not_known_is_not_told() -> None:
    assert Progress("expire", "t", units=3).share is None
    assert Progress("expire", "t", units=3).seconds_left is None
    assert "of" not in str(Progress("expire", "t", units=3))
    assert "3 of 4 units, 1,000 rows, 2.0 KiB" in str(Progress("compact", "t", 3, 4, 1000, 0, 2048, 0))


def test_a_bar_is_for_terminals() -> None:
    pipe, terminal = io.StringIO(), Terminal()
    for stream in (pipe, terminal):
        bar = Bar(stream)
        bar(Progress("compact", "db.t", 1, 2, seconds=1.0))
        bar(Progress("compact", "db.t", 1, 2, seconds=1.05))  # too soon
        bar(Progress("compact", "db.t", 2, 2, seconds=1.06, done=True))
    assert pipe.getvalue() == ""
    shown = terminal.getvalue().split("\r")[1:]
    assert len(shown) == 2 and " 50%" in shown[0] and shown[1].endswith("\n")
