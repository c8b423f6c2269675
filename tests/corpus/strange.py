"""Networks that no library has: odd control flow, weights that are made, norms and attention by hand, other numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import parametrizations

CLASSES = 3
IMAGE, ROWS, SEQUENCE, NODES = (3, 8, 8), (10,), (9, 5), (6, 5)
Forward = Callable[[Any, Tensor], Tensor]
NETWORKS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...] | None]] = {}
"""What makes each network, and the shape of a sample; None of seven tokens."""


class Written(nn.Module):
    """Modules by name, parameters and buffers by name, and a forward pass as a function of them."""

    def __init__(
        self,
        forward: Forward,
        parameters: dict[str, tuple[int, ...]] | None = None,
        buffers: dict[str, Tensor] | None = None,
        **modules: nn.Module,
    ) -> None:
        super().__init__()
        for name, module in modules.items():
            setattr(self, name, module)
        for name, shape in (parameters or {}).items():
            setattr(self, name, nn.Parameter(torch.randn(shape) * 0.3))
        for name, tensor in (buffers or {}).items():
            self.register_buffer(name, tensor)
        self.written = forward

    def forward(self, x: Tensor) -> Tensor:
        return self.written(self, x)


def network(shape: tuple[int, ...] | None) -> Callable[[Callable[[], nn.Module]], Callable[[], nn.Module]]:
    """List what makes a network."""

    def register(make: Callable[[], nn.Module]) -> Callable[[], nn.Module]:
        NETWORKS[make.__name__] = make, shape
        return make

    return register


def block(inputs: int, outputs: int) -> nn.Module:
    return nn.Sequential(nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU())


def head(channels: int) -> nn.Module:
    return nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, CLASSES))


@network(IMAGE)
def unrolled_with_shared_weights() -> nn.Module:
    def forward(self: Any, x: Tensor) -> Tensor:
        x = self.stem(x)
        for _ in range(3):
            x = x + self.body(x)
        return self.head(x)

    return Written(forward, stem=block(3, 6), body=block(6, 6), head=head(6))


@network(IMAGE)
def two_halves_through_one_branch() -> nn.Module:
    def forward(self: Any, x: Tensor) -> Tensor:
        left, right = (self.branch(half) for half in x.chunk(2, -1))
        return self.head((left - right).abs())

    return Written(forward, branch=block(3, 6), head=head(6))


@network(ROWS)
def weights_made_of_a_buffer() -> nn.Module:
    def forward(self: Any, x: Tensor) -> Tensor:
        return self.head(F.relu(torch.tanh(F.linear(x, self.generate(self.seed).view(16, 10)))))

    return Written(
        forward, buffers={"seed": torch.linspace(-1, 1, 4)}, generate=nn.Linear(4, 160), head=nn.Linear(16, CLASSES)
    )


@network(ROWS)
def weights_made_for_each_sample() -> nn.Module:
    def forward(self: Any, x: Tensor) -> Tensor:
        weights = self.generate(x).view(len(x), 8, 10)
        return self.head(F.relu(torch.einsum("nij,nj->ni", weights, x)))

    return Written(forward, generate=nn.Linear(10, 80), head=nn.Linear(8, CLASSES))


@network(IMAGE)
def capsules() -> nn.Module:
    def squashed(v: Tensor) -> Tensor:
        size = (v * v).sum(-1, keepdim=True)
        return size / (1 + size) * v / (size + 1e-8).sqrt()

    def forward(self: Any, x: Tensor) -> Tensor:
        votes = torch.einsum("nid,icde->nice", squashed(F.relu(self.conv(x)).view(len(x), -1, 4)), self.weight)
        agreement = votes.new_zeros(votes.shape[:3])
        for _ in range(2):
            out = squashed((agreement.softmax(2)[..., None] * votes).sum(1))
            agreement = agreement + (votes * out[:, None]).sum(-1)
        return out.norm(dim=-1)

    return Written(forward, {"weight": (32, CLASSES, 4, 4)}, conv=nn.Conv2d(3, 8, 3, 2, 1))


def experts() -> nn.ModuleList:
    return nn.ModuleList(nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 8)) for _ in range(3))


@network(ROWS)
def experts_side_by_side() -> nn.Module:
    def forward(self: Any, x: Tensor) -> Tensor:
        answers = torch.stack([expert(x) for expert in self.experts], 1)
        return self.head((self.gate(x).softmax(-1)[..., None] * answers).sum(1))

    return Written(forward, gate=nn.Linear(10, 3), experts=experts(), head=nn.Linear(8, CLASSES))


@network(ROWS)
def one_expert_for_each_sample() -> nn.Module:
    def forward(self: Any, x: Tensor) -> Tensor:
        weight, chosen = self.gate(x).softmax(-1).max(-1)
        out = x.new_zeros(len(x), 8)
        for index, expert in enumerate(self.experts):
            mine = chosen == index
            if mine.any():
                out[mine] = weight[mine, None] * expert(x[mine])
        return self.head(out)

    return Written(forward, gate=nn.Linear(10, 3), experts=experts(), head=nn.Linear(8, CLASSES))


@network(ROWS)
def splines() -> nn.Module:
    def forward(self: Any, x: Tensor) -> Tensor:
        bumps = torch.exp(-((x[..., None] - self.grid) ** 2))
        return self.head(torch.einsum("nig,oig->no", bumps, self.weight) + F.linear(F.silu(x), self.base))

    grid = {"grid": torch.linspace(-2, 2, 5)}
    return Written(forward, {"weight": (8, 10, 5), "base": (8, 10)}, grid, head=nn.Linear(8, CLASSES))


@network(ROWS)
def steps_of_a_differential_equation() -> nn.Module:
    def forward(self: Any, x: Tensor) -> Tensor:
        x, time = self.embed(x), 0.0
        while time < 1:
            x = x + 0.25 * F.silu(self.slope(torch.cat([x, torch.full_like(x[:, :1], time)], 1)))
            time += 0.25
        return self.head(x)

    return Written(forward, embed=nn.Linear(10, 6), slope=nn.Linear(7, 6), head=nn.Linear(6, CLASSES))


@network(IMAGE)
def spectral_norm() -> nn.Module:
    conv = parametrizations.spectral_norm(nn.Conv2d(3, 6, 3))
    return nn.Sequential(conv, nn.ReLU(), nn.utils.spectral_norm(nn.Conv2d(6, 6, 3)), nn.ReLU(), head(6))


@network(ROWS)
def weight_norm_and_orthogonal_weights() -> nn.Module:
    first = parametrizations.weight_norm(nn.Linear(10, 16))
    return nn.Sequential(first, nn.ReLU(), parametrizations.orthogonal(nn.Linear(16, 16)), nn.ReLU(), nn.Linear(16, 3))


@network(IMAGE)
def rounded_weights() -> nn.Module:
    def forward(self: Any, x: Tensor) -> Tensor:
        weight = self.conv.weight
        rounded = weight + ((weight * 8).round() / 8 - weight).detach()
        return self.head(F.relu(F.conv2d(x, rounded, self.conv.bias)))

    return Written(forward, conv=nn.Conv2d(3, 6, 3), head=head(6))


@network(IMAGE)
def group_norm_by_hand() -> nn.Module:
    def norm(self: Any, x: Tensor) -> Tensor:
        rows = x.reshape(len(x), 2, -1)
        rows = (rows - rows.mean(-1, keepdim=True)) / (rows.var(-1, keepdim=True, unbiased=False) + 1e-5).sqrt()
        return rows.view_as(x) * self.weight[:, None, None] + self.bias[:, None, None]

    by_hand = Written(norm, {"weight": (8,), "bias": (8,)})
    return nn.Sequential(nn.Conv2d(3, 8, 3), by_hand, nn.ReLU(), nn.Conv2d(8, 8, 3), nn.ReLU(), head(8))


@network(IMAGE)
def instance_norm_by_hand() -> nn.Module:
    by_hand = Written(lambda self, x: (x - x.mean((2, 3), True)) / (x.std((2, 3), keepdim=True) + 1e-5))
    return nn.Sequential(nn.Conv2d(3, 8, 3), by_hand, nn.ReLU(), head(8))


@network(IMAGE)
def frozen_and_odd_batch_norms() -> nn.Module:
    def norm(self: Any, x: Tensor) -> Tensor:
        return x * self.scale[:, None, None] + self.shift[:, None, None]

    frozen = Written(norm, buffers={"scale": torch.rand(8) + 0.5, "shift": torch.randn(8)})
    odd = nn.BatchNorm2d(8, track_running_stats=False, affine=False), nn.BatchNorm2d(8, momentum=None)
    return nn.Sequential(nn.Conv2d(3, 8, 3), frozen, odd[0], nn.ReLU(), nn.Conv2d(8, 8, 3), odd[1], nn.ReLU(), head(8))


@network(ROWS)
def fourier_by_complex_weights() -> nn.Module:
    def forward(self: Any, x: Tensor) -> Tensor:
        waves = torch.fft.rfft(F.relu(self.embed(x))) * torch.complex(self.real, self.imaginary)
        return self.head(torch.fft.irfft(waves, n=16))

    parameters = {"real": (9,), "imaginary": (9,)}
    return Written(forward, parameters, embed=nn.Linear(10, 16), head=nn.Linear(16, CLASSES))


@network(IMAGE)
def buffers_that_change() -> nn.Module:
    def forward(self: Any, x: Tensor) -> Tensor:
        self.calls += 1
        return self.head(F.relu(self.conv(x)))

    return Written(forward, buffers={"calls": torch.zeros(())}, conv=nn.Conv2d(3, 6, 3), head=head(6))


@network(IMAGE)
def in_place_everywhere() -> nn.Module:
    def forward(self: Any, x: Tensor) -> Tensor:
        x = self.first(x)
        x.mul_(1.5)
        x.add_(0.1)
        x.relu_()
        y = self.second(x)
        y += x
        y.clamp_(min=0)
        y /= 2.0
        return self.head(y)

    first, second = nn.Conv2d(3, 6, 3, padding=1), nn.Conv2d(6, 6, 3, padding=1)
    return Written(forward, first=first, second=second, head=head(6))


@network(SEQUENCE)
def cells_in_a_loop() -> nn.Module:
    def forward(self: Any, x: Tensor) -> Tensor:
        state = memory = x.new_zeros(len(x), 6)
        for step in x.unbind(1):
            state, memory = self.cell(step, (state, memory))
        return self.head(state)

    return Written(forward, cell=nn.LSTMCell(5, 6), head=nn.Linear(6, CLASSES))


@network(None)
def attention_with_masks() -> nn.Module:
    def forward(self: Any, x: Tensor) -> Tensor:
        away, rows = x < 4, self.embed(x)
        mixed, _ = self.mix(rows, rows, rows, key_padding_mask=away, need_weights=False)
        rows = self.norm(rows + mixed).masked_fill(away[..., None], 0)
        return self.head(F.gelu(rows.sum(1) / (~away).sum(1, keepdim=True).clamp(min=1)))

    mix = nn.MultiheadAttention(8, 2, batch_first=True)
    return Written(forward, embed=nn.Embedding(20, 8), mix=mix, norm=nn.LayerNorm(8), head=nn.Linear(8, CLASSES))


@network(None)
def rotary_attention_by_hand() -> nn.Module:
    def turned(x: Tensor) -> Tensor:
        angles = torch.arange(x.shape[1], dtype=x.dtype)[:, None] * torch.tensor([1.0, 0.1, 0.01, 0.001], dtype=x.dtype)
        half = torch.cat([-x[..., 4:], x[..., :4]], -1)
        return x * angles.cos().repeat(1, 2) + half * angles.sin().repeat(1, 2)

    def forward(self: Any, x: Tensor) -> Tensor:
        rows = self.embed(x)
        query, key, value = self.all(rows).chunk(3, -1)
        weights = (turned(query) @ turned(key).mT / 8**0.5).softmax(-1)
        return self.head(F.gelu((rows + weights @ value).mean(1)))

    return Written(forward, embed=nn.Embedding(20, 8), all=nn.Linear(8, 24), head=nn.Linear(8, CLASSES))


@network(NODES)
def messages_along_edges() -> nn.Module:
    def forward(self: Any, x: Tensor) -> Tensor:
        source, target = self.edges
        nodes = self.embed(x)
        sent = torch.zeros_like(nodes).index_add(1, target, F.relu(nodes[:, source]))
        return self.head(F.relu(self.join(torch.cat([nodes, sent], -1))).sum(1))

    edges = {"edges": torch.tensor([[0, 1, 2, 3, 4, 5, 0, 2], [1, 2, 3, 4, 5, 0, 3, 5]])}
    return Written(forward, None, edges, embed=nn.Linear(5, 8), join=nn.Linear(16, 8), head=nn.Linear(8, CLASSES))


def u_net(axes: int) -> nn.Module:
    conv, norm = (nn.Conv1d, nn.Conv3d)[axes // 3], (nn.BatchNorm1d, nn.BatchNorm3d)[axes // 3]
    pool, up = (nn.MaxPool1d, nn.MaxPool3d)[axes // 3], (nn.ConvTranspose1d, nn.ConvTranspose3d)[axes // 3]

    def double(inputs: int, outputs: int) -> nn.Module:
        return nn.Sequential(conv(inputs, outputs, 3, padding=1), norm(outputs), nn.ReLU())

    def forward(self: Any, x: Tensor) -> Tensor:
        fine = self.down(x)
        return self.head(self.join(torch.cat([fine, self.up(self.low(self.pool(fine)))], 1)).flatten(2).mean(-1))

    parts = {"down": double(1, 4), "pool": pool(2), "low": double(4, 8), "up": up(8, 4, 2, 2), "join": double(8, 4)}
    return Written(forward, **parts, head=nn.Linear(4, CLASSES))


@network((1, 16))
def u_net_of_signals() -> nn.Module:
    return u_net(1)


@network((1, 6, 6, 6))
def u_net_of_volumes() -> nn.Module:
    return u_net(3)


@network(IMAGE)
def shuffled_pixels_and_wavelets() -> nn.Module:
    haar = torch.tensor([[1.0, 1, 1, 1], [1, 1, -1, -1], [1, -1, 1, -1], [1, -1, -1, 1]]).view(4, 1, 2, 2) / 2

    def forward(self: Any, x: Tensor) -> Tensor:
        x = F.conv2d(x, self.haar.repeat(3, 1, 1, 1), stride=2, groups=3)
        return self.head(F.relu(self.last(F.relu(F.pixel_shuffle(self.conv(x), 2)))))

    buffers = {"haar": haar}
    return Written(forward, None, buffers, conv=nn.Conv2d(12, 16, 3, 1, 1), last=nn.Conv2d(4, 8, 3), head=head(8))


@network(IMAGE)
def places_that_are_looked_up() -> nn.Module:
    def forward(self: Any, x: Tensor) -> Tensor:
        grid = F.affine_grid(
            torch.eye(2, 3, dtype=x.dtype).repeat(len(x), 1, 1), [len(x), 1, 8, 8], align_corners=False
        )
        moved = grid + 0.2 * torch.tanh(self.offsets(x)).permute(0, 2, 3, 1)
        return self.head(F.relu(self.last(F.grid_sample(F.relu(self.conv(x)), moved, align_corners=False))))

    convolutions = {"conv": nn.Conv2d(3, 6, 3, padding=1), "offsets": nn.Conv2d(3, 2, 3, padding=1)}
    return Written(forward, **convolutions, last=nn.Conv2d(6, 6, 3), head=head(6))


@network(IMAGE)
def mixing_by_fourier() -> nn.Module:
    def forward(self: Any, x: Tensor) -> Tensor:
        rows = self.patches(x).flatten(2).mT
        return self.head(F.gelu(self.wide(self.norm(rows + torch.fft.fft2(rows).real))).mean(1))

    parts = {"patches": nn.Conv2d(3, 8, 2, 2), "norm": nn.LayerNorm(8), "wide": nn.Linear(8, 8)}
    return Written(forward, **parts, head=nn.Linear(8, CLASSES))


@network(IMAGE)
def gates_of_many_kinds() -> nn.Module:
    def forward(self: Any, x: Tensor) -> Tensor:
        x = F.glu(self.wide(x), 1)
        x = x * torch.sigmoid(self.out(F.relu(self.squeeze(x.mean((2, 3))))))[:, :, None, None]
        x = self.pair(F.relu(torch.cat([x, -x], 1)))
        x = x * torch.sigmoid(self.slope * x)
        return self.head(x.unflatten(1, (3, 2)).amax(2))

    parts = {
        "wide": nn.Conv2d(3, 12, 3),
        "squeeze": nn.Linear(6, 4),
        "out": nn.Linear(4, 6),
        "pair": nn.Conv2d(12, 6, 1),
    }
    return Written(forward, {"slope": ()}, **parts, head=head(3))


@network(IMAGE)
def random_though_in_evaluation() -> nn.Module:
    def forward(self: Any, x: Tensor) -> Tensor:
        x = self.stem(x + 0.1 * torch.randn_like(x))
        kept = (torch.rand(len(x), 1, 1, 1, dtype=x.dtype) > 0.3).to(x.dtype)
        return self.head(x + kept * self.body(x))

    return Written(forward, stem=block(3, 6), body=block(6, 6), head=head(6))


@network(ROWS)
def gradients_on_the_way() -> nn.Module:
    def forward(self: Any, x: Tensor) -> Tensor:
        with torch.enable_grad():
            x = x if x.requires_grad else x.detach().requires_grad_()
            (slope,) = torch.autograd.grad(self.energy(x).tanh().sum(), x, create_graph=True)
        return self.head(F.relu(self.wide(slope)))

    return Written(forward, energy=nn.Linear(10, 6), wide=nn.Linear(10, 16), head=nn.Linear(16, CLASSES))


class Sign(torch.autograd.Function):
    """A step, with a gradient near zero."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return (x > 0).to(x.dtype)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return gradients[0] * (x.abs() < 1)


