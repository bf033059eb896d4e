"""The shell `bucketlake sql`: statements at a prompt, from files and from the command line."""
