"""The errors that a user can cause. Each names what was given, what was expected and what to do."""

from __future__ import annotations


class TrainlessError(Exception):
    """A mistake in what was asked; the command line prints it as one line and exits with 2."""


class InputError(TrainlessError):
    """Data, a network or an option that cannot be used as it is."""


class UnknownName(TrainlessError):
    """A name that no registry knows."""


class Unscorable(Exception):
    """This network has no such score; the message is the recorded reason and the value is NaN."""
