"""Where a tensor's samples and channels lie, followed through the operations of a network.

Channels are what operations treat as such: a convolution's or batch norm's second axis, a linear layer's, layer norm's
or recurrent layer's last. What only arranges a tensor anew takes both axes along; what works entry by entry hands on
those of the stream that it adds to.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map_only

_SAMPLES, _CHANNELS = 1 << 40, 1  # strides that tell the two axes from all others, whose stride is 0
_NAMES = {
    "arranges": """permute transpose transpose_ swapaxes swapdims movedim moveaxis flatten view reshape unflatten
        squeeze squeeze_ unsqueeze unsqueeze_ contiguous clone t T mT H mH adjoint expand expand_as view_as
        reshape_as narrow select __getitem__ chunk split split_with_sizes unbind tensor_split unsafe_chunk unsafe_split
        ravel roll flip""",
    "second": """conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d batch_norm instance_norm
        group_norm batch_norm_of""",
    "last": """linear bilinear embedding embedding_bag lstm gru rnn_tanh rnn_relu lstm_cell gru_cell rnn_tanh_cell
        rnn_relu_cell multi_head_attention_forward""",
    "products": "matmul __matmul__ __rmatmul__ mm bmm addmm baddbmm",
    "arithmetic": """add sub mul div true_divide neg pow square sqrt rsqrt addcmul addcdiv lerp rsub reciprocal __add__
        __sub__ __mul__ __truediv__ __radd__ __rsub__ __rmul__ __rtruediv__ __iadd__ __isub__ __imul__ __itruediv__
        __neg__ __pow__ __rpow__ __rdiv__ add_ sub_ mul_ div_ neg_ pow_ addcmul_ to float double type type_as
        requires_grad_ dropout dropout1d dropout2d dropout3d alpha_dropout feature_alpha_dropout detach""",
}
_FOLDS = frozenset(("flatten", "view", "reshape", "unflatten", "view_as", "reshape_as"))  # in the order of memory
_COPIES = frozenset(("cat", "concat", "concatenate", "repeat", "repeat_interleave", "tile"))
_REDUCES = frozenset(("sum", "mean", "amax", "amin", "logsumexp", "std", "var", "median", "prod", "max", "min", "norm"))
_AS_OTHERS = frozenset(("to", "type_as", "expand_as", "view_as", "reshape_as"))
_ARRANGES, _SECOND, _LAST, _PRODUCTS, _ARITHMETIC = (frozenset(names.split()) for names in _NAMES.values())


@dataclass(frozen=True)
class Axes:
    """The axes of samples and channels, where they are known.

    Attributes:
        samples: The axis along which samples lie.
        channels: The axis along which channels lie.
        rows: The sample of each place along the samples' axis, where it holds positions too, as with windows of images
            that are filed as images of their own; without it, place and sample are one.
        grid: The sizes of the axes of positions that were laid into one, row by row.
    """

    samples: int | None = None
    channels: int | None = None
    rows: tuple[int, ...] | None = None
    grid: tuple[int, ...] | None = None

    @property
    def plain(self) -> bool:
        """Whether nothing speaks against one sample after the other along the first axis."""
        return self.samples in (None, 0) and self.rows is None

    def by_sample(self, tensor: Tensor, samples: int) -> Tensor | None:
        """A tensor in these axes as ``(N, …)``, every sample's numbers in one order; None where that is not known.

        Example:
            >>> Axes(0, 1, rows=(0, 1, 0, 1)).by_sample(torch.arange(4), 2).tolist()
            [[0, 2], [1, 3]]
        """
        if self.samples is None:
            return tensor if tensor.ndim and len(tensor) == samples else None
        turned = tensor.movedim(self.samples, 0)
        if self.rows is None:
            return turned if len(turned) == samples else None
        rows = torch.tensor(self.rows, device=tensor.device)
        if len(rows) != len(turned) or rows.bincount(minlength=samples).unique().numel() != 1:
            return None
        together: Tensor = turned[rows.argsort(stable=True)].unflatten(0, (samples, -1))
        return together


@dataclass(frozen=True)
class Layout:
    """The axes of samples and channels of a tensor that has both.

    ``grid`` are the sizes of the axes of positions that were laid into one, where they were; ``folded`` says how many
    samples there are where each has several places along their axis, one after the other.
    """

    samples: int
    channels: int
    grid: tuple[int, ...] | None = None
    folded: int = 0

    def turned(self, tensor: Tensor) -> Tensor:
        """A tensor in this layout as ``(N, C, *positions)``.

        Example:
            >>> Layout(0, 1, folded=2).turned(torch.zeros(6, 5)).shape
            torch.Size([2, 5, 3])
        """
        if self.folded:
            tensor = tensor.unflatten(self.samples, (self.folded, -1))
            return Layout(self.samples, self.channels + (self.channels > self.samples)).turned(tensor)
        return tensor if (self.samples, self.channels) == (0, 1) else tensor.movedim(*self._both())

    def back(self, tensor: Tensor) -> Tensor:
        """A tensor of ``(N, C, *positions)`` in this layout."""
        if self.folded:
            whole = Layout(self.samples, self.channels + (self.channels > self.samples)).back(tensor)
            return whole.flatten(self.samples, self.samples + 1)
        return tensor.movedim(*reversed(self._both()))

    def _both(self) -> tuple[tuple[int, int], tuple[int, int]]:
        return (self.samples, self.channels), (0, 1)


def settled(tensor: Tensor, axes: Axes, count: int) -> Layout | None:
    """The axes where they are known; else those that are usual, if so many samples can be along the first.

    Example:
        >>> settled(torch.zeros(5, 3, 4, 4), Axes(), 5), settled(torch.zeros(7, 3), Axes(), 5)
        (Layout(samples=0, channels=1, grid=None, folded=0), None)
    """
    if tensor.ndim < 2:
        return None
    samples = 0 if axes.samples is None else axes.samples
    if axes.rows is not None:
        each = len(axes.rows) // count
        in_order = axes.rows == tuple(place // each for place in range(each * count)) if each else False
        known = axes.channels not in (None, samples) and in_order
        return Layout(samples, axes.channels or 0, folded=count) if known else None
    if tensor.shape[samples] != count:
        return None
    usual = tensor.ndim - 1 if tensor.ndim < 4 else 1
    channels = usual if axes.channels is None else axes.channels
    if samples == channels:
        return None
    laid = (
        tensor.ndim == 3
        and axes.grid is not None
        and math.prod(axes.grid) * count * tensor.shape[channels] == tensor.numel()
    )
    return Layout(samples, channels, axes.grid if laid else None)


@functools.lru_cache(maxsize=4096)
def name_of(func: Callable[..., Any]) -> str:
    """A function's name; of an attribute's getter, the attribute's.

    Example:
        >>> name_of(torch.relu), name_of(Tensor.mT.__get__)
        ('relu', 'mT')
    """
    name = getattr(func, "__name__", "")
    return getattr(getattr(func, "__self__", None), "__name__", "") if name == "__get__" else name


def arranges(func: Callable[..., Any]) -> bool:
    """Whether a function gives the numbers of a tensor in another order or shape, or some of them, and no others."""
    return name_of(func) in _ARRANGES


def taken(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """What of a function's arguments it takes numbers from, not merely a shape, a type or a device.

    Example:
        >>> x = torch.zeros(2)
        >>> [len(taken(func, (x, x), {})) for func in (torch.zeros_like, Tensor.type_as, torch.add)]
        [0, 1, 2]
    """
    name = name_of(func)
    if name.endswith("_like") or name.startswith("new_"):
        return ()
    return args[:1] if name in _AS_OTHERS else (*args, *kwargs.values())


def is_arithmetic(func: Callable[..., Any]) -> bool:
    """Whether a function adds, scales or converts entry by entry."""
    return name_of(func) in _ARITHMETIC


def is_layer(func: Callable[..., Any]) -> bool:
    """Whether a function is a layer or a norm, by whose channels its result's are known."""
    return name_of(func) in _SECOND | _LAST or name_of(func) in ("layer_norm", "rms_norm")


