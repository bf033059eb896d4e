"""Change data capture: events of a source database, from Kafka or files, into tables that follow it.

    from bucketlake import cdc
    source = cdc.kafka("localhost:9092", "shop", format="debezium-json")
    query = cdc.sync_database(lake, source, "shop", checkpoint="/data/checkpoints/shop")

Spec: docs/cdc.md
"""

from bucketlake.cdc.sink import SyncDone, TableDone
from bucketlake.cdc.source import Source, files, kafka, stream
from bucketlake.cdc.sync import How, HowDatabase, sync_database, sync_table

__all__ = [
    "How",
    "HowDatabase",
    "Source",
    "SyncDone",
    "TableDone",
    "files",
    "kafka",
    "stream",
    "sync_database",
    "sync_table",
]
