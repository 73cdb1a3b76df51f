"""What each statement does to the interpreter's state."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import libcst as cst

from torchlint.semantics import arrays
from torchlint.semantics import values as v
from torchlint.semantics.attributes import Deferred, Lazy, set_attribute
from torchlint.semantics.calls import decorate, define, value_of_annotation
from torchlint.semantics.containers import extend, get_item, iterate, set_item
from torchlint.semantics.expressions import force, index_of, narrow, operate, truth
from torchlint.semantics.imports import import_name, import_names
from torchlint.semantics.interpreter import widened
from torchlint.semantics.library import enter
from torchlint.semantics.names import code_below, code_children, names_in, once_per_node
from torchlint.semantics.recording import Context
from torchlint.semantics.scopes import Frame
from torchlint.syntax.suites import inside
from torchlint.syntax.tree import literal

if TYPE_CHECKING:
    from torchlint.semantics.interpreter import Arm, Interpreter

_UNROLL = 12  # elements of a known list up to which a loop over it is run element by element


def expr(machine: Interpreter, node: cst.Expr) -> None:
    if node.value.__class__ is cst.SimpleString:
        return  # a docstring
    machine.statement = node.value
    machine.evaluate(node.value)


def assign(machine: Interpreter, node: cst.Assign) -> None:
    if machine.context.outer is None and _can_wait(machine, node):
        value: v.Value = Deferred(node.value, machine.frame)
    else:
        value = machine.evaluate(node.value)
    if isinstance(value, v.Array):
        value.held = True
    machine.note(node, value)
    for target in node.targets:
        assign_to(machine, target.target, value)


def _can_wait(machine: Interpreter, node: cst.Assign) -> bool:
    """Whether a module's constant is built when somebody asks for it: where building it shows no rule anything."""
    frame = machine.frame
    if frame is not frame.module.frame or machine.context.data != "module":
        return False
    if node.value.__class__ not in _WORK or len(node.targets) != 1 or node.targets[0].target.__class__ is not cst.Name:
        return False
    if machine.project.source != frame.module.path:
        return True  # another file: nothing is reported there now
    if machine.triggers is None or _does_work(machine, node.value):
        return False
    return machine.triggers.isdisjoint(names_in(node.value))


def _does_work(machine: Interpreter, node: cst.BaseExpression) -> bool:
    """Whether something is called that the module made, such as a model, or a function of its own that loops.

    That is work, not a constant.
    """
    if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Name):
        return False
    callee = machine.frame.names.get(node.func.value)
    if isinstance(callee, v.Function):
        return any(isinstance(part, (cst.For, cst.While)) for part in code_below(callee.node))
    return callee is not None and not isinstance(callee, (v.Function, v.Class, v.Symbol, Lazy))


_WORK = frozenset({cst.Call, cst.Dict, cst.List, cst.Tuple, cst.DictComp, cst.ListComp})


def annotated(machine: Interpreter, node: cst.AnnAssign) -> None:
    if node.value is not None:
        value = machine.evaluate(node.value)
        if isinstance(value, v.Unknown) and not value.cut:
            value = value_of_annotation(machine, node.annotation, value.name, machine.frame) or value
        machine.note(node, value)
        assign_to(machine, node.target, value)
    elif machine.frame.owner is not None and machine.frame.function is None and isinstance(node.target, cst.Name):
        hinted = value_of_annotation(machine, node.annotation, node.target.value, machine.frame)
        if hinted is not None:
            machine.frame.names[node.target.value] = hinted


def augmented(machine: Interpreter, node: cst.AugAssign) -> None:
    old = machine.evaluate(node.target)
    new = machine.evaluate(node.value)
    if isinstance(old, v.Sequence) and old.type == "list" and isinstance(node.operator, cst.AddAssign):
        extend(machine, old, new)
        return
    value = operate(machine, node, node.operator, old, new)
    machine.emit("augmented", node, old, value, value=new) if isinstance(value, v.Tensor) else None
    if isinstance(value, v.Const):
        value = v.Counter() if isinstance(value.value, (int, float)) else value
    if isinstance(old, v.Array):
        arrays.written(machine, old, node)
        if isinstance(value, v.Array):
            value.owner = old
    machine.note(node, value)
    assign_to(machine, node.target, value)


