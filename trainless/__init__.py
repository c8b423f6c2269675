"""Design neural networks without training them.

The public names are imported when they are first used, so that ``import trainless`` is quick.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainless.core.exports import lazy_exports

if TYPE_CHECKING:
    from trainless.catalogue import list_proxies, list_rankings, list_searchers, list_spaces, list_tables, list_tasks
    from trainless.core.arch import Arch, Candidate, Decision, Proposal, Region
    from trainless.core.errors import InputError, TrainlessError, UnknownName, Unscorable
    from trainless.core.scores import Record, Scores
    from trainless.core.target import Target
    from trainless.core.task import Task
    from trainless.designs.pipeline import Designed, design, designed
    from trainless.designs.settings import DesignSettings
    from trainless.estimators import TrainlessClassifier, TrainlessRegressor
    from trainless.probe.probe import Probe, quantity
    from trainless.proxies.proxy import Proxy, Setting, proxy
    from trainless.report.draw import draw
    from trainless.runs.reader import open_run
    from trainless.runs.search import Found, search
    from trainless.runs.settings import SearchCallbacks, SearchSettings
    from trainless.scoring.evaluate import score
    from trainless.scoring.resolvers import networks
    from trainless.spaces import space
    from trainless.spaces.protocol import Space
    from trainless.store import SqliteStore
    from trainless.tasks import task

__version__ = "0.2.0"

__all__ = [
    "Arch",
    "Candidate",
    "Decision",
    "DesignSettings",
    "Designed",
    "Found",
    "InputError",
    "Probe",
    "Proposal",
    "Proxy",
    "Record",
    "Region",
    "Scores",
    "SearchCallbacks",
    "SearchSettings",
    "Setting",
    "Space",
    "SqliteStore",
    "Target",
    "Task",
    "TrainlessClassifier",
    "TrainlessError",
    "TrainlessRegressor",
    "UnknownName",
    "Unscorable",
    "design",
    "designed",
    "draw",
    "list_proxies",
    "list_rankings",
    "list_searchers",
    "list_spaces",
    "list_tables",
    "list_tasks",
    "networks",
    "open_run",
    "proxy",
    "quantity",
    "score",
    "search",
    "space",
    "task",
]

_HOME = {
    "core.arch": ("Arch", "Candidate", "Decision", "Proposal", "Region"),
    "core.errors": ("InputError", "TrainlessError", "UnknownName", "Unscorable"),
    "core.scores": ("Record", "Scores"),
    "core.target": ("Target",),
    "core.task": ("Task",),
    "catalogue": ("list_proxies", "list_rankings", "list_searchers", "list_spaces", "list_tables", "list_tasks"),
    "scoring.evaluate": ("score",),
    "scoring.resolvers": ("networks",),
    "store": ("SqliteStore",),
    "estimators": ("TrainlessClassifier", "TrainlessRegressor"),
    "probe.probe": ("Probe", "quantity"),
    "proxies.proxy": ("Proxy", "Setting", "proxy"),
    "designs.pipeline": ("Designed", "design", "designed"),
    "designs.settings": ("DesignSettings",),
    "report.draw": ("draw",),
    "runs.reader": ("open_run",),
    "runs.search": ("Found", "search"),
    "runs.settings": ("SearchCallbacks", "SearchSettings"),
    "spaces": ("space",),
    "spaces.protocol": ("Space",),
    "tasks": ("task",),
}
__getattr__, __dir__ = lazy_exports(__name__, _HOME)
