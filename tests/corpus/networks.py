"""Networks as strangers bring them, each small: timm, transformers, MONAI and plain torch."""

from __future__ import annotations

import importlib
import importlib.util
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from tests.corpus import odd
from tests.corpus.torchvision_standin import install

CLASSES = 3
SAMPLES = 6
CLOSED = ("timm:sequencer2d_s",)  # its last layer stays at zero
Maker = Callable[[], nn.Module]


@dataclass(frozen=True)
class Case:
    """A network of the corpus.

    Args:
        name: Package and network.
        make: Makes the network; its weights come from torch's global random numbers.
        inputs: Makes so many inputs.
        adapter: Picks the logits.
        package: What must be installed.
    """

    name: str
    make: Maker
    inputs: Callable[[int], Tensor]
    adapter: Callable[[Any], Tensor] | None = None
    package: str = "torch"

    def network(self) -> nn.Module:
        """The network, always with the same weights; a layer that begins at zero lets nothing through and is drawn."""
        with torch.random.fork_rng([]), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.manual_seed(0)
            net = self.make()
            for module in net.modules():
                if isinstance(module, nn.Linear) and not module.weight.any() and self.name not in CLOSED:
                    module.reset_parameters()
            return net

    def batch(self, samples: int = SAMPLES) -> tuple[Tensor, Tensor]:
        """Inputs and labels, always the same ones."""
        with torch.random.fork_rng([]):
            torch.manual_seed(1)
            return self.inputs(samples), torch.arange(samples) % CLASSES

    @property
    def missing(self) -> bool:
        """Whether its package is not installed."""
        return importlib.util.find_spec(self.package) is None


def images(size: int, channels: int = 3, axes: int = 2) -> Callable[[int], Tensor]:
    return lambda samples: torch.randn(samples, channels, *[size] * axes)


def tokens(length: int = 10, vocabulary: int = 50) -> Callable[[int], Tensor]:
    return lambda samples: torch.randint(3, vocabulary, (samples, length))


def signal(*shape: int) -> Callable[[int], Tensor]:
    return lambda samples: torch.randn(samples, *shape)


