"""Every effect: files, clock, identifiers, randomness, sleep; object stores too. Nothing else touches them."""
