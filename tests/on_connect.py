"""What runs on Spark Connect in `make test`: each statement family, and each way to write and to read, once.

A test that takes `lake` runs on classic Spark and on Spark Connect. In `make test` its first case alone does on Connect,
and of the files named here only the tests that are named, since the path is the same behind the others. `make soak` runs
everything on both.
"""

from __future__ import annotations

CHOSEN: dict[str, tuple[str, ...]] = {
    "tests/cdc/test_stream.py": (),
    "tests/scenarios/test_s01_append_bucket_key.py": (),
    "tests/scenarios/test_s02_append_scalable.py": (),
    "tests/scenarios/test_s03_default_bucket.py": (),
    "tests/scenarios/test_s04_dynamic_bucket.py": (),
    "tests/scenarios/test_s05_postpone_bucket.py": (),
    "tests/scenarios/test_s06_postpone_deletes.py": (),
    "tests/scenarios/test_s07_dynamic_partitioned.py": (),
    "tests/scenarios/test_s08_cross_partition.py": (),
    "tests/scenarios/test_s09_cross_partition_fixed.py": (),
    "tests/scenarios/test_s11_rescale_offline.py": (),
    "tests/scenarios/test_s12_orphans.py": (),
    "tests/scenarios/test_s12_writers.py": (),
    "tests/spark/test_bucketing.py": ("test_buckets_are_those_of_the_engine",),
    "tests/spark/test_compaction.py": ("test_append_compaction",),
    "tests/spark/test_cross_partition.py": (),
    "tests/spark/test_datasource.py": ("test_rows_go_both_ways",),
    "tests/spark/test_deletion_vectors.py": ("test_other_formats_cross_as_arrow",),
    "tests/spark/test_dynamic_buckets.py": (),
    "tests/spark/test_failures.py": ("test_rows_that_do_not_fit", "test_failed_tasks_leave_the_table_alone"),
    "tests/spark/test_key_index.py": (),
    "tests/spark/test_merge_engines.py": ("test_row_kinds_come_in_a_column",),
    "tests/spark/test_narrow_batches.py": (),
    "tests/spark/test_postpone.py": ("test_pending_rows_of_tasks_are_read_and_compacted",),
    "tests/spark/test_streaming.py": ("test_from_table_to_table_once_over_restarts",),
    "tests/spark/test_stream_process.py": ("test_a_stream_is_enriched_by_lookup_in_its_tasks",),
    "tests/spark/test_variant.py": (),
    "tests/spark/test_rows.py": (
        "test_written_rows_come_back",
        "test_local_rows_are_written_in_the_driver",
        "test_a_session_keeps_its_configuration",
        "test_all_types_come_back",
    ),
    "tests/sql/test_call.py": (),
    "tests/sql/test_delete_update.py": (
        "test_few_rows_of_larger_keyed_tables",
        "test_delete_finds_its_rows",
        "test_update_sets_its_rows",
        "test_update_of_append_tables",
    ),
    "tests/sql/test_insert.py": ("test_forms", "test_overwrite_dynamic_partitions"),
    "tests/sql/test_maintenance_calls.py": ("test_expire_snapshots",),
    "tests/sql/test_queries.py": (
        "test_queries",
        "test_temp_views_hide_lake_tables_and_mix_with_them",
        "test_arguments",
        "test_explain_shows_the_plan",
        "test_time_travel_by_timestamp",
        "test_session_options",
        "test_errors",
    ),
    "tests/sql/test_table_functions.py": ("test_between_two_snapshots_times_or_tags",),
    "tests/sql/test_tables.py": (
        "test_ctas_and_like",
        "test_show_and_describe",
        "test_alter_columns",
        "test_sparks_own_tables_stay_sparks",
    ),
    "tests/object_store/test_spark.py": (),
    "tests/spark/test_rescale.py": (),
    "tests/spark/test_system_tables.py": (),
    "tests/sql/test_history.py": (),
    "tests/spark/test_clustering.py": (),
    "tests/spark/test_file_indexes.py": (),
    "tests/spark/test_metadata_tables.py": ("test_metadata_columns",),
    "tests/sql/test_aggregates.py": (),
    "tests/sql/test_attach.py": ("test_a_sessions_own_calls",),
    "tests/sql/test_copy_into.py": (),
    "tests/sql/test_ddl.py": ("test_replace",),
    "tests/sql/test_fallback.py": (),
    "tests/sql/test_health_calls.py": (),
    "tests/sql/test_merge_histories.py": (),
    "tests/sql/test_migrate.py": (),
    "tests/sql/test_sys_functions.py": (),
}

# Left to `make test-slow`: the dearest ones. Streams and data sources on Connect start Python processes of their own.
LATER = (
    "tests/spark/test_column_text.py::test_merges_by_columns_prune_as_texts_do",
    "tests/spark/test_compaction.py::test_append_compaction",
    "tests/spark/test_merge_engines.py::test_row_kinds_come_in_a_column",
    "tests/spark/test_session.py::test_missing_packages_of_executors_are_named",
    "tests/sql/test_immediate.py::test_values_go_by_name_or_place_as_sparks_do",
    "tests/sql/test_new_values.py::test_by_python",
    "tests/sql/test_qualified.py::test_bare_names_have_their_database",
    "tests/spark/test_column_text.py::test_rows_are_deleted_and_updated_by_columns",
    "tests/spark/test_column_text.py::test_texts_mean_the_same",
    "tests/spark/test_rows.py::test_written_rows_come_back",
    "tests/sql/test_compound.py::test_scripts_change_tables",
    "tests/spark/test_datasource.py::test_rows_go_both_ways",
    "tests/spark/test_rows.py::test_all_types_come_back",
    "tests/spark/test_postpone.py::test_pending_rows_of_tasks_are_read_and_compacted",
    "tests/scenarios/test_s10_partitions_from_cdc.py::test_events_of_a_database",
    "tests/spark/test_joins.py::test_a_join_takes_a_large_table_for_large_and_a_small_one_for_small",
    "tests/sql/test_attach.py::test_a_sessions_own_calls",
    "tests/sql/test_chain_tables.py::test_large_chains_are_read_by_tasks_and_by_spark_itself",
    "tests/sql/test_chain_tables.py::test_paimons_page",
    "tests/sql/test_chain_tables.py::test_statements_write_the_branch_of_the_session",
    "tests/sql/test_chain_tables.py::test_what_reads_a_branch_says_so",
    "tests/sql/test_delete_update.py::test_update_of_append_tables",
    "tests/sql/test_global_index.py::test_an_index_is_built_asked_and_dropped",
    "tests/sql/test_joined.py::test_a_query_opens_the_partitions_and_buckets_that_the_small_table_names",
    "tests/sql/test_table_functions.py::test_between_two_snapshots_times_or_tags",
    "tests/spark/test_streaming.py::test_from_table_to_table_once_over_restarts",
    "tests/spark/test_stream_process.py::test_a_stream_is_enriched_by_lookup_in_its_tasks",
)


def left_out(function: str, seen: set[str]) -> bool:
    """Whether a case on Spark Connect waits for `make soak`. `function`: file::test; `seen`: those that had a case."""
    file, _, name = function.partition("::")
    if function in seen or (file in CHOSEN and name not in CHOSEN[file]):
        return True
    seen.add(function)
    return False
