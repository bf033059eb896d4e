"""From messages to a snapshot: conflicts, manifests, the optimistic loop."""
