"""Pictures of one table: `table.plot.levels()`, `.buckets()`, `.history()`, `.amplification()`, `.file_sizes()`.

Each draws facts of `table.report` on matplotlib's axes, those given as `ax` or new ones, and returns them; what the
facts leave out stands under the title.

Spec: docs/plots.md
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bucketlake.errors import InvalidError
from bucketlake.plot import style
from bucketlake.report.facts import BucketLevels, Cell, Commit, Heat, LevelFile
from bucketlake.report.report import TableReport
from bucketlake.values import dataclass

MEASURES = ("bytes", "rows", "files", "runs", "skew")
_MOST_NAMES = 40  # partitions with their names, of a picture
_MOST_CELLS = 160  # with their numbers in them
_MARKED = 40  # snapshots with a dot each


@dataclass(frozen=True, slots=True)
class TablePlots:
    """Pictures of a table's newest snapshot, or of its history. Needs `bucketlake[plot]`."""

    report: TableReport

    def levels(
        self,
        partition: Mapping[str, Any] | str | None = None,
        bucket: int | None = None,
        snapshot: int | None = None,
        ax: Any = None,
    ) -> Any:
        """A bucket's LSM levels to scale: each file where its keys lie, as high as it is large, level 0 on top.
        `partition`: as of `report.levels`; by default the bucket of the most bytes."""
        if partition is None and bucket is None:
            heat = self.report.heat(snapshot)
            largest = max(((c.bytes, p.key, c.bucket) for p in heat.partitions for c in p.cells), default=None)
            if largest is None:
                return style.nothing(style.axes(ax, 8, 3), self._title("levels"), "no data files yet")
            partition, bucket = (largest[1] or None), largest[2]
        facts = self.report.levels(partition, bucket or 0, snapshot)
        return _levels(facts, style.axes(ax, 9, 1.6 + 0.42 * min(14, len(_rows(facts)) + 1)), self._title("levels"))

    def buckets(self, measure: str = "bytes", snapshot: int | None = None, ax: Any = None) -> Any:
        """A heat map of partitions x buckets. `measure`: bytes, rows, files, runs (sorted runs, that a read merges) or
        skew (bytes over the mean of the partition)."""
        if measure not in MEASURES:
            raise InvalidError("unknown measure", measure=measure, remedy=f"choose from {', '.join(MEASURES)}")
        facts = self.report.heat(snapshot)
        if not facts.partitions:
            return style.nothing(style.axes(ax, 8, 3), self._title("buckets"), "no data files yet")
        wide = max(len(partition.cells) for partition in facts.partitions)
        size = (min(14, 3.5 + 0.75 * max(wide, 5)), min(12, 1.9 + 0.4 * len(facts.partitions)))
        return _heat(facts, measure, style.axes(ax, *size), self._title("buckets"))

    def history(self, limit: int = 60, ax: Any = None) -> Any:
        """The newest commits: bytes that each added above the line and removed below it, coloured by its kind, with the
        table's rows and its tags."""
        return _history(self.report, limit, style.axes(ax, 10, 4.2), self._title("history"))

    def amplification(self, limit: int = 200, ax: Any = None) -> Any:
        """Write amplification (bytes written over bytes that came), space amplification (bytes kept over bytes live)
        and overlap (bytes live over those of the deepest level) over the newest snapshots."""
        return _amplification(self.report, limit, style.axes(ax, 9, 3.8), self._title("amplification"))

    def file_sizes(self, snapshot: int | None = None, ax: Any = None) -> Any:
        """How many files have which size, and the size at which files are rolled."""
        return _file_sizes(self.report, snapshot, style.axes(ax, 8, 3.6), self._title("file sizes"))

    def _title(self, what: str) -> str:
        return f"{style.named(self.report.name, 60)}: {what}"


# ---------------------------------------------------------------------------------------------- levels


def _rows(facts: BucketLevels) -> list[tuple[int, int]]:
    """The sorted runs from the top, as (level, run); files without keys are one row."""
    return sorted({_row(facts, file) for file in facts.files})


def _row(facts: BucketLevels, file: LevelFile) -> tuple[int, int]:
    return (file.level, file.run) if facts.key else (0, 0)


