"""Which worker runs what: all that needs the peers in one of them, all of Spark Connect in one, else a file at a time.

So there is one Flink and one Connect server, which are warm soon. What takes longest comes first, lest a worker ends
alone with it: the peers' tests, then files in the order of LONG, then the rest.
"""

from __future__ import annotations

from typing import Any

PEERS = ("tests/interop/", "tests/peers/", "tests/corpus/test_picks.py")
LONG = (
    *("tests/sql/test_generated.py", "tests/sql/test_delete_update.py", "tests/sql/test_legacy_timestamps.py"),
    *("tests/sql/test_merge_paths.py", "tests/spark/test_rows.py", "tests/sql/test_merge.py", "tests/ui/test_page.py"),
    *("tests/object_store/test_spark.py", "tests/sql/test_attach.py", "tests/spark/test_session.py"),
    *("tests/spark/test_streaming.py", "tests/table/test_global_index_beside.py", "tests/spark/test_datasource.py"),
    *("tests/sql/test_new_values.py", "tests/sim/test_cross_partition_writers.py", "tests/spark/test_failures.py"),
    *("tests/sim/test_maintenance.py", "tests/spark/test_postpone.py", "tests/sql/test_blob_elements.py"),
    *(
        "tests/sql/test_legacy_definitions.py",
        "tests/spark/test_migrated.py",
        "tests/sql/test_queries.py",
        "tests/sql/test_copy_into.py",
    ),
    *("tests/table/test_row_conflicts.py", "tests/sql/test_insert_rules.py", "tests/table/test_deletion_vectors.py"),
)


def share_of(test: str) -> str:
    """What a test's node id is run together with."""
    file = test.partition("::")[0]
    if file.startswith(PEERS):
        return "peers"
    return "connect" if "[connect" in test else file


def place_of(test: str) -> int:
    """The place of a test's share in the order."""
    file = test.partition("::")[0]
    if file.startswith(PEERS):
        return 0
    return LONG.index(file) + 1 if file in LONG else len(LONG) + 1


def scheduler(config: Any, log: Any) -> Any:
    """xdist's for files, of shares instead."""
    from xdist.scheduler import LoadFileScheduling

    class Shares(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return share_of(nodeid)

    return Shares(config, log)