def assign_to(machine: Interpreter, target: cst.BaseExpression, value: v.Value) -> None:
    """Bind an assignment's target (a name, attribute, subscript, or a tuple of them)."""
    if isinstance(target, cst.Name):
        machine.bind(target.value, value)
    elif isinstance(target, cst.Attribute):
        set_attribute(machine, machine.evaluate(target.value), target.attr.value, value, target)
    elif isinstance(target, (cst.Tuple, cst.List)):
        _unpack(machine, target, value)
    elif isinstance(target, cst.Subscript):
        if isinstance(target.value, cst.Attribute):
            v.mark_used(value, "attribute")
        set_item(machine, machine.evaluate(target.value), index_of(machine, target), value, target)


def _unpack(machine: Interpreter, target: cst.Tuple | cst.List, value: v.Value) -> None:
    wanted = target.elements
    starred = next((i for i, e in enumerate(wanted) if isinstance(e, cst.StarredElement)), None)
    if isinstance(value, v.Sequence) and value.exact and starred is None and len(value.items) == len(wanted):
        for element, item in zip(wanted, value.items, strict=True):
            assign_to(machine, element.value, item)
        return
    if isinstance(value, v.Union) and starred is None and all(
            isinstance(o, v.Sequence) and o.exact and len(o.items) == len(wanted) for o in value.options()):
        for index, element in enumerate(wanted):
            assign_to(machine, element.value, v.join(*(o.items[index] for o in value.options())))  # type: ignore[attr-defined]
        return
    for index, element in enumerate(wanted):
        if index == starred:
            assign_to(machine, element.value, v.Sequence((), "list", rest=iterate(machine, value)))
        else:
            assign_to(machine, element.value, get_item(machine, value, v.Const(index), target))


# ------------------------------------------------------------------- branches


def if_(machine: Interpreter, node: cst.If) -> str | None:
    if machine.frame.function is None and machine.frame.owner is None and _is_main_guard(node.test):
        machine.frame.module.mains.append(node)
        return None
    value = machine.evaluate(node.test)
    known = truth(value)
    if known is True:
        return machine.execute(node.body)
    if known is False:
        return _otherwise(machine, node)

    def then() -> str | None:
        narrow(machine, node.test, True)
        return machine.execute(node.body)

    def otherwise() -> str | None:
        narrow(machine, node.test, False)
        return _otherwise(machine, node)

    arms: list[Arm] = [(node.test, True, then), (node.test, False, otherwise)]
    return machine.alternatives(node, arms, value)


def _otherwise(machine: Interpreter, node: cst.If) -> str | None:
    if node.orelse is None:
        return None
    return if_(machine, node.orelse) if isinstance(node.orelse, cst.If) else machine.execute(node.orelse.body)


def _is_main_guard(test: cst.BaseExpression) -> bool:
    if not isinstance(test, cst.Comparison) or len(test.comparisons) != 1:
        return False
    sides = (test.left, test.comparisons[0].comparator)
    return any(isinstance(s, cst.Name) and s.value == "__name__" for s in sides) and any(
        literal(s) == "__main__" for s in sides)


def try_(machine: Interpreter, node: cst.Try | cst.TryStar) -> str | None:
    ends = machine.execute(node.body)
    if node.handlers:
        _handlers(machine, node)
    if node.orelse is not None and ends is None:
        ends = machine.execute(node.orelse.body)
    if node.finalbody is not None:
        ends = machine.execute(node.finalbody.body) or ends
    return ends if ends != "raise" or not node.handlers else None


def _handlers(machine: Interpreter, node: cst.Try | cst.TryStar) -> None:
    """Exception handlers are run for their events; names that only they bind are kept, the rest dropped."""
    frame, before = machine.frame, machine.frame.names
    for handler in node.handlers:
        mark = machine.mark()
        frame.names = dict(before)
        if handler.name is not None and isinstance(handler.name.name, cst.Name):
            frame.names[handler.name.name.value] = v.Unknown("exception")
        with machine.within(Context(machine.context, "except", machine.site(handler))):
            returns = len(frame.returns)
            machine.execute(handler.body)
            del frame.returns[returns:]
        machine.undo(mark)
        for name, value in frame.names.items():
            if name not in before:
                before[name] = value
    frame.names = before


