"""What each expression evaluates to."""

from __future__ import annotations

import ast
import functools
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import libcst as cst

from torchlint.semantics import bounds, knowledge
from torchlint.semantics import values as v
from torchlint.semantics.attributes import Deferred, Lazy, attribute
from torchlint.semantics.containers import get_item, items_of, iterate
from torchlint.semantics.host import carry, used
from torchlint.semantics.library import device_of, is_tensor, tensor_from
from torchlint.semantics.recording import Context
from torchlint.semantics.rhythm import boolean as boolean_of
from torchlint.semantics.rhythm import combined, counted, of_comparison, opposite
from torchlint.semantics.rhythm import of as rhythm_of
from torchlint.semantics.texts import composed, filled

if TYPE_CHECKING:
    from torchlint.semantics.interpreter import Arm, Interpreter

_BUILTINS = frozenset(dir(__builtins__) if not isinstance(__builtins__, dict) else __builtins__)
_builtin_symbols: dict[str, v.Symbol] = {}


def name(machine: Interpreter, node: cst.Name) -> v.Value:
    word = node.value
    found = machine.frame.find(word)
    if found is not None:
        cls = found.__class__
        return found.forced(machine) if cls is Lazy or cls is Deferred else found  # type: ignore[attr-defined]
    if word == "True":
        return _TRUE
    if word == "False":
        return _FALSE
    if word == "None":
        return v.NONE
    if word == "__class__" and machine.frame.owner is not None:
        return machine.frame.owner
    module = machine.frame.module
    if module.stars or module.star_files:
        starred = machine.project.starred(machine, module, word)
        if starred is not None:
            return starred
    if word in _BUILTINS:
        symbol = _builtin_symbols.get(word)
        if symbol is None:
            symbol = _builtin_symbols[word] = v.Symbol(f"builtins.{word}")
        return symbol
    return v.Unknown(word)


_TRUE, _FALSE = v.Const(True), v.Const(False)


def force(machine: Interpreter, value: v.Value) -> v.Value:
    """A name imported from the project, looked up."""
    return value.forced(machine) if isinstance(value, (Lazy, Deferred)) else value


def attribute_(machine: Interpreter, node: cst.Attribute) -> v.Value:
    return attribute(machine, machine.evaluate(node.value), node.attr.value, node)


def call(machine: Interpreter, node: cst.Call) -> v.Value:
    callee = machine.evaluate(node.func)
    arguments = v.Arguments(node)
    for arg in node.args:
        value = machine.evaluate(arg.value)
        if arg.star == "":
            if arg.keyword is not None:
                arguments.keywords[arg.keyword.value] = value
                arguments.nodes[arg.keyword.value] = arg
            else:
                arguments.nodes[len(arguments.positional)] = arg
                arguments.positional.append(value)
        elif arg.star == "*":
            _spread(machine, arguments, value)
        else:
            _spread_keywords(arguments, value)
    if not isinstance(callee, (v.Symbol, v.Bound)):
        for value in arguments.all():
            used(value)
    return machine.call(callee, arguments, node)


def _spread(machine: Interpreter, arguments: v.Arguments, value: v.Value) -> None:
    items = items_of(value)
    if items is None:
        arguments.stars = True
        if isinstance(value, v.Union) and all(items_of(o) is not None for o in value.options()):
            runs = tuple(tuple(items_of(o).items) for o in value.options())  # type: ignore[union-attr]
            arguments.positional.append(v.Choice(runs))
            arguments.stars = False
        elif not isinstance(value, v.Const):
            machine.consume(value, arguments.node or cst.Name("x"), "escape")
        return
    if len(arguments.positional) + len(items.items) > bounds.LONGEST_LIST:
        items = bounds.shortened(v.Sequence([*arguments.positional, *items.items], rest=items.rest))
        arguments.positional.clear()
    arguments.positional.extend(items.items)
    if items.rest is not None:
        arguments.positional.append(items.rest)
        arguments.positional.append(items.rest)
        if isinstance(items.rest, v.Unknown):
            arguments.stars = True