# timm: (name, size of the images, what makes it small)
VIT = {"img_size": 32, "patch_size": 8, "embed_dim": 32, "depth": 2, "num_heads": 2}
SWIN = {"img_size": 32, "patch_size": 2, "window_size": 4, "embed_dim": 16, "depths": (2, 2), "num_heads": (2, 2)}
ONES = (1, 1, 1, 1)
DIMS = (8, 16, 32, 48)
NARROW = (8, 16, 24, 32)
TIMM: dict[str, tuple[int, dict[str, Any]]] = {
    "beit_base_patch16_224": (32, VIT),
    "cait_xxs24_224": (32, VIT),
    "coat_lite_tiny": (32, {"img_size": 32, "embed_dims": (16, 32, 32, 32), "serial_depths": ONES}),
    "convit_tiny": (32, {**VIT, "depth": 3, "local_up_to_layer": 2}),
    "convnext_atto": (32, {"depths": ONES, "dims": DIMS}),
    "convnextv2_atto": (32, {"depths": ONES, "dims": DIMS}),
    "cs3darknet_s": (32, {}),
    "deit_tiny_distilled_patch16_224": (32, VIT),
    "deit3_small_patch16_224": (32, VIT),
    "densenet121": (32, {"growth_rate": 8, "block_config": (2, 2, 2, 2)}),
    "dla46_c": (32, {}),
    "dpn48b": (32, {"k_sec": ONES}),
    "edgenext_xx_small": (32, {"depths": (1, 1, 2, 1), "dims": DIMS}),
    "efficientformerv2_s0": (64, {"img_size": 64, "depths": (1, 1, 1, 2), "embed_dims": DIMS}),
    "tinynet_e": (32, {}),
    "mobilenetv2_035": (32, {}),
    "mnasnet_small": (32, {}),
    "efficientvit_b0": (32, {}),
    "efficientvit_m0": (
        64,
        {
            **{"img_size": 64, "embed_dim": (32, 48, 64), "depth": (1, 1, 1), "num_heads": (2, 2, 2)},
            "window_size": (4, 4, 4),
        },
    ),
    "eva02_tiny_patch14_224": (28, {**VIT, "img_size": 28, "patch_size": 7, "embed_dim": 24}),
    "fasternet_t0": (32, {"depths": ONES, "embed_dim": 16}),
    "ghostnet_050": (32, {}),
    "hiera_tiny_224": (64, {"img_size": (64, 64), "embed_dim": 16, "num_heads": 1, "stages": ONES}),
    "inception_next_atto": (32, {"depths": ONES, "dims": DIMS}),
    "levit_128s": (
        64,
        {"img_size": 64, "embed_dim": (32, 48, 64), "depth": (1, 1, 1), "num_heads": (2, 2, 2), "key_dim": 8},
    ),
    "mambaout_femto": (32, {"depths": ONES, "dims": DIMS}),
    "mobilenetv3_small_050": (32, {}),
    "mobilenetv4_conv_small_050": (32, {}),
    "lcnet_035": (32, {}),
    "mobilevit_xxs": (64, {}),
    "mobilevitv2_050": (64, {}),
    "pit_ti_224": (
        64,
        {
            **{"img_size": 64, "base_dims": (8, 8, 8), "depth": (1, 1, 1), "heads": (2, 2, 2)},
            **{"patch_size": 8, "stride": 4},
        },
    ),
    "repghostnet_050": (32, {}),
    "resnest14d": (32, {"channels": NARROW}),
    "res2net50_14w_8s": (32, {"layers": ONES, "channels": NARROW}),
    "resnet18": (32, {"layers": ONES, "channels": NARROW}),
    "seresnext26d_32x4d": (32, {"layers": ONES, "channels": (16, 32, 32, 32)}),
    "resnetv2_18": (32, {"layers": ONES, "channels": (16, 32, 48, 64)}),
    "sequencer2d_s": (
        32,
        {
            **{"img_size": 32, "layers": ONES, "patch_sizes": (4, 2, 1, 1), "embed_dims": (16, 32, 32, 32)},
            "hidden_sizes": (8, 16, 16, 16),
        },
    ),
    "skresnet18": (32, {"layers": ONES, "channels": (16, 32, 32, 32)}),
    "starnet_s050": (32, {}),
    "swiftformer_xs": (64, {"layers": ONES, "embed_dims": (16, 24, 32, 48)}),
    "swin_tiny_patch4_window7_224": (32, SWIN),
    "swinv2_tiny_window8_256": (32, SWIN),
    "swinv2_cr_tiny_224": (32, SWIN),
    "tnt_s_patch16_224": (
        32,
        {
            **{"img_size": 32, "patch_size": 8, "embed_dim": 32, "inner_dim": 8, "depth": 2, "num_heads_inner": 2},
            **{"num_heads_outer": 2, "first_stride": 2},
        },
    ),
    "tresnet_m": (64, {"layers": ONES, "width_factor": 0.25}),
    "twins_pcpvt_small": (
        64,
        {"img_size": 64, "embed_dims": (16, 16, 32, 32), "depths": ONES, "num_heads": (1, 2, 2, 2)},
    ),
    "twins_svt_small": (
        64,
        {"img_size": 64, "embed_dims": (16, 16, 32, 32), "depths": ONES, "num_heads": (1, 2, 2, 2)},
    ),
    "visformer_tiny": (32, {"img_size": 32, "embed_dim": 32, "depth": (1, 1, 1), "num_heads": 2}),
    "vit_tiny_patch16_224": (32, VIT),
    "vit_relpos_small_patch16_224": (32, VIT),
    "samvit_base_patch16_224": (32, {**VIT, "neck_chans": 16, "global_attn_indexes": (1,), "window_size": 2}),
    "ese_vovnet19b_slim": (32, {}),
    "xcit_nano_12_p16_224": (32, VIT),
    "iformer_t": (32, {}),
    "naflexvit_base_patch16_gap": (32, {"patch_size": 8, "embed_dim": 32, "depth": 2, "num_heads": 2}),
}
# timm's classes, where a name takes no such arguments: (module and class, size, arguments)
TIMM_CLASSES: dict[str, tuple[int, dict[str, Any]]] = {
    "convmixer.ConvMixer": (32, {"dim": 32, "depth": 2, "kernel_size": 3, "patch_size": 4}),
    "mlp_mixer.MlpMixer": (32, {"img_size": 32, "patch_size": 8, "num_blocks": 2, "embed_dim": 32}),
    "metaformer.MetaFormer": (32, {"depths": ONES, "dims": DIMS}),
    "focalnet.FocalNet": (32, {"depths": ONES, "embed_dim": 16}),
    "gcvit.GlobalContextVit": (
        64,
        {
            **{"img_size": 64, "depths": ONES, "num_heads": (2, 2, 2, 2), "embed_dim": 16},
            "window_ratio": (16, 16, 16, 32),
        },
    ),
    "pvt_v2.PyramidVisionTransformerV2": (
        32,
        {"depths": ONES, "embed_dims": (8, 16, 24, 32), "num_heads": (1, 2, 2, 2), "sr_ratios": (2, 2, 1, 1)},
    ),
    "davit.DaVit": (32, {"depths": ONES, "embed_dims": (16, 32, 32, 32), "num_heads": (2, 2, 2, 2), "window_size": 4}),
    "volo.VOLO": (
        32,
        {
            **{"img_size": 32, "layers": ONES, "embed_dims": (16, 32, 32, 32), "num_heads": (2, 2, 2, 2)},
            **{"mlp_ratio": 2, "patch_size": 8, "stem_hidden_dim": 16, "pooling_scale": 2, "use_mix_token": False},
            "outlook_attention": (True, False, False, False),
        },
    ),
}


