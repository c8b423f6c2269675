"""Every proxy once more, written as its formula reads: float64, loops, PyTorch's own training mode."""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

from tests.probe.naive import gram, leaves, outputs, rows
from trainless.probe import Probe

RECTIFIERS = (nn.ReLU, nn.GELU)
NORMS = nn.modules.batchnorm._BatchNorm


def matrices(p: Probe) -> list[str]:
    """Convolution, linear and recurrent weights by name."""
    skipped = {
        f"{name}.weight"
        for name, module in p.net.named_modules()
        if isinstance(module, NORMS | nn.LayerNorm | nn.GroupNorm | nn.Embedding)
    }
    return [name for name, tensor in p.weights.items() if tensor.ndim > 1 and name not in skipped]


def loss_gradient(p: Probe, names: list[str]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The weights, and the gradient of the mean loss by the named ones."""
    weights = leaves(p)
    loss = p.target.losses(outputs(p, weights, p.x), p.y).mean()
    found = torch.autograd.grad(loss, [weights[name] for name in names], allow_unused=True, materialize_grads=True)
    return {name: tensor.detach() for name, tensor in weights.items()}, dict(zip(names, found, strict=True))


def grad_norm(p: Probe) -> float:
    _, gradients = loss_gradient(p, matrices(p))
    return sum(float(gradient.square().sum().sqrt()) for gradient in gradients.values())


def plain(p: Probe) -> float:
    weights, gradients = loss_gradient(p, matrices(p))
    return sum(float((weights[name] * gradient).sum()) for name, gradient in gradients.items())


def snip(p: Probe) -> float:
    weights, gradients = loss_gradient(p, matrices(p))
    return sum(float((weights[name] * gradient).abs().sum()) for name, gradient in gradients.items())


def grasp(p: Probe) -> float:
    """By a central difference of the gradient along itself: Hg ≈ (g(θ + εg) − g(θ − εg)) / 2ε."""
    names = matrices(p)
    _, first = loss_gradient(p, names)
    norm = math.sqrt(sum(float(g.square().sum()) for g in first.values()))
    step = 1e-5 / norm

    def moved(sign: int) -> dict[str, Tensor]:
        there = {
            name: p.weights[name] + sign * step * first[name] if name in first else p.weights[name]
            for name in p.weights
        }
        return loss_gradient(Probe(p.net, there, p.x, p.y, p.target), names)[1]

    ahead, behind = moved(1), moved(-1)
    return -sum(float((p.weights[name] * (ahead[name] - behind[name])).sum()) / (2 * step) for name in names)


def l2_norm(p: Probe) -> float:
    return sum(float(p.weights[name].square().sum().sqrt()) for name in matrices(p))


def fisher(p: Probe) -> float:
    """Scales of one per sample and channel at every layer's output: their gradient is Σ_positions a · ∂L/∂a."""
    net = copy.deepcopy(p.net)
    scales: list[tuple[Tensor, int]] = []

    def multiply(module: nn.Module, x: tuple[Tensor], output: Tensor) -> Tensor:
        last = isinstance(module, nn.Linear)
        shape = (
            (len(output), *[1] * (output.ndim - 2), output.shape[-1])
            if last
            else (*output.shape[:2], *[1] * (output.ndim - 2))
        )
        scale = torch.ones(shape, dtype=output.dtype, requires_grad=True)
        scales.append((scale, module.weight[0].numel()))
        return output * scale

    for module in net.modules():
        if isinstance(module, nn.Conv1d | nn.Conv2d | nn.Conv3d | nn.Linear):
            module.register_forward_hook(multiply)
    result = torch.func.functional_call(net, p.weights, (p.x,))
    found = torch.autograd.grad(p.target.losses(result, p.y).mean(), [scale for scale, _ in scales])
    return sum(
        fan * float(0.5 * gradient.flatten(1).square().mean(0).sum())
        for gradient, (_, fan) in zip(found, scales, strict=True)
    )


def input_gradient(p: Probe, of: str = "outputs") -> Tensor:
    x = p.x.detach().clone().requires_grad_()
    result = outputs(p, dict(p.weights), x)
    value = result.sum() if of == "outputs" else p.target.losses(result, p.y).sum()
    return torch.autograd.grad(value, x)[0]


def jacov(p: Probe) -> float:
    values = np.linalg.eigvalsh(np.corrcoef(input_gradient(p).flatten(1).numpy())) + 1e-5
    return float(-(np.log(values) + 1 / values).sum())


def epe_nas(p: Probe) -> float:
    gradients, total = input_gradient(p).flatten(1).numpy(), 0.0
    for label in p.y.unique().tolist():
        mine = np.atleast_2d(np.corrcoef(gradients[(p.y == label).numpy()]))
        total += abs(np.log(np.abs(mine) + 1e-5).sum())
    return float(total)


def length(p: Probe) -> float:
    return float(input_gradient(p, "loss").flatten(1).square().sum(0).sqrt().sum()) / 2


def bare(p: Probe) -> nn.Module:
    """The network without norms."""
    net = copy.deepcopy(p.net)
    for parent in list(net.modules()):
        for name, child in parent.named_children():
            if isinstance(child, NORMS | nn.LayerNorm | nn.GroupNorm):
                setattr(parent, name, nn.Identity())
    return net


def synflow(p: Probe) -> float:
    weights = {name: tensor.abs().detach().requires_grad_() for name, tensor in p.weights.items()}
    kept = {name: tensor for name, tensor in weights.items() if name in dict(bare(p).named_parameters())}
    total = torch.func.functional_call(bare(p), kept, (torch.ones_like(p.x[:1]),)).sum()
    names = matrices(p)
    found = torch.autograd.grad(total, [kept[name] for name in names])
    return math.log(sum(float((kept[name] * g).abs().sum().detach()) for name, g in zip(names, found, strict=True)))


def loss_synflow(p: Probe) -> float:
    q = Probe(p.net, {name: tensor.abs() for name, tensor in p.weights.items()}, p.x, p.y, p.target)
    weights, gradients = loss_gradient(q, matrices(p))
    return math.log(sum(float((weights[name] * gradient).abs().sum()) for name, gradient in gradients.items()))


def gradsign(p: Probe) -> float:
    return sum(float(each.sign().sum(0).abs().sum()) for each in rows(p, matrices(p), of="loss", joint=False).values())


def zico(p: Probe) -> float:
    parts = [loss_gradient(q, matrices(p))[1] for q in p.split(2)]
    total = 0.0
    for name in matrices(p):
        stacked = np.stack([part[name].numpy() for part in parts])
        deviation = stacked.std(0)
        moving = deviation != 0
        value = (np.abs(stacked).mean(0)[moving] / deviation[moving]).sum()
        total += math.log(value) if value > 0 else 0.0
    return total


def ntk_condition(p: Probe, *, joint: bool = False, of: str = "outputs", skip: int = 0) -> float:
    names = [name for name in p.weights if "weight" in name.rpartition(".")[2]]
    values = np.linalg.eigvalsh(gram(rows(p, names[: len(names) - skip], of=of, joint=joint)).numpy())
    return float(values[-1] / values[0])


def loss_ntk(p: Probe) -> float:
    return ntk_condition(p, of="loss", skip=1)


def patterns(p: Probe) -> np.ndarray:
    """Open or closed, one row per sample; rectifiers are modules here."""
    net, found = copy.deepcopy(p.net), []
    for module in net.modules():
        if isinstance(module, RECTIFIERS):
            module.register_forward_hook(lambda m, x, y: found.append((x[0] > 0).flatten(1).numpy()))
    with torch.no_grad():
        torch.func.functional_call(net, p.weights, (p.x,))
    return np.concatenate(found, 1)


def naswot(p: Probe) -> float:
    bits = patterns(p)
    kernel = [[float((a == b).sum()) for b in bits] for a in bits]
    return float(np.linalg.slogdet(np.array(kernel))[1])


def linear_regions(p: Probe) -> float:
    return float(len({tuple(row) for row in patterns(p)}))


def swap(p: Probe) -> float:
    return float(len({tuple(row) for row in patterns(p).T}))


def features(p: Probe) -> list[Tensor]:
    """Outputs of the named blocks; the graph stays."""
    net, found = copy.deepcopy(p.net), []
    for name in net.block_names:
        net.get_submodule(name).register_forward_hook(lambda m, x, y: found.append(y))
    torch.func.functional_call(net, p.weights, (p.x.clone().requires_grad_(),))
    return found


def entropies(p: Probe) -> list[float]:
    found = []
    for feature in features(p):
        flat = feature.detach().movedim(1, -1).reshape(-1, feature.shape[1]).numpy()
        values = np.linalg.eigvalsh(np.cov(flat.T, bias=True)).clip(0)
        share = values / values.sum()
        found.append(float(-(share * np.log(share + 1e-8)).sum()))
    return found


def expressivity(p: Probe) -> float:
    return sum(entropies(p))


def progressivity(p: Probe) -> float:
    return min(after - before for before, after in itertools.pairwise(entropies(p)))


def meco(p: Probe) -> float:
    """Each tensor once, whichever modules hand it on."""
    net, found = copy.deepcopy(p.net), []
    for module in net.modules():
        module.register_forward_hook(lambda m, x, y: None if any(y is z for z in found) else found.append(y))
    with torch.no_grad():
        torch.func.functional_call(net, p.weights, (p.x[:1],))
    total = 0.0
    for tensor in found:
        if tensor.ndim > 2 and min(tensor.shape[1], tensor[0, 0].numel()) > 1:
            with np.errstate(all="ignore"):
                total += float(np.linalg.eigvalsh(np.nan_to_num(np.corrcoef(tensor[0].flatten(1).numpy())))[0])
    return total


def epsilon(p: Probe) -> float:
    found = []
    for constant in (1e-7, 1.0):
        weights = {n: torch.full_like(t, 0.0 if "bias" in n else constant) for n, t in p.weights.items()}
        values = outputs(p, weights, p.x)[:, 0].numpy()
        found.append((values - values.min()) / (values.max() - values.min()))
    both = np.where(np.stack(found) == 0, np.nan, np.stack(found))
    return float(np.nanmean(np.abs(both[0] - both[1])) / np.nanmean(both))


def fresh(p: Probe) -> nn.Module:
    net = copy.deepcopy(p.net).eval()
    for module in net.modules():
        if isinstance(module, NORMS):
            module.reset_running_stats()
    return net


def vkdnw(p: Probe, *, exact: bool = False) -> float:
    """Sample by sample, output by output; the factor from NumPy's Cholesky of a slightly shifted matrix."""
    net, weights = fresh(p), leaves(p)
    names = list(weights)[:128]
    total = np.zeros((len(names), len(names)))
    for x in p.x:
        logits = torch.func.functional_call(net, weights, (x[None],))[0]
        jacobian = np.array(
            [
                [
                    float(g.flatten()[0])
                    for g in torch.autograd.grad(logit, [weights[n] for n in names], retain_graph=True)
                ]
                for logit in logits
            ]
        )
        share = 0.95 * logits.softmax(0).detach().numpy() + 0.05 / len(logits)
        middle = np.diag(share) - np.outer(share, share)
        if not exact:
            lower = np.linalg.cholesky(middle + 1e-15 * np.eye(len(share)))
            lower[:, -1] = 0
            middle = lower.T @ lower
        total += jacobian.T @ middle @ jacobian / len(p.x)
    deciles = np.quantile(np.linalg.eigvalsh(total).clip(0), np.arange(1, 10) / 10)
    share = deciles / (deciles.sum() + 1e-10)
    return float(-(share * np.log(share + 1e-10)).sum())


def sample_zico(p: Probe) -> float:
    total = 0.0
    for each in rows(p, matrices(p), of="loss", joint=False).values():
        size = each.abs().numpy()
        deviation = size.std(0)
        moving = deviation > 1e-3 * size.mean(0)
        if moving.any():
            total += math.log((size.mean(0)[moving] / deviation[moving]).sum())
    return total


def isolated_jacov(p: Probe) -> float:
    alone = []
    for index in range(len(p.x)):
        x = p.x[index : index + 1].detach().clone().requires_grad_()
        alone.append(torch.autograd.grad(outputs(p, dict(p.weights), x).sum(), x)[0].flatten().numpy())
    values = np.linalg.eigvalsh(np.corrcoef(np.stack(alone))) + 1e-5
    return float(-(np.log(values) + 1 / values).sum())


def layer_entropy(p: Probe) -> float:
    share = np.array(
        [float(each.square().sum()) for each in rows(p, matrices(p)[:-1], of="outputs", joint=False).values()]
    )
    share = share[share > 0] / share.sum()
    return float(-(share * np.log(share)).sum())


def block_meco(p: Probe) -> float:
    flat = [feature.detach().movedim(1, 0).flatten(1).numpy() for feature in features(p)]
    return float(sum(max(0.0, np.linalg.eigvalsh(np.corrcoef(rows))[0]) for rows in flat))


def feature_rank(p: Probe) -> float:
    last = features(p)[-1].detach().flatten(1).numpy()
    last = last - last.mean(0)
    last = last / np.linalg.norm(last, axis=1, keepdims=True)
    values = np.linalg.eigvalsh(last @ last.T)
    share = values[values > 1e-14] / values.sum()
    return float(-(share * np.log(share)).sum())


ORACLES: dict[str, Callable[[Probe], float]] = {
    fn.__name__: fn
    for fn in (
        *(grad_norm, plain, snip, grasp, fisher, l2_norm, jacov, epe_nas, synflow, loss_synflow, gradsign, zico),
        *(
            ntk_condition,
            loss_ntk,
            naswot,
            linear_regions,
            swap,
            expressivity,
            progressivity,
            meco,
            epsilon,
            vkdnw,
            length,
        ),
        *(sample_zico, isolated_jacov, layer_entropy, block_meco, feature_rank),
    )
}