def _spread_keywords(arguments: v.Arguments, value: v.Value) -> None:
    for option in value.options():
        if isinstance(option, v.Mapping):
            for key, item in option.items.items():
                if isinstance(key, str):
                    known = arguments.keywords.get(key)
                    arguments.keywords[key] = item if known is None else v.join(known, item)
            arguments.double_stars |= option.open is not False  # None: on some paths
            if len(value.options()) > 1:
                arguments.double_stars = True
        else:
            arguments.double_stars = True


# -------------------------------------------------------------------- literals


_LONGEST_INTEGER = 100  # characters; Python refuses to read thousands of digits


def integer(machine: Interpreter, node: cst.Integer) -> v.Value:
    value = node.value
    plain = value.isdigit() and (value[0] != "0" or value == "0")
    if len(value) > _LONGEST_INTEGER:
        return v.Number()
    return v.Const(int(value) if plain else node.evaluated_value, machine.site(node))


def float_(machine: Interpreter, node: cst.Float) -> v.Value:
    return v.Const(float(node.value.replace("_", "")))


def string(machine: Interpreter, node: cst.SimpleString) -> v.Value:
    text: str = node.value
    if "\\" not in text and text[0] in "'\"" and text[1:2] != text[:1]:
        return v.Const(text[1:-1])  # the usual case; evaluating compiles the literal
    return _literal(text)


def joined_string(machine: Interpreter, node: cst.ConcatenatedString) -> v.Value:
    """Strings that stand side by side are one."""
    left, right = machine.evaluate(node.left), machine.evaluate(node.right)
    if any(isinstance(part, v.Const) and not isinstance(part.value, str) for part in (left, right)):
        return v.Unknown("bytes")
    return composed([left, right])


@functools.lru_cache(4096)
def _literal(text: str) -> v.Value:
    try:
        return v.Const(ast.literal_eval(text))
    except (SyntaxError, ValueError):
        return v.Text()


def _text_between(node: cst.FormattedString, part: cst.FormattedStringText) -> v.Value:
    text = part.value.replace("{{", "{").replace("}}", "}")
    if "\\" not in text:
        return v.Const(text)
    quote = "'''" if '"' in text else '"""'
    return _literal(f"{'r' if 'r' in node.prefix else ''}{quote}{text}{quote}")


def formatted(machine: Interpreter, node: cst.FormattedString) -> v.Value:
    parts: list[v.Value] = []
    for part in node.parts:
        if isinstance(part, cst.FormattedStringText):
            parts.append(_text_between(node, part))
        if isinstance(part, cst.FormattedStringExpression):
            value = machine.evaluate(part.expression)
            for inner in part.format_spec or ():
                if isinstance(inner, cst.FormattedStringExpression):
                    machine.evaluate(inner.expression)
            plain = part.format_spec is None and part.conversion is None and part.equal is None
            parts.append(value if plain else v.Text())
            for option in value.options():
                if is_tensor(option) and device_of(option) != "cpu":
                    machine.consume(option, part)
                    machine.emit("sync", part.expression, option, how="formatting a tensor", explicit=True)
    return composed(parts)


def sequence(kind: str) -> Callable[[Interpreter, Any], v.Value]:
    def build(machine: Interpreter, node: cst.List | cst.Tuple | cst.Set) -> v.Value:
        made = v.Sequence((), kind, site=machine.site(node))
        made.maker = machine.frame.function
        flows = []
        for element in node.elements:
            value = machine.evaluate(element.value)
            value = bounds.element(value)
            if isinstance(element, cst.StarredElement):
                inner = items_of(value)
                if inner is not None:
                    made.items.extend(inner.items)
                    made.rest = inner.rest if made.rest is None else made.rest
                elif isinstance(value, v.Union) and all(items_of(o) is not None for o in value.options()):
                    made.items.append(v.Choice(tuple(tuple(items_of(o).items) for o in value.options())))  # type: ignore[union-attr]
                else:
                    made.rest = iterate(machine, value)
            else:
                made.items.append(value)
                if isinstance(value, v.Array) and isinstance(element.value, cst.Name):
                    value.held = True
            flows.append(value.flow)
        made.flow = v.merge_flows(flows)
        return bounds.shortened(made)

    return build