def _bring_your_own(kind: str, **settings: Any) -> Maker:
    """timm's ByobNet of two stages."""

    def make() -> nn.Module:
        install()
        from timm.models import byobnet

        blocks = tuple(byobnet.ByoBlockCfg(type=kind, d=1, c=c, s=2, gs=0, br=0.5) for c in (16, 32))
        made: nn.Module = byobnet.ByobNet(
            byobnet.ByoModelCfg(blocks=blocks, stem_chs=8, stem_type="3x3", **settings), num_classes=CLASSES
        )
        return made

    return make


def _regnet(**settings: Any) -> Maker:
    def make() -> nn.Module:
        install()
        from timm.models.regnet import RegNet, RegNetCfg

        made: nn.Module = RegNet(
            RegNetCfg(w0=8, wa=8.0, wm=2.0, group_size=4, depth=8, stem_width=8, **settings), num_classes=CLASSES
        )
        return made

    return make


def _norm_free() -> nn.Module:
    install()
    from timm.models.nfnet import NfCfg, NormFreeNet

    made: nn.Module = NormFreeNet(
        NfCfg(depths=ONES, channels=NARROW, stem_type="3x3", stem_chs=8, group_size=4, attn_layer="se", attn_kwargs={}),
        num_classes=CLASSES,
    )
    return made


TIMM_MADE: dict[str, Maker] = {
    "ByobNet of bottlenecks with channel attention": _bring_your_own("bottle", attn_layer="eca"),
    "ByobNet of RepVGG blocks": _bring_your_own("rep"),
    "RegNetX": _regnet(),
    "RegNetY": _regnet(se_ratio=0.25),
    "NFNet": _norm_free,
}


def timm_cases() -> Iterator[Case]:
    for name, make in TIMM_MADE.items():
        yield Case(f"timm:{name}", make, images(32), package="timm")
    for name, (size, small) in TIMM.items():
        yield Case(f"timm:{name}", _timm(name, small), images(size), package="timm")
    for name, (size, small) in TIMM_CLASSES.items():
        yield Case(f"timm:{name}", _timm_class(name, small), images(size), package="timm")


def _timm(name: str, small: dict[str, Any]) -> Maker:
    def make() -> nn.Module:
        install()
        import timm

        made: nn.Module = timm.create_model(name, num_classes=CLASSES, **small)
        return made

    return make