def is_product(func: Callable[..., Any]) -> bool:
    """Whether a function multiplies matrices, be it in the course of attention."""
    return name_of(func) in _PRODUCTS or name_of(func) in ("einsum", "scaled_dot_product_attention", "baddbmm")


def axes_after(
    func: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    results: Sequence[Tensor],
    known: Sequence[tuple[Tensor, Axes]],
    weights: Callable[[Tensor], bool],
) -> list[Axes]:
    """The axes of a function's results.

    Args:
        func: The function.
        args: What it was given.
        kwargs: What it was given by name.
        results: The tensors that it returned.
        known: The tensors among what it was given that depend on the network's input, oldest first, and their axes.
        weights: Whether a tensor comes from parameters alone.
    """
    name = name_of(func)
    if not known:
        return [Axes(0, result.ndim - 1) if name in _LAST else Axes() for result in results]
    tensor, axes = known[0]
    if name in _COPIES and axes.samples is not None and _longer(results, tensor, axes.samples):
        return [_copied(func, args, kwargs, known)]
    if name in _ARRANGES:
        return _arranged(func, args, kwargs, tensor, axes, len(results))
    found = [_axes(name, args, kwargs, result, known, weights) for result in results]
    if name in ("lstm", "gru", "rnn_tanh", "rnn_relu"):  # the last states: layers, samples, channels
        found[1:] = [Axes(1, 2) if result.ndim == 3 else Axes() for result in results[1:]]
    return found


