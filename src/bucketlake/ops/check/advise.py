"""What would make a table better, from its metadata and its own history: each piece of advice with what was measured,
the threshold, and the steps that mend it.

    advise_table(store, name) -> [Advice]      the most pressing first

Spec: docs/maintenance.md#advice
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from bucketlake.amounts import size_text
from bucketlake.errors import NotFoundError
from bucketlake.format.metadata.manifest import DataFile, FileKind
from bucketlake.format.metadata.snapshot import CommitKind, Snapshot
from bucketlake.format.metadata.stats import stats_of
from bucketlake.lsm.compaction import CompactionRule
from bucketlake.lsm.levels import key_range_of, sections
from bucketlake.ops.check.remedy import Call, Statement, Step, identifier, pairs, set_options
from bucketlake.ops.check.usage import HISTORY, Usage, usage
from bucketlake.ops.rescale.advise import BucketAdvice, advise, can_rescale, recommended
from bucketlake.ops.rows.roll import TARGET_APPEND, TARGET_KEYED
from bucketlake.ops.scan.scan import EntryFilter, delta_entries, live_entries
from bucketlake.ops.system.partition_texts import default_name
from bucketlake.ops.table.entries import BucketKey, bucket_key, by_bucket, created_millis
from bucketlake.ops.table.store import Store
from bucketlake.redaction import is_secret
from bucketlake.schema.schema import BucketMode
from bucketlake.types.model import Root, quote_identifier, quote_text
from bucketlake.values import dataclass

SMALL_FILES = 20  # below a quarter of the target, of one partition
SMALL_PARTITIONS = 500  # that hold less than a quarter of the target, and are most of them
ALIKE = 20  # pieces of advice of one topic that are told one by one
MERGED_SHARE = 0.5  # of the bytes must be merged to be read
REWRITTEN = 8.0  # bytes compacted for each byte written
SKEW = 2.0  # the largest bucket over the mean
HISTORY_SHARE = 1.0  # bytes of older snapshots over those of the newest
HELD_SHARE = 0.25  # of the table's bytes, by one tag or branch
ORPHAN_SHARE = 0.1
HOT_SHARE = 0.5  # of the rows written, in one of many partitions
RIVALS_SHARE = 0.25  # of the commits hold files of a bucket from before another writer's commit to it
STATISTICS_AGE = 0.5  # of the rows changed since statistics were taken
OVERLAP = 0.8  # of the files that a value may be in, for every column
RECENT = 100  # snapshots that are looked at
_UNKNOWN = 1 << 63  # when a file was whole: behind every commit
FEW = 10  # files, partitions or commits that say nothing yet
PRUNED = (Root.TINYINT, Root.SMALLINT, Root.INT, Root.BIGINT, Root.DATE, Root.CHAR, Root.VARCHAR, Root.DECIMAL)
LITTLE = 1 << 20  # below it no share of bytes is worth a word
_CUTS = frozenset(",;")  # what ends a value in a spec of partitions
# Options of one table's place and of its partitions, by their prefixes: one made anew from it has its own.
_OWN = ("partition.", "data-file.external-paths", "data-file.path-directory", "global-index.external-path")


@dataclass(frozen=True, slots=True)
class Advice:
    """One piece of advice. `measure` beyond `threshold` gave rise to it; `steps`: what mends it, one after the other;
    none where nothing does but a change of what is written."""

    topic: str
    partition: str | None
    measure: float
    threshold: float
    reason: str
    steps: tuple[Step, ...] = ()

    def __repr__(self) -> str:
        where = f", partition={self.partition!r}" if self.partition is not None else ""
        measured = f"measure={self.measure!r}, threshold={self.threshold!r}"
        return f"Advice({self.topic!r}, {self.reason!r}, {measured}{where}, command={self.command!r})"

    @property
    def command(self) -> str | None:
        """The steps as SQL, `; ` between them."""
        return "; ".join(step.sql for step in self.steps) or None

    @property
    def pressing(self) -> float:
        """How far beyond the threshold."""
        return self.measure / self.threshold if self.threshold else self.measure


def advise_table(store: Store, name: str) -> list[Advice]:
    """Advice on the newest snapshot and the recent history. Errors: those of reading metadata."""
    snapshot = store.latest_snapshot()
    if snapshot is None:
        return []
    topics: dict[str, list[Advice]] = {}
    for one in sorted(_Look(store, name, snapshot).found(), key=_order):
        topics.setdefault(one.topic, []).append(one)
    return sorted((one for alike in topics.values() for one in _told(alike)), key=_order)


def _order(one: Advice) -> tuple[float, str, bool, str]:
    return -one.pressing, one.topic, one.partition is None, one.partition or ""


def _told(alike: list[Advice]) -> list[Advice]:
    """Advice of one topic, on many partitions: the most pressing one by one, the others as one piece."""
    if len(alike) <= ALIKE + 1:
        return alike
    more = f"{len(alike) - ALIKE:,} more partitions as well: the statements above do for them, with their names"
    return [*alike[:ALIKE], replace(alike[ALIKE], partition=None, reason=more, steps=())]


class _Look:
    def __init__(self, store: Store, name: str, snapshot: Snapshot) -> None:
        self._store, self._snapshot = store, snapshot
        self._name, self._table = name, identifier(name)
        self._keyed = bool(store.schema.primary_keys)
        self._auto = bool(store.options.get("bucket.auto"))
        self._target = int(store.options.get("target-file-size") or (TARGET_KEYED if self._keyed else TARGET_APPEND))
        self._entries = live_entries(store, snapshot, EntryFilter(min_bucket=0))
        self._recent = [one for one in store.snapshots_after(snapshot.id - RECENT) if one.id <= snapshot.id]

    def found(self) -> Iterator[Advice]:
        """All of it."""
        for partition in advise(self._store):
            yield from self._partition(partition)
        yield from self._many()
        yield from self._small()
        yield from self._reading()
        yield from self._writing()
        yield from self._space(usage(self._store))
        yield from self._options()
        yield from self._statistics()
        yield from self._pruning()

    # ---- steps

    def _call(self, procedure: str, **arguments: str | int) -> tuple[Step, ...]:
        return (Call(procedure, tuple(arguments.items()), self._name),)

    def _set(self, **options: str) -> tuple[Step, ...]:
        return (set_options(self._name, options),)

    def _rescale(self, number: int, partition: bytes) -> tuple[tuple[Step, ...], str]:
        """The steps to another number of buckets, and what more is to be said of them: writers of tables with a fixed
        number refuse partitions that have another one than the option says."""
        steps, schema = self._call("rescale", bucket_num=number, **self._of(partition)), self._store.schema
        if schema.bucket_mode is not BucketMode.FIXED or number == schema.bucket or self._auto:
            return steps, ""
        if not schema.partition_keys:
            return (*self._set(bucket=str(number)), *steps), ""
        return steps, f"; writers refuse it then while the option bucket is {schema.bucket}"

    def _of(self, partition: bytes) -> dict[str, str | int]:
        """The argument that names a partition: its spec, or a condition where a text in it would be read otherwise."""
        texts = self._store.paths.shown_texts(partition)
        if all(text == text.strip() and text.strip("'\"") == text and not _CUTS & {*text} for text in texts.values()):
            return {"partitions": ",".join(f"{name}={text}" for name, text in texts.items())} if texts else {}
        default = default_name(self._store)
        named = [(quote_identifier(name), text) for name, text in texts.items()]
        parts = [f"{name} IS NULL" if text == default else f"{name} = {quote_text(text)}" for name, text in named]
        return {"where": " AND ".join(parts)}

    def _text(self, partition: bytes) -> str | None:
        """A partition as people write it; None without partition columns."""
        return "/".join(f"{name}={text}" for name, text in self._store.paths.shown_texts(partition).items()) or None

    # ---- buckets and files

    def _partition(self, one: BucketAdvice) -> Iterator[Advice]:
        text = self._text(one.key)
        if one.recommended != one.buckets:
            away = max(one.recommended / one.buckets, one.buckets / one.recommended)
            steps, more = self._rescale(one.recommended, one.key)
            yield Advice("buckets", text, round(away, 2), 1.0, one.reason + more, steps)
        if one.skew > SKEW and one.buckets > 1 and one.bytes > LITTLE:
            reason = f"the largest of {one.buckets} buckets has {one.skew:.1f} times the mean"
            reason += ": few keys hold much of the data, and no command mends that"
            yield Advice("skew", text, one.skew, SKEW, reason)
        trigger = CompactionRule.of(self._store.options).run_trigger if self._keyed else 0
        if self._keyed and one.sorted_runs > 2 * trigger:
            reason = f"a bucket has {one.sorted_runs} sorted runs, compaction begins at {trigger}"
            steps = self._call("compact", **self._of(one.key))
            yield Advice("sorted-runs", text, one.sorted_runs, 2 * trigger, reason, steps)

    def _small(self) -> Iterator[Advice]:
        if self._keyed:
            return
        groups: dict[bytes, list[DataFile]] = {}
        for entry in self._entries:
            if entry.file.file_size < self._target // 4:
                groups.setdefault(entry.partition, []).append(entry.file)
        for partition, files in groups.items():
            if len(files) > SMALL_FILES:
                mean = sum(file.file_size for file in files) / len(files)
                reason = f"{len(files)} files of {size_text(mean)} on average, {size_text(self._target)} are wanted"
                steps = self._call("compact", **self._of(partition))
                yield Advice("small-files", self._text(partition), len(files), SMALL_FILES, reason, steps)

    def _many(self) -> Iterator[Advice]:
        """Partitions that are too many for what they hold."""
        sums: dict[bytes, tuple[int, int]] = {}
        for entry in self._entries:
            size, rows = sums.get(entry.partition, (0, 0))
            sums[entry.partition] = size + entry.file.file_size, rows + entry.file.row_count
        small = self._are_small(size for size, _ in sums.values())
        if small:
            mean = sum(size for size, _ in sums.values()) / len(sums)
            reason = f"{small:,} of {len(sums):,} partitions hold less than {size_text(self._target / 4)}"
            reason += f", {size_text(mean)} on average: each is planned, opened and compacted by itself"
            reason += "; expire those that nobody reads, or make the table anew with fewer, and check and rename it"
            yield Advice("partitions", None, small, SMALL_PARTITIONS, reason, self._with_fewer(sums))

    def _are_small(self, sizes: Iterable[int]) -> int:
        """How many partitions are small, where these are too many; else 0."""
        each = [size < self._target // 4 for size in sizes]
        return sum(each) if sum(each) > max(SMALL_PARTITIONS, len(each) // 2) else 0

    def _with_fewer(self, sums: dict[bytes, tuple[int, int]]) -> tuple[Step, ...]:
        """What makes the table anew with as many of the leading partition columns as are not too many."""
        schema = self._store.schema
        texts = {partition: tuple(self._store.paths.shown_texts(partition).values()) for partition in sums}
        for length in range(len(schema.partition_keys) - 1, -1, -1):
            groups: dict[tuple[str, ...], tuple[int, int]] = {}
            for partition, (size, rows) in sums.items():
                more = groups.get(texts[partition][:length], (0, 0))
                groups[texts[partition][:length]] = size + more[0], rows + more[1]
            if not self._are_small(size for size, _ in groups.values()):
                break
        options = {key: v for key, v in schema.options.items() if not key.startswith(_OWN) and not is_secret(key)}
        options = {key: v for key, v in options.items() if key not in ("bucket", "branch", "path", "primary-key")}
        if self._keyed:
            options["primary-key"] = ",".join(schema.primary_keys)
        fixed = schema.bucket_mode is BucketMode.FIXED
        options["bucket"] = str(max(recommended(1, *one)[0] for one in groups.values()) if fixed else schema.bucket)
        named = ", ".join(map(quote_identifier, schema.partition_keys[:length]))
        by = f" PARTITIONED BY ({named})" if length else ""
        anew = f"{self._table[:-1]}_anew`" if self._table.endswith("`") else f"{self._table}_anew"
        made = f"CREATE TABLE {anew}{by} TBLPROPERTIES ({pairs(options)})"
        return (Statement(f"{made} AS SELECT * FROM {self._table}"),)

    def _reading(self) -> Iterator[Advice]:
        """How much of the bytes a read must merge."""
        whole = sum(entry.file.file_size for entry in self._entries)
        if not self._keyed or self._store.schema.clustered or whole < LITTLE or len(self._entries) < FEW:
            return
        key_range = key_range_of(self._store.schema.key_fields)
        merged = 0
        for group in by_bucket(self._entries).values():
            for section in sections([entry.file for entry in group], key_range):
                merged += sum(run.size for run in section) if len(section) > 1 else 0
        share = merged / whole
        if share > MERGED_SHARE:
            reason = f"{share:.0%} of the bytes lie in files that overlap, and are merged by every read"
            yield Advice("read-amplification", None, round(share, 3), MERGED_SHARE, reason, self._call("compact"))

    # ---- history

    def _writing(self) -> Iterator[Advice]:
        written = compacted = rows = rivals = followed = 0
        parts: dict[bytes, int] = {}
        begun: dict[int, dict[BucketKey, int]] = {}  # snapshot: bucket: when its oldest file there was whole
        for snapshot in self._recent:
            try:
                added = [e for e in delta_entries(self._store, snapshot) if e.kind == FileKind.ADD]
            except NotFoundError:
                continue  # expired meanwhile
            size = sum(entry.file.file_size for entry in added)
            if snapshot.commit_kind is CommitKind.COMPACT:
                compacted += size
                continue
            written += size
            oldest = begun.setdefault(snapshot.id, {})
            for entry in added:
                rows += entry.file.row_count
                parts[entry.partition] = parts.get(entry.partition, 0) + entry.file.row_count
                made, bucket = created_millis(entry) or _UNKNOWN, bucket_key(entry)
                oldest[bucket] = min(oldest.get(bucket, made), made)
        for one, two in pairwise([s for s in self._recent if s.id in begun]):
            followed += 1
            beside = any(made < one.time_millis for key, made in begun[two.id].items() if key in begun[one.id])
            rivals += beside and one.commit_user != two.commit_user
        if written > LITTLE and len(self._recent) >= FEW and compacted / written > REWRITTEN:
            reason = f"{size_text(compacted)} were compacted for {size_text(written)} written"
            runs = CompactionRule.of(self._store.options).run_trigger
            steps = self._set(**{"num-sorted-run.compaction-trigger": str(2 * runs)})
            yield Advice("write-amplification", None, round(compacted / written, 2), REWRITTEN, reason, steps)
        yield from self._hot(parts, rows, len(begun))
        alone = bool(self._store.options.get("write-only"))
        if followed >= FEW and not alone and rivals / followed > RIVALS_SHARE:
            reason = f"{rivals} of {followed} commits wrote to a bucket while another writer committed to it"
            steps = self._set(**{"write-only": "true"})
            reason += ": let one job compact, so that commits do not lose to compactions"
            yield Advice("writers", None, round(rivals / followed, 3), RIVALS_SHARE, reason, steps)

    def _hot(self, parts: dict[bytes, int], rows: int, commits: int) -> Iterator[Advice]:
        count = len({entry.partition for entry in self._entries})
        for partition, own in parts.items():
            if count >= FEW and commits >= FEW and own / rows > HOT_SHARE:
                reason = f"{own / rows:.0%} of the rows of the last {commits} writes went to one of {count} partitions"
                number = 2 * max((e.total_buckets for e in self._entries if e.partition == partition), default=1)
                fixed = can_rescale(self._store.schema) and number > 0
                steps, more = self._rescale(number, partition) if fixed else ((), "")
                said = reason + more
                yield Advice("hot-partition", self._text(partition), round(own / rows, 3), HOT_SHARE, said, steps)

    def _space(self, used: Usage) -> Iterator[Advice]:
        total, live = used.total, used.live
        held: dict[str, int] = {}
        snapshots = 0
        for one in used.held:
            if one.kind == HISTORY and one.holder is not None:
                if one.holder.startswith("snapshot "):
                    snapshots += one.bytes
                else:
                    held[one.holder] = one.bytes
        if live and snapshots > max(LITTLE, HISTORY_SHARE * live):
            reason = f"older snapshots hold {size_text(snapshots)} that the newest does not need"
            keep = max(1, len(self._recent) // 2)
            fewer = {"retain_min": keep} if keep < int(self._store.options.get("snapshot.num-retained.min")) else {}
            due = len(self._store.snapshot_ids()) - keep
            more = {"max_deletes": due} if due > int(self._store.options.get("snapshot.expire.limit")) else {}
            steps = self._call("expire_snapshots", retain_max=keep, **fewer, **more)
            name, following = min(self._store.consumers().items(), key=lambda one: one[1], default=("", None))
            if following is not None and following <= self._snapshot.id - keep:
                reason += f": consumer {name}, which reads snapshot {following} next, keeps them"
                reason += "; start its reader, or forget the consumer if nobody reads by it any more"
                steps = self._call("reset_consumer", consumer_id=name)
            yield Advice("history", None, round(snapshots / live, 2), HISTORY_SHARE, reason, steps)
        for holder, size in held.items():
            if size > max(LITTLE, HELD_SHARE * total):
                kind, _, rest = holder.partition(" ")
                own = rest if kind == "tag" else rest.split(", ")[0]
                drop = self._call(f"delete_{kind}", **{kind: own}) if kind in ("tag", "branch") else ()
                reason = f"{holder} holds {size_text(size)} that nothing else needs"
                yield Advice("held", None, round(size / total, 3), HELD_SHARE, reason, drop)
        if total and used.orphans > max(LITTLE, ORPHAN_SHARE * total):
            reason = f"{size_text(used.orphans)} lie in files that nothing refers to"
            steps = self._call("remove_orphan_files")
            yield Advice("orphans", None, round(used.orphans / total, 3), ORPHAN_SHARE, reason, steps)

    # ---- options and statistics

    def _options(self) -> Iterator[Advice]:
        options, schema = self._store.options, self._store.schema
        for warning in schema.warnings:
            yield Advice("options", None, 1, 0, warning)
        if schema.bucket_mode is BucketMode.FIXED:
            other = {e.total_buckets for e in self._entries if e.total_buckets > 0} - {schema.bucket}
            if other:
                reason = f"the option bucket is {schema.bucket}, files count {', '.join(map(str, sorted(other)))}"
                steps = self._call("rescale", bucket_num=schema.bucket) if can_rescale(schema) else ()
                yield Advice("options", None, len(other), 0, f"{reason}: writers refuse these partitions", steps)
        compacts = any(one.commit_kind is CommitKind.COMPACT for one in self._recent)
        if options.get("write-only") and self._keyed and len(self._recent) >= FEW and not compacts:
            reason = f"write-only is set, and none of the last {len(self._recent)} snapshots is a compaction"
            yield Advice("options", None, len(self._recent), FEW, reason, self._call("compact"))
        low, high = options.get("snapshot.num-retained.min"), options.get("snapshot.num-retained.max")
        if low is not None and high is not None and low > high:
            reason = f"snapshot.num-retained.min is {low}, above snapshot.num-retained.max, {high}"
            steps = self._set(**{"snapshot.num-retained.max": str(low)})
            yield Advice("options", None, low, high, reason, steps)

    def _statistics(self) -> Iterator[Advice]:
        if self._snapshot.total_record_count < FEW * 1000:
            return
        if self._snapshot.statistics is None:
            steps = (Statement(f"ANALYZE TABLE {self._table} COMPUTE STATISTICS FOR ALL COLUMNS"),)
            rows = self._snapshot.total_record_count
            yield Advice("statistics", None, 1, STATISTICS_AGE, f"{rows:,} rows, and no statistics", steps)

    def _pruning(self) -> Iterator[Advice]:
        """Whether a value of some column lies in few of the files, by the statistics recorded."""
        schema = self._store.schema
        files = [entry.file for entry in self._entries if entry.file.schema_id == schema.id]
        files = [file for file in files if file.stats_columns is None and file.value_stats.null_counts]
        named = [f.name for f in schema.fields if f.type.root in PRUNED and f.name not in schema.partition_keys]
        if self._keyed or len(files) < FEW or not named:
            return
        sample = files[:: max(1, len(files) // 200)]
        stats = [stats_of(file, schema.fields) for file in sample]
        best, column = min((_overlap([s[f].min for s in stats], [s[f].max for s in stats]), f) for f in named)
        if best > OVERLAP and not self._store.options.raw.get("file-index.bloom-filter.columns"):
            reason = f"a value of {column}, the best column, may be in {best:.0%} of {len(files)} files"
            steps = self._set(**{"file-index.bloom-filter.columns": column}) + self._call("rewrite_file_index")
            yield Advice("pruning", None, round(best, 3), OVERLAP, reason, steps)


def _overlap(lows: Sequence[object], highs: Sequence[object]) -> float:
    """The share of files that the smallest value of a file may be in, on average; 1 where bounds are not known."""
    if any(one is None for one in (*lows, *highs)):
        return 1.0
    pairs = list(zip(lows, highs, strict=True))
    hits = sum(low <= value <= high for value, _ in pairs for low, high in pairs)  # type: ignore[operator]
    return hits / len(pairs) ** 2
