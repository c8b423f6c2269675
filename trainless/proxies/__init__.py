"""Training-free measures: one short file per paper."""

from trainless.proxies.proxy import Paper, Proxy, Setting, proxy, registry

_HOME = {
    "zerocost": ("params", "flops", "l2_norm", "grad_norm", "plain", "snip", "fisher"),
    "grasp": ("grasp",),
    "synflow": ("synflow",),
    "gradsign": ("gradsign",),
    "zico": ("zico",),
    "naswot": ("naswot", "jacov", "epe_nas", "swap"),
    "tenas": ("linear_regions", "ntk_condition", "ntk_mse"),
    "aznas": ("expressivity", "progressivity", "trainability"),
    "meco": ("meco",),
    "zen": ("zen",),
    "teacup": ("length", "loss_synflow", "loss_ntk"),
    "epsilon": ("epsilon",),
    "vkdnw": ("layers", "vkdnw"),
    "paths": ("paths",),
    "ours": ("sample_zico", "isolated_jacov", "layer_entropy", "isometry", "block_meco", "feature_rank"),
}
for _module, _names in _HOME.items():
    for _name in _names:
        registry.add(_name, f"trainless.proxies.{_module}:{_name}")

__all__ = ["Paper", "Proxy", "Setting", "proxy", "registry"]
