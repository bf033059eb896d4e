"""Of tests that cost most, how many cases stay in `make test`, evenly from all; `make test-slow` runs the others.

One list, since what is dear is known only when all is measured: `python -m pytest --durations=4000 --durations-min=0.2`.
What is marked `slow` where it stands does not count. Cases on Spark Connect: `on_connect.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

STAY: Mapping[str, int] = {
    "tests/cdc/test_batches.py::test_a_table_that_is_there_says_what_untyped_events_are": 0,
    "tests/cdc/test_decided.py::test_events_are_evaluated_once": 0,
    "tests/cdc/test_formats.py::test_debezium_with_its_schema": 0,
    "tests/cdc/test_formats.py::test_debezium_without_schema": 0,
    "tests/check/test_past_broken.py::test_a_rollback_meanwhile_keeps_what_it_goes_to": 2,
    "tests/cli/test_remedies.py::test_advice_about_any_table_is_a_command": 4,
    "tests/format/test_sorted_indexes.py::test_damaged_files_are_errors_or_say_what_is_so": 2,
    "tests/format/test_sorted_indexes.py::test_rows_are_found_by_their_values": 7,
    "tests/hostile/test_fuzz.py::test_damage_is_noticed_or_harmless": 1,
    "tests/hostile/test_wide_schemas.py::test_work_grows_with_the_number_of_columns": 1,
    "tests/interop/test_alternating_writers.py::test_sequence_numbers_never_go_back": 0,
    "tests/interop/test_alternating_writers.py::test_upserts_deletes_and_compactions_in_turns": 0,
    "tests/interop/test_co_writing.py::test_both_write_one_table": 1,
    "tests/interop/test_global_index.py::test_flink_searches_ours": 0,
    "tests/interop/test_global_index.py::test_ours_searches_flinks": 0,
    "tests/interop/test_map_shredding.py::test_in_turns": 1,
    "tests/interop/test_new_values.py::test_paimon_reads_what_is_replaced": 0,
    "tests/interop/test_vectors.py::test_in_turns": 1,
    "tests/object_store/test_commits.py::test_the_client_asks_again_by_itself": 4,
    "tests/object_store/test_maintenance.py::test_changelogs_outlive_their_snapshots": 0,
    "tests/object_store/test_tables.py::test_write_read_overwrite": 1,
    "tests/ops/test_encoded.py::test_rewritten_rows_are_the_same": 3,
    "tests/ops/test_lookup.py::test_a_lookup_is_what_a_read_has": 6,
    "tests/ops/test_rescale.py::test_commits_at_every_step_are_kept": 3,
    "tests/ops/test_rescale.py::test_one_bucket_becomes_one_run": 4,
    "tests/ops/test_stream_source.py::test_rows_that_wait_when_the_changelog_producer_is_altered_are_told": 5,
    "tests/sim/test_interrupted.py::test_a_change_is_done_or_not": 10,
    "tests/sim/test_outcomes.py::test_every_snapshot_that_exists_can_be_read": 5,
    "tests/sim/test_rescale_writers.py::test_rescaling_loses_and_doubles_nothing": 1,
    "tests/sim/test_stream_kills.py::test_each_row_once_at_the_end_of_the_streams": 3,
    "tests/spark/test_datasource.py::test_errors_tell_what_to_do_without_frames": 0,
    "tests/spark/test_failures.py::test_ctrl_c_is_raised_as_such": 2,
    "tests/spark/test_failures.py::test_failed_tasks_leave_the_table_alone": 3,
    "tests/spark/test_failures.py::test_files_that_are_gone_say_what_to_do": 1,
    "tests/spark/test_failures.py::test_repeated_tasks_leave_no_row_twice": 1,
    "tests/spark/test_failures.py::test_rows_that_do_not_fit": 4,
    "tests/spark/test_handed.py::test_sessions_beside_each_other": 0,
    "tests/spark/test_migrated.py::test_every_type_of_partition": 0,
    "tests/spark/test_migrated.py::test_old_and_new_files_of_one_partition": 0,
    "tests/spark/test_migrated.py::test_rows_survive_compaction_by_tasks": 0,
    "tests/spark/test_postpone.py::test_pending_rows_of_tasks_are_read_and_compacted": 0,
    "tests/spark/test_postpone.py::test_sparks_own_writer": 0,
    "tests/spark/test_streaming.py::test_a_consumer_stands_behind_the_last_batch_of_a_query_that_has_ended": 0,
    "tests/spark/test_streaming.py::test_a_stateful_query_goes_on_behind_a_batch_that_comes_again": 0,
    "tests/spark/test_streaming.py::test_a_stream_begins_as_of_the_call": 2,
    "tests/spark/test_streaming.py::test_compaction_beside_a_query_leaves_its_numbers_in_order": 0,
    "tests/spark/test_streaming.py::test_latest_begins_with_what_the_newest_snapshot_changed": 0,
    "tests/spark/test_vanished.py::test_a_statement_begins_anew": 2,
    "tests/spark/test_vanished.py::test_a_statement_begins_anew_where_an_executor_died_with_rows_of_it": 1,
    "tests/spark/test_variant.py::test_rows_change": 1,
    "tests/sql/test_attach.py::test_a_stream_makes_its_table": 0,
    "tests/sql/test_attach.py::test_tables_by_their_folders": 0,
    "tests/sql/test_blob_elements.py::test_every_statement": 1,
    "tests/sql/test_blob_elements.py::test_merge_of_another_column_with_split_files": 1,
    "tests/sql/test_blob_elements.py::test_other_ways_to_tables": 0,
    "tests/sql/test_blobs.py::test_columns_of_descriptors": 0,
    "tests/sql/test_call.py::test_every_spelling_compacts_the_table": 3,
    "tests/sql/test_compound.py::test_scripts_give_what_sparks_give": 14,
    "tests/sql/test_copy_into.py::test_errors_of_rows": 0,
    "tests/sql/test_delete_update.py::test_delete_finds_its_rows": 4,
    "tests/sql/test_generated.py::test_generated_changes": 4,
    "tests/sql/test_insert_rules.py::test_constants_of_partitions": 0,
    "tests/sql/test_legacy_definitions.py::test_copy_into": 0,
    "tests/sql/test_legacy_definitions.py::test_other_ways_to_look_at_a_table": 0,
    "tests/sql/test_legacy_definitions.py::test_streams": 0,
    "tests/sql/test_legacy_timestamps.py::test_changes_do_what_they_do_in_a_table_of_instants": 0,
    "tests/sql/test_legacy_timestamps.py::test_conditions_say_what_they_say_over_a_view": 0,
    "tests/sql/test_legacy_timestamps.py::test_metadata_answers_nothing_of_these_columns": 0,
    "tests/sql/test_legacy_timestamps.py::test_rows_that_spark_reads_itself": 0,
    "tests/sql/test_merge.py::test_a_key_is_compared_beside_ranges_and_alternatives": 1,
    "tests/sql/test_merge.py::test_what_becomes_of_rows": 12,
    "tests/sql/test_merge_paths.py::test_a_delete_and_a_row_in_its_place_fall_by_their_sequence": 1,
    "tests/sql/test_merge_paths.py::test_a_new_row_under_the_key_of_one_that_goes_stays": 0,
    "tests/sql/test_merge_paths.py::test_few_rows_of_a_source_that_match_many": 0,
    "tests/sql/test_merge_paths.py::test_few_rows_that_the_driver_cannot_take": 0,
    "tests/sql/test_merge_paths.py::test_sources_too_wide_for_every_task": 0,
    "tests/sql/test_named_tables.py::test_names_with_braces": 0,
    "tests/sql/test_new_values.py::test_merge": 1,
    "tests/sql/test_new_values.py::test_rows_stay_where_on_says_what_places_them": 2,
    "tests/sql/test_new_values.py::test_update": 0,
    "tests/sql/test_tables.py::test_names_that_need_quotes": 1,
    "tests/sql/test_vectors.py::test_statements": 2,
    "tests/sql/test_vectors.py::test_what_is_no_such_vector_is_refused": 1,
    "tests/table/test_altering.py::test_a_lookup_is_begun_and_ended_where_every_bucket_has_one_level": 1,
    "tests/table/test_chain_table.py::test_histories": 2,
    "tests/table/test_changelog_reads.py::test_the_changelog_applied_gives_the_table": 5,
    "tests/table/test_compaction.py::test_history_equals_model": 5,
    "tests/table/test_deletion_vectors.py::test_one_large_file_is_rewritten_in_stretches": 2,
    "tests/table/test_every_value.py::test_a_table_of_strange_values_stays_of_use": 8,
    "tests/table/test_global_index_beside.py::test_against_a_table_without_indexes": 2,
    "tests/table/test_global_index_beside.py::test_any_call_may_fail_or_be_the_last": 1,
    "tests/table/test_global_index_beside.py::test_conditions_of_every_form": 2,
    "tests/table/test_histories.py::test_history_equals_model": 14,
    "tests/ui/test_page.py::test_every_figure_is_drawn_in_both_themes_and_at_three_widths": 2,
    "tests/ui/test_page.py::test_hostile_names_are_shown_as_they_are": 3,
}


def waiting(names: Sequence[str]) -> set[str]:
    """The tests, by their node ids, that wait for `make test-slow`. `names`: all cases that no mark holds back."""
    cases: dict[str, list[str]] = {}
    for name in names:
        cases.setdefault(name.partition("[")[0], []).append(name)
    found: set[str] = set()
    for function, count in STAY.items():
        whole = cases.get(function, [])
        stay = {whole[number * len(whole) // count] for number in range(count)} if whole else set()
        found.update(name for name in whole if name not in stay)
    return found