def _timm_class(name: str, small: dict[str, Any]) -> Maker:
    def make() -> nn.Module:
        install()
        module, _, kind = name.partition(".")
        made: nn.Module = getattr(importlib.import_module(f"timm.models.{module}"), kind)(num_classes=CLASSES, **small)
        return made

    return make


TEXT = {"vocab_size": 50, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}
TEXT |= {"pad_token_id": 0, "max_position_embeddings": 64}
VISION = {"image_size": 16, "patch_size": 4, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
VISION |= {"intermediate_size": 24}
SPEECH = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}
SPEECH |= {"conv_dim": (8, 8), "conv_stride": (5, 4), "conv_kernel": (10, 8), "num_feat_extract_layers": 2}
SPEECH |= {"num_conv_pos_embeddings": 8, "num_conv_pos_embedding_groups": 2, "classifier_proj_size": 8}
HF: dict[str, tuple[str, dict[str, Any], Callable[[int], Tensor]]] = {
    "Bert": ("SequenceClassification", TEXT, tokens()),
    "Roberta": ("SequenceClassification", {**TEXT, "pad_token_id": 1}, tokens()),
    "Electra": ("SequenceClassification", {**TEXT, "embedding_size": 16}, tokens()),
    "Albert": ("SequenceClassification", {**TEXT, "embedding_size": 8}, tokens()),
    "DistilBert": (
        "SequenceClassification",
        {"vocab_size": 50, "dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 24},
        tokens(),
    ),
    "GPT2": (
        "SequenceClassification",
        {"vocab_size": 50, "n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 32, "pad_token_id": 0},
        tokens(),
    ),
    "Llama": ("SequenceClassification", {**TEXT, "num_key_value_heads": 1}, tokens()),
    "Mistral": ("SequenceClassification", {**TEXT, "num_key_value_heads": 1}, tokens()),
    "GPTNeoX": ("SequenceClassification", TEXT, tokens()),
    "T5": (
        "SequenceClassification",
        {
            **{"vocab_size": 50, "d_model": 16, "num_layers": 2, "num_heads": 2, "d_kv": 8, "d_ff": 24},
            **{"pad_token_id": 0, "eos_token_id": 1, "decoder_start_token_id": 0},
        },
        lambda n: torch.cat([tokens(9)(n), torch.ones(n, 1, dtype=torch.int64)], 1),
    ),
    "ViT": ("ImageClassification", VISION, images(16)),
    "Dinov2": ("ImageClassification", VISION, images(16)),
    "ConvNext": ("ImageClassification", {"hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 1, 1]}, images(32)),
    "ResNet": (
        "ImageClassification",
        {"embedding_size": 8, "hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 1, 1], "layer_type": "basic"},
        images(32),
    ),
    "MobileNetV2": ("ImageClassification", {"depth_multiplier": 0.35}, images(32)),
    "Segformer": (
        "ImageClassification",
        {
            **{"hidden_sizes": [8, 16, 16, 32], "depths": [1, 1, 1, 1], "num_attention_heads": [1, 2, 2, 2]},
            "decoder_hidden_size": 16,
        },
        images(32),
    ),
    "Swin": (
        "ImageClassification",
        {
            **{"image_size": 32, "patch_size": 2, "window_size": 4, "embed_dim": 16},
            **{"depths": [2, 2], "num_heads": [2, 2]},
        },
        images(32),
    ),
    "Wav2Vec2": ("SequenceClassification", SPEECH, signal(600)),
    "Hubert": ("SequenceClassification", SPEECH, signal(600)),
    "ASTFor": (
        "AudioClassification",
        {
            **{"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24},
            **{"patch_size": 8, "frequency_stride": 8, "time_stride": 8, "max_length": 32, "num_mel_bins": 16},
        },
        signal(32, 16),
    ),
}


def logits(output: Any) -> Tensor:
    """The logits of a transformers output."""
    found: Tensor = output.logits
    return found


def transformers_cases() -> Iterator[Case]:
    for name, (head, config, inputs) in HF.items():
        kind = name.removesuffix("For")
        yield Case(f"hf:{kind}", _transformer(kind, head, config), inputs, logits, "transformers")


def _transformer(name: str, head: str, config: dict[str, Any]) -> Maker:
    def make() -> nn.Module:
        import transformers

        chosen = getattr(transformers, f"{name}Config")(**config, num_labels=CLASSES)
        made: nn.Module = getattr(transformers, f"{name}For{head}")(chosen)
        return made

    return make


MONAI: dict[str, tuple[dict[str, Any], Callable[[int], Tensor]]] = {
    "DenseNet": (
        {
            **{"spatial_dims": 2, "in_channels": 1, "out_channels": CLASSES, "init_features": 8, "growth_rate": 4},
            "block_config": (2, 2, 2),
        },
        images(32, 1),
    ),
    "DenseNet (3D)": (
        {
            **{"spatial_dims": 3, "in_channels": 1, "out_channels": CLASSES, "init_features": 8, "growth_rate": 4},
            "block_config": (2, 2),
        },
        images(16, 1, 3),
    ),
    "ResNet": (
        {
            **{"block": "basic", "layers": ONES, "block_inplanes": (8, 8, 16, 16), "spatial_dims": 2},
            **{"n_input_channels": 1, "num_classes": CLASSES, "conv1_t_stride": 2},
        },
        images(32, 1),
    ),
    "ResNet (3D)": (
        {
            **{"block": "bottleneck", "layers": ONES, "block_inplanes": (4, 8, 8, 16), "spatial_dims": 3},
            **{"n_input_channels": 1, "num_classes": CLASSES, "conv1_t_size": 3, "no_max_pool": True},
        },
        images(16, 1, 3),
    ),
    "EfficientNetBN": (
        {"model_name": "efficientnet-b0", "pretrained": False, "in_channels": 1, "num_classes": CLASSES},
        images(32, 1),
    ),
    "Classifier": (
        {"in_shape": (1, 16, 16), "classes": CLASSES, "channels": (4, 8, 8), "strides": (2, 2, 2)},
        images(16, 1),
    ),
    "Classifier (3D)": (
        {"in_shape": (1, 8, 8, 8), "classes": CLASSES, "channels": (4, 8), "strides": (2, 2)},
        images(8, 1, 3),
    ),
    "FullyConnectedNet": (
        {"in_channels": 12, "out_channels": CLASSES, "hidden_channels": (16, 16), "dropout": 0.2},
        signal(12),
    ),
}
MONAI_MASKS: dict[str, tuple[dict[str, Any], Callable[[int], Tensor]]] = {
    "UNet": (
        {
            **{"spatial_dims": 2, "in_channels": 1, "out_channels": CLASSES, "channels": (4, 8, 16)},
            **{"strides": (2, 2), "num_res_units": 1},
        },
        images(16, 1),
    ),
    "SegResNet": (
        {"spatial_dims": 3, "init_filters": 8, "in_channels": 1, "out_channels": CLASSES, "blocks_down": (1, 1)},
        images(8, 1, 3),
    ),
    "BasicUNet": (
        {"spatial_dims": 2, "in_channels": 1, "out_channels": CLASSES, "features": (4, 4, 8, 8, 8, 4)},
        images(32, 1),
    ),
}
MONAI_MASKS["SegResNet"][0]["blocks_up"] = (1,)


def pooled(output: Tensor) -> Tensor:
    """The mean of a mask over its positions."""
    return output.flatten(2).mean(2)


def monai_cases() -> Iterator[Case]:
    for name, (small, inputs) in MONAI.items():
        yield Case(f"monai:{name}", _monai(name.partition(" ")[0], small), inputs, package="monai")
    for name, (small, inputs) in MONAI_MASKS.items():
        yield Case(f"monai:{name}", _monai(name, small), inputs, pooled, "monai")


def _monai(name: str, small: dict[str, Any]) -> Maker:
    def make() -> nn.Module:
        from monai.networks import nets

        made: nn.Module = getattr(nets, name)(**small)
        return made

    return make


def torch_cases() -> Iterator[Case]:
    for name, (make, shape) in odd.NETWORKS.items():
        yield Case(f"torch:{name}", make, tokens() if shape is None else signal(*shape))


def corpus() -> list[Case]:
    """All networks."""
    return [*torch_cases(), *timm_cases(), *transformers_cases(), *monai_cases()]
