"""Planning reads: a snapshot's manifests to splits, the snapshot a read sees, what came between two."""
