"""A proxy: a pure function of a probe that returns a float, with its metadata beside it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from trainless.core.registry import Registry
from trainless.core.user_files import version_of
from trainless.probe.points import Inputs, RealData, Uniform, Weights
from trainless.probe.probe import Probe
from trainless.proxies.options import SIGN, Options, parse_options, read_options, suffix

Function = Callable[..., float]


@dataclass(frozen=True)
class Paper:
    """A publication.

    Args:
        authors: Family names, in the paper's order.
        title: Its title.
        venue: Where it appeared.
        year: When.

    Example:
        >>> found = Paper(("Lee", "Ham"), "AZ-NAS: Assembling Zero-Cost Proxies", "CVPR", 2024)
        >>> str(found), found.reference
        ('Lee & Ham, 2024', 'Lee, Ham. AZ-NAS: Assembling Zero-Cost Proxies. CVPR 2024.')
    """

    authors: tuple[str, ...]
    title: str
    venue: str
    year: int

    def __str__(self) -> str:
        several = len(self.authors) > 2
        return f"{self.authors[0]} et al., {self.year}" if several else f"{' & '.join(self.authors)}, {self.year}"

    @property
    def reference(self) -> str:
        """The long form, as in a list of references."""
        return f"{', '.join(self.authors)}. {self.title}. {self.venue} {self.year}."


@dataclass(frozen=True)
class Setting:
    """The point at which a paper computes its proxy.

    Args:
        weights: The initialisation.
        inputs: Real data or noise.
        batch: Number of samples; with ``split`` parts, of all parts together.
        network: The full network, TE-NAS's thin one (3 channels, one cell per stage) or a single cell of one channel.
        repeats: How many seeds the paper averages over.
        options: Arguments of the proxy that the paper's program chooses.
    """

    weights: Weights = field(default_factory=Uniform)
    inputs: Inputs = field(default_factory=RealData)
    batch: int = 64
    network: Literal["full", "thin", "cell"] = "full"
    repeats: int = 1
    options: Options = ()

    def describe(self) -> str:
        """The setting in a few words."""
        network = "" if self.network == "full" else f", {self.network} network"
        repeats = "" if self.repeats == 1 else f", mean of {self.repeats}"
        options = "".join(f", {name}={value}" for name, value in self.options)
        return f"{self.weights}, {self.batch} × {self.inputs}{network}{repeats}{options}"


@dataclass(frozen=True)
class Proxy:
    """A named training-free measure.

    Args:
        fn: The pure function.
        name: Its registered name.
        higher_is_better: The direction in which networks are believed to improve.
        labels: Whether labels matter.
        data: Whether real inputs matter (noise does otherwise).
        paper: The publication that proposed it, or a few words on where it comes from, such as ``"baseline"``.
        setting: The paper's own setting.
        version: Raised when the value changes, so that stored scores are not mixed up.
        aspect: What it looks at, such as ``"trainability"``: a ranking may hear measures of one aspect together, and a
            report says it above the measure's landscape.
        scale: ``"log"`` where the value is the natural logarithm of the paper's own.
        options: Arguments of the function that differ from its defaults; see ``having``.
    """

    fn: Function
    name: str
    higher_is_better: bool
    labels: bool
    data: bool
    paper: Paper | str
    setting: Setting
    version: int = 1
    aspect: str = ""
    scale: Literal["linear", "log"] = "linear"
    options: Options = ()

    def __call__(self, p: Probe, **options: Any) -> float:
        """The score; raises Unscorable with the reason where there is none."""
        return float(self.fn(p, **{**dict(self.options), **options}))

    def having(self, **options: Any) -> Proxy:
        """The same measure with arguments of its function given, under a name that says so: a proxy of its own.

        The paper's setting stays, but for the options that it would choose itself. ``registry`` finds it by that name,
        whatever the order in which the options are written there.

        Args:
            options: Arguments of the function, each of the kind of its default.

        Example:
            >>> from trainless.proxies.zico import zico
            >>> zico.having(cumulative=True, batches=4).name
            'zico/batches=4/cumulative=true'
            >>> registry["zico/cumulative=true/batches=4"] == zico.having(cumulative=True, batches=4)
            True
            >>> zico.having(batches="many")
            Traceback (most recent call last):
            trainless.core.errors.InputError: zico: batches=many was given; expected a whole number, such as batches=2;\
 it has: batches=2 (a whole number), cumulative=false (true or false): give it as in zico/cumulative=false
        """
        plain = self.name.removesuffix(suffix(self.options))
        chosen = dict(read_options(plain, self.fn, {**dict(self.options), **options})) if options else {}
        if not chosen:
            return self
        left = tuple((name, value) for name, value in self.setting.options if name not in chosen)
        held = tuple(chosen.items())
        return replace(self, name=f"{plain}{suffix(held)}", options=held, setting=replace(self.setting, options=left))

    def having_text(self, text: str) -> Proxy:
        """The same with the options that a name has after its first slash, such as ``tensors=8/samples=64``."""
        return self.having(**parse_options(self.name, self.fn, text))

    @property
    def summary(self) -> str:
        """Its meaning, in one line."""
        return (inspect.getdoc(self.fn) or "").partition("\n")[0]

    @property
    def description(self) -> str:
        """Its meaning, which way is better and who proposed it."""
        return f"{self.summary} ({'higher' if self.higher_is_better else 'lower'} is better; {self.paper})"

    def section(self, title: str) -> str:
        """A section of the docstring, such as ``Differences`` or ``Fails``; empty where there is none."""
        found = re.search(rf"^{title}:\n((?:[ ]+.*\n?|\n)+)", inspect.getdoc(self.fn) or "", re.MULTILINE)
        return inspect.cleandoc("\n" + found.group(1)) if found else ""


registry: Registry[Proxy] = Registry("proxy", "proxies", Proxy.having_text)
"""All proxies; a name may carry options, as in ``vkdnw/samples=64/tensors=8``."""


def canonical(name: str) -> str:
    """The name under which scores are kept: options in order and as they are read; any other name as it is.

    Example:
        >>> canonical("zico/cumulative=True/batches=4"), canonical("zico"), canonical("my/column")
        ('zico/batches=4/cumulative=true', 'zico', 'my/column')
    """
    return registry[name].name if SIGN in name and name in registry else name


def place_of(fn: Function) -> tuple[str, str]:
    """Where a function is defined."""
    return fn.__module__, fn.__qualname__


def proxy(
    *,
    higher_is_better: bool,
    paper: Paper | str,
    aspect: str = "",
    labels: bool = False,
    data: bool = True,
    setting: Setting | None = None,
    scale: Literal["linear", "log"] = "linear",
    version: int = 1,
    name: str = "",
) -> Callable[[Function], Proxy]:
    """Register a function of a probe as a proxy; see ``Proxy`` for the metadata.

    Defined again in the same place, as in a notebook, it takes the place of what was there. In a file of one's own the
    version changes with the code, so that nothing stale is taken from a store.

    Example:
        >>> @proxy(higher_is_better=True, paper="none", name="doctest_samples")
        ... def samples(p):
        ...     "Number of samples in the batch."
        ...     return len(p.x)
        >>> samples.summary
        'Number of samples in the batch.'
    """

    def register(fn: Function) -> Proxy:
        about = higher_is_better, labels, data, paper, setting or Setting(), version_of(fn, version), aspect, scale
        made = Proxy(fn, name or fn.__name__, *about)
        registry.add(made.name, made, lambda held: place_of(held.fn) == place_of(fn))
        return made

    return register
