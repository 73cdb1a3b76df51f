"""What Python's builtins and standard library do to values, and iterators that pass on what they are given."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics import bounds, knowledge, texts
from torchlint.semantics import values as v
from torchlint.semantics.containers import extend, items_of, iterate
from torchlint.semantics.host import settled
from torchlint.semantics.library import (
    children_of,
    handles,
    is_loader,
    is_tensor,
)
from torchlint.semantics.rhythm import CLOCKS

if TYPE_CHECKING:
    from torchlint.semantics.interpreter import Interpreter


@handles("builtins.isinstance")
def _isinstance(machine: Interpreter, name: str, arguments: v.Arguments, node: cst.CSTNode) -> v.Value:
    if len(arguments.positional) != 2:
        return v.Unknown("bool")
    value, wanted = arguments.positional
    classes = list(wanted.items) if isinstance(wanted, v.Sequence) else [wanted]
    answers = {_is_instance(option, cls) for option in value.options() for cls in classes}
    if True in answers and len(value.options()) == 1:
        return v.Const(True)
    if answers == {False}:
        return v.Const(False)
    answer = v.Unknown("isinstance")
    answer.attributes["%asks"] = v.Sequence([value, *classes], "tuple")
    return answer


def _is_instance(value: v.Value, cls: v.Value) -> bool | None:
    if isinstance(cls, v.Symbol):
        wanted = cls.name
        if isinstance(value, v.External) and "." in value.name and knowledge.api(value.name) is not None \
                and knowledge.api(wanted) is not None:
            return knowledge.is_subclass(value.name, wanted)
        if isinstance(value, v.Instance):
            externals = value.cls.external_bases
            if any(knowledge.is_subclass(base, wanted) for base in externals):
                return True
            return None if value.cls.unknown_bases or value.is_generic else False
        simple = {"builtins.list": "list", "builtins.tuple": "tuple", "builtins.dict": "dict"}.get(wanted)
        if simple is not None:
            if isinstance(value, v.Sequence):
                return value.type == simple
            if isinstance(value, (v.Mapping, v.Const, v.External, v.Instance, v.Function, v.Number)):
                return isinstance(value, v.Mapping) and simple == "dict"
        if isinstance(value, v.Const):
            kinds = {"builtins.str": str, "builtins.int": int, "builtins.float": float, "builtins.bool": bool}
            return isinstance(value.value, kinds[wanted]) if wanted in kinds else False
    if isinstance(cls, v.Class) and isinstance(value, v.Instance):
        return True if cls in value.cls.mro() else None if value.cls.unknown_bases or value.is_generic else False
    return None


@handles(*CLOCKS)
def _clock(machine: Interpreter, name: str, arguments: v.Arguments, node: cst.CSTNode) -> v.Value:
    return v.Counter()


@handles("enum.auto")
def _auto(machine: Interpreter, name: str, arguments: v.Arguments, node: cst.CSTNode) -> v.Value:
    return v.Const(object())  # a constant that is equal to itself only


@handles("builtins.len")
def _len(machine: Interpreter, name: str, arguments: v.Arguments, node: cst.CSTNode) -> v.Value:
    for value in arguments.positional:
        if isinstance(value, v.Sequence) and value.exact:
            return v.Const(len(value.items)) if value.type == "tuple" else v.Number()
    return v.Number()


@handles("builtins.range", "itertools.count")
def _range(machine: Interpreter, name: str, arguments: v.Arguments, node: cst.CSTNode) -> v.Value:
    return v.External(name, "range", arguments, machine.site(node))


@handles("builtins.list", "builtins.tuple", "builtins.set", "builtins.sorted", "builtins.reversed",
         "builtins.frozenset", "collections.deque", "builtins.iter")
def _list(machine: Interpreter, name: str, arguments: v.Arguments, node: cst.CSTNode) -> v.Value:
    kind = {"builtins.tuple": "tuple"}.get(name, "list")
    if not arguments.positional:
        return v.Sequence((), kind, site=machine.site(node))
    source = arguments.positional[0]
    if isinstance(source, v.Parameters) and source.what == "children":
        children = children_of(source.module)
        if children is not None:
            return v.Sequence(children, kind, site=machine.site(node))
    items = items_of(source)
    if items is not None:
        order = items.items[::-1] if name == "builtins.reversed" else items.items
        return v.Sequence(order, kind, rest=items.rest, site=machine.site(node), flow=items.flow)
    if isinstance(source, v.Mapping) and not source.open:
        return v.Sequence([v.Const(key) for key in source.items], kind)
    if isinstance(source, v.Parameters) and name == "builtins.list":
        return source
    return _over(v.Sequence((), kind, rest=iterate(machine, source), site=machine.site(node), flow=source.flow), source)


@handles("builtins.enumerate")
def _enumerate(machine: Interpreter, name: str, arguments: v.Arguments, node: cst.CSTNode) -> v.Value:
    source = arguments.positional[0] if arguments.positional else v.Unknown()
    items = items_of(source)
    if items is not None and items.exact:
        pairs = [v.Sequence([v.Const(i), item], "tuple") for i, item in enumerate(bounds.elements(items.items))]
        return v.Sequence(pairs, "list", flow=source.flow)
    pair = v.Sequence([v.Counter(), bounds.element(iterate(machine, source))], "tuple")
    made = v.Sequence((), "list", rest=pair, flow=source.flow)
    made.site = None
    return _over(made, source)


def _over(made: v.Sequence, source: v.Value) -> v.Value:
    """An iterator over a loader goes on being known as such."""
    if is_loader(source):
        made.flow = v.Flow(loader=source)
    return made


@handles("builtins.zip")
def _zip(machine: Interpreter, name: str, arguments: v.Arguments, node: cst.CSTNode) -> v.Value:
    sources = [items_of(value) for value in arguments.positional]
    flow = v.merge_flows(a.flow for a in arguments.positional)
    if sources and all(s is not None and s.exact for s in sources) and not arguments.stars:
        rows = zip(*(s.items for s in sources if s is not None), strict=False)
        return v.Sequence([v.Sequence(bounds.elements(row), "tuple") for row in rows], "list", flow=flow)
    row = v.Sequence(bounds.elements(iterate(machine, a) for a in arguments.positional), "tuple")
    made = v.Sequence((), "list", rest=row, flow=flow)
    for source in arguments.positional:
        _over(made, source)
    return made


@handles("builtins.dict", "collections.OrderedDict")
def _dict(machine: Interpreter, name: str, arguments: v.Arguments, node: cst.CSTNode) -> v.Value:
    made = v.Mapping(site=machine.site(node))
    for source in arguments.positional:
        if isinstance(source, v.Mapping):
            made.items.update(source.items)
            made.open, made.rest = source.open, source.rest
        elif isinstance(source, v.Sequence) and source.exact:
            for pair in source.items:
                if isinstance(pair, v.Sequence) and len(pair.items) == 2 and isinstance(pair.items[0], v.Const):
                    made.items[pair.items[0].value] = pair.items[1]
                elif isinstance(pair, v.Sequence) and len(pair.items) == 2:
                    made.items[("unknown", len(made.items))] = pair.items[1]
        else:
            made.open = True
    made.items.update((key, bounds.element(value)) for key, value in arguments.keywords.items())
    made.open |= arguments.double_stars
    return made


@handles("collections.defaultdict")
def _defaultdict(machine: Interpreter, name: str, arguments: v.Arguments, node: cst.CSTNode) -> v.Value:
    return v.Mapping(open=True, site=machine.site(node))


_MOST_CLASSES = 4  # of a module, up to which `getattr(module, name)` may be any of them


@handles("builtins.getattr")
def _getattr(machine: Interpreter, name: str, arguments: v.Arguments, node: cst.CSTNode) -> v.Value:
    if len(arguments.positional) < 2:
        return v.Unknown("getattr")
    base, attribute = arguments.positional[:2]
    if isinstance(attribute, v.Const) and isinstance(attribute.value, str):
        found = machine.attribute(base, attribute.value, node)
        if len(arguments.positional) > 2 and isinstance(found, v.Unknown):
            return v.join(found, arguments.positional[2])
        return found
    if isinstance(base, v.Instance) and isinstance(attribute, v.Text):
        parts = texts.parts_named(base, attribute)
        if parts:
            return v.join(*parts)
    if isinstance(base, v.Symbol) and base.name in ("torch.optim", "torch.optim.lr_scheduler"):
        return v.Symbol(f"{base.name}.Optimizer" if base.name == "torch.optim" else f"{base.name}.LRScheduler")
    if isinstance(base, v.Symbol) and base.name == "torchvision.models":
        return v.Symbol("torch.nn.Module")
    if base.kind == "project module":
        classes = [cls for module in base.options() for cls in machine.project.classes_of(machine, module)]
        if 0 < len(classes) <= _MOST_CLASSES:
            return v.join(*classes)
    return v.Unknown("getattr")


@handles("builtins.setattr")
def _setattr(machine: Interpreter, name: str, arguments: v.Arguments, node: cst.CSTNode) -> v.Value:
    if len(arguments.positional) == 3:
        base, attribute, value = arguments.positional
        if isinstance(attribute, v.Const) and isinstance(attribute.value, str):
            machine.set_attribute(base, attribute.value, value, node)
        elif isinstance(base, v.Instance):
            if isinstance(attribute, v.Text):
                texts.register(machine, base, attribute, value)
            base.children.append(value)
    return v.NONE


@handles("builtins.hasattr", "builtins.callable", "builtins.issubclass", "torch.cuda.is_available", "torch.is_tensor",
         "torch.backends.mps.is_available", "torch.distributed.is_initialized", "torch.distributed.is_available")
def _some_bool(machine: Interpreter, name: str, arguments: v.Arguments, node: cst.CSTNode) -> v.Value:
    value = v.Unknown(name)
    value.proved = "bool"
    return value


@handles("builtins.int", "builtins.float", "builtins.bool", "builtins.round", "builtins.abs", "builtins.complex")
def _scalar(machine: Interpreter, name: str, arguments: v.Arguments, node: cst.CSTNode) -> v.Value:
    for value in arguments.positional:
        v.mark_used(value, "python")
        for option in value.options():
            if is_tensor(option) and name in ("builtins.int", "builtins.float", "builtins.bool"):
                machine.consume(option, node)
                read = machine.emit("sync", node, option, how=name.rpartition(".")[2] + "()",
                                    explicit=name != "builtins.bool")
                if option is value and name == "builtins.float":
                    return v.Number(v.merge_flows([value.flow]).without_graph(), read=read)
        if name == "builtins.abs" and isinstance(value, v.Tensor):
            machine.consume(value, node)
            return v.Tensor(v.merge_flows([value.flow]), value.device)
    if name == "builtins.int" and len(arguments.positional) == 1 and isinstance(arguments.positional[0], v.Unknown):
        guess = arguments.positional[0].guess
        return v.Unknown("int", guess=guess) if guess is not None else v.Number()
    return v.Number(settled(v.merge_flows(a.flow for a in arguments.positional).without_graph()))


@handles("builtins.sum", "builtins.min", "builtins.max")
def _reduce(machine: Interpreter, name: str, arguments: v.Arguments, node: cst.CSTNode) -> v.Value:
    operands = list(arguments.positional)
    if len(operands) == 1 or (operands and name == "builtins.sum"):
        inner = iterate(machine, operands[0])
        machine.consume(operands[0], node)
        if isinstance(inner, v.Tensor):
            return v.Tensor(v.merge_flows([inner.flow, operands[0].flow]), inner.device)
        if isinstance(inner, (v.Number, v.Const)):
            return v.Number()
        return v.Unknown(name, v.merge_flows([inner.flow, operands[0].flow]))
    if all(isinstance(o, (v.Const, v.Number)) for o in operands):
        return v.Number()
    guesses = [o for o in operands if isinstance(o, v.Unknown) and o.guess is not None]
    return v.Unknown(name, v.merge_flows(o.flow for o in operands), guess=guesses[0].guess if guesses else None)


@handles("builtins.print", "logging.info", "logging.debug", "logging.warning")
def _print(machine: Interpreter, name: str, arguments: v.Arguments, node: cst.CSTNode) -> v.Value:
    for value in arguments.all():
        for option in value.options():
            if is_tensor(option):
                machine.consume(option, node)
                machine.emit("sync", node, option, how=f"{name.rpartition('.')[2]}() of a tensor", explicit=True)
    return v.NONE


@handles("builtins.str", "builtins.repr", "builtins.format")
def _text(machine: Interpreter, name: str, arguments: v.Arguments, node: cst.CSTNode) -> v.Value:
    for value in arguments.positional:
        if is_tensor(value):
            machine.emit("sync", node, value, how="str() of a tensor", explicit=True)
    return v.Text()


@handles("builtins.map", "itertools.starmap")
def _map(machine: Interpreter, name: str, arguments: v.Arguments, node: cst.CSTNode) -> v.Value:
    if len(arguments.positional) < 2:
        return v.Unknown("map")
    inner = v.Arguments(arguments.node)
    inner.positional = [iterate(machine, source) for source in arguments.positional[1:]]
    if name == "itertools.starmap":
        passed = inner.positional[0]
        inner.stars = not isinstance(passed, v.Sequence) or not passed.exact
        inner.positional = list(passed.items) if isinstance(passed, v.Sequence) and passed.exact else []
    result = machine.call(arguments.positional[0], inner, node)
    return v.Sequence((), "list", rest=result, flow=result.flow)


@handles("builtins.filter")
def _filter(machine: Interpreter, name: str, arguments: v.Arguments, node: cst.CSTNode) -> v.Value:
    if len(arguments.positional) < 2:
        return v.Unknown("filter")
    source = arguments.positional[1]
    inner = v.Arguments(arguments.node)
    inner.positional = [iterate(machine, source)]
    machine.call(arguments.positional[0], inner, node)
    if isinstance(source, v.Parameters):
        return source
    return v.Sequence((), "list", rest=inner.positional[0], flow=source.flow)


@handles("builtins.next")
def _next(machine: Interpreter, name: str, arguments: v.Arguments, node: cst.CSTNode) -> v.Value:
    source = arguments.positional[0] if arguments.positional else v.Unknown()
    machine.emit("next", node, source)
    return iterate(machine, source)


@handles("builtins.super")
def _super(machine: Interpreter, name: str, arguments: v.Arguments, node: cst.CSTNode) -> v.Value:
    frame = machine.frame
    while frame.owner is None and frame.enclosing is not None and frame.enclosing.function is not None:
        frame = frame.enclosing
    receiver = frame.receiver
    if receiver is None and frame.function is not None and frame.arguments:
        receiver = next(iter(frame.arguments.values()))
    owner = frame.owner
    if arguments.positional and isinstance(arguments.positional[0], v.Class):
        owner = arguments.positional[0]
        receiver = arguments.positional[1] if len(arguments.positional) > 1 else receiver
    if owner is None or receiver is None:
        return v.Unknown("super")
    return v.Super(receiver, owner)


@handles("functools.partial")
def _partial(machine: Interpreter, name: str, arguments: v.Arguments, node: cst.CSTNode) -> v.Value:
    if not arguments.positional:
        return v.Unknown("partial")
    made = v.External("functools.partial", "partial", arguments, machine.site(node))
    return made


@handles("functools.wraps", "functools.lru_cache", "functools.cache", "torch.jit.ignore", "torch.jit.export",
         "torch.compiler.disable", "torch._dynamo.disable", "torch.jit.unused", "typing.no_type_check",
         "functools.update_wrapper", "builtins.staticmethod", "torch.fx.wrap", "typing.overload",
         "torch.jit.script_if_tracing")
def _same_function(machine: Interpreter, name: str, arguments: v.Arguments, node: cst.CSTNode) -> v.Value:
    """A decorator that leaves the function what it is."""
    if name != "functools.wraps" and arguments.positional and isinstance(arguments.positional[0], v.Function):
        return arguments.positional[0]
    return v.Symbol("torchlint.same")


@handles("torchlint.same")
def _same(machine: Interpreter, name: str, arguments: v.Arguments, node: cst.CSTNode) -> v.Value:
    return arguments.positional[0] if arguments.positional else v.Unknown()


@handles("tqdm.tqdm", "tqdm.auto.tqdm", "tqdm.notebook.tqdm", "tqdm.rich.tqdm", "rich.progress.track", "tqdm.trange",
         "tqdm.auto.trange", "itertools.islice", "tqdm.std.tqdm", "fastprogress.progress_bar",
         "fastprogress.master_bar", "itertools.cycle", "tqdm.tqdm_notebook")
def _iterator_over(machine: Interpreter, name: str, arguments: v.Arguments, node: cst.CSTNode) -> v.Value:
    source = arguments.get("iterable", 0) or arguments.get("sequence", 0)
    if source is None or name.endswith("trange"):
        return v.External(name, "range", arguments, machine.site(node))
    if isinstance(source, v.Unknown):
        source.uses.add("iter")
    return source


@handles("itertools.repeat")
def _repeat(machine: Interpreter, name: str, arguments: v.Arguments, node: cst.CSTNode) -> v.Value:
    repeated = arguments.get("object", 0)
    return v.Sequence((), "list", rest=repeated) if repeated is not None else v.Unknown(name)


def _joined_loaders(sources: list[v.Value]) -> v.Value | None:
    """What gives the batches of all these loaders; None where there are none, or something else is among them."""
    return v.join(*sources) if sources and all(map(is_loader, sources)) else None


@handles("itertools.chain.from_iterable")
def _chain_from_iterable(machine: Interpreter, name: str, arguments: v.Arguments, node: cst.CSTNode) -> v.Value:
    source = arguments.get("iterable", 0)
    items = items_of(source) if source is not None else None
    sources = list(items.elements()) if items is not None else []
    return _joined_loaders(sources) or v.Unknown(name)


@handles("itertools.chain")
def _chain(machine: Interpreter, name: str, arguments: v.Arguments, node: cst.CSTNode) -> v.Value:
    loaders = _joined_loaders(arguments.positional)
    if loaders is not None:
        return loaders
    made = v.Sequence((), "list", site=machine.site(node))
    parameters = [a for a in arguments.positional if isinstance(a, v.Parameters)]
    for source in arguments.positional:
        if items_of(source) is not None or not isinstance(source, v.Parameters):
            extend(machine, made, source)
    if parameters and not made.items:
        made.items = list(parameters)
    return made


@handles("builtins.vars", "builtins.locals", "builtins.globals", "builtins.eval", "builtins.exec")
def _anything(machine: Interpreter, name: str, arguments: v.Arguments, node: cst.CSTNode) -> v.Value:
    return v.Unknown(name)


@handles("argparse.ArgumentParser", "argparse.Namespace")
def _argument_parser(machine: Interpreter, name: str, arguments: v.Arguments, node: cst.CSTNode) -> v.Value:
    return v.External(name, "argument_parser", arguments, machine.site(node))
