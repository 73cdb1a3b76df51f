"""What rules ask about a network's layers: where they are constructed, who takes their output, who reads their bias."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics import knowledge
from torchlint.semantics import values as v
from torchlint.semantics.callers import models_of_callers
from torchlint.semantics.recording import Context, Event
from torchlint.syntax.linked import expression_text
from torchlint.syntax.tree import literal

if TYPE_CHECKING:
    from torchlint.semantics.model import Model
    from torchlint.semantics.project import AnyTree

_ASKS_FOR_PRESENCE = re.compile(r"hasattr\([^()]*\)")


def constructed(model: Model) -> Iterator[tuple[v.Site, list[v.External]]]:
    """Every place of this source that constructs layers, with all that are made there, in any context.

    What a made-up call constructs is left out where a real call makes it too.
    """
    groups: dict[tuple[int, int], list[v.External]] = {}
    for layer in model.machine.externals:
        if layer.kind == "module" and layer.site is not None and layer.site.tree is model.tree:
            groups.setdefault(layer.site.key, []).append(layer)
    for group in groups.values():
        real = [layer for layer in group if not _superseded(model, layer)] or group
        if real[0].site is not None:
            yield real[0].site, real


def _superseded(model: Model, layer: v.External) -> bool:
    """Whether a function around the construction was run with unknown arguments, and real calls of it exist."""
    reached = model.machine.reached
    return any(c.entered and id(c.data.node) in reached for c in layer.context or ())


def is_cut(model: Model, layer: v.External) -> bool:
    """Whether some run around the construction was given up, so that not every consumer may have been seen.

    A recursive call that is not followed would construct more of the same: it does not count.
    """
    cut = model.machine.cut - model.machine.recursive
    if not cut or layer.context is None:
        return False
    if id(layer.context.entry().node.node) in cut:
        return True
    return any(c.kind == "call" and isinstance(c.data, v.Function) and id(c.data.node) in cut for c in layer.context)


def takers(layer: v.External) -> list[v.Consumer]:
    """Who takes the values of the layer's output: a look at its shape does not count."""
    return [consumer for consumer in layer.consumers if consumer.how != "shape"]


def made_by_callers(model: Model, layer: v.External) -> list[v.Value] | None:
    """What runs of other files construct where the layer is, by calling what its own run began with.

    None where such a file could not be followed.
    """
    if layer.site is None or layer.context is None:
        return []
    others = models_of_callers(model, Event("construct", layer.site, layer.context, layer))
    if others is None:
        return None
    node = layer.site.node
    return [made for other in others for made in (*other.machine.externals, *other.machine.modules)
            if isinstance(made, (v.External, v.Instance)) and made.site is not None and made.site.node is node]


def is_put_into_evaluation(model: Model, layer: v.External) -> bool:
    """Whether code calls ``eval()`` on the layer itself, as one does that shall never train."""
    return any(event.subject is layer and event.data.get("train") is False
               for event in model.events("mode", everywhere=True))


def unguarded_bias_uses(model: Model, layer: v.External) -> list[v.Site]:
    """Where code touches the layer's bias without asking whether there is one, or does something else without it."""
    return [use.site for use in model.machine.bias_uses if _may_be(use, layer) and not _asks_first(use)]


def _may_be(use: v.BiasUse, layer: v.External) -> bool:
    """Whether the module whose bias is used could be this layer."""
    module = use.module
    if isinstance(module, v.External):
        return module is layer or (module.site is not None and layer.site is not None
                                   and module.site.node is layer.site.node)
    if not isinstance(module, v.Unknown):
        return False
    classes = module.attributes.get("%is")
    if isinstance(classes, v.Sequence) and not any(_is_of(layer, cls) for cls in classes.elements()):
        return False
    return all(word in layer.name.rpartition(".")[2] for word in _words_asked_for(use.context))


def _is_of(layer: v.External, cls: v.Value) -> bool:
    if isinstance(cls, v.Symbol):
        return knowledge.api(cls.name) is None or knowledge.is_subclass(layer.name, cls.name)
    return not isinstance(cls, v.Class)


def _words_asked_for(context: Context) -> Iterator[str]:
    """The words in ``if name.find("Conv") != -1`` and ``if "Conv" in name`` around a use, where they must be found."""
    for guard in context:
        test = guard.data
        if guard.kind != "guard" or not isinstance(test, cst.Comparison) or len(test.comparisons) != 1:
            continue
        target = test.comparisons[0]
        if isinstance(target.operator, cst.In) and guard.taken:
            asked: cst.BaseExpression = test.left
        elif _found(test) and guard.taken:
            asked = test.left.args[0].value  # type: ignore[attr-defined]
        else:
            continue
        word = literal(asked)
        if isinstance(word, str):
            yield word


def _found(test: cst.Comparison) -> bool:
    """Whether it reads ``name.find(word) != -1``, or ``>= 0``."""
    target = test.comparisons[0]
    return (
        isinstance(test.left, cst.Call)
        and isinstance(test.left.func, cst.Attribute)
        and test.left.func.attr.value == "find"
        and len(test.left.args) == 1
        and isinstance(target.operator, (cst.NotEqual, cst.GreaterThanEqual, cst.GreaterThan))
    )


def _goes_elsewhere(tree: AnyTree, test: cst.CSTNode) -> bool:
    """Whether an ``if`` asks this, and has other code for where there is no bias."""
    below = test
    while True:
        above = tree.parent(below)
        if isinstance(above, cst.If) and above.test is below:
            is_none = isinstance(test, cst.Comparison) and isinstance(test.comparisons[0].operator, cst.Is)
            return is_none or isinstance(above.orelse, cst.Else)
        if not isinstance(above, (cst.Comparison, cst.BooleanOperation, cst.UnaryOperation)):
            return False
        below = above


def _asks_first(use: v.BiasUse) -> bool:
    """Whether the use is itself a test for None, or stands behind one."""
    tree = use.site.tree
    node, parent = use.site.node, tree.parent(use.site.node)
    if isinstance(parent, cst.Comparison) and isinstance(parent.comparisons[0].operator, (cst.Is, cst.IsNot)):
        return not _goes_elsewhere(tree, parent)
    if isinstance(parent, (cst.If, cst.IfExp)) and parent.test is node:
        return not _goes_elsewhere(tree, node)
    if isinstance(parent, (cst.BooleanOperation, cst.UnaryOperation)):
        return not _goes_elsewhere(tree, node)
    return any(c.kind == "guard" and c.data is not None and "bias" in _asked_of(c.data) for c in use.context)


def _asked_of(test: cst.CSTNode) -> str:
    return _ASKS_FOR_PRESENCE.sub("", expression_text(test))