def _levels(facts: BucketLevels, ax: Any, heading: str) -> Any:
    if not facts.files:
        return style.nothing(ax, heading, f"no files in bucket {facts.bucket}")
    rows, top = _rows(facts), max(file.level for file in facts.files)
    largest = max(file.size for file in facts.files)
    place = {row: number for number, row in enumerate(rows)}
    spans = _spans(facts)
    for file in facts.files:
        low, high = spans[file.name]
        height = 0.22 + 0.6 * file.size / largest
        centre, width = place[_row(facts, file)], max(high - low, 0.004)
        colour = style.level_colour(file.level, top)
        ax.barh(centre, width, height, left=low, color=colour, edgecolor=ax.get_facecolor(), linewidth=0.8)
        if width > 0.11:
            label = (
                f"{style.size_text(file.size)}, {style.count_text(file.rows)} rows"
                if width > 0.3
                else style.size_text(file.size)
            )
            light = file.level > 2 or (top > 0 and file.level == top)
            ax.text(
                low + width / 2,
                centre,
                label,
                ha="center",
                va="center",
                fontsize="x-small",
                color="white" if light else style.INK,
            )
    ax.set_yticks(range(len(rows)), [_row_name(row, rows) if facts.key else "files" for row in rows])
    ax.set_ylim(len(rows) - 0.4, -0.6)
    ax.set_xlim(-0.01, 1.01)
    _key_ticks(facts, ax)
    style.bare(ax, None)
    ax.tick_params(axis="y", length=0)
    parts = [style.named(facts.partition, 60)] if facts.partition else []
    parts += [f"bucket {facts.bucket}", f"{_many(facts.runs, 'sorted run')} to merge" if facts.key else ""]
    if facts.trigger is not None and facts.key:
        parts.append(f"compacted from {facts.trigger} on")
    if facts.left_out:
        parts.append(f"{_many(facts.left_out, 'smaller file')} not shown")
    style.title(ax, heading, " · ".join(part for part in parts if part))
    return ax


def _spans(facts: BucketLevels) -> dict[str, tuple[float, float]]:
    """Where each file begins and ends, 0 to 1: by its keys, without keys one beside the other by size."""
    if all(file.low is not None and file.high is not None for file in facts.files):
        return {file.name: (file.low or 0.0, file.high or 0.0) for file in facts.files}
    total = sum(file.size for file in facts.files) or 1
    found, at = {}, 0.0
    for file in sorted(facts.files, key=lambda file: file.min_sequence):
        found[file.name] = (at, at + file.size / total)
        at += file.size / total
    return found


def _row_name(row: tuple[int, int], rows: list[tuple[int, int]]) -> str:
    level, _ = row
    first = next(one for one in rows if one[0] == level) == row
    return f"level {level}" if first else ""


def _key_ticks(facts: BucketLevels, ax: Any) -> None:
    keyed = [file for file in facts.files if file.low is not None and file.min_key is not None]
    if not keyed:
        ax.set_xticks([])
        ax.set_xlabel("files in the order in which they were written, by size", color=style.GREY)
        return
    low = min(keyed, key=lambda file: file.low or 0.0)
    high = max(keyed, key=lambda file: file.high or 0.0)
    ax.set_xticks([0, 1], [_key(low, low.min_key), _key(high, high.max_key)])
    for label, side in zip(ax.get_xticklabels(), ("left", "right"), strict=True):
        label.set_horizontalalignment(side)
    by = ", by rank" if facts.scale == "rank" else ""
    ax.set_xlabel(f"{style.named(', '.join(facts.key), 60)}{by}", color=style.GREY)


def _key(_: LevelFile, text: str | None) -> str:
    return style.named(text or "")


# ---------------------------------------------------------------------------------------------- buckets


