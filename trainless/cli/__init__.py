"""The command line: one file per verb; nothing heavy is imported before a verb needs it."""

from trainless.cli.app import main

__all__ = ["main"]
