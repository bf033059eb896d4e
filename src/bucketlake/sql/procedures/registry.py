"""What a procedure is: one declaration, from which parsing, errors, sys.help and docs/sql/procedures.md follow."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bucketlake.values import dataclass

if TYPE_CHECKING:
    from bucketlake.spark.session import Lake

Arguments = Mapping[str, str]  # those that are given and not empty, as texts of their kinds
Rows = Sequence[tuple[Any, ...]]
Run = Callable[["Lake", Arguments], Rows]
DONE: Rows = [(True,)]
PAIRS = "\x1f"  # between the pairs of a map: their values may hold commas
RESULT = "result boolean"  # the columns of those that only say that they did it


@dataclass(frozen=True, slots=True)
class Argument:
    """One parameter. `kind`: string, boolean, int, bigint or map (`key=value` with `PAIRS` between them); `engine`:
    "flink" for one that Spark's procedure has not, "" for all others; `alias`: what Flink calls it."""

    name: str
    doc: str
    kind: str = "string"
    required: bool = False
    default: str | None = None
    engine: str = ""
    alias: str = ""

    @property
    def key(self) -> str:
        """What tells it from others: the engines write consumerId and consumer_id."""
        return argument_key(self.name)


def argument_key(name: str) -> str:
    """A parameter's name without what the engines write differently."""
    return name.replace("_", "").lower()


@dataclass(frozen=True, slots=True)
class Procedure:
    """`arguments`: in Spark's order, then those of Flink alone; `flink`: Flink's order by name, where it differs.
    `columns`: of the result, as DDL. `check` raises InvalidError for arguments that cannot be meant. `missing`: why it
    is not built, "" where it is; `engines`: which of Paimon's have it."""

    name: str
    doc: str
    arguments: tuple[Argument, ...]
    run: Run | None = None
    columns: str = RESULT
    check: Callable[[Arguments], None] = lambda given: None
    flink: tuple[str, ...] = ()
    missing: str = ""
    engines: str = "Spark, Flink"

    @property
    def spark(self) -> tuple[str, ...]:
        """Parameters by place, as Spark has them."""
        return tuple(argument.name for argument in self.arguments if not argument.engine)

    @property
    def required(self) -> tuple[str, ...]:
        """Parameters that must be given."""
        return tuple(argument.name for argument in self.arguments if argument.required)

    def argument(self, name: str) -> Argument | None:
        """The parameter of a name, in either engine's spelling."""
        key = argument_key(name)
        found = next((argument for argument in self.arguments if argument.key == key), None)
        return found or next((a for a in self.arguments if a.alias and argument_key(a.alias) == key), None)


TABLE = Argument("table", "the table, or a branch of it: `db.t$branch_b`", required=True)
PARTITIONS = Argument(
    "partitions", "specs of partitions, of all or some of their columns: `dt=2024-01-01,hh=1;dt=2024-01-02`"
)
WHERE = Argument("where", "a condition over partition columns; not together with `partitions`")
OPTIONS = Argument("options", "options of the table for this call: `k1=v1,k2=v2`")
RETAINED = Argument("time_retained", "how long the tag is kept, such as `7 d`; for ever if left out")
