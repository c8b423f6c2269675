"""The few type aliases that every package uses."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]
Floats: TypeAlias = npt.NDArray[np.float64]
AnyFloats: TypeAlias = npt.NDArray[np.floating[Any]]
"""In single or double precision."""
Labels: TypeAlias = npt.NDArray[np.int64]
"""Class indices, or whole numbers of any other meaning."""
Index: TypeAlias = npt.NDArray[np.int64]
"""Positions of samples."""
Indices: TypeAlias = npt.NDArray[np.intp]
"""Positions as numpy's own sorting gives them."""
Mask: TypeAlias = npt.NDArray[np.bool_]
Bytes: TypeAlias = npt.NDArray[np.uint8]
Json: TypeAlias = dict[str, Any]
"""A JSON object."""