@network(IMAGE)
def steps_with_gradients_of_their_own() -> nn.Module:
    def forward(self: Any, x: Tensor) -> Tensor:
        return self.head(F.relu(self.last(Sign.apply(self.conv(x)))))  # type: ignore[no-untyped-call]

    return Written(forward, conv=nn.Conv2d(3, 6, 3), last=nn.Conv2d(6, 6, 3), head=head(6))


@network(IMAGE)
def samples_that_touch() -> nn.Module:
    def forward(self: Any, x: Tensor) -> Tensor:
        rows = F.relu(self.embed(x.flatten(1)))
        spread = rows.std(0, keepdim=True).mean().expand(len(x), 1)
        return self.head(torch.cat([(rows @ rows.T).softmax(-1) @ rows, spread], 1))

    return Written(forward, embed=nn.Linear(192, 16), head=nn.Linear(17, CLASSES))


@network(IMAGE)
def one_kernel_both_ways() -> nn.Module:
    def forward(self: Any, x: Tensor) -> Tensor:
        code = F.relu(F.conv2d(x, self.conv.weight, padding=1))
        return self.head(x - F.conv_transpose2d(code, self.conv.weight, padding=1))

    return Written(forward, conv=nn.Conv2d(3, 6, 3, padding=1, bias=False), head=head(3))


