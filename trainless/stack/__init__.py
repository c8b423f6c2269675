"""Networks of one plan, scored side by side as one network."""

from trainless.stack.measures import MEASURES, Stack
from trainless.stack.network import NotAligned, SideBySide

__all__ = ["MEASURES", "NotAligned", "SideBySide", "Stack"]