def match(machine: Interpreter, node: cst.Match) -> str | None:
    machine.evaluate(node.subject)

    def run(case: cst.MatchCase) -> Callable[[], str | None]:
        def arm() -> str | None:
            for name in _captures(case.pattern):
                machine.bind(name, v.Unknown(name))
            if case.guard is not None:
                machine.evaluate(case.guard)
            return machine.execute(case.body)
        return arm

    arms: list[Arm] = [(case.pattern, True, run(case)) for case in node.cases]
    arms.append((None, False, lambda: None))
    return machine.alternatives(node, arms)


def _captures(pattern: cst.CSTNode) -> list[str]:
    names = []
    waiting: list[Any] = [pattern]
    while waiting:
        node = waiting.pop()
        if isinstance(node, (cst.MatchAs, cst.MatchStar)) and node.name is not None:
            names.append(node.name.value)
        if isinstance(node, cst.MatchMapping) and node.rest is not None:
            names.append(node.rest.value)
        waiting.extend(code_children(node))
    return names


# ---------------------------------------------------------------------- loops


def for_(machine: Interpreter, node: cst.For) -> str | None:
    iterable = machine.evaluate(node.iter)
    machine.loop(node, iterable, passes_over(machine, iterable, node.target), lambda: machine.execute(node.body),
                 assigned_names(node.body))
    if node.orelse is not None:
        return machine.execute(node.orelse.body)
    return None


def passes_over(machine: Interpreter, iterable: v.Value, target: cst.BaseExpression) -> list[Callable[[], None]]:
    """How often a loop over the value is run, and what each run binds: once, or once per known element."""

    def bind_to(value: v.Value) -> Callable[[], None]:
        machine.note(target, value)
        return lambda: assign_to(machine, target, value)

    if isinstance(iterable, v.External) and isinstance(iterable.items, v.Sequence):
        iterable = iterable.items
    if isinstance(iterable, v.Sequence) and iterable.items and _worth_unrolling(iterable) \
            and machine.steps <= machine.budget:
        passes = [bind_to(item) for item in iterable.items]
        if iterable.rest is not None:
            passes.append(bind_to(iterable.rest))
        return passes
    return [bind_to(iterate(machine, iterable))]


def _worth_unrolling(sequence: v.Sequence) -> bool:
    """Whether the elements differ in a way that a loop's body may show: layers, modules, functions, words."""
    if len(sequence.items) > _UNROLL or any(isinstance(i, v.Choice) for i in sequence.items):
        return False
    return all(_worth_telling_apart(item) for item in sequence.items)


def _worth_telling_apart(value: v.Value) -> bool:
    if isinstance(value, v.Const):
        return isinstance(value.value, str)
    if isinstance(value, v.Sequence):
        return value.exact and any(_worth_telling_apart(item) for item in value.items)
    return isinstance(value, (v.External, v.Instance, v.Function, v.Class, v.Symbol, v.Tensor, v.Array))


def while_(machine: Interpreter, node: cst.While) -> str | None:
    changing = assigned_names(node.body)
    for name in changing:
        old = machine.frame.names.get(name)
        if isinstance(old, v.Const):
            machine.frame.names[name] = widened(old)
    if truth(machine.evaluate(node.test)) is False:
        return None
    machine.loop(node, None, [lambda: None], lambda: machine.execute(node.body), changing)
    if node.orelse is not None:
        return machine.execute(node.orelse.body)
    return None


@once_per_node
def assigned_names(body: cst.BaseSuite) -> frozenset[str]:
    """The names that a suite assigns (nested functions aside); worked out once per suite."""
    names: set[str] = set()
    waiting: list[Any] = [body]
    while waiting:
        node = waiting.pop()
        cls = node.__class__
        if cls is cst.Assign:
            for target in node.targets:
                _target_names(target.target, names)
        elif cls is cst.AugAssign or cls is cst.AnnAssign:
            _target_names(node.target, names)
        else:
            waiting.extend(inside(node))
            if cls is cst.For:
                _target_names(node.target, names)
    return frozenset(names)


def _target_names(target: cst.BaseExpression, names: set[str]) -> None:
    if isinstance(target, cst.Name):
        names.add(target.value)
    elif isinstance(target, (cst.Tuple, cst.List)):
        for element in target.elements:
            _target_names(element.value, names)


# ------------------------------------------------------------ with, def, class


