"""What expires, what goes with it, and what nothing refers to."""