def _heat(facts: Heat, measure: str, ax: Any, heading: str) -> Any:
    numbers = sorted({cell.bucket for partition in facts.partitions for cell in partition.cells})
    column = {bucket: place for place, bucket in enumerate(numbers)}
    grid = [[float("nan")] * len(numbers) for _ in facts.partitions]
    for row, partition in enumerate(facts.partitions):
        for cell in partition.cells:
            grid[row][column[cell.bucket]] = _measured(cell, measure)
    known = [value for line in grid for value in line if value == value]
    picture = ax.imshow(grid, aspect="auto", cmap=style.ramp(), vmin=0, vmax=max(known) or 1, interpolation="nearest")
    text = style.size_text if measure == "bytes" else style.count_text
    if len(known) <= _MOST_CELLS and len(numbers) <= 24:
        for row, line in enumerate(grid):
            for place, value in enumerate(line):
                if value == value:
                    dark = value > 0.55 * max(known)
                    colour = "white" if dark else style.INK
                    shown = f"{value:.2g}" if measure == "skew" else text(value)
                    ax.text(place, row, shown, ha="center", va="center", fontsize="x-small", color=colour)
    style.ticks(ax, ["pending" if number < 0 else str(number) for number in numbers], 24)
    ax.set_xlabel("bucket", color=style.GREY)
    step = max(1, -(-len(facts.partitions) // _MOST_NAMES))
    places = range(0, len(facts.partitions), step)
    ax.set_yticks(places, [style.named(facts.partitions[place].text) for place in places])
    ax.tick_params(length=0)
    for side in ax.spines.values():
        side.set_visible(False)
    bar = ax.figure.colorbar(picture, ax=ax, fraction=0.04, pad=0.02, format=text)
    bar.outline.set_visible(False)
    if measure in ("files", "runs", "rows"):
        style.whole_axis(bar.ax.yaxis)
    bar.set_label("sorted runs" if measure == "runs" and facts.keyed else measure, color=style.GREY)
    parts = [style.size_text(facts.bytes), f"{style.count_text(facts.rows)} rows", _many(facts.files, "file")]
    if facts.left_out:
        parts.append(f"{facts.left_out} of {facts.total_partitions} partitions not shown")
    if facts.left_out_buckets:
        parts.append(f"{_many(facts.left_out_buckets, 'bucket')} not shown")
    style.title(ax, heading, " · ".join(parts))
    return ax


def _measured(cell: Cell, measure: str) -> float:
    return float(getattr(cell, measure))


# ---------------------------------------------------------------------------------------------- history


def _history(report: TableReport, limit: int, ax: Any, heading: str) -> Any:
    facts = report.timeline(limit)
    if not facts.commits:
        return style.nothing(ax, heading, "no snapshots yet")
    commits = facts.commits
    for kind in (kind for kind in style.KINDS if any(commit.kind == kind for commit in commits)):
        chosen = [(place, commit) for place, commit in enumerate(commits) if commit.kind == kind]
        places, colour = [place for place, _ in chosen], style.KINDS[kind]
        ax.bar(places, [commit.added_bytes for _, commit in chosen], 0.8, color=colour, label=style.WORDS[kind])
        ax.bar(places, [-commit.removed_bytes for _, commit in chosen], 0.8, color=colour, alpha=0.45)
    ax.axhline(0, color=style.GREY, linewidth=0.8)
    removes = any(commit.removed_bytes for commit in commits)
    ax.set_ylabel("removed       added" if removes else "added", color=style.GREY)
    style.ticks(ax, [str(commit.snapshot) for commit in commits], 20)
    ax.set_xlabel("snapshot", color=style.GREY)
    ax.set_xlim(-0.7, len(commits) - 0.3)
    style.bare(ax)
    low, high = ax.get_ylim()
    style.byte_axis(ax.yaxis, low, high)
    ax.set_ylim(low, high + 0.18 * (high - low))  # room for tags
    right = _rows_line(commits, ax)
    for place, commit in enumerate(commits):
        if commit.tags:
            _tag(ax, place, commit.tags)
    handles = [*ax.get_legend_handles_labels()[0], *right.get_legend_handles_labels()[0]]
    below = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.16), "ncols": len(handles)}
    ax.legend(handles=handles, frameon=False, fontsize="small", **below)
    span = f"{style.moment(commits[0].time)} to {style.moment(commits[-1].time)} UTC"
    style.title(ax, heading, span + _older(facts.left_out))
    return ax


def _rows_line(commits: Sequence[Commit], ax: Any) -> Any:
    """The table's rows, on an axis of their own."""
    right, marker = ax.twinx(), "." if len(commits) < _MARKED else None
    rows = [commit.rows for commit in commits]
    right.plot(range(len(commits)), rows, color=style.GREY, linewidth=1.4, marker=marker, label="rows stored")
    right.set_ylim(bottom=0)
    right.yaxis.set_major_formatter(style.count_text)
    right.spines[["top", "right", "left"]].set_visible(False)
    right.tick_params(axis="y", length=0, labelcolor=style.GREY)
    return right