def dict_(machine: Interpreter, node: cst.Dict) -> v.Value:
    made = v.Mapping(site=machine.site(node))
    for element in node.elements:
        value = bounds.element(machine.evaluate(element.value))
        key = machine.evaluate(element.key) if isinstance(element, cst.DictElement) else None
        if isinstance(key, v.Const):
            made.items[key.value] = value
        elif key is not None:
            made.rest = value if made.rest is None else v.join(made.rest, value)
            made.open = True
        elif isinstance(value, v.Mapping):  # **value
            made.items.update(value.items)
            made.open |= value.open is not False
        else:
            made.open = True
    return made


def lambda_(machine: Interpreter, node: cst.Lambda) -> v.Value:
    return v.Function(node, machine.frame.module, machine.frame)


# ------------------------------------------------------------------ operations

_FOLD: dict[type, Callable[[Any, Any], Any]] = {
    cst.Add: operator.add, cst.Subtract: operator.sub, cst.Multiply: operator.mul,
    cst.FloorDivide: operator.floordiv, cst.Divide: operator.truediv, cst.Modulo: operator.mod,
}


def binary(machine: Interpreter, node: cst.BinaryOperation) -> v.Value:
    left = machine.evaluate(node.left)
    right = machine.evaluate(node.right)
    return operate(machine, node, node.operator, left, right)


def operate(machine: Interpreter, node: cst.CSTNode, op: Any, left: v.Value, right: v.Value) -> v.Value:
    """An arithmetic operation."""
    if isinstance(left, v.Const) and isinstance(right, v.Const):
        return _folded(op, left.value, right.value)
    if isinstance(left, v.Sequence) and isinstance(right, v.Sequence) and isinstance(op, (cst.Add, cst.AddAssign)):
        rest = right.rest if left.rest is None else left.rest
        flow = v.merge_flows([left.flow, right.flow])
        return bounds.shortened(v.Sequence([*left.items, *right.items], left.type, rest=rest, flow=flow))
    if isinstance(left, v.Sequence) and isinstance(op, cst.Multiply):
        if isinstance(right, v.Const) and isinstance(right.value, int) and 0 <= right.value * len(left.items) <= 64:
            return v.Sequence(left.items * right.value, left.type, rest=left.rest)
        return v.Sequence((), left.type, rest=next(left.elements(), None))
    if (isinstance(left, v.Const) and isinstance(left.value, str)) or isinstance(left, v.Text):
        if isinstance(op, cst.Modulo):
            _formatted_operand(machine, node, right)
            return filled(left.value) if isinstance(left, v.Const) else v.Text()
        return composed([left, right]) if isinstance(op, (cst.Add, cst.AddAssign)) else v.Text()
    machine.consume(left, node)
    machine.consume(right, node)
    flow = v.merge_flows([left.flow, right.flow])
    pair = [left, right]
    if any(_has_tensor(x) for x in pair):
        made = tensor_from(machine, [x for x in pair if not isinstance(x, (v.Const, v.Number))], flow)
        carry(made, pair, "arithmetic")
        return made
    arrays = [x for x in pair if isinstance(x, v.Array)]
    if arrays and all(isinstance(x, (v.Array, v.Number, v.Const)) or _may_be_number(x) for x in pair):
        dtypes = {a.dtype for a in arrays}
        array = v.Array(flow, dtypes.pop() if len(dtypes) == 1 else None, fresh=True, site=machine.site(node))
        carry(array, pair, "arithmetic")
        return array
    counter = counted(op, left, right, flow)
    if counter is not None:
        return counter
    if all(isinstance(x, (v.Number, v.Const)) for x in pair):
        return v.Number(flow)
    device = next((x.device for x in pair if isinstance(x, v.Unknown) and x.device is not None), None)
    return v.Unknown("", flow, device=device)


def _may_be_number(value: v.Value) -> bool:
    """Whether an unknown operand of an array leaves the result an array: it is no tensor, as far as is seen."""
    return isinstance(value, v.Unknown) and value.kind in ("unknown", "number") and value.device is None \
        and value.flow.loader is None and not value.flow.forwards


def _has_tensor(value: v.Value) -> bool:
    return isinstance(value, v.Tensor) or (isinstance(value, v.Union) and any(
        isinstance(o, v.Tensor) for o in value.options()))


def _formatted_operand(machine: Interpreter, node: cst.CSTNode, value: v.Value) -> None:
    for option in value.elements() if isinstance(value, v.Sequence) else (value,):
        if is_tensor(option):
            machine.consume(option, node)
            machine.emit("sync", node, option, how="formatting a tensor", explicit=True)


