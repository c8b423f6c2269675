"""A report: one self-contained page about a run, readable for a clinician and exact for an engineer.

The same contents give the same text, byte for byte: it holds no date and nothing drawn at random.
"""

from __future__ import annotations

from trainless.report.about_data import cases_section, data_section
from trainless.report.about_result import doubt_section, result_section, training_section
from trainless.report.about_search import search_section, settings_section
from trainless.report.contents import Contents
from trainless.report.figures_training import costs_section
from trainless.report.headline import headline, search_headline
from trainless.report.page import page


def render(contents: Contents) -> str:
    """The page of a design, or of a search alone."""
    version = contents.settings.get("environment", {}).get("trainless", "")
    name = contents.settings["task"]["name"]
    footer = f"Made by trainless {version} from what the run kept. Point at a mark to read its numbers."
    if not contents.summary:
        sections = [search_headline(contents), search_section(contents), settings_section(contents)]
        return page(f"{name}: a search", f"{contents.settings['space']}", sections, footer)
    sections = [
        headline(contents),
        result_section(contents),
        *([] if contents.test is None else [doubt_section(contents), cases_section(contents)]),
        data_section(contents),
        search_section(contents),
        training_section(contents),
        costs_section(contents),
        settings_section(contents),
    ]
    count = len(contents.ensemble["members"])
    what = f"An ensemble of {count} {'network' if count == 1 else 'networks'} of {contents.summary['plan']['space']}"
    return page(f"{name}: a designed ensemble", f"{what}, chosen before any of them was trained", sections, footer)
