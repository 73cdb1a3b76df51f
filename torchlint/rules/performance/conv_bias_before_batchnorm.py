"""A layer's bias right before a norm that subtracts each channel's mean does nothing.

What it does:
Reports convolutions, transposed convolutions and linear layers that have a bias although everything that takes their
output is a norm that subtracts the mean of each channel: `BatchNorm`, `SyncBatchNorm`, `InstanceNorm`, or `GroupNorm`
with as many groups as channels.

Why is this bad:
The bias adds a constant to each channel, and the norm takes it away again. What is left is its cost: an addition over
the whole activation in every forward, a sum over it in every backward, and parameters, gradients and optimizer state
for weights that never matter. PyTorch's performance tuning guide has it as "Disable bias for convolutions directly
followed by a batch norm".

Fix safety:
The fix is unsafe: a checkpoint that was saved before holds the bias, and `load_state_dict` refuses a key that it does
not know. A network that was trained with the bias needs the norm's running mean lowered by it. Random numbers are
drawn in another order too, so a run with the same seed starts from other weights.
Where the bias is the default of a parameter that nothing else in the function reads, the default is edited.
There is no fix where other code uses the bias without asking whether there is one, as
`nn.init.zeros_(self.conv.bias)` does: it would crash. Neither is there one where the call takes `**kwargs`, which
somebody else may fill.

Limits:
In evaluation mode a norm subtracts its running mean, which is not that of the input: a norm whose own `eval()` is
called is left alone. A linear layer counts only before a norm of as many channels as it has features, since the bias
of a layer over sequences is one for each feature, not for each channel. Where callers choose the bias or the norm, all
callers that are seen, in other files too, must leave the default.

Evidence:
No measurement yet.

References:
- [Performance tuning guide: disable bias for convolutions directly followed by a batch norm](https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html#disable-bias-for-convolutions-directly-followed-by-a-batch-norm)
- [`torch.nn.BatchNorm2d`](https://docs.pytorch.org/docs/stable/generated/torch.nn.BatchNorm2d.html)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import libcst as cst

from torchlint.findings import Applicability, Finding, Fix
from torchlint.rules.rule import Rule, Training
from torchlint.semantics import knowledge
from torchlint.semantics import values as v
from torchlint.semantics.layers import (
    constructed,
    is_cut,
    is_put_into_evaluation,
    made_by_callers,
    takers,
    unguarded_bias_uses,
)
from torchlint.syntax.editing import replace, set_keyword
from torchlint.syntax.tree import same_code, walk

if TYPE_CHECKING:
    from torchlint.semantics.model import Model
    from torchlint.syntax.tree import Tree

rule = Rule("TL101", since="0.1",
            names=("Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d", "Linear",
                   "LazyConv1d", "LazyConv2d", "LazyConv3d", "LazyLinear"),
            triggers=(b"BatchNorm", b"InstanceNorm", b"GroupNorm", b"batch_norm", b"instance_norm", b"group_norm",
                      b"batchnorm"),
            training=Training(moves_random_stream=True))

rule.bad(
    """
    import torch.nn as nn

    block = nn.Sequential(nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU())
    #                     ^^^^^^^^^^^^^^^^^^^
    """,
    fixed="""
    import torch.nn as nn

    block = nn.Sequential(nn.Conv2d(3, 16, 3, bias=False), nn.BatchNorm2d(16), nn.ReLU())
    """,
    applicability=Applicability.UNSAFE,
)
rule.bad(
    """
    from torch import nn

    class Block(nn.Module):
        def __init__(self, width, norm_layer=nn.BatchNorm2d):
            super().__init__()
            self.conv = nn.Conv2d(width, width, kernel_size=3)
    #                   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
            self.norm = norm_layer(width)

        def forward(self, x):
            return self.norm(self.conv(x)).relu()
    """,
    fixed="""
    from torch import nn

    class Block(nn.Module):
        def __init__(self, width, norm_layer=nn.BatchNorm2d):
            super().__init__()
            self.conv = nn.Conv2d(width, width, kernel_size=3, bias=False)
            self.norm = norm_layer(width)

        def forward(self, x):
            return self.norm(self.conv(x)).relu()
    """,
    applicability=Applicability.UNSAFE,
)
rule.bad(
    """
    from torch import nn

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(3, 16, 3)
    #                   ^^^^^^^^^^^^^^^^^^^
            self.norm = nn.BatchNorm2d(16)
            nn.init.zeros_(self.conv.bias)  # would crash without a bias, so there is no fix

        def forward(self, x):
            return self.norm(self.conv(x))
    """,
)
rule.bad(
    """
    from collections import OrderedDict
    from torch.nn import *
    import torch

    class First(Sequential):
        def __init__(self):
            super().__init__()
            self.add_module("conv", Conv1d(4, 8, 3, bias=True))
    #                               ^^^^^^^^^^^^^^^^^^^^^^^^^^
            self.add_module("norm", SyncBatchNorm(8))

    def deep(widths):
        layers = []
        for before, after in zip(widths, widths[1:]):
            layers.append(ConvTranspose2d(before, after, 4, 2, 1))
    #                     ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
            layers += [InstanceNorm2d(after), torch.nn.LeakyReLU(0.2)]
        return Sequential(*layers)

    def extended(width):
        layers = [Linear(width, 16), BatchNorm1d(16)]
    #             ^^^^^^^^^^^^^^^^^
        layers.extend([ReLU(), Linear(16, 32), BatchNorm1d(32)])
    #                          ^^^^^^^^^^^^^^
        return torch.nn.Sequential(*layers)

    second = Sequential(OrderedDict([("fc", Linear(4, 8)), ("norm", BatchNorm1d(8))]))
    #                                       ^^^^^^^^^^^^
    third = Sequential(OrderedDict(conv=LazyConv3d(8, 1), norm=GroupNorm(8, 8)))
    #                                   ^^^^^^^^^^^^^^^^
    """,
    fixed="""
    from collections import OrderedDict
    from torch.nn import *
    import torch

    class First(Sequential):
        def __init__(self):
            super().__init__()
            self.add_module("conv", Conv1d(4, 8, 3, bias=False))
            self.add_module("norm", SyncBatchNorm(8))

    def deep(widths):
        layers = []
        for before, after in zip(widths, widths[1:]):
            layers.append(ConvTranspose2d(before, after, 4, 2, 1, bias=False))
            layers += [InstanceNorm2d(after), torch.nn.LeakyReLU(0.2)]
        return Sequential(*layers)

    def extended(width):
        layers = [Linear(width, 16, bias=False), BatchNorm1d(16)]
        layers.extend([ReLU(), Linear(16, 32, bias=False), BatchNorm1d(32)])
        return torch.nn.Sequential(*layers)

    second = Sequential(OrderedDict([("fc", Linear(4, 8, bias=False)), ("norm", BatchNorm1d(8))]))
    third = Sequential(OrderedDict(conv=LazyConv3d(8, 1, bias=False), norm=GroupNorm(8, 8)))
    """,
    applicability=Applicability.UNSAFE,
    show=False,
)
rule.bad(
    """
    from torch import nn

    def conv3x3(before, after, stride=1, bias=True):
        return nn.Conv2d(before, after, 3, stride, 1, bias=bias)
    #          ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^

    class Residual(nn.Module):
        def __init__(self):
            super().__init__()
            self.convs = nn.ModuleList([conv3x3(8, 8) for _ in range(3)])
            self.norms = nn.ModuleList([nn.BatchNorm2d(8) for _ in range(3)])
            self.parts = nn.ModuleDict({"down": conv3x3(8, 16, 2), "norm": nn.BatchNorm2d(16)})

        def forward(self, x):
            for conv, norm in zip(self.convs, self.norms):
                x = x + norm(conv(x))
            return self.parts["norm"](self.parts["down"](x))
    """,
    fixed="""
    from torch import nn

    def conv3x3(before, after, stride=1, bias=False):
        return nn.Conv2d(before, after, 3, stride, 1, bias=bias)

    class Residual(nn.Module):
        def __init__(self):
            super().__init__()
            self.convs = nn.ModuleList([conv3x3(8, 8) for _ in range(3)])
            self.norms = nn.ModuleList([nn.BatchNorm2d(8) for _ in range(3)])
            self.parts = nn.ModuleDict({"down": conv3x3(8, 16, 2), "norm": nn.BatchNorm2d(16)})

        def forward(self, x):
            for conv, norm in zip(self.convs, self.norms):
                x = x + norm(conv(x))
            return self.parts["norm"](self.parts["down"](x))
    """,
    applicability=Applicability.UNSAFE,
    show=False,
)
rule.bad(
    """
    from torch import nn

    class Block(nn.Module):
        def __init__(self, before, after, bias=True):
            super().__init__()
            self.conv = nn.Conv2d(before, after, 3, bias=bias)
    #                   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
            self.norm = nn.BatchNorm2d(after)
            self.head = nn.Linear(after, after, bias=bias)

        def forward(self, x):
            return self.head(self.norm(self.conv(x)).mean((2, 3)))

    net = nn.Sequential(Block(3, 8), Block(8, 8))
    """,
    fixed="""
    from torch import nn

    class Block(nn.Module):
        def __init__(self, before, after, bias=True):
            super().__init__()
            self.conv = nn.Conv2d(before, after, 3, bias=False)
            self.norm = nn.BatchNorm2d(after)
            self.head = nn.Linear(after, after, bias=bias)

        def forward(self, x):
            return self.head(self.norm(self.conv(x)).mean((2, 3)))

    net = nn.Sequential(Block(3, 8), Block(8, 8))
    """,
    applicability=Applicability.UNSAFE,
    show=False,
)
rule.bad(
    """
    import torch
    from torch import nn

    class SameConv(nn.Module):
        def __init__(self, before, after, **options):
            super().__init__()
            self.inner = nn.Conv2d(before, after, 3, **options)
    #                    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^

        def forward(self, x):
            return self.inner(nn.functional.pad(x, (1, 1, 1, 1)))

    class Norm(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.norm = nn.BatchNorm2d(width)

        def forward(self, x):
            return self.norm(x)

    net = nn.DataParallel(nn.Sequential(SameConv(3, 8, stride=2), nn.Identity(), Norm(8)))
    print(net(torch.rand(1, 3, 8, 8)))
    """,
    show=False,
)
rule.bad(
    """
    from torch import nn

    layers = [nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3, bias=False), nn.BatchNorm2d(8)]
    layers[2] = nn.Conv2d(8, 8, 5, groups=2)
    #           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^
    layers[-1] = nn.BatchNorm2d(8)
    layers.insert(3, nn.Identity())
    net = nn.Sequential(*layers)

    def weights(module):
        if isinstance(module, nn.Linear):
            module.bias.data.fill_(0.01)
        elif isinstance(module, nn.Conv2d):
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        if module.__class__.__name__.find("BatchNorm2d") != -1:
            nn.init.constant_(module.bias.data, 0.0)

    net.apply(weights)
    """,
    fixed="""
    from torch import nn

    layers = [nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3, bias=False), nn.BatchNorm2d(8)]
    layers[2] = nn.Conv2d(8, 8, 5, groups=2, bias=False)
    layers[-1] = nn.BatchNorm2d(8)
    layers.insert(3, nn.Identity())
    net = nn.Sequential(*layers)

    def weights(module):
        if isinstance(module, nn.Linear):
            module.bias.data.fill_(0.01)
        elif isinstance(module, nn.Conv2d):
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        if module.__class__.__name__.find("BatchNorm2d") != -1:
            nn.init.constant_(module.bias.data, 0.0)

    net.apply(weights)
    """,
    applicability=Applicability.UNSAFE,
    show=False,
)
rule.bad(
    """
    from torch import nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.Sequential(
                nn.Conv2d(
    #           ^...
                    3,
                    8,  # channels
                    3,
                ),
    #        ...^
                nn.BatchNorm2d(8),
            )
            for module in self.modules():
                if isinstance(module, (nn.Conv2d, nn.Linear)):
                    module.bias.data.zero_()

        def forward(self, x):
            return self.layers(x)
    """,
    show=False,
)
rule.bad(
    """
    from torch import nn

    class Net(nn.Module):
        def __init__(self, options={}):
            super().__init__()
            self.conv1 = nn.Conv2d(
    #                    ^...
                3,
                8,  # channels
                3,
            )
    #    ...^
            self.norm1 = nn.BatchNorm2d(8)
            self.conv2 = nn.Conv2d(8, 8, 3,
    #                    ^...
                                   padding=1)
    #                                    ...^
            self.norm2 = nn.InstanceNorm2d(8)

        def forward(self, x):
            for i in (1, 2):
                x = getattr(self, f"norm{i}")(getattr(self, f"conv{i}")(x))
            size = x.shape
            return x.view(size[0], -1)
    """,
    fixed="""
    from torch import nn

    class Net(nn.Module):
        def __init__(self, options={}):
            super().__init__()
            self.conv1 = nn.Conv2d(
                3,
                8,  # channels
                3,
                bias=False,
            )
            self.norm1 = nn.BatchNorm2d(8)
            self.conv2 = nn.Conv2d(8, 8, 3,
                                   padding=1, bias=False)
            self.norm2 = nn.InstanceNorm2d(8)

        def forward(self, x):
            for i in (1, 2):
                x = getattr(self, f"norm{i}")(getattr(self, f"conv{i}")(x))
            size = x.shape
            return x.view(size[0], -1)
    """,
    applicability=Applicability.UNSAFE,
    show=False,
)
rule.ok(
    """
    from torch import nn

    block = nn.Sequential(nn.Conv2d(3, 16, 3), nn.ReLU(), nn.BatchNorm2d(16))
    head = nn.Sequential(nn.Linear(16, 8), nn.LayerNorm(8), nn.Conv2d(8, 8, 1), nn.GroupNorm(2, 8))
    """,
    why="a nonlinearity stands between, and LayerNorm and GroupNorm of several channels keep the constant",
)
rule.ok(
    """
    from torch import nn

    class Shared(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(8, 8, 3, padding=1)
            self.norm = nn.BatchNorm2d(8)

        def forward(self, x):
            y = self.conv(x)
            return x + y + self.norm(y)
    """,
    why="the sum takes the convolution's output too",
)
rule.ok(
    """
    from torch import nn

    def block(before, after, norm=True):
        layers = [nn.Conv2d(before, after, 3)]
        if norm:
            layers.append(nn.BatchNorm2d(after))
        return layers

    net = nn.Sequential(*block(3, 8), *block(8, 3, norm=False))
    """,
    why="one block has no norm",
    show=False,
)
rule.ok(
    """
    from torch import nn

    class Block(nn.Module):
        def __init__(self, width, norm, bias, **options):
            super().__init__()
            self.first = nn.Sequential(nn.Conv2d(3, width, 3), norm(width))
            self.second = nn.Sequential(nn.Conv2d(3, width, 3, bias=bias), nn.BatchNorm2d(width))
            self.third = nn.Sequential(nn.Conv2d(3, width, 3, **options), nn.BatchNorm2d(width))

        def forward(self, x):
            return self.first(x), self.second(x), self.third(x)
    """,
    why="nobody is seen to choose the norm or the bias",
    show=False,
)
rule.ok(
    """
    from torch import nn

    class Generator(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(100, 128 * 8 * 8)
            self.norm = nn.BatchNorm2d(128)
            self.tokens = nn.Linear(16, 32)
            self.token_norm = nn.BatchNorm1d(10)

        def forward(self, z, words):
            x = self.fc(z).view(-1, 128, 8, 8)
            return self.norm(x), self.token_norm(self.tokens(words))
    """,
    why="the bias is one for each pixel once the linear layer's output is reshaped",
    show=False,
)
rule.ok(
    """
    from torch import nn

    class Conv(nn.Module):
        def __init__(self, before, after):
            super().__init__()
            self.conv = nn.Conv2d(before, after, 1)

        def forward(self, x):
            return self.conv(x)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.last = Conv(3, 8), Conv(8, 3)
            self.norm = nn.BatchNorm2d(8)
            self.side, self.side_norm = nn.Conv2d(8, 8, 1), nn.BatchNorm2d(8)

        def forward(self, x):
            x = self.norm(self.first(x))
            self.kept = self.side(x)
            return self.last(self.side_norm(self.kept))
    """,
    why="a caller takes the output without a norm, and another part stores it",
    show=False,
)
rule.ok(
    """
    from torch import nn

    class Frozen(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(3, 8, 3)
            self.norm = nn.BatchNorm2d(8)
            self.norm.eval()

        def forward(self, x):
            return self.norm(self.conv(x))
    """,
    why="a norm in evaluation mode subtracts its running mean, whatever the bias is",
    show=False,
)
rule.ok(
    """
    from torch import nn

    class Block(nn.Module):
        def __init__(self, width, use_norm):
            super().__init__()
            self.conv = nn.Conv2d(width, width, 3)
            self.norm = nn.BatchNorm2d(width) if use_norm else None

        def forward(self, x):
            x = self.conv(x)
            if self.norm is not None:
                x = self.norm(x)
            return x.relu()
    """,
    why="the norm is optional",
    show=False,
)
rule.ok(
    """
    from torch import nn

    class Block(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.conv, self.norm = nn.Conv2d(3, width, 3), nn.BatchNorm2d(width)
            self.conv.bias = None

        def forward(self, x):
            return self.norm(self.conv(x))
    """,
    why="the bias is dropped by hand, or shared",
    show=False,
)
rule.ok(
    """
    from torch import nn

    class Conv(nn.Module):
        def __init__(self, before, after, bias=True):
            super().__init__()
            self.conv = nn.Conv2d(before, after, 1, bias=bias)
            self.norm = nn.BatchNorm2d(after)

        def forward(self, x):
            return self.norm(self.conv(x))

    class Norm(nn.Module):
        def __init__(self, width, norm_layer=nn.BatchNorm2d):
            super().__init__()
            self.conv = nn.Conv2d(width, width, 1)
            self.norm = norm_layer(width)

        def forward(self, x):
            return self.norm(self.conv(x))
    """,
    why="another file turns the bias off, and takes another norm",
    files={"net.py": """
    from example import Conv, Norm

    net = Conv(3, 8, bias=False)
    other = Norm(8, norm_layer=make_norm)
    """},
    show=False,
)
_PRODUCERS = ("conv", "conv_transpose", "linear")


rule.bad(
    """
    from torch import nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8))
    #                                   ^^^^^^^^^^^^^^^^^^
            for module in self.modules():
                if isinstance(module, nn.Conv2d):
                    if module.bias is not None:
                        nn.init.xavier_normal_(module.weight)
                    else:
                        module.weight.data.normal_(0, 0.01)  # without a bias, other weights: no fix

        def forward(self, x):
            return self.layers(x)
    """,
    show=False,
)


@rule.question
def check(model: Model, options: dict[str, Any]) -> Iterator[Finding]:
    for site, layers in constructed(model):
        norms = [_cancelling_norm(model, layer) for layer in layers]
        norm = norms[0]
        if norm is None or not isinstance(site.node, cst.Call):
            continue
        if not all(n is not None and _holds_for_callers(model, layer, n) for layer, n in zip(layers, norms)):
            continue
        uses = [use for layer in layers for use in unguarded_bias_uses(model, layer)]
        kind = layers[0].name.rpartition(".")[2]
        yield rule.at(
            site,
            f"The bias of this `{kind}` has no effect: {_named(norm, site)} subtracts the mean of each channel.",
            help=f"pass `bias=False`; {uses[0].seen_from(site)} uses the bias and must change with it."
            if uses
            else "pass `bias=False`.",
            fix=None if uses else _fix(model, site.node, layers),
        )


def _cancelling_norm(model: Model, layer: v.External) -> v.External | None:
    """The norm behind a layer that has a bias, where nothing else takes its output."""
    if not _has_bias(layer) or layer.escaped or is_cut(model, layer):
        return None
    consumers = [consumer for consumer in takers(layer) if not _cannot_take(consumer.layer, layer)] or takers(layer)
    if not consumers or not all(_cancels(consumer.layer, layer) for consumer in consumers):
        return None
    norms = [consumer.layer for consumer in consumers if isinstance(consumer.layer, v.External)]
    return None if any(is_put_into_evaluation(model, norm) for norm in norms) else norms[0]


def _holds_for_callers(model: Model, layer: v.External, norm: v.External) -> bool:
    """Whether callers in other files leave the defaults that the finding rests on."""
    known = knowledge.layer(layer.name)
    bias = layer.argument(known.bias, known.bias_position) if known is not None and known.bias is not None else None
    if isinstance(bias, v.Unknown):
        made = made_by_callers(model, layer)
        if made is None or not all(isinstance(other, v.External) and _has_bias(other) for other in made):
            return False
    if norm.guessed:
        made = made_by_callers(model, norm)
        if made is None or (not made and made_by_callers(model, layer)):
            return False
        return all(isinstance(other, v.External) and _role(other) == _role(norm) for other in made)
    return True


def _role(norm: v.External) -> str | None:
    known = knowledge.layer(norm.name)
    return known.cancels_bias if known is not None else None


def _has_bias(layer: v.External) -> bool:
    known = knowledge.layer(layer.name)
    if known is None or known.role not in _PRODUCERS or known.bias is None or "bias" in layer.attributes:
        return False
    given = layer.argument(known.bias, known.bias_position)
    if given is None:
        return known.bias_default and not layer.arguments.may_hold(known.bias, known.bias_position)
    if isinstance(given, v.Unknown):  # a parameter's default, which no caller is seen to change
        given = given.guess or given
    return isinstance(given, v.Const) and given.value is True


def _cannot_take(norm: v.Value | None, layer: v.External) -> bool:
    """Whether a norm is made for another number of channels: two that one name may mean, but not together."""
    known = knowledge.layer(norm.name) if isinstance(norm, v.External) else None
    return known is not None and "norm" in known.role and _differ(_channels(norm, known), _width(layer))  # type: ignore[arg-type]


def _channels(norm: v.External, known: knowledge.Layer) -> v.Value | None:
    return norm.argument(known.channels, 1 if known.role == "group_norm" else 0) if known.channels else None


def _width(layer: v.External) -> v.Value | None:
    known = knowledge.layer(layer.name)
    name = "out_features" if known is not None and known.role == "linear" else "out_channels"
    return layer.argument(name, 0 if known is not None and known.lazy else 1)


def _cancels(norm: v.Value | None, layer: v.External) -> bool:
    """Whether a norm takes away what the layer's bias adds to each channel."""
    if not isinstance(norm, v.External):
        return False
    known, producer = knowledge.layer(norm.name), knowledge.layer(layer.name)
    if known is None or producer is None:
        return False
    channels = _channels(norm, known)
    if _differ(channels, _width(layer)):
        return False
    if producer.role == "linear":  # of sequences, a BatchNorm1d's channels are another dimension than the layer's
        alike = known.lazy or _equal(channels, _width(layer)) or _written_alike(norm, known, layer)
        return alike and known.role == "batch_norm" and known.dims in (1, None)
    if None not in (producer.dims, known.dims) and producer.dims != known.dims:
        return False
    if known.cancels_bias == "groups":
        return _equal(norm.argument("num_groups", 0), channels)
    return known.cancels_bias == "always"


def _equal(a: v.Value | None, b: v.Value | None) -> bool:
    return a is not None and (a is b or (isinstance(a, v.Const) and isinstance(b, v.Const) and a.value == b.value))


def _written_alike(norm: v.External, known: knowledge.Layer, layer: v.External) -> bool:
    """Whether both calls write the same expression for the number of channels."""
    one = norm.arguments.nodes.get(0) or norm.arguments.nodes.get(known.channels or "")
    other = layer.arguments.nodes.get(1) or layer.arguments.nodes.get("out_features")
    return one is not None and other is not None and same_code(one.value, other.value)


def _differ(a: v.Value | None, b: v.Value | None) -> bool:
    return isinstance(a, v.Const) and isinstance(b, v.Const) and a.value != b.value


def _named(norm: v.External, near: v.Site) -> str:
    name = f"`{norm.name.rpartition('.')[2]}`"
    return name if norm.site is None else f"{name} ({norm.site.seen_from(near)})"


def _fix(model: Model, call: cst.Call, layers: list[v.External]) -> Fix | None:
    known = knowledge.layer(layers[0].name)
    default = _own_default(model.tree, call, layers)
    if default is not None:
        return Fix("Make `bias` False by default", Applicability.UNSAFE, tuple(replace(model.tree, default, "False")))
    edits = set_keyword(model.tree, call, "bias", "False", position=known.bias_position if known else None)
    return None if edits is None else Fix("Pass `bias=False`", Applicability.UNSAFE, tuple(edits))


def _own_default(tree: Tree, call: cst.Call, layers: list[v.External]) -> cst.BaseExpression | None:
    """The True that the bias is by default, of a parameter of the function around that only this call reads."""
    known = knowledge.layer(layers[0].name)
    bias = layers[0].arguments.nodes.get(known.bias or "") if known is not None else None
    function = next((node for node in tree.ancestors(call) if isinstance(node, cst.FunctionDef)), None)
    if bias is None or not isinstance(bias.value, cst.Name) or function is None:
        return None
    name = bias.value.value
    parameters = [*function.params.params, *function.params.kwonly_params]
    default = next((known.default for known in parameters if known.name.value == name), None)
    read = [node for node in walk(function.body) if isinstance(node, cst.Name) and node.value == name]
    if not _is_true(default) or [node for node in read if node is not bias.keyword] != [bias.value]:
        return None
    above = next((node.name.value for node in tree.ancestors(function) if isinstance(node, cst.ClassDef)), "")
    return None if _is_passed(tree, name, (function.name.value, above)) else default


def _is_passed(tree: Tree, name: str, callees: tuple[str, str]) -> bool:
    """Whether a call in the file passes a True that may be for this parameter."""
    for call in walk(tree.module):
        if isinstance(call, cst.Call):
            called = call.func.attr if isinstance(call.func, cst.Attribute) else call.func
            is_own = isinstance(called, cst.Name) and called.value in callees
            for argument in call.args:
                here = is_own if argument.keyword is None else argument.keyword.value == name
                if here and _is_true(argument.value):
                    return True
    return False


def _is_true(node: cst.BaseExpression | None) -> bool:
    return isinstance(node, cst.Name) and node.value == "True"