def _folded(op: Any, left: Any, right: Any) -> v.Value:
    fold = _FOLD.get(op.__class__)
    simple = (isinstance(left, (int, float)) and isinstance(right, (int, float))) or (
        isinstance(left, str) and isinstance(right, str) and op.__class__ is cst.Add)
    if fold is None or not simple:
        return v.Text() if isinstance(left, str) else v.Number()
    try:
        return bounds.constant(fold(left, right))
    except (ArithmeticError, TypeError, ValueError):
        return v.Number()


def boolean(machine: Interpreter, node: cst.BooleanOperation) -> v.Value:
    left = machine.evaluate(node.left)
    known = truth(left)
    is_and = isinstance(node.operator, cst.And)
    if known is not None and known is not is_and:
        return left
    if known is not None:
        return machine.evaluate(node.right)
    context = Context(machine.context, "guard", machine.site(node), node.left)
    context.taken, context.value = is_and, left
    with machine.within(context):
        right = machine.evaluate(node.right)
    rhythm = combined((rhythm_of(left), rhythm_of(right)), all_needed=is_and)
    if rhythm is not None:
        return boolean_of(rhythm)
    if isinstance(left, v.Unknown) and isinstance(left.guess, v.Const) and not is_and and not left.guess.value:
        unknown = v.Unknown(left.name, left.flow, guess=right, generic=left.generic)
        unknown.uses = left.uses
        return unknown if not isinstance(right, v.Const) else v.join(left, right)
    return v.join(left, right)


def unary(machine: Interpreter, node: cst.UnaryOperation) -> v.Value:
    value = machine.evaluate(node.expression)
    if isinstance(node.operator, cst.Not):
        known = truth(value)
        if known is None:
            return boolean_of(opposite(rhythm_of(value)), "not")
        return v.Const(not known)
    if isinstance(value, v.Const) and isinstance(node.operator, cst.Minus) and isinstance(value.value, (int, float)):
        return v.Const(-value.value)
    machine.consume(value, node)
    if isinstance(value, v.Tensor):
        made = v.Tensor(v.merge_flows([value.flow]), value.device, value.dtype)
        carry(made, [value])
        return made
    if isinstance(value, v.Array):
        return v.Array(value.flow, value.dtype, fresh=True)
    return value if isinstance(value, v.Number) else v.Unknown("", value.flow)


def comparison(machine: Interpreter, node: cst.Comparison) -> v.Value:
    left = machine.evaluate(node.left)
    result: v.Value = v.Unknown("comparison")
    result.proved = "bool"  # type: ignore[attr-defined]
    for part in node.comparisons:
        right = machine.evaluate(part.comparator)
        known = _compare(part.operator, left, right)
        if len(node.comparisons) == 1:
            if known is not None:
                return v.Const(known)
            if isinstance(left, v.Tensor) or isinstance(right, v.Tensor):
                if not isinstance(part.operator, (cst.Is, cst.IsNot, cst.In, cst.NotIn)):
                    for operand in (left, right):
                        machine.consume(operand, node)
                        v.mark_used(operand, "index")
                    made = tensor_from(machine, [left, right], v.merge_flows([left.flow, right.flow]).without_graph(),
                                       index=True)
                    made.dtype = "bool"
                    carry(made, [left, right], "arithmetic")
                    return made
            if isinstance(left, v.Array) or isinstance(right, v.Array):
                return v.Array(v.merge_flows([left.flow, right.flow]), "bool", fresh=True)
            if left.flow is not v.NO_FLOW or right.flow is not v.NO_FLOW:
                device = next((x.device for x in (left, right) if isinstance(x, v.Unknown) and x.device), None)
                if not isinstance(part.operator, (cst.Is, cst.IsNot, cst.In, cst.NotIn)):
                    for operand in (left, right):
                        machine.consume(operand, node)
                        v.mark_used(operand, "index")
                    return v.Unknown("comparison", v.merge_flows([left.flow, right.flow]).without_graph(),
                                     device=device)
            result.rhythm = of_comparison(part.operator, left, right)  # type: ignore[attr-defined]
        left = right
    return result