def _axes(
    name: str,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    result: Tensor,
    known: Sequence[tuple[Tensor, Axes]],
    weights: Callable[[Tensor], bool],
) -> Axes:
    tensor, axes = known[0]
    samples, rows = _lasting(axes, tensor, result)
    grid = axes.grid
    if name == "embedding" and result.ndim == tensor.ndim + 1:
        return Axes(axes.samples, result.ndim - 1, axes.rows)
    if name in _SECOND:
        return Axes(0, 1, rows if samples == 0 else None) if result.ndim > 1 else Axes()
    if name in _LAST:
        return Axes(samples, result.ndim - 1, rows, grid)
    if name in ("layer_norm", "rms_norm"):
        shape = args[1] if len(args) > 1 else kwargs["normalized_shape"]
        return Axes(samples, result.ndim - len(shape), rows, grid)
    if name in ("unfold", "fold") and axes.samples == 0 and result.shape[0] == tensor.shape[0]:
        return Axes(0, axes.channels if result.ndim == tensor.ndim else None, axes.rows)
    if name == "stack":
        place = kwargs.get("dim", args[1] if len(args) > 1 else 0) % result.ndim
        return Axes(*(None if axis is None else axis + (axis >= place) for axis in (axes.samples, axes.channels)))
    if name in _REDUCES and result.ndim < tensor.ndim:
        return _reduced(args, kwargs, tensor, axes, result)
    if name == "einsum":
        return _einsum(args, tensor, axes, weights)
    if name in _PRODUCTS:
        given = [each for each in tree_leaves((args, kwargs)) if isinstance(each, Tensor)][-2:]
        if weights(given[-1]):
            return Axes(samples, result.ndim - 1, rows, grid)
        if weights(given[0]) and result.ndim > 1:
            return Axes(samples, result.ndim - 2, rows)
        return Axes(samples, None, rows) if samples is not None and samples < result.ndim - 2 else Axes()
    return next(
        (
            each
            for tensor, each in known
            if tensor.ndim == result.ndim
            and each.samples is not None
            and each.channels is not None
            and tensor.shape[each.samples] == result.shape[each.samples]
        ),
        Axes(samples, axes.channels if result.ndim == tensor.ndim else None, rows, grid),
    )