@network(ROWS)
def products_of_two_inputs() -> nn.Module:
    def forward(self: Any, x: Tensor) -> Tensor:
        return self.head(F.relu(self.both(x[:, :5], x[:, 5:])))

    return Written(forward, both=nn.Bilinear(5, 5, 16), head=nn.Linear(16, CLASSES))


@network(IMAGE)
def kernels_of_the_input() -> nn.Module:
    def forward(self: Any, x: Tensor) -> Tensor:
        kernels = torch.einsum("ne,eoiuv->noiuv", self.choose(x.mean((2, 3))).softmax(-1), self.weight).flatten(0, 1)
        x = F.relu(F.conv2d(x.reshape(1, -1, 8, 8), kernels, padding=1, groups=len(x)).view(len(x), -1, 8, 8))
        around = F.unfold(x, 3, padding=1).view(len(x), 6, 9, 8, 8)
        return self.head((self.involve(x).view(len(x), 1, 9, 8, 8) * around).sum(2))

    parts = {"choose": nn.Linear(3, 4), "involve": nn.Conv2d(6, 9, 1)}
    return Written(forward, {"weight": (4, 6, 3, 3, 3)}, **parts, head=head(6))


@network(IMAGE)
def states_that_decay() -> nn.Module:
    def forward(self: Any, x: Tensor) -> Tensor:
        rows, kept = self.embed(x.flatten(2).mT), torch.sigmoid(self.decay)
        state, states = rows.new_zeros(len(x), 6), []
        for row in rows.unbind(1)[:12]:
            state = kept * state + row
            states.append(state)
        return self.head(F.silu(torch.stack(states, 1)).mean(1))

    return Written(forward, {"decay": (6,)}, embed=nn.Linear(3, 6), head=nn.Linear(6, CLASSES))