def _compare(op: Any, left: v.Value, right: v.Value) -> bool | None:
    if isinstance(op, (cst.Is, cst.IsNot)) and isinstance(right, v.Const) and right.value is None:
        answer = _is_none(left)
        return answer if answer is None or isinstance(op, cst.Is) else not answer
    if isinstance(left, v.Symbol) and isinstance(right, v.Symbol) and op.__class__ in _EQUALITY:
        if left.name == right.name or _are_members(left.name, right.name):
            return (left.name == right.name) is _EQUALITY[op.__class__]
    if isinstance(left, v.Const) and isinstance(right, v.Const):
        compare = _COMPARE.get(op.__class__)
        try:
            return bool(compare(left.value, right.value)) if compare is not None else None
        except TypeError:
            return None
    if isinstance(op, (cst.In, cst.NotIn)) and isinstance(left, v.Const):
        keys: list[Any] | None = None
        if isinstance(right, v.Sequence) and right.exact and all(isinstance(i, v.Const) for i in right.items):
            keys = [i.value for i in right.items if isinstance(i, v.Const)]
        elif isinstance(right, v.Mapping) and not right.open and right.rest is None:
            keys = list(right.items)
        if keys is not None:
            return (left.value in keys) is isinstance(op, cst.In)
    return None


def _are_members(left: str, right: str) -> bool:
    """Whether two names are members of one enumeration of a library (``Stage.TRAIN`` and ``Stage.VALID``)."""
    owners, members = {name.rpartition(".")[0] for name in (left, right)}, [n.rpartition(".")[2] for n in (left, right)]
    return len(owners) == 1 and owners.pop().rpartition(".")[2][:1].isupper() and all(m.isupper() for m in members)


_EQUALITY = {cst.Equal: True, cst.Is: True, cst.NotEqual: False, cst.IsNot: False}
_COMPARE: dict[type, Callable[[Any, Any], Any]] = {
    cst.Equal: operator.eq, cst.NotEqual: operator.ne, cst.LessThan: operator.lt, cst.LessThanEqual: operator.le,
    cst.GreaterThan: operator.gt, cst.GreaterThanEqual: operator.ge, cst.Is: operator.is_, cst.IsNot: operator.is_not,
}


def _is_none(value: v.Value) -> bool | None:
    if isinstance(value, v.Const):
        return value.value is None
    if isinstance(value, v.Union):
        answers = {_is_none(o) for o in value.options()}
        return answers.pop() if len(answers) == 1 else None
    if isinstance(value, v.Unknown):
        return None
    return False


def truth(value: v.Value) -> bool | None:
    """Whether a value is true, where that is sure."""
    cls = value.__class__
    if cls is v.Const:
        return bool(value.value)  # type: ignore[attr-defined]
    if cls is v.Union:
        answers = {truth(option) for option in value.options()}
        return answers.pop() if len(answers) == 1 else None
    if cls is v.Sequence:
        if value.items and not isinstance(value.items[0], v.Choice):  # type: ignore[attr-defined]
            return True
        return False if value.exact and value.type == "tuple" else None  # type: ignore[attr-defined]
    if cls is v.Function or cls is v.Class or cls is v.Symbol or cls is v.Bound or cls is v.Super:
        return True
    if cls is v.External and value.kind in ("module", "optimizer", "scheduler", "scaler"):
        return True
    if cls is v.Instance and value.cls.find("__len__") is None and value.cls.find("__bool__") is None:  # type: ignore[attr-defined]
        return True if value.external in ("module", None) else None  # type: ignore[attr-defined]
    return None


_NARROWING = frozenset({cst.UnaryOperation, cst.BooleanOperation, cst.Name, cst.Comparison, cst.Call, cst.Attribute,
                        cst.NamedExpr})


