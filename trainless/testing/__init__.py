"""Contract checks that are shipped: what the rest relies on, for anyone who adds to it."""