@network(ROWS)
def distances_to_prototypes() -> nn.Module:
    def forward(self: Any, x: Tensor) -> Tensor:
        return -(torch.cdist(F.normalize(F.relu(self.embed(x))), self.prototypes) ** 2)

    return Written(forward, {"prototypes": (CLASSES, 16)}, embed=nn.Linear(10, 16))


@network(IMAGE)
def largest_places_and_hooks() -> nn.Module:
    def forward(self: Any, x: Tensor) -> Tensor:
        return self.head(self.body(x).flatten(2).topk(3, -1).values.mean(-1))

    net = Written(forward, body=block(3, 8), head=nn.Linear(8, CLASSES))
    net.body.register_forward_hook(lambda module, inputs, output: output * 2)  # type: ignore[union-attr]
    return net


@network(IMAGE)
def double_precision_inside() -> nn.Module:
    def forward(self: Any, x: Tensor) -> Tensor:
        weight, bias = self.conv.weight.double(), self.conv.bias.double()
        return self.head(F.relu(F.conv2d(x.double(), weight, bias)).to(x.dtype))

    return Written(forward, conv=nn.Conv2d(3, 6, 3), head=head(6))


def batch(shape: Sequence[int] | None, samples: int = 6) -> tuple[Tensor, Tensor]:
    """Noise, or tokens, and labels; always the same."""
    source = torch.Generator().manual_seed(1)
    if shape is None:
        return torch.randint(1, 20, (samples, 7), generator=source), torch.arange(samples) % CLASSES
    return torch.randn(samples, *shape, generator=source), torch.arange(samples) % CLASSES
