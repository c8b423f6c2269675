"""The tutorials: notebooks that are run, and become pages with what they printed and drew.

``python -m docs.hooks.tutorials`` runs those that have changed and keeps the executed copies in ``build/notebooks``,
from where the site takes them. The notebooks themselves are kept without outputs.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "docs" / "tutorials").glob("*.ipynb"))
SECONDS = 600
NOT_RUN = """!!! note
    This page was built without running the notebook, which needs {needs}: what it prints and draws is missing here.
"""
BEFORE = f"""import sys, warnings
warnings.simplefilter("error")  # a tutorial that warns is to be mended
warnings.simplefilter("ignore", PendingDeprecationWarning)  # of the kernel itself
sys.path.insert(0, {str(ROOT)!r})
from tests.corpus.torchvision_standin import install
install()  # timm asks for names of torchvision, and needs no more of it to make a network
%matplotlib inline
"""
BAR = "━"  # of progress, which nobody needs to see again
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def executed(notebook: Path) -> Path:
    """Where the executed copy of a notebook is kept; the name changes with the notebook."""
    digest = hashlib.sha256(notebook.read_bytes()).hexdigest()[:16]
    return ROOT / "build" / "notebooks" / f"{notebook.stem}-{digest}.ipynb"


def missing(notebook: Path) -> str:
    """The first file of the data directory that a notebook needs and this machine does not have."""
    import nbformat

    home = os.environ.get("TRAINLESS_DATA")
    needs = nbformat.read(notebook, as_version=4).metadata.get("data", [])
    return next((each for each in needs if not home or not (Path(home) / each).exists()), "")


def run(notebook: Path, folder: Path) -> Any:
    """Run a notebook from its first cell to its last in a folder, keep the executed copy, and return it."""
    import nbformat
    from nbclient import NotebookClient
    from traitlets.config import Config

    made = nbformat.read(notebook, as_version=4)
    made.cells.insert(0, nbformat.v4.new_code_cell(BEFORE))
    where = {"metadata": {"path": str(folder)}}
    local = Config(KernelManager={"transport": "ipc", "ip": str(folder / "kernel")})  # no port that others could reach
    NotebookClient(made, timeout=SECONDS, kernel_name="python3", resources=where, config=local).execute()
    made.cells.pop(0)
    place = executed(notebook)
    place.parent.mkdir(parents=True, exist_ok=True)
    for old in place.parent.glob(f"{notebook.stem}-*.ipynb"):
        old.unlink()
    nbformat.write(made, place)
    return made


def pages(root: Path) -> Iterator[tuple[str, str | bytes]]:
    """Each notebook as a page, and its pictures as files beside it."""
    import nbformat

    for notebook in sorted((root / "docs" / "tutorials").glob("*.ipynb")):
        done = executed(notebook)
        made = nbformat.read(done if done.exists() else notebook, as_version=4)
        parts = [_cell(cell) for cell in made.cells]
        if not done.exists():
            note = NOT_RUN.format(needs=", ".join(made.metadata.get("data", [])) or "a minute")
            title, _, rest = parts[0].partition("\n")
            parts[0] = f"{title}\n\n{note}\n{rest}"
        pictures = [output for cell in made.cells for output in cell.get("outputs", ()) if _picture(output)]
        for place, output in enumerate(pictures):
            name = f"tutorials/{notebook.stem}-{place}.png"
            parts = [part.replace(_picture(output), f"{notebook.stem}-{place}.png") for part in parts]
            yield name, base64.b64decode(_picture(output))
        yield f"tutorials/{notebook.stem}.md", "\n\n".join(parts) + "\n"


def _picture(output: Any) -> str:
    return str(output.get("data", {}).get("image/png", "")).replace("\n", "")


def _cell(cell: Any) -> str:
    if cell.cell_type == "markdown":
        return str(cell.source)
    parts = [f"```python\n{cell.source}\n```"]
    for output in cell.get("outputs", ()):
        parts.append(_output(output))
    return "\n\n".join(part for part in parts if part)


def _output(output: Any) -> str:
    if output.output_type == "stream":
        return _text(output.text) if output.name == "stdout" else ""
    data = output.get("data", {})
    if BAR in data.get("text/plain", ""):
        return ""
    if _picture(output):
        return f"![What the cell above draws]({_picture(output)})"
    if "text/html" in data:
        html = re.sub(r"\n\s*\n", "\n", data["text/html"]).replace(' border="1" class="dataframe"', "").strip()
        return f'<div class="output">\n{html}\n</div>'
    return _text(data.get("text/plain", ""))


def _text(said: str) -> str:
    shown = ESCAPES.sub("", said).rstrip()
    return f"```text\n{shown}\n```" if shown else ""


if __name__ == "__main__":
    import tempfile

    for each in NOTEBOOKS:
        lacking = missing(each)
        if lacking:
            sys.stderr.write(f"{each.name} is not run: there is no {lacking} in TRAINLESS_DATA\n")
        elif not executed(each).exists():
            sys.stderr.write(f"running {each.name}\n")
            with tempfile.TemporaryDirectory() as folder:
                run(each, Path(folder))