def _reduced(args: tuple[Any, ...], kwargs: dict[str, Any], tensor: Tensor, axes: Axes, result: Tensor) -> Axes:
    """The axes that are left where some were summed up, or the like."""
    told = kwargs.get("dim", kwargs.get("axis", args[1] if len(args) > 1 and args[0] is tensor else None))
    gone = {each % tensor.ndim for each in ((told,) if isinstance(told, int) else told or ())}
    if len(gone) != tensor.ndim - result.ndim or axes.rows is not None:
        return Axes()

    def left(axis: int | None) -> int | None:
        return None if axis is None or axis in gone else axis - sum(each < axis for each in gone)

    return Axes(left(axes.samples), left(axes.channels))


def _lasting(axes: Axes, tensor: Tensor, result: Tensor) -> tuple[int | None, tuple[int, ...] | None]:
    """The samples' axis and rows of a tensor, as far as they are those of what was made of it."""
    if axes.samples is None or result.ndim != tensor.ndim:
        return None, None
    if axes.rows is not None and result.shape[axes.samples] != len(axes.rows):
        return None, None
    return axes.samples, axes.rows


def _arranged(
    func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], tensor: Tensor, axes: Axes, count: int
) -> list[Axes]:
    """Let the function arrange a tensor without numbers whose strides tell the axes apart.

    Where samples and positions come to lie on one axis, or part again, it arranges the samples' own numbers.
    """
    strides = [0] * tensor.ndim
    if axes.samples is not None:
        strides[axes.samples] = _SAMPLES
    if axes.channels is not None:
        strides[axes.channels] = _CHANNELS
    label = torch.empty_strided(tensor.shape, strides, device="meta")
    if name_of(func) in ("contiguous", "clone", "roll", "flip"):
        return [axes] * count

    def applied(func: Callable[..., Any], label: Tensor) -> list[Tensor]:
        given = tuple(label if each is tensor else each for each in args)
        named = {key: label if each is tensor else each for key, each in kwargs.items()}
        try:
            made = func(*given, **named)
        except (RuntimeError, TypeError, IndexError, ValueError, NotImplementedError):
            return []
        return [each for each in tree_leaves(made) if isinstance(each, Tensor)]

    made = [] if axes.rows is not None else applied(Tensor.view if name_of(func) == "reshape" else func, label)
    if len(made) == count and all(each is label or each._is_view() for each in made):  # a copy has strides of its own
        found = [_read(each) for each in made]
        if axes.grid is None and tensor.ndim < 4:
            return found
        places, grid = _positions(tensor, axes)
        made = applied(Tensor.view if name_of(func) == "reshape" else func, places)
        made = [each for each in made if each is places or each._is_view()]
        laid = [_laid(label, each, grid) for each, label in zip(found, made, strict=False)]
        return [replace(each, grid=of) for each, of in zip(found, laid, strict=True)] if len(laid) == count else found
    shapes = [each.shape for each in applied(func, torch.empty(tensor.shape, device="meta"))]
    chosen = any(isinstance(each, Tensor) and each is not tensor for each in tree_leaves((args, kwargs)))
    if axes.samples is None or len(shapes) != count or chosen:  # what is picked by numbers has no order of its own
        return [Axes()] * count
    size = tensor.shape[axes.samples]
    if name_of(func) in _FOLDS and axes.samples == 0 and all(shape[:1] == (size,) for shape in shapes):
        return [Axes(0, None, axes.rows)] * count
    made = applied(Tensor.reshape if name_of(func) == "view" else func, _owners(tensor, axes))  # a copy will do
    return [_owned(each) for each in made] if len(made) == count else [Axes()] * count


def _owners(tensor: Tensor, axes: Axes) -> Tensor:
    """A tensor's samples, number by number."""
    if axes.samples is None:
        return torch.full(tensor.shape, -1, dtype=torch.int32)
    size = tensor.shape[axes.samples]
    own = torch.arange(size, dtype=torch.int32) if axes.rows is None else torch.tensor(axes.rows, dtype=torch.int32)
    return own.view([-1 if axis == axes.samples else 1 for axis in range(tensor.ndim)]).expand(tensor.shape)


