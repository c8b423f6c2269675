"""Looking at one network at one point: its weights, inputs, norm mode and seed."""

from trainless.probe.probe import Probe, quantity

__all__ = ["Probe", "quantity"]