def narrow(machine: Interpreter, test: Any, outcome: bool) -> None:
    """Make names hold only what lets the test come out so."""
    cls = test.__class__
    if cls not in _NARROWING:
        return
    if cls is cst.UnaryOperation and isinstance(test.operator, cst.Not):
        narrow(machine, test.expression, not outcome)
    elif cls is cst.BooleanOperation:
        if isinstance(test.operator, cst.And) is outcome:
            narrow(machine, test.left, outcome)
            narrow(machine, test.right, outcome)
    elif cls is cst.Name:
        _keep(machine, test, lambda o: truth(o) is not (not outcome))
        asked = machine.frame.names.get(test.value)
        if outcome and isinstance(asked, v.Unknown) and "%asks" in asked.attributes:
            _narrow_asked(machine, asked.attributes["%asks"])
    elif cls is cst.Comparison and outcome and len(test.comparisons) == 1 and _asks_type(test):
        _narrow_to(machine, test.left.args[0].value, test.comparisons[0].comparator)
    elif cls is cst.Comparison and len(test.comparisons) == 1 and isinstance(test.left, cst.Name):
        part = test.comparisons[0]
        if isinstance(part.operator, (cst.Is, cst.IsNot)) and isinstance(part.comparator, cst.Name) \
                and part.comparator.value == "None":
            wanted = outcome is isinstance(part.operator, cst.Is)
            _keep(machine, test.left, lambda o: _is_none(o) is not (not wanted))
            if wanted and isinstance(machine.frame.names.get(test.left.value), v.Unknown):
                machine.frame.names[test.left.value] = v.NONE
    elif cls is cst.Call and outcome:
        _narrow_class(machine, test)


def _asks_type(test: cst.Comparison) -> bool:
    """``type(x) is cls`` or ``type(x) == cls``."""
    left = test.left
    return isinstance(left, cst.Call) and isinstance(left.func, cst.Name) and left.func.value == "type" \
        and len(left.args) == 1 and isinstance(test.comparisons[0].operator, (cst.Is, cst.Equal))


def _keep(machine: Interpreter, node: cst.Name, wanted: Callable[[v.Value], bool]) -> None:
    value = machine.frame.names.get(node.value)
    if isinstance(value, v.Union):
        kept = [o for o in value.options() if wanted(o)]
        if kept and len(kept) < len(value.options()):
            machine.frame.names[node.value] = v.join(*kept)


def _narrow_class(machine: Interpreter, test: cst.Call) -> None:
    """Inside ``if isinstance(m, cls)``, m is one."""
    if isinstance(test.func, cst.Name) and test.func.value == "isinstance" and len(test.args) == 2:
        _narrow_to(machine, test.args[0].value, test.args[1].value)


def _narrow_asked(machine: Interpreter, question: v.Value) -> None:
    """Where a name holds the answer of ``isinstance(x, np.ndarray)``, whatever still holds that ``x`` is an array."""
    assert isinstance(question, v.Sequence)
    tested, *classes = question.items
    if isinstance(tested, v.Unknown) and _are_arrays(classes):
        for name in [name for name, held in machine.frame.names.items() if held is tested]:
            machine.frame.names[name] = _held_array(tested)


def _are_arrays(classes: list[v.Value]) -> bool:
    return all(isinstance(c, v.Symbol) and c.name in ("numpy.ndarray", "numpy.generic") for c in classes)


def _held_array(value: v.Value) -> v.Array:
    array = v.Array(value.flow)
    array.held = True
    return array


def _narrow_item(machine: Interpreter, target: cst.Subscript | cst.Attribute, cls: cst.BaseExpression) -> None:
    """Inside ``if isinstance(x[0], np.ndarray)``; as lists are of one kind, ``x[i]`` is what ``x[0]`` is."""
    machine.quiet += 1
    value, wanted = machine.evaluate(target), machine.evaluate(cls)
    machine.quiet -= 1
    classes = list(wanted.items) if isinstance(wanted, v.Sequence) else [wanted]
    if not isinstance(value, v.Unknown) or not isinstance(value.base, v.Unknown) or not _are_arrays(classes):
        return
    base = value.base
    for key in [key for key, held in base.attributes.items() if held is value]:
        machine.write(base.attributes, key, _held_array(value))
        rows = base.base
        if isinstance(rows, v.Unknown) and rows.attributes.get(_FIRST) is base:
            for other in _rows(machine, rows):
                machine.write(other.attributes, key, _held_array(value))


_FIRST = "[0]"


def _rows(machine: Interpreter, value: v.Unknown) -> list[v.Unknown]:
    """An unknown list's element at any place, by index and by iteration."""
    if "[]" not in value.attributes:
        row = v.Unknown(f"{value.name}[]", value.flow, generic=value.generic, base=value, device=value.device)
        machine.write(value.attributes, "[]", row)
    return [row for row in (value.attributes["[]"], value.elements) if isinstance(row, v.Unknown)]


