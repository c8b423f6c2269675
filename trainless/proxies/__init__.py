"""Training-free measures: one short file per paper."""

from trainless.proxies.proxy import Proxy, Setting, proxy, registry

_HOME = {
    "counts": ("params", "flops", "layers", "l2_norm"),
    "zerocost": ("grad_norm", "plain", "snip", "fisher", "jacov"),
    "grasp": ("grasp",),
    "synflow": ("synflow",),
    "gradsign": ("gradsign",),
    "zico": ("zico",),
    "naswot": ("naswot",),
    "swap": ("swap",),
    "tenas": ("linear_regions", "ntk_condition", "ntk_mse"),
    "aznas": ("expressivity", "progressivity", "trainability"),
    "meco": ("meco",),
    "zen": ("zen",),
    "epenas": ("epe_nas",),
    "teacup": ("length", "loss_synflow", "loss_ntk"),
    "epsilon": ("epsilon",),
    "vkdnw": ("vkdnw",),
    "samples": ("sample_zico", "isolated_jacov", "layer_entropy", "isometry", "block_meco", "feature_rank"),
}
for _module, _names in _HOME.items():
    for _name in _names:
        registry.add(_name, f"trainless.proxies.{_module}:{_name}")

__all__ = ["Proxy", "Setting", "proxy", "registry"]
