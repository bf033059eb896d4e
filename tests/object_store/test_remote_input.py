"""Files that lie far away, read by ranges: the same bytes whatever is asked for ahead, and none fetched twice in vain."""

from __future__ import annotations

import random
import threading
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bucketlake.env import remote_input
from bucketlake.env.local import LocalStorage
from bucketlake.env.remote_input import RemoteInput, ask_ahead
from bucketlake.env.storage import Storage
from bucketlake.format.data.datafile import DataFileWriter, FileFormat, Recorded, read_recorded
from bucketlake.format.metadata.stats import StatsMode
from bucketlake.types.model import DataField, canonical_batch, from_arrow_type

TYPES = {"k": pa.int64(), "v": pa.int64(), "s": pa.string()}
FIELDS = [DataField(n, name, from_arrow_type(t)) for n, (name, t) in enumerate(TYPES.items())]
CONTENT = random.Random(1).randbytes(5000)
places = st.integers(0, 6000)
ranges = st.lists(st.tuples(st.integers(-100, 6000), st.integers(-2, 3000)), max_size=5)
steps = st.lists(st.one_of(st.tuples(places, st.integers(-1, 3000)), ranges), max_size=12)


class Far(RemoteInput):
    def __init__(self, end: int, content: bytes = CONTENT) -> None:
        super().__init__(len(content), content[len(content) - end :])
        self.content = content
        self.fetched: list[tuple[int, int]] = []
        self.broken = False
        self.lock = threading.Lock()

    def _fetch(self, place: int, count: int) -> bytes:
        with self.lock:
            self.fetched.append((place, count))
        assert 0 <= place < place + count <= len(self.content)
        if self.broken:
            raise OSError("unplugged")
        return self.content[place : place + count]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"PART_BYTES": 64, "NEAR_BYTES": 16, "AHEAD_BYTES": 1000}.items():
        monkeypatch.setattr(remote_input, name, value)


def twice(file: Far) -> list[int]:
    """How many bytes each range that was fetched shares with the one before it."""
    read = sorted(file.fetched)
    return [place + count - later for (place, count), (later, _) in pairwise(read) if place + count > later]


@pytest.mark.usefixtures("small")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 300), steps)
def test_bytes_are_those_of_the_file(end: int, taken: list[tuple[int, int] | list[tuple[int, int]]]) -> None:
    with Far(end) as file:
        for step in taken:
            if isinstance(step, list):
                ask_ahead(file, lambda step=step: step)
                continue
            place, count = step
            file.seek(place)
            assert file.read(count) == CONTENT[place:][: None if count < 0 else count]
            assert file.tell() == max(place, min(len(CONTENT), place + count if count >= 0 else len(CONTENT)))


@pytest.mark.usefixtures("small")
def test_what_is_asked_for_is_fetched_once() -> None:
    """Each time with what follows, as row groups are; parts of both lie in one."""
    with Far(10) as file:
        for place in range(0, 4900, 300):
            ask_ahead(file, lambda place=place: [(place, 150), (place + 150, 150), (place + 300, 300)])
            file.seek(place)
            assert file.read(150) + file.read(150) == CONTENT[place : place + 300]
    assert twice(file) == []
    assert sum(count for _, count in file.fetched) == 4990


@pytest.mark.usefixtures("small")
def test_what_is_read_on_comes_in_larger_parts() -> None:
    with Far(0) as file:
        assert b"".join(file.read(3) for _ in range(2000)) == CONTENT
    assert [count for _, count in file.fetched[:5]] == [16, 32, 64, 64, 64]


@pytest.mark.usefixtures("small")
def test_who_reads_on_here_and_there_holds_no_more_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts that were fetched before anybody asked are given up where one reads on elsewhere."""
    monkeypatch.setattr(remote_input, "AHEAD_BYTES", 300)
    with Far(0) as file:
        for place in range(0, 4500, 450):
            file.seek(place)
            assert b"".join(file.read(3) for _ in range(60)) == CONTENT[place : place + 180]
            assert sum(part.size for part in file._asked.values()) <= 300


@pytest.mark.usefixtures("small")
def test_what_could_not_be_fetched_is_asked_for_again() -> None:
    with Far(0) as file:
        file.broken = True
        ask_ahead(file, lambda: [(100, 200)])
        file.seek(100)
        with pytest.raises(OSError, match="unplugged"):
            file.read(200)
        file.broken = False
        assert file.read(200) == CONTENT[100:300]


@pytest.mark.parametrize("columns", [None, ["k", "v"]])
@pytest.mark.parametrize("format", ["parquet", "orc", "avro"])
def test_data_files_are_fetched_once(format: str, columns: list[str] | None, tmp_path: Path) -> None:
    """Columns that nobody asked for are left where they lie, where the format has them apart."""
    rows = 400_000
    noise = random.Random(2)
    arrays = {
        "k": pa.array(range(rows)),
        "v": pa.array([noise.getrandbits(62) for _ in range(rows)]),
        "s": pa.array([f"{noise.getrandbits(60):x}" for _ in range(rows)]),
    }
    table = pa.table(arrays)
    path = str(tmp_path / f"data.{format}")
    modes = [StatsMode.parse("none")] * len(FIELDS)
    writer = DataFileWriter(LocalStorage(), path, FIELDS, FileFormat(format), modes)
    for batch in table.to_batches(65_536):
        writer.write(canonical_batch(batch, FIELDS))
    writer.close()
    file = Far(1 << 18, Path(path).read_bytes())
    storage = cast("Storage", SimpleNamespace(open_input=lambda path: file))
    read = read_recorded(storage, Recorded(f"far://data.{format}", format), FIELDS, columns)
    assert pa.Table.from_batches([batch for _, batch in read]).equals(table.select(columns or ["k", "v", "s"]))
    assert twice(file) == [] and len(file.fetched) < 12
    if columns and format != "avro":
        assert sum(count for _, count in file.fetched) < 0.6 * len(file.content)
