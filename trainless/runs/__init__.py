"""Runs: one folder holds everything about one piece of work, and the same command goes on from it."""
