"""What `bucketlake demo` shows: tours of a lake, on data that a package brings."""
