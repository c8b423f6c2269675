"""Lock the development environment: every package, its version and the hashes of its files, in ``requirements.lock``.

What is asked for stands in ``pyproject.toml`` and ``constraints.txt``; the files are those of PyPI. torch is left out:
its CPU build comes from PyTorch's own index or elsewhere, with hashes that have nothing in common with PyPI's, so that
its version alone is fixed, in ``constraints.txt``. What only builds for GPUs need is left out, too: where torch comes
from PyPI, it brings them in the versions that it names itself.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from install import LOCK, TOOLS

FOR_GPUS = ("cuda-bindings", "cuda-toolkit", "nvidia-cudnn-cu13", "nvidia-cusparselt-cu13", "nvidia-nccl-cu13")
NOT_HERE = (*FOR_GPUS, "nvidia-nvshmem-cu13", "triton", "torchaudio", "torchvision")  # timm would bring the last


def lock(target: str = LOCK) -> None:
    """Write the lock; versions that it has already are kept where they still fit."""
    with tempfile.TemporaryDirectory() as folder:
        left_out = Path(folder) / "excludes.txt"
        left_out.write_text("\n".join(NOT_HERE))
        asked = ["pyproject.toml", "--extra", "dev", "-", "-c", "constraints.txt", "--excludes", str(left_out)]
        how = ["--universal", "--python-version", "3.11", "--generate-hashes", "--no-emit-package", "torch"]
        named = ["--custom-compile-command", "make lock", "-o", target]
        uv = [sys.executable, "-m", "uv", "pip", "compile", "-q", *asked, *how, *named]
        subprocess.run(uv, check=True, input="\n".join(TOOLS).encode())


if __name__ == "__main__":
    lock(*sys.argv[1:])
