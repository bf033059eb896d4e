"""Tables whose compactions are recorded: their options and their statements, drawn from a seed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

DATABASE = "picks"
WRITE_ONLY = "/*+ OPTIONS('write-only' = 'true') */ "


@dataclass(frozen=True)
class Case:
    """One table. `steps`: statements; `deletes`: whether it takes DELETE; `compact_every`: instead of that many
    statements' last one, a compaction procedure of `strategy`, twice, and once more after a DELETE; `write_only`:
    writers do not compact."""

    name: str
    covers: str
    options: dict[str, str] = field(default_factory=dict)
    steps: int = 30
    deletes: bool = True
    partitioned: bool = False
    compact_every: int = 0
    strategy: str = "full"
    write_only: bool = False

    def create(self) -> str:
        """CREATE TABLE."""
        options = {"bucket": "1"} | self.options
        listed = ", ".join(f"'{key}' = '{value}'" for key, value in options.items())
        part = " PARTITIONED BY (p)" if self.partitioned else ""
        key = "p, k" if self.partitioned else "k"
        columns = f"p INT, k BIGINT, v STRING, PRIMARY KEY ({key}) NOT ENFORCED"
        return f"CREATE TABLE `{self.name}` ({columns}){part} WITH ({listed})"

    def statements(self) -> Iterator[tuple[str, str]]:
        """(kind of step, statement): rows of new keys and of old ones, few and many, now and then a DELETE."""
        chance, fresh = random.Random(self.name), 1000
        for number in range(self.steps):
            if self.compact_every and number % self.compact_every == self.compact_every - 1:
                call = f"CALL sys.compact(`table` => '{DATABASE}.{self.name}', compact_strategy => '{self.strategy}')"
                yield self.strategy, call
                yield self.strategy, call
                if self.deletes and not self.write_only:
                    yield "write", f"DELETE FROM `{self.name}` WHERE k BETWEEN {fresh - 9} AND {fresh - 3}"
                    yield self.strategy, call
                continue
            count = max(1, min(500, int(chance.lognormvariate(3, 1.5))))
            if chance.random() < 0.35:
                keys, fresh = list(range(fresh, fresh + count)), fresh + count
            else:
                low = chance.randrange(max(1, fresh - count))
                keys = sorted(chance.sample(range(low, low + 4 * count), count))
            kind, hint = ("write-only", WRITE_ONLY) if self.write_only else ("write", "")
            if self.deletes and not self.write_only and chance.random() < 0.12:
                yield kind, f"DELETE FROM `{self.name}` WHERE k BETWEEN {keys[0]} AND {keys[-1]}"
                continue
            rows = ", ".join(
                f"({key % 2 if self.partitioned else 0}, {key}, '{chance.randbytes(chance.randrange(4, 24)).hex()}')"
                for key in keys
            )
            yield kind, f"INSERT INTO `{self.name}` {hint}VALUES {rows}"


def _case(name: str, covers: str, **more: object) -> Case:
    """Keywords that are no field of Case are options, with __ for a dot and _ for a dash."""
    fields = {key: more.pop(key) for key in list(more) if key in Case.__dataclass_fields__}
    options = {key.replace("__", ".").replace("_", "-"): str(value) for key, value in more.items()}
    return Case(name, covers, options, **fields)  # type: ignore[arg-type]


TRIGGER = {"num_sorted_run__compaction_trigger": 3}
LOOKUP = {"changelog_producer": "lookup"}
VECTORS = {"deletion_vectors__enabled": "true"}
CASES = [
    _case("defaults", "no option set", steps=40),
    _case("trigger", "runs, 3", steps=40, **TRIGGER),
    _case("trigger_2", "runs, 2, with 8 levels", num_sorted_run__compaction_trigger=2, num_levels=8),
    _case("size_ratio", "size ratio of 60 percent", compaction__size_ratio=60, **TRIGGER),
    _case("amplification", "size amplification of 20 percent", compaction__max_size_amplification_percent=20),
    _case("levels_3", "fewer levels than runs", num_levels=3),
    _case(
        "levels_12", "many levels, no full compaction by size", steps=50, num_levels=12,
        compaction__max_size_amplification_percent=5000, num_sorted_run__compaction_trigger=4,
    ),
    _case("never", "a size amplification that is never reached", compaction__max_size_amplification_percent=2147483647),
    _case("buckets", "partitions and buckets", partitioned=True, bucket=2, **TRIGGER),
    _case(
        "large_files", "files large enough to be moved, not rewritten", steps=40, target_file_size="6 kb",
        compaction__max_size_amplification_percent=400, **TRIGGER,
    ),
    _case("small_ratio", "the share of the target size that is small", compaction__small_file_ratio=0.0001, **TRIGGER),
    _case("off_peak", "quiet hours over midnight, all but one", compaction__offpeak__start__hour=4,
          compaction__offpeak__end__hour=3, compaction__offpeak_ratio=80, **TRIGGER),
    _case("force_level_0", "level 0 always taken in", compaction__force_up_level_0="true", num_levels=8),
    _case("interval", "in full once an hour", steps=12, compaction__optimization_interval="1 h"),
    _case("total_size", "in full as long as the bucket is small", compaction__total_size_threshold="12 kb"),
    _case("incremental_size", "in full as soon as enough is new", compaction__incremental_size_threshold="9 kb"),
    _case("delta_commits", "in full at every batch commit", steps=10, full_compaction__delta_commits=3),
    _case("full_changelog", "changelog producer full-compaction", steps=15, changelog_producer="full-compaction"),
    _case("lookup", "changelog producer lookup", steps=40, num_levels=6, **LOOKUP),
    _case("lookup_large", "the same with files that are moved", target_file_size="3 kb", **LOOKUP, **TRIGGER),
    _case("lookup_partial", "the same, rows computed", deletes=False, merge_engine="partial-update",
          compaction__small_file_ratio=0.0001, **LOOKUP),
    _case("lookup_formats", "the same, level 0 in avro", file__format__per__level="0:avro",
          compaction__small_file_ratio=0.0001, **LOOKUP),
    _case("lookup_gentle", "gentle: level 0 may wait", lookup_compact="gentle", **LOOKUP, **TRIGGER),
    _case("force_lookup", "lookup without a changelog", steps=20, force_lookup="true"),
    _case("vectors", "deletion vectors", steps=40, **VECTORS),
    _case("vectors_large", "deletion vectors, files that are moved, full compactions between", compact_every=8,
          steps=40, target_file_size="3 kb", **VECTORS, **TRIGGER),
    _case("first_row", "first-row", deletes=False, merge_engine="first-row", **TRIGGER),
    _case("full", "full compactions between", compact_every=5, target_file_size="3 kb"),
    _case("rewrite_all", "full compactions that rewrite all files", compact_every=4, steps=24,
          compaction__force_rewrite_all_files="true", target_file_size="3 kb"),
    _case("minor", "many runs at once", write_only=True, compact_every=9, strategy="minor", steps=54),
    _case("minor_large", "many runs at once, files that are moved", write_only=True, compact_every=7, steps=42,
          strategy="minor", target_file_size="3 kb", num_levels=9, compaction__max_size_amplification_percent=900),
]  # fmt: skip
