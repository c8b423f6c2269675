"""Docstrings as the reference shows them: examples as code, names without their roles."""

from __future__ import annotations

import re
from typing import Any

import griffe

ROLE = re.compile(r":(?:func|class|meth|mod|attr|data|exc):`~?([^`]*)`")


class Docstrings(griffe.Extension):
    """Makes of our docstrings what mkdocstrings reads."""

    def on_instance(self, *, obj: Any, **_: Any) -> None:
        """Change the text of one docstring."""
        if obj.docstring:
            text = re.sub(r"^Example:$", "Examples:", obj.docstring.value, flags=re.MULTILINE)
            obj.docstring.value = ROLE.sub(r"`\1`", text)
