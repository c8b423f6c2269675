"""Designs on the Hugging Face Hub: ``push`` shares one, ``from_hub`` fetches one (extra ``hub``).

Only plain files are ever sent or fetched: JSON, safetensors and a model card. None of them runs code, and what somebody
else put beside them is not looked at.
"""

from __future__ import annotations

import html
import importlib
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from trainless.core.errors import InputError
from trainless.core.files import replacing, write_atomic
from trainless.core.opening import is_there, read_bytes, without_links
from trainless.learn.members import MEMBER, WEIGHTS, member_folder, read_document
from trainless.learn.predictor import ARRAYS, ENSEMBLE, Predictor, class_names, load_predictor, save_predictor
from trainless.report.words import class_rows, estimate_in_words, ordered, rule_in_words, sanity_in_words
from trainless.runs.folder import CONFIGURATION, SUMMARY

CARD = "README.md"
_ARRAYS = "|".join(re.escape(file) for file, _ in ARRAYS.values())
SHARED = re.compile(rf"{CONFIGURATION}|{ENSEMBLE}|{_ARRAYS}|members/[A-Za-z0-9_-]{{1,200}}/({MEMBER}|{WEIGHTS})")
TASKS = {
    (1, True): "time-series-classification",
    (2, True): "image-classification",
    (0, True): "tabular-classification",
}


def push(
    folder: str | Path,
    repository: str,
    *,
    private: bool = True,
    neighbours: bool = False,
    token: str | None = None,
    endpoint: str | None = None,
) -> str:
    """Share a finished design: what is needed to predict, and a model card of what its report says.

    Args:
        folder: The run folder of a design.
        repository: Where to, such as ``"clinic/ultrasound"``; it is made where it is missing.
        private: Whether a repository that is made is private.
        neighbours: Whether features and labels of training cases go along, by which similar cases are shown.
        token: Of the Hub; the one that ``hf auth login`` keeps by default.
        endpoint: The Hub's address, where it is not the public one.

    Returns:
        The address of what was written.
    """
    hub = _hub()
    api = hub.HfApi(endpoint=endpoint, token=token)
    with tempfile.TemporaryDirectory() as temporary:
        staged = Path(temporary)
        share(folder, staged, neighbours=neighbours)
        made = api.create_repo(repository, private=private, exist_ok=True)
        write_atomic(staged / CARD, card(Path(folder), made.repo_id))
        said = "A design of trainless"
        return str(api.upload_folder(repo_id=made.repo_id, folder_path=staged, commit_message=said).commit_url)


def share(folder: str | Path, out: str | Path, *, neighbours: bool = False) -> None:
    """Copy what is needed to predict, and nothing else, into a folder.

    Samples, reports and predictions stay behind; so do features and labels of training cases, unless ``neighbours`` are
    wanted. Labels and probabilities of the calibration cases, by which thresholds are set, go along.
    """
    source, target = without_links(folder), Path(out)
    if not is_there(source / SUMMARY):
        raise InputError(f"{folder} is no finished design: run trainless design to its end first")
    predictor = load_predictor(source)
    names = [str(name) for name in read_document(source / ENSEMBLE)["members"]]
    save_predictor(target, predictor if neighbours else replace(predictor, neighbours=None), names)
    members = [member_folder(Path(), name) / file for name in names for file in (WEIGHTS, MEMBER)]
    for path in (Path(CONFIGURATION), *members):
        with replacing(target / path) as file:
            file.write(read_bytes(source / path))


