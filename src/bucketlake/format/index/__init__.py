"""What lies in a table's index folder: index manifests, hash indexes, deletion vectors, the cached key index."""
