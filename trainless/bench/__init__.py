"""The scoreboard: tabular benchmarks, honest statistics, and published results that can be run again."""
