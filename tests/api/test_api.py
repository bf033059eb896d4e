"""The public API is the recorded one: nothing that callers may rely on goes or changes unnoticed."""

from __future__ import annotations

from tests.profile import SOAK

import bucketlake
from bucketlake import Table, events

from .record import RECORD, public_api


def test_the_public_api_is_as_recorded() -> None:
    recorded, found = RECORD.read_text().splitlines(), public_api()
    gone, came = sorted(set(recorded) - set(found)), sorted(set(found) - set(recorded))
    told = [f"- {line}" for line in gone] + [f"+ {line}" for line in came]
    assert not gone and not (came and SOAK), "\n".join(
        [
            "what went or changed (-) breaks callers: say so in CHANGELOG.md, with what to use instead;",
            "what came (+) is promised from the next release on. Then: python -m tests.api.record",
            *told,
        ]
    )


def test_completion_offers_the_public_names() -> None:
    shown = [name for name in dir(bucketlake) if not name.startswith("__")]
    assert shown == sorted([*bucketlake.__all__, "cdc", "errors", "events", "schema"])


def test_the_record_is_of_what_runs() -> None:
    names = {line.partition("(")[0].partition(":")[0] for line in RECORD.read_text().splitlines()}
    for name in bucketlake.__all__:
        assert f"bucketlake.{name}" in names
    for name in events.__all__:
        assert f"bucketlake.events.{name}" in names
    methods = {name.rpartition(".")[2] for name in names if name.startswith("bucketlake.Table.")}
    assert {"to_arrow", "to_polars", "write_arrow", "fsck", "create_tag", "store"} <= methods
    assert all(hasattr(Table, name) for name in methods - set(Table.__annotations__) - {"store", "name", "view"})