def _narrow_to(machine: Interpreter, target: cst.BaseExpression, cls: cst.BaseExpression) -> None:
    if isinstance(target, (cst.Subscript, cst.Attribute)):
        _narrow_item(machine, target, cls)
    if not isinstance(target, cst.Name):
        return
    value = machine.frame.names.get(target.value)
    machine.quiet += 1
    wanted = machine.evaluate(cls)
    machine.quiet -= 1
    classes = list(wanted.items) if isinstance(wanted, v.Sequence) else [wanted]
    if isinstance(value, (v.Sequence, v.Union)) and _are_arrays(classes):
        arrays = [o for o in value.options() if isinstance(o, v.Array)]
        machine.frame.names[target.value] = v.join(*arrays) if arrays else _held_array(value)
        return
    if isinstance(value, v.Union) and any(isinstance(o, v.Unknown) for o in value.options()):
        kept = [o for o in value.options() if not isinstance(o, v.Unknown)]
        unknown = v.Unknown(target.value, value.flow)
        value = unknown if all(isinstance(o, v.Const) for o in kept) else value
    if isinstance(value, v.Unknown):
        narrowed = v.Unknown(value.name, value.flow, guess=value.guess, generic=value.generic, base=value.base,
                             device=value.device)
        narrowed.uses = value.uses
        narrowed.proved = value.proved
        narrowed.attributes = v.Slots({**value.attributes, "%is": v.Sequence(classes, "tuple")})
        kinds = {knowledge.api(c.name).returns for c in classes  # type: ignore[union-attr]
                 if isinstance(c, v.Symbol) and knowledge.api(c.name) is not None}
        if kinds == {"tensor"} and len(classes) == 1:
            machine.frame.names[target.value] = v.Tensor(value.flow, value.device)
            return
        named = {c.name for c in classes if isinstance(c, v.Symbol)}
        if kinds and len(named) == len(classes) and named <= {"numpy.ndarray", "numpy.generic"}:
            array = v.Array(value.flow)
            array.held = True
            machine.frame.names[target.value] = array
            return
        machine.frame.names[target.value] = narrowed


# -------------------------------------------------------------------- the rest


def if_expression(machine: Interpreter, node: cst.IfExp) -> v.Value:
    value = machine.evaluate(node.test)
    known = truth(value)
    if known is True:
        return machine.evaluate(node.body)
    if known is False:
        return machine.evaluate(node.orelse)
    values: list[v.Value] = []

    def arm(expression: cst.BaseExpression, outcome: bool) -> Callable[[], str | None]:
        def run() -> str | None:
            narrow(machine, node.test, outcome)
            values.append(machine.evaluate(expression))
            return None
        return run

    arms: list[Arm] = [(node.test, True, arm(node.body, True)), (node.test, False, arm(node.orelse, False))]
    machine.alternatives(node, arms, value)
    return v.join(*values)


def subscript(machine: Interpreter, node: cst.Subscript) -> v.Value:
    value = machine.evaluate(node.value)
    return get_item(machine, force(machine, value), index_of(machine, node), node)


def index_of(machine: Interpreter, node: cst.Subscript) -> v.Value:
    """The value between a subscript's brackets; a slice is a Sequence of type ``slice``."""
    parts: list[v.Value] = []
    for part in _indices(node):
        if isinstance(part, cst.Slice):
            bounds = [machine.evaluate(b) if b is not None else v.NONE for b in (part.lower, part.upper, part.step)]
            parts.append(v.Sequence(bounds, "slice"))
        else:
            parts.append(machine.evaluate(part))
    if len(parts) == 1:
        return parts[0]
    is_slice = any(isinstance(p, v.Sequence) and p.type == "slice" for p in parts)
    return v.Sequence(parts, "slice" if is_slice else "tuple")


def _indices(node: cst.Subscript) -> list[Any]:
    """The expressions and slices between the brackets; ``d[(a, b)]`` is ``d[a, b]``."""
    parts = [part.value if isinstance(part := element.slice, cst.Index) else part for element in node.slice]
    if len(parts) == 1 and isinstance(parts[0], cst.Tuple) and parts[0].elements:
        return [element.value for element in parts[0].elements]
    return parts