def with_(machine: Interpreter, node: cst.With) -> str | None:
    context = machine.context
    for item in node.items:
        manager = machine.evaluate(item.item)
        context = Context(context, "with", machine.site(item), manager)
        with machine.within(context):
            entered = enter(machine, manager, context, item)
        if item.asname is not None:
            assign_to(machine, item.asname.name, entered)
    with machine.within(context):
        return machine.execute(node.body)


def def_(machine: Interpreter, node: cst.FunctionDef) -> None:
    frame = machine.frame
    function = define(machine, node)
    value: v.Value = function
    for decorator in reversed(node.decorators):
        value = decorate(machine, value, machine.evaluate(decorator.decorator), decorator)
    frame.names[node.name.value] = value
    frame.module.functions.append(value if isinstance(value, v.Function) and value.node is node else function)


def class_(machine: Interpreter, node: cst.ClassDef) -> None:
    bases = [force(machine, machine.evaluate(arg.value)) for arg in node.bases if not arg.star]
    for arg in node.keywords:
        machine.evaluate(arg.value)
    cls = v.Class(node, machine.frame.module, bases)
    outer = machine.frame
    frame = Frame(outer.module, outer if outer.owner is None or outer.function else outer.enclosing, outer.function)
    frame.function = None
    frame.owner = cls
    cls.frame = frame
    machine.frame = frame
    try:
        machine.execute(node.body)
    finally:
        machine.frame = outer
    cls.attributes = v.Slots(frame.names)
    outer.module.classes.append(cls)
    value: v.Value = cls
    for decorator in reversed(node.decorators):
        value = decorate(machine, value, machine.evaluate(decorator.decorator), decorator)
    outer.names[node.name.value] = value


# ------------------------------------------------------------------- the rest


def return_(machine: Interpreter, node: cst.Return) -> str:
    value = machine.evaluate(node.value) if node.value is not None else v.NONE
    machine.note(node, value)
    machine.frame.returns.append(value)
    return machine.exit(node, "return")


def raise_(machine: Interpreter, node: cst.Raise) -> str:
    if node.exc is not None:
        machine.evaluate(node.exc)
    if node.cause is not None:
        machine.evaluate(node.cause.item)
    return machine.exit(node, "raise")


def assert_(machine: Interpreter, node: cst.Assert) -> None:
    machine.evaluate(node.test)
    if node.msg is not None:
        machine.evaluate(node.msg)
    narrow(machine, node.test, True)


def del_(machine: Interpreter, node: cst.Del) -> None:
    targets = [e.value for e in node.target.elements] if isinstance(node.target, cst.Tuple) else [node.target]
    for target in targets:
        if isinstance(target, cst.Name):
            machine.frame.names.pop(target.value, None)
        elif isinstance(target, cst.Subscript):
            machine.evaluate(target.value)


def import_(machine: Interpreter, node: cst.Import) -> None:
    for alias in node.names:
        import_name(machine, alias)


def import_from(machine: Interpreter, node: cst.ImportFrom) -> None:
    import_names(machine, node)


def global_(machine: Interpreter, node: cst.Global) -> None:
    machine.frame.declared.update((item.name.value, machine.frame.module.frame) for item in node.names)


def nonlocal_(machine: Interpreter, node: cst.Nonlocal) -> None:
    for item in node.names:
        machine.frame.declare_nonlocal(item.name.value)


def nothing(machine: Interpreter, node: cst.CSTNode) -> None:
    return None


STATEMENTS: dict[type, Callable[[Any, Any], str | None]] = {
    cst.Expr: expr,
    cst.Assign: assign,
    cst.AnnAssign: annotated,
    cst.AugAssign: augmented,
    cst.If: if_,
    cst.Try: try_,
    cst.TryStar: try_,
    cst.Match: match,
    cst.For: for_,
    cst.While: while_,
    cst.With: with_,
    cst.FunctionDef: def_,
    cst.ClassDef: class_,
    cst.Return: return_,
    cst.Raise: raise_,
    cst.Assert: assert_,
    cst.Del: del_,
    cst.Import: import_,
    cst.ImportFrom: import_from,
    cst.Global: global_,
    cst.Nonlocal: nonlocal_,
    cst.Pass: nothing,
    cst.TypeAlias: nothing,
    cst.Break: lambda machine, node: machine.exit(node, "break"),
    cst.Continue: lambda machine, node: machine.exit(node, "continue"),
}