def _longer(results: Sequence[Tensor], tensor: Tensor, axis: int) -> bool:
    """Whether what was made is a single tensor of another length along an axis."""
    same_axes = len(results) == 1 and results[0].ndim == tensor.ndim
    return same_axes and results[0].shape[axis] != tensor.shape[axis]


def _copied(
    func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], known: Sequence[tuple[Tensor, Axes]]
) -> Axes:
    """The axes where tensors are put one after the other along the samples' axis, or repeated."""
    owners = {id(tensor): _owners(tensor, axes) for tensor, axes in known}

    def owned(each: Tensor) -> Tensor:
        return owners.get(id(each), each)

    try:
        made = func(*tree_map_only(Tensor, owned, args), **tree_map_only(Tensor, owned, kwargs))
    except (RuntimeError, TypeError, IndexError, ValueError, NotImplementedError):
        return Axes()
    whole = isinstance(made, Tensor) and made.dtype == torch.int32 and bool((made >= 0).all())
    return _owned(made) if whole else Axes()


def _positions(tensor: Tensor, axes: Axes) -> tuple[Tensor, tuple[int, ...]]:
    """A tensor without numbers whose strides count positions, row by row, and the grid that they are of."""
    places = [axis for axis in range(tensor.ndim) if axis not in (axes.samples, axes.channels)]
    strides, step = [0] * tensor.ndim, 1
    for axis in reversed(places):
        strides[axis], step = step, step * tensor.shape[axis]
    sizes = tuple(tensor.shape[axis] for axis in places)
    known = len(places) == 1 and axes.grid is not None and math.prod(axes.grid) == sizes[0]
    return torch.empty_strided(tensor.shape, strides, device="meta"), axes.grid if known and axes.grid else sizes


def _laid(label: Tensor, axes: Axes, grid: tuple[int, ...]) -> tuple[int, ...] | None:
    """The grid of a tensor with a single axis of positions that holds all of them in their order."""
    places = [axis for axis in range(label.ndim) if axis not in (axes.samples, axes.channels)]
    whole = len(places) == 1 and len(grid) > 1 and label.shape[places[0]] == math.prod(grid)
    return grid if whole and label.stride(places[0]) == 1 else None


def _owned(owners: Tensor) -> Axes:
    """The samples' axis of a tensor each of whose numbers is that of its sample."""
    for axis in range(owners.ndim):
        rows = owners.movedim(axis, 0).reshape(owners.shape[axis], -1)
        if rows.numel() and bool((rows == rows[:, :1]).all()):
            held = tuple(rows[:, 0].tolist())
            return Axes(axis, None, None if held == tuple(range(len(held))) else held)
    return Axes()


def _read(label: Tensor) -> Axes:
    strides = label.stride()
    whole = all(stride <= _SAMPLES for stride in strides)  # channels may be parted, samples are not
    others = any(stride not in (0, _SAMPLES, _CHANNELS) for stride in strides)

    def only(wanted: int) -> int | None:
        return strides.index(wanted) if strides.count(wanted) == 1 else None

    return Axes(only(_SAMPLES) if whole else None, None if others else only(_CHANNELS))


def _einsum(args: tuple[Any, ...], tensor: Tensor, axes: Axes, weights: Callable[[Tensor], bool]) -> Axes:
    equation, operands = args[0], [each for each in tree_leaves(args[1:]) if isinstance(each, Tensor)]
    if not isinstance(equation, str) or "." in equation or "->" not in equation:
        return Axes()
    left, _, after = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    mine = next((term for term, each in zip(terms, operands, strict=False) if each is tensor), "")
    new = {
        letter
        for term, each in zip(terms, operands, strict=False)
        if weights(each)
        for letter in term
        if letter not in mine
    }

    def axis(at: int | None) -> int | None:
        return after.index(mine[at]) if at is not None and at < len(mine) and mine[at] in after else None

    fresh = [place for place, letter in enumerate(after) if letter in new]
    return Axes(axis(axes.samples), fresh[0] if len(fresh) == 1 else axis(axes.channels) if not fresh else None)