def comprehension(machine: Interpreter, node: cst.ListComp | cst.SetComp | cst.GeneratorExp) -> v.Value:
    collected: list[v.Value] = []
    exact = _comprehend(machine, node.for_in, node, lambda: collected.append(machine.evaluate(node.elt)))
    flow = v.merge_flows(c.flow for c in collected)
    made = v.Sequence((), "list", site=machine.site(node), flow=flow)
    made.generator = isinstance(node, cst.GeneratorExp)
    if exact and len(collected) <= 64:
        made.items = bounds.elements(collected)
    elif collected:
        made.rest = v.join(*bounds.elements(collected))
    return made


def dict_comprehension(machine: Interpreter, node: cst.DictComp) -> v.Value:
    made = v.Mapping(site=machine.site(node))

    def collect() -> None:
        key, value = machine.evaluate(node.key), bounds.element(machine.evaluate(node.value))
        if isinstance(key, v.Const):
            made.items[key.value] = value
        else:
            made.rest = value if made.rest is None else v.join(made.rest, value)
            made.open = True

    _comprehend(machine, node.for_in, node, collect)
    return made


def _comprehend(machine: Interpreter, clause: cst.CompFor, node: cst.CSTNode, collect: Callable[[], None]) -> bool:
    """Run a comprehension; whether every element was seen one by one."""
    iterable = machine.evaluate(clause.iter)
    names = machine.frame.names
    machine.frame.names = dict(names)
    try:
        passes = machine.passes_over(iterable, clause.target)
        machine.steps += len(passes)
        exact = len(passes) > 1 or _single(iterable)
        exact = exact and not clause.ifs and clause.inner_for_in is None

        def body() -> str | None:
            for condition in clause.ifs:
                machine.evaluate(condition.test)
                narrow(machine, condition.test, True)
            if clause.inner_for_in is not None:
                _comprehend(machine, clause.inner_for_in, node, collect)
            else:
                collect()
            return None

        growth = machine.growth
        machine.loop(node, iterable, passes, body)
        machine.growth = growth
    finally:
        machine.frame.names = names
    return exact


def _single(iterable: v.Value) -> bool:
    items = items_of(iterable)
    return items is not None and items.exact and len(items.items) == 1


def yield_(machine: Interpreter, node: cst.Yield) -> v.Value:
    frame = machine.frame
    value: v.Value = v.NONE
    if isinstance(node.value, cst.From):
        value = iterate(machine, machine.evaluate(node.value.item))
    elif node.value is not None:
        value = machine.evaluate(node.value)
    call = next((context for context in machine.context if context.kind == "call"), None)
    for event in v.forwards_in(value):  # what was handed in goes on to whoever iterates
        if any(context is call for context in event.context):
            event.used.add("yielded")
    frame.yields.append(value)
    frame.yield_grads.add(machine.context.grad)
    return v.Unknown("sent")


def named(machine: Interpreter, node: cst.NamedExpr) -> v.Value:
    value = machine.evaluate(node.value)
    if isinstance(node.target, cst.Name):
        machine.bind(node.target.value, value)
    return value


EXPRESSIONS: dict[type, Callable[[Any, Any], v.Value]] = {
    cst.Name: name,
    cst.Attribute: attribute_,
    cst.Call: call,
    cst.Integer: integer,
    cst.Ellipsis: lambda machine, node: v.Const(...),
    cst.Float: float_,
    cst.SimpleString: string,
    cst.ConcatenatedString: joined_string,
    cst.FormattedString: formatted,
    cst.List: sequence("list"),
    cst.Tuple: sequence("tuple"),
    cst.Set: sequence("set"),
    cst.Dict: dict_,
    cst.Lambda: lambda_,
    cst.BinaryOperation: binary,
    cst.BooleanOperation: boolean,
    cst.UnaryOperation: unary,
    cst.Comparison: comparison,
    cst.IfExp: if_expression,
    cst.Subscript: subscript,
    cst.ListComp: comprehension,
    cst.SetComp: comprehension,
    cst.GeneratorExp: comprehension,
    cst.DictComp: dict_comprehension,
    cst.Await: lambda machine, node: machine.evaluate(node.expression),
    cst.Yield: yield_,
    cst.NamedExpr: named,
}
