"""Converters of official benchmark releases into the plain tables that ``trainless.bench.tables`` opens.

Each takes a file that the user has and writes one compressed CSV file; nothing of a release is ever executed.
"""

from __future__ import annotations

from trainless.bench.convert.nasbench101 import convert_nasbench101
from trainless.bench.convert.nats import convert_nats
from trainless.bench.convert.nds import convert_nds

__all__ = ["convert_nasbench101", "convert_nats", "convert_nds"]
