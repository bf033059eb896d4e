"""Tables written by one engine and read by another, both ways: Bucketlake, Paimon on Flink, pypaimon, paimon-rust."""
