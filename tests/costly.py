"""Of tests that cost most, how many cases stay in `make test`, evenly from all; `make test-slow` runs the others.

One list, since what is dear is known only when all is measured: `python -m pytest --durations=4000 --durations-min=0.2`.
What is marked `slow` where it stands does not count. Cases on Spark Connect: `on_connect.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

STAY: Mapping[str, int] = {
    "tests/cli/test_remedies.py::test_advice_about_any_table_is_a_command": 4,
    "tests/format/test_sorted_indexes.py::test_damaged_files_are_errors_or_say_what_is_so": 2,
    "tests/format/test_sorted_indexes.py::test_rows_are_found_by_their_values": 14,
    "tests/hostile/test_wide_schemas.py::test_work_grows_with_the_number_of_columns": 1,
    "tests/interop/test_alternating_writers.py::test_upserts_deletes_and_compactions_in_turns": 0,
    "tests/interop/test_co_writing.py::test_both_write_one_table": 1,
    "tests/interop/test_global_index.py::test_ours_searches_flinks": 0,
    "tests/interop/test_map_shredding.py::test_in_turns": 1,
    "tests/interop/test_new_values.py::test_paimon_reads_what_is_replaced": 0,
    "tests/interop/test_vectors.py::test_in_turns": 1,
    "tests/object_store/test_commits.py::test_the_client_asks_again_by_itself": 4,
    "tests/ops/test_encoded.py::test_rewritten_rows_are_the_same": 3,
    "tests/ops/test_rescale.py::test_commits_at_every_step_are_kept": 3,
    "tests/sim/test_interrupted.py::test_a_change_is_done_or_not": 10,
    "tests/sim/test_rescale_writers.py::test_rescaling_loses_and_doubles_nothing": 1,
    "tests/sim/test_stream_kills.py::test_each_row_once_at_the_end_of_the_streams": 3,
    "tests/spark/test_datasource.py::test_errors_tell_what_to_do_without_frames": 0,
    "tests/spark/test_handed.py::test_sessions_beside_each_other": 0,
    "tests/spark/test_migrated.py::test_every_type_of_partition": 0,
    "tests/spark/test_migrated.py::test_rows_survive_compaction_by_tasks": 0,
    "tests/spark/test_postpone.py::test_pending_rows_of_tasks_are_read_and_compacted": 1,
    "tests/spark/test_streaming.py::test_a_consumer_stands_behind_the_last_batch_of_a_query_that_has_ended": 0,
    "tests/spark/test_streaming.py::test_a_stream_begins_as_of_the_call": 2,
    "tests/spark/test_streaming.py::test_latest_begins_with_what_the_newest_snapshot_changed": 0,
    "tests/spark/test_vanished.py::test_a_statement_begins_anew": 4,
    "tests/spark/test_variant.py::test_rows_change": 1,
    "tests/sql/test_attach.py::test_a_stream_makes_its_table": 1,
    "tests/sql/test_attach.py::test_tables_by_their_folders": 0,
    "tests/sql/test_blob_elements.py::test_every_statement": 1,
    "tests/sql/test_blob_elements.py::test_other_ways_to_tables": 0,
    "tests/sql/test_blobs.py::test_columns_of_descriptors": 1,
    "tests/sql/test_call.py::test_every_spelling_compacts_the_table": 3,
    "tests/sql/test_legacy_definitions.py::test_streams": 0,
    "tests/sql/test_legacy_timestamps.py::test_changes_do_what_they_do_in_a_table_of_instants": 1,
    "tests/sql/test_legacy_timestamps.py::test_conditions_say_what_they_say_over_a_view": 0,
    "tests/sql/test_legacy_timestamps.py::test_metadata_answers_nothing_of_these_columns": 0,
    "tests/sql/test_legacy_timestamps.py::test_rows_that_spark_reads_itself": 0,
    "tests/sql/test_merge_paths.py::test_sources_too_wide_for_every_task": 0,
    "tests/sql/test_named_tables.py::test_names_with_braces": 0,
    "tests/sql/test_new_values.py::test_merge": 1,
    "tests/sql/test_new_values.py::test_rows_stay_where_on_says_what_places_them": 2,
    "tests/sql/test_new_values.py::test_update": 0,
    "tests/sql/test_vectors.py::test_what_is_no_such_vector_is_refused": 4,
    "tests/table/test_chain_table.py::test_histories": 2,
    "tests/table/test_global_index_beside.py::test_against_a_table_without_indexes": 2,
    "tests/table/test_global_index_beside.py::test_any_call_may_fail_or_be_the_last": 1,
    "tests/table/test_global_index_beside.py::test_conditions_of_every_form": 2,
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
