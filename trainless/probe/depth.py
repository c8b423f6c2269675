"""How deep a network is: the most layers with weights between its input and its output."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves
from torch.utils.weak import WeakIdKeyDictionary

from trainless.core.errors import Unscorable
from trainless.probe.norms import normalised
from trainless.probe.probe import private_copy

_LAYERS: dict[Callable[..., Any], int] = {
    **dict.fromkeys((F.conv1d, F.conv2d, F.conv3d, F.linear), 1),
    **dict.fromkeys((F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d), 1),
    **dict.fromkeys((torch.lstm, torch.gru, torch.rnn_tanh, torch.rnn_relu), 1),
    **dict.fromkeys((torch.lstm_cell, torch.gru_cell, torch.rnn_tanh_cell, torch.rnn_relu_cell), 1),
    F.multi_head_attention_forward: 2,
}


def depth(net: nn.Module, input_shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> int:
    """The most convolutions and linear layers on one way from input to output, found by running one sample.

    Norms, activations, poolings, embeddings and sums add nothing. A recurrent cell counts at every step of the
    sequence, one of PyTorch's own recurrent modules once.

    Args:
        net: Any network; it is not touched.
        input_shape: The shape of one sample.
        dtype: Type of the inputs; integers for tokens.

    Example:
        >>> depth(nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2)), (4,))
        2
    """
    ours = private_copy(net).eval()
    device = next((tensor.device for tensor in net.parameters()), None)
    x = torch.zeros((1, *input_shape), dtype=dtype, device=device)
    levels = _Levels()
    try:
        with torch.no_grad(), normalised(ours, "off"), levels:
            outputs = ours(x)
    except (NotImplementedError, RuntimeError) as error:
        raise Unscorable(f"the network cannot run on inputs of shape {tuple(x.shape)}: {error}") from error
    return levels.of(outputs)


class _Levels(TorchFunctionMode):
    """Remembers for every tensor how many layers it has gone through."""

    def __init__(self) -> None:
        super().__init__()
        self._known = WeakIdKeyDictionary()

    def of(self, *values: Any) -> int:
        return max((self._known.get(leaf, 0) for leaf in tree_leaves(values) if isinstance(leaf, Tensor)), default=0)

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        level = self.of(args, kwargs) + _LAYERS.get(func, 0)
        result = func(*args, **kwargs)
        for leaf in tree_leaves(result):
            if isinstance(leaf, Tensor) and level > self._known.get(leaf, 0):
                self._known[leaf] = level
        return result
