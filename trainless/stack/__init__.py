"""Networks of one plan, scored side by side as one network."""

from trainless.stack import features, fisher, patterns, samples, weights  # noqa: F401 - measures are found by their names
from trainless.stack.network import NotAligned, SideBySide
from trainless.stack.stack import MEASURES, Stack

__all__ = ["MEASURES", "NotAligned", "SideBySide", "Stack"]