def _tag(ax: Any, place: int, names: Sequence[str]) -> None:
    text = style.named(names[0], 14) + (f" +{len(names) - 1}" if len(names) > 1 else "")
    box = {"boxstyle": "round,pad=0.25", "fc": "white", "ec": style.TEAL, "lw": 0.8}
    where = {"xycoords": ("data", "axes fraction"), "ha": "center", "va": "top"}
    ax.annotate(text, (place, 1), fontsize="x-small", bbox=box, color=style.INK, **where)
    ax.axvline(place, color=style.TEAL, linewidth=0.8, linestyle=":", zorder=0)


def _older(left_out: int) -> str:
    return f" · {_many(left_out, 'older snapshot')} not shown" if left_out else ""


def _amplification(report: TableReport, limit: int, ax: Any, heading: str) -> Any:
    facts = report.amplification(limit)
    if not facts.moments:
        return style.nothing(ax, heading, "no snapshots yet")
    moments, places = facts.moments, range(len(facts.moments))
    lines = (
        ("write", [m.write for m in moments], style.ORANGE, "-"),
        ("space", [m.space for m in moments], style.TEAL, "-"),
        ("overlap", [m.overlap for m in moments], style.GREY, "--"),
    )
    ends = []
    for label, values, colour, dashes in lines:
        known = [float("nan") if value is None else value for value in values]
        ax.plot(
            places,
            known,
            color=colour,
            linestyle=dashes,
            linewidth=1.8,
            label=label,
            marker="." if len(moments) < _MARKED else None,
        )
        final = next((value for value in reversed(known) if value == value), None)
        if final is not None:
            ends.append((final, f"{label} {final:.2f}", colour))
    ax.set_ylim(min(0.9, ax.get_ylim()[0]), max(1.5, ax.get_ylim()[1]))
    _label_ends(ax, ends, len(moments) - 1)
    ax.axhline(1, color=style.GREY, linewidth=0.8, alpha=0.6)
    style.ticks(ax, [str(moment.snapshot) for moment in moments], 20)
    ax.set_xlabel("snapshot", color=style.GREY)
    ax.set_ylabel("times", color=style.GREY)
    style.bare(ax)
    last = moments[-1]
    made = style.size_text(last.written + last.rewritten)
    about = f"{style.size_text(last.live)} live, {style.size_text(last.held)} kept, {made} written"
    style.title(ax, heading, about + _older(facts.left_out))
    return ax


def _label_ends(ax: Any, ends: list[tuple[float, str, str]], place: int) -> None:
    """The last values beside their lines, apart from each other."""
    low, high = ax.get_ylim()
    apart, at = (high - low) * 0.07, -float("inf")
    for value, text, colour in sorted(ends):
        at = max(value, at + apart)
        ax.annotate(
            text,
            (place, at),
            xytext=(8, 0),
            textcoords="offset points",
            va="center",
            color=colour,
            fontsize="small",
            annotation_clip=False,
        )


def _file_sizes(report: TableReport, snapshot: int | None, ax: Any, heading: str) -> Any:
    facts = report.file_sizes(snapshot)
    if not facts.files:
        return style.nothing(ax, heading, "no data files yet")
    bins = facts.bins
    ax.bar(
        range(len(bins)),
        [one.files for one in bins],
        0.92,
        color=[style.ORANGE if one.high <= facts.target // 4 else style.TEAL for one in bins],
    )
    for place, one in enumerate(bins):
        if one.files:
            ax.text(place, one.files, style.count_text(one.files), ha="center", va="bottom", fontsize="x-small")
    style.ticks(ax, [style.size_text(one.low) for one in bins], 14)
    within = next((place for place, one in enumerate(bins) if one.low <= facts.target < one.high), None)
    if within is not None:
        ax.axvline(within, color=style.GREY, linestyle=":", linewidth=1.2)
        ax.text(
            within,
            1,
            f" target {style.size_text(facts.target)}",
            transform=ax.get_xaxis_transform(),
            fontsize="x-small",
            color=style.GREY,
            va="top",
        )
    ax.set_xlabel("from this size up to twice of it", color=style.GREY)
    ax.set_ylabel("files", color=style.GREY)
    style.whole_axis(ax.yaxis)
    style.bare(ax)
    small = f" · {_many(facts.small, 'file')} below a quarter of {style.size_text(facts.target)}" if facts.small else ""
    about = (
        f"{_many(facts.files, 'file')}, {style.size_text(facts.bytes)}, median {style.size_text(facts.median)}{small}"
    )
    style.title(ax, heading, about)
    return ax


def _many(count: int, what: str) -> str:
    return f"{style.count_text(count)} {what}{'' if count == 1 else 's'}"
