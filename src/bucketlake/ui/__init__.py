"""The page `bucketlake ui`: a small server over a catalog without Spark, and the files of the page itself."""
