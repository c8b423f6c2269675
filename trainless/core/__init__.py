"""Archs, decisions, tasks, scores, the registry and the errors: what every other layer speaks."""
