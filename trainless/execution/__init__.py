"""Executors: where jobs run: in this process, in several on this machine, or on a Ray cluster."""