def from_hub(
    repository: str,
    out: str | Path,
    *,
    revision: str | None = None,
    token: str | None = None,
    endpoint: str | None = None,
) -> Predictor:
    """Fetch a design into a folder, which ``trainless predict``, ``serve`` and ``export`` take like any other.

    Args:
        repository: Such as ``"clinic/ultrasound"``.
        out: A new folder.
        revision: A branch, tag or commit.
        token: Of the Hub; the one that ``hf auth login`` keeps by default.
        endpoint: The Hub's address, where it is not the public one.
    """
    hub, folder = _hub(), without_links(out)
    if folder.exists() and any(folder.iterdir()):
        raise InputError(f"{out} is not empty: give a new folder")
    try:
        about = hub.HfApi(endpoint=endpoint, token=token).model_info(repository, revision=revision)
    except hub.errors.RepositoryNotFoundError as error:
        raise InputError(
            f"the Hub has no {repository} that you may see: check the name, or run hf auth login"
        ) from error
    names = [each.rfilename for each in about.siblings or ()]
    wanted = [name for name in names if SHARED.fullmatch(name)]
    if not {CONFIGURATION, ENSEMBLE} <= set(wanted):
        raise InputError(f"{repository} is no design of trainless: it has no {ENSEMBLE} or no {CONFIGURATION}")
    for name in wanted:
        hub.hf_hub_download(
            repository, name, revision=about.sha, local_dir=folder, token=token, endpoint=endpoint, etag_timeout=30
        )
    return load_predictor(folder)


def card(folder: Path, repository: str) -> str:
    """The model card: the verdict first, then what it is, what it promises, and how it is used."""
    summary, predictor = read_document(folder / SUMMARY), load_predictor(without_links(folder))
    task, test = summary["task"], summary["test"]
    kind = TASKS.get((len(task["input_shape"]) - 1, predictor.task.target.kind != "regression"))
    head = ["library_name: trainless", *([f"pipeline_tag: {kind}"] if kind else [])]
    head += ["tags:", *(f"- {tag}" for tag in ("trainless", "neural-architecture-search", "uncertainty", "ensemble"))]
    verdict = sanity_in_words(test)[1] if test else "It was judged on no test part: nobody knows what it is worth."
    samples = ", ".join(f"{count:,} {part}" for part, count in task["samples"].items() if count)
    classes = ", ".join(map(_plain, class_names(predictor.task.target)))
    lines = [
        f"**{_plain(verdict)}**",
        f"An ensemble of {len(predictor.nets)} networks for inputs of {'×'.join(map(str, task['input_shape']))}"
        f"{f' and the classes {classes}' if classes else ''}, designed by trainless from {samples} cases.",
        "Not a medical device: before anybody relies on it, it has to be tried on new cases of one's own, with the"
        " truth known. What it promises holds for cases like those it was calibrated on.",
        *_figures(test),
        "## Use it",
        f'```python\nfrom trainless.designs.hub import from_hub\n\npredictor = from_hub("{repository}", "design")\n```',
        "```sh\ntrainless predict design NEW\ntrainless serve design\n```",
        "Files are JSON and safetensors; none runs code. They hold no inputs; `calibration.safetensors` holds labels"
        " and probabilities of the calibration cases, and weights can remember what they were trained on.",
    ]
    return "---\n" + "\n".join(head) + "\n---\n\n# " + _plain(repository) + "\n\n" + "\n\n".join(lines) + "\n"


def _figures(test: Mapping[str, Any] | None) -> list[str]:
    if not test:
        return []
    figures = [[_plain(name), estimate_in_words(test["ensemble"][name])] for name in ordered(test["ensemble"])]
    made = [f"## On {test['samples']:,} test {test.get('unit', 'cases')}", _table(["", "value"], figures)]
    if rows := class_rows(test):
        made.append(_table(["class", "cases", "precision", "recall", "F1"], [[*map(_plain, row)] for row in rows]))
    if which := rule_in_words(test):
        made.append(_plain(f"{which[:1].upper()}{which[1:]}."))
    if rule := test.get("deferral", {}).get("rule"):
        made.append(_plain(rule))
    return made


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows))


def _plain(text: str) -> str:
    """Text from data that Markdown and HTML show as it is."""
    shown = html.escape(" ".join(str(text).split()), quote=False)
    return re.sub(r"([\\`*_\[\]|#])", r"\\\1", shown)


def _hub() -> Any:
    try:
        return importlib.import_module("huggingface_hub")
    except ModuleNotFoundError as missing:
        raise InputError("the Hugging Face Hub is not installed: pip install 'trainless[hub]'") from missing
