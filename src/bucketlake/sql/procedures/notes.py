"""What docs/sql/procedures.md says of procedures beyond their declarations: examples, and what happens."""

NOTES: dict[str, str] = {
    "compact": """
    CALL sys.compact('db.t')
    CALL sys.compact(`table` => 'db.t', partitions => 'dt=2024-01-01,hh=1;dt=2024-01-02')
    CALL sys.compact(table => 'db.t', where => "dt < '2024-01-01'", compact_strategy => 'minor')
    CALL sys.compact('db.t', '', '', '', '')

- In a primary-key table each bucket's sorted runs are merged, in an append table small files. Rows stay as they are.
- Readers and writers go on meanwhile. What another commit takes away during the compaction is planned anew.
- `write-only` does not matter: this is the dedicated compaction of such tables.
- Pending rows of a [postpone table](../spec/postpone.md#compaction) go to their buckets first, in a snapshot of their
  own. `partitions` and `where` choose among them too.

From Python: `lake.table("db.t").compact(partitions=…, where=…, full=…, idle=…)`. It returns the snapshot, or None if
nothing was to be done.

Which files are picked: [compaction](../spec/compaction.md) and [append tables](../spec/append_compaction.md);
`order_strategy`: [clustering](../spec/clustering.md).
""",
    "expire_snapshots": """
    CALL sys.expire_snapshots('db.t')
    CALL sys.expire_snapshots(table => 'db.t', retain_max => 10, retain_min => 2, older_than => '2024-01-01 12:00:00')

The defaults are the table's options `snapshot.*`. Snapshots also expire after commits, by the same options.

From Python: `lake.table("db.t").expire_snapshots(…)`. Rules and order: [expiry](../spec/expiry.md).
""",
    "expire_changelogs": """
    CALL sys.expire_changelogs(table => 'db.t', retain_max => 100, retain_min => 10)
    CALL sys.expire_changelogs(table => 'db.t', delete_all => true)

The defaults are the table's options `changelog.*`. `delete_all` = `true` removes them all.
""",
    "remove_orphan_files": """
    CALL sys.remove_orphan_files('db.t')
    CALL sys.remove_orphan_files(table => 'db.*', older_than => '2024-01-01 12:00:00', dry_run => true)

It removes what failed writes leave: files that no snapshot, tag, branch or changelog refers to.

!!! warning "Slow writes"
    A write that takes longer than `older_than` is old (a day by default) loses its files.

With `mode` = `distributed` Spark's tasks list folders (a task the folders of some partitions) and remove files; with
`local` the driver does it. What goes is the same: the driver reads what is referred to, before the walk and again
before anything is removed.

From Python: `lake.table("db.t").remove_orphan_files(…)`, which also lists the paths. Which folders are looked at:
[orphans](../spec/expiry.md#orphans).
""",
    "rescale": """
    CALL sys.rescale('db.t', 16)
    CALL sys.rescale(`table` => 'db.t', bucket_num => 16, `partition` => 'dt=2024-01-01,hh=1')
    CALL sys.rescale(table => 'db.t', where => "dt < '2024-01-01'")

- Each bucket becomes one sorted run, in one OVERWRITE snapshot. The result is true also if the partitions hold nothing.
- Readers and writers go on. What is committed meanwhile is moved too, and writes that commit later move their own rows.
- Pending files of postpone tables stay pending.

The option `bucket` stays as it is, as with Paimon. To go on writing with the new number, `ALTER TABLE … SET
('bucket' = '16')`, before or after.

From Python: `lake.table("db.t").rescale(16, partitions=…, where=…)`, and the same on a table of `bucketlake.open`.
[How it works](../spec/rescale.md).
""",
    "advise_buckets": """
    CALL sys.advise_buckets('db.t')

`skew` is the largest bucket over the mean, `sorted_runs` the most of a bucket. Only metadata is read. Rows and bytes
are those of files, superseded rows included. [The rule](../spec/rescale.md#advice).

From Python: `table.advise_buckets()`. With the table option `'bucket.auto' = 'true'`, `sys.compact` [follows the
advice](../spec/rescale.md#automatic).
""",
}
