"""Outlines: files as CPython's parser reads them, in the shape that the interpreter knows.

A file in which something is found is parsed by libcst: findings and fixes need every character.
To interpret it, or a file that it imports, needs names and values only, and CPython's parser is ten
times faster. What it gives is turned into libcst's node classes, function bodies only when they are
run. These nodes have no whitespace, nothing is reported in them before they are completed (see
``outlined``); but where they are can be said.
"""

from __future__ import annotations

import ast
import functools
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import libcst as cst

from torchlint.findings import Span
from torchlint.syntax.source import Source


class WholeTreeNeeded(Exception):
    """An outline was asked what only the whole tree can tell."""


class LinkedTree:
    """The outline of a file that others link to: ``module.body`` are its statements.

    It has the questions of a Tree, as far as they are not idle.
    """

    def __init__(self, source: Source) -> None:
        """Raises SyntaxError, ValueError (null bytes), RecursionError or MemoryError as ``ast.parse`` does."""
        self.source = source
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.parsed = ast.parse(source.text).body
        self.module: Any = LazyBody(self.parsed)

    def own_module(self) -> Any:
        """A module of the same statements, as nodes that nobody else has."""
        return _make(cst.Module, body=[_statement(node) for node in self.parsed], header=(), footer=())

    def span(self, node: cst.CSTNode) -> Span:
        """The characters of an expression or a statement; the file's beginning for any other node."""
        parsed = parsed_from(node)
        if parsed is None:
            return self.source.span(0, 0)
        begin = self._offset(parsed.lineno, parsed.col_offset)
        return self.source.span(begin, self._offset(parsed.end_lineno, parsed.end_col_offset))

    def _offset(self, line: int, column: int) -> int:
        """The offset of a column that is counted in bytes."""
        before = self.source.line(line).encode()[:column].decode()
        return self.source.line_starts[line - 1] + len(before)

    def ancestors(self, node: cst.CSTNode) -> Sequence[cst.CSTNode]:
        """Nothing: an outline does not know what is around a node."""
        return ()

    def parent(self, node: cst.CSTNode) -> cst.CSTNode | None:
        """None: an outline does not know what is around a node."""
        return None

    def text(self, node: cst.CSTNode) -> str:
        """An expression as text, near enough to compare."""
        return expression_text(node)

    def _unknown(self, node: cst.CSTNode) -> NoReturn:
        """What no outline can tell."""
        raise WholeTreeNeeded

    offsets = offsets_with_parens = span_with_parens = text_with_parens = statement = indentation = first_offset = \
        is_parenthesized = _unknown


_PLACE = "lpar"
"""Where an expression keeps what it was made from: an outline has no parentheses, and a node no slot to spare."""

_PLACE_OF_STATEMENT = "leading_lines"


def parsed_from(node: Any) -> Any:
    """CPython's node that an outlined expression, statement or suite was made from; None for any other node."""
    if node.__class__ is LazyBody:
        return node.first
    found = getattr(node, _PLACE, None) or getattr(node, _PLACE_OF_STATEMENT, None)
    return found if isinstance(found, ast.AST) else None


class LazyBody:
    """A suite whose statements are converted when they are first asked for."""

    __slots__ = ("_parsed", "_body", "answers")

    def __init__(self, parsed: list[ast.stmt]) -> None:
        self._parsed = parsed
        self._body: list[Any] | None = None
        self.answers: dict[Any, Any] = {}  # what was worked out of it once

    @property
    def body(self) -> list[Any]:
        if self._body is None:
            self._body = [_statement(node) for node in self._parsed]
        return self._body

    @property
    def converted(self) -> list[Any] | None:
        """The statements, if anyone asked for them."""
        return self._body

    @property
    def first(self) -> ast.stmt | None:
        """CPython's node of the first statement."""
        return self._parsed[0] if self._parsed else None

    def replace(self, body: list[Any]) -> None:
        """Have these statements from now on."""
        self._body = body

    def names(self) -> set[str]:
        """Every identifier inside but those of annotations, found without converting anything."""
        found: set[str] = set()
        waiting: list[Any] = list(self._parsed)
        while waiting:
            node = waiting.pop()
            cls = node.__class__
            if cls is ast.Name:
                found.add(node.id)
            elif cls is ast.Attribute:
                found.add(node.attr)
                waiting.append(node.value)
            elif cls is list:
                waiting += node
            elif cls is str:
                found.update(node.split("."))
            else:
                for field in _code_fields(cls):
                    child = getattr(node, field, None)
                    if child is not None and child.__class__ is not int:
                        waiting.append(child)
        return found


@functools.cache
def _code_fields(cls: type) -> tuple[str, ...]:
    """The fields of one of CPython's node classes that may hold names."""
    fields = cls._fields if issubclass(cls, ast.AST) and cls is not ast.Constant else ()
    return tuple(field for field in fields if field not in _WITHOUT_CODE)


_WITHOUT_CODE = frozenset({"ctx", "annotation", "returns", "type_comment", "type_params"})


def _make(cls: type, /, **fields: Any) -> Any:
    """A node with these fields only: validation and whitespace are for nodes that are written somewhere."""
    node: Any = object.__new__(cls)
    for name, value in fields.items():
        object.__setattr__(node, name, value)
    return node


# ------------------------------------------------------------------ expressions


def _name(word: str) -> Any:
    return _make(cst.Name, value=word)


def _dotted(path: str) -> Any:
    head, *rest = path.split(".")
    node = _name(head)
    for part in rest:
        node = _make(cst.Attribute, value=node, attr=_name(part))
    return node


def _constant(node: ast.Constant) -> Any:
    value = node.value
    if value is None or isinstance(value, bool):
        return _name(str(value))
    if isinstance(value, int):
        return _make(cst.Integer, value=_digits(value))
    if isinstance(value, float):
        return _make(cst.Float, value=repr(value))
    if isinstance(value, complex):
        return _make(cst.Imaginary, value=repr(value))
    if isinstance(value, (str, bytes)):
        return _make(cst.SimpleString, value=repr(value))
    return _make(cst.Ellipsis)


def _digits(value: int) -> str:
    """A number as libcst would have it; CPython refuses to write thousands of decimal digits."""
    return str(value) if value.bit_length() <= _MOST_DECIMAL_BITS else hex(value)


_MOST_DECIMAL_BITS = 2_000  # about 600 digits: the least that sys.set_int_max_str_digits() can be told is 640


def _call(node: ast.Call) -> Any:
    args = [_argument(arg) for arg in node.args] + [_keyword(arg) for arg in node.keywords]
    return _make(cst.Call, func=_expression(node.func), args=args)


def _argument(node: ast.expr) -> Any:
    star = isinstance(node, ast.Starred)
    inner = node.value if isinstance(node, ast.Starred) else node
    return _make(cst.Arg, value=_expression(inner), keyword=None, star="*" if star else "")


def _keyword(node: ast.keyword) -> Any:
    if node.arg is None:
        return _make(cst.Arg, value=_expression(node.value), keyword=None, star="**")
    return _make(cst.Arg, value=_expression(node.value), keyword=_name(node.arg), star="")


def _boolean(node: ast.BoolOp) -> Any:
    operator = _OPERATORS[type(node.op)]
    left = _expression(node.values[0])
    for value in node.values[1:]:
        left = _make(cst.BooleanOperation, left=left, operator=operator, right=_expression(value))
    return left


def _compare(node: ast.Compare) -> Any:
    parts = [_make(cst.ComparisonTarget, operator=_OPERATORS[type(op)], comparator=_expression(right))
             for op, right in zip(node.ops, node.comparators, strict=True)]
    return _make(cst.Comparison, left=_expression(node.left), comparisons=parts)


def _subscript(node: ast.Subscript) -> Any:
    indices = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    return _make(cst.Subscript, value=_expression(node.value), slice=[_element_of_slice(i) for i in indices])


def _element_of_slice(node: ast.expr) -> Any:
    if isinstance(node, ast.Slice):
        bounds = {"lower": node.lower, "upper": node.upper, "step": node.step}
        part = _make(cst.Slice, **{k: _expression(b) if b is not None else None for k, b in bounds.items()})
    else:
        part = _make(cst.Index, value=_expression(node.value if isinstance(node, ast.Starred) else node), star=None)
    return _make(cst.SubscriptElement, slice=part)


def _elements(nodes: list[ast.expr]) -> list[Any]:
    return [_make(cst.StarredElement, value=_expression(n.value)) if isinstance(n, ast.Starred)
            else _make(cst.Element, value=_expression(n)) for n in nodes]


def _dict(node: ast.Dict) -> Any:
    elements = []
    for key, value in zip(node.keys, node.values, strict=True):
        if key is None:
            elements.append(_make(cst.StarredDictElement, value=_expression(value)))
        else:
            elements.append(_make(cst.DictElement, key=_expression(key), value=_expression(value)))
    return _make(cst.Dict, elements=elements)


def _clauses(generators: list[ast.comprehension]) -> Any:
    inner = None
    for clause in reversed(generators):
        conditions = [_make(cst.CompIf, test=_expression(test)) for test in clause.ifs]
        inner = _make(cst.CompFor, target=_expression(clause.target), iter=_expression(clause.iter), ifs=conditions,
                      inner_for_in=inner)
    return inner


def _formatted(node: ast.JoinedStr) -> Any:
    return _make(cst.FormattedString, parts=_parts(node), start='f"')


def _parts(node: ast.JoinedStr) -> list[Any]:
    return [_field(part) if isinstance(part, ast.FormattedValue) else
            _make(cst.FormattedStringText, value=_written(part)) for part in node.values]


def _field(node: ast.FormattedValue) -> Any:
    return _make(cst.FormattedStringExpression, expression=_expression(node.value), equal=None,
                 conversion=None if node.conversion == -1 else chr(node.conversion),
                 format_spec=_parts(node.format_spec) if isinstance(node.format_spec, ast.JoinedStr) else None)


def _written(node: ast.expr) -> str:
    """What is between the fields of a joined string, as it stands in a file."""
    text = str(node.value) if isinstance(node, ast.Constant) else ""
    return text.replace("\\", "\\\\").replace("{", "{{").replace("}", "}}")


def _yield_from(node: ast.YieldFrom) -> Any:
    return _make(cst.Yield, value=_make(cst.From, item=_expression(node.value)))


_OPERATORS: dict[type, Any] = {
    ours: _make(theirs) for ours, theirs in (
        (ast.Add, cst.Add), (ast.Sub, cst.Subtract), (ast.Mult, cst.Multiply), (ast.Div, cst.Divide),
        (ast.FloorDiv, cst.FloorDivide), (ast.Mod, cst.Modulo), (ast.Pow, cst.Power),
        (ast.MatMult, cst.MatrixMultiply), (ast.LShift, cst.LeftShift), (ast.RShift, cst.RightShift),
        (ast.BitAnd, cst.BitAnd), (ast.BitOr, cst.BitOr), (ast.BitXor, cst.BitXor), (ast.And, cst.And),
        (ast.Or, cst.Or), (ast.Not, cst.Not), (ast.USub, cst.Minus), (ast.UAdd, cst.Plus),
        (ast.Invert, cst.BitInvert), (ast.Eq, cst.Equal), (ast.NotEq, cst.NotEqual), (ast.Lt, cst.LessThan),
        (ast.LtE, cst.LessThanEqual), (ast.Gt, cst.GreaterThan), (ast.GtE, cst.GreaterThanEqual), (ast.Is, cst.Is),
        (ast.IsNot, cst.IsNot), (ast.In, cst.In), (ast.NotIn, cst.NotIn),
    )
}
_IN_PLACE: dict[type, Any] = {
    ours: _make(theirs) for ours, theirs in (
        (ast.Add, cst.AddAssign), (ast.Sub, cst.SubtractAssign), (ast.Mult, cst.MultiplyAssign),
        (ast.Div, cst.DivideAssign), (ast.FloorDiv, cst.FloorDivideAssign), (ast.Mod, cst.ModuloAssign),
        (ast.Pow, cst.PowerAssign), (ast.MatMult, cst.MatrixMultiplyAssign), (ast.LShift, cst.LeftShiftAssign),
        (ast.RShift, cst.RightShiftAssign), (ast.BitAnd, cst.BitAndAssign), (ast.BitOr, cst.BitOrAssign),
        (ast.BitXor, cst.BitXorAssign),
    )
}


def _expression(node: Any) -> Any:
    convert = _EXPRESSIONS.get(node.__class__)
    made = convert(node) if convert is not None else _make(UnreadExpression)
    object.__setattr__(made, _PLACE, node)
    return made


class UnreadExpression(cst.BaseExpression):
    """An expression of a newer Python, or in a place that only a newer one has, of which nothing is known."""

    def _codegen_impl(self, state: Any) -> NoReturn:
        raise WholeTreeNeeded

    def _visit_and_replace_children(self, visitor: Any) -> NoReturn:
        raise WholeTreeNeeded


_EXPRESSIONS: dict[type, Callable[[Any], Any]] = {
    ast.Name: lambda n: _name(n.id),
    ast.Attribute: lambda n: _make(cst.Attribute, value=_expression(n.value), attr=_name(n.attr)),
    ast.Call: _call,
    ast.Constant: _constant,
    ast.BinOp: lambda n: _make(cst.BinaryOperation, left=_expression(n.left), operator=_OPERATORS[type(n.op)],
                               right=_expression(n.right)),
    ast.BoolOp: _boolean,
    ast.UnaryOp: lambda n: _make(cst.UnaryOperation, operator=_OPERATORS[type(n.op)],
                                 expression=_expression(n.operand)),
    ast.Compare: _compare,
    ast.Subscript: _subscript,
    ast.List: lambda n: _make(cst.List, elements=_elements(n.elts)),
    ast.Tuple: lambda n: _make(cst.Tuple, elements=_elements(n.elts)),
    ast.Set: lambda n: _make(cst.Set, elements=_elements(n.elts)),
    ast.Dict: _dict,
    ast.ListComp: lambda n: _make(cst.ListComp, elt=_expression(n.elt), for_in=_clauses(n.generators)),
    ast.SetComp: lambda n: _make(cst.SetComp, elt=_expression(n.elt), for_in=_clauses(n.generators)),
    ast.GeneratorExp: lambda n: _make(cst.GeneratorExp, elt=_expression(n.elt), for_in=_clauses(n.generators)),
    ast.DictComp: lambda n: _make(cst.DictComp, key=_expression(n.key), value=_expression(n.value),
                                  for_in=_clauses(n.generators)),
    ast.IfExp: lambda n: _make(cst.IfExp, test=_expression(n.test), body=_expression(n.body),
                               orelse=_expression(n.orelse)),
    ast.Lambda: lambda n: _make(cst.Lambda, params=_parameters(n.args), body=_expression(n.body)),
    ast.Await: lambda n: _make(cst.Await, expression=_expression(n.value)),
    ast.Yield: lambda n: _make(cst.Yield, value=_expression(n.value) if n.value is not None else None),
    ast.YieldFrom: _yield_from,
    ast.NamedExpr: lambda n: _make(cst.NamedExpr, target=_expression(n.target), value=_expression(n.value)),
    ast.JoinedStr: _formatted,
}


# ------------------------------------------------------------------- statements


def _parameters(node: ast.arguments) -> Any:
    named = [*node.posonlyargs, *node.args]
    defaults: list[ast.expr | None] = [*[None] * (len(named) - len(node.defaults)), *node.defaults]
    params = [_parameter(arg, default) for arg, default in zip(named, defaults, strict=True)]
    only = [_parameter(arg, default) for arg, default in zip(node.kwonlyargs, node.kw_defaults, strict=True)]
    return _make(
        cst.Parameters,
        posonly_params=params[: len(node.posonlyargs)],
        params=params[len(node.posonlyargs):],
        kwonly_params=only,
        star_arg=_parameter(node.vararg, None) if node.vararg is not None else None,
        star_kwarg=_parameter(node.kwarg, None) if node.kwarg is not None else None,
    )


def _parameter(node: ast.arg, default: ast.expr | None) -> Any:
    return _make(cst.Param, name=_name(node.arg), annotation=_annotation(node.annotation),
                 default=_expression(default) if default is not None else None)


def _annotation(node: ast.expr | None) -> Any:
    return _make(cst.Annotation, annotation=_expression(node)) if node is not None else None


def _function(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Any:
    return _make(cst.FunctionDef, name=_name(node.name), params=_parameters(node.args), body=LazyBody(node.body),
                 decorators=_decorators(node), returns=_annotation(node.returns))


def _decorators(node: Any) -> list[Any]:
    return [_make(cst.Decorator, decorator=_expression(d)) for d in node.decorator_list]


def _class(node: ast.ClassDef) -> Any:
    return _make(cst.ClassDef, name=_name(node.name), bases=[_argument(b) for b in node.bases],
                 keywords=[_keyword(k) for k in node.keywords], body=LazyBody(node.body), decorators=_decorators(node))


def _if(node: ast.If) -> Any:
    orelse: Any = None
    if len(node.orelse) == 1 and isinstance(node.orelse[0], ast.If):
        orelse = _if(node.orelse[0])
    elif node.orelse:
        orelse = _else(node.orelse)
    return _make(cst.If, test=_expression(node.test), body=LazyBody(node.body), orelse=orelse)


def _else(body: list[ast.stmt]) -> Any:
    return _make(cst.Else, body=LazyBody(body)) if body else None


def _for(node: ast.For | ast.AsyncFor) -> Any:
    return _make(cst.For, target=_expression(node.target), iter=_expression(node.iter), body=LazyBody(node.body),
                 orelse=_else(node.orelse))


def _with(node: ast.With | ast.AsyncWith) -> Any:
    items = [_make(cst.WithItem, item=_expression(i.context_expr), asname=_as(i.optional_vars)) for i in node.items]
    return _make(cst.With, items=items, body=LazyBody(node.body))


def _as(target: ast.expr | None) -> Any:
    return _make(cst.AsName, name=_expression(target)) if target is not None else None


def _try(node: Any) -> Any:
    handlers = [
        _make(cst.ExceptHandler, type=_expression(h.type) if h.type is not None else None, body=LazyBody(h.body),
              name=_make(cst.AsName, name=_name(h.name)) if h.name else None)
        for h in node.handlers
    ]
    final = _make(cst.Finally, body=LazyBody(node.finalbody)) if node.finalbody else None
    return _make(cst.Try, body=LazyBody(node.body), handlers=handlers, orelse=_else(node.orelse), finalbody=final)


def _match(node: ast.Match) -> Any:
    cases = [_make(cst.MatchCase, pattern=_pattern(case.pattern), body=LazyBody(case.body),
                   guard=_expression(case.guard) if case.guard is not None else None) for case in node.cases]
    return _make(cst.Match, subject=_expression(node.subject), cases=cases)


def _pattern(node: Any) -> Any:
    return _PATTERNS[node.__class__](node)


def _optional_pattern(node: Any) -> Any:
    return _pattern(node) if node is not None else None


def _optional_name(word: str | None) -> Any:
    return _name(word) if word is not None else None


_PATTERNS: dict[type, Callable[[Any], Any]] = {
    ast.MatchValue: lambda n: _make(cst.MatchValue, value=_expression(n.value)),
    ast.MatchSingleton: lambda n: _make(cst.MatchSingleton, value=_name(str(n.value))),
    ast.MatchSequence: lambda n: _make(cst.MatchList, patterns=[
        _pattern(p) if isinstance(p, ast.MatchStar) else _make(cst.MatchSequenceElement, value=_pattern(p))
        for p in n.patterns]),
    ast.MatchStar: lambda n: _make(cst.MatchStar, name=_optional_name(n.name)),
    ast.MatchMapping: lambda n: _make(cst.MatchMapping, rest=_optional_name(n.rest), elements=[
        _make(cst.MatchMappingElement, key=_expression(k), pattern=_pattern(p))
        for k, p in zip(n.keys, n.patterns, strict=True)]),
    ast.MatchClass: lambda n: _make(
        cst.MatchClass, cls=_expression(n.cls),
        patterns=[_make(cst.MatchSequenceElement, value=_pattern(p)) for p in n.patterns],
        kwds=[_make(cst.MatchKeywordElement, key=_name(k), pattern=_pattern(p))
              for k, p in zip(n.kwd_attrs, n.kwd_patterns, strict=True)]),
    ast.MatchAs: lambda n: _make(cst.MatchAs, pattern=_optional_pattern(n.pattern), name=_optional_name(n.name)),
    ast.MatchOr: lambda n: _make(cst.MatchOr, patterns=[
        _make(cst.MatchOrElement, pattern=_pattern(p)) for p in n.patterns]),
}


def _aliases(names: list[ast.alias]) -> list[Any]:
    return [_make(cst.ImportAlias, name=_dotted(a.name), asname=_make(cst.AsName, name=_name(a.asname))
                  if a.asname else None) for a in names]


def _import_from(node: ast.ImportFrom) -> Any:
    names: Any = _make(cst.ImportStar) if node.names[0].name == "*" else _aliases(node.names)
    return _make(cst.ImportFrom, module=_dotted(node.module) if node.module else None, names=names,
                 relative=[_DOT] * node.level)


_DOT = _make(cst.Dot)


def _targets(nodes: list[ast.expr]) -> list[Any]:
    return [_make(cst.AssignTarget, target=_expression(node)) for node in nodes]


def _delete(node: ast.Delete) -> Any:
    several = _make(cst.Tuple, elements=_elements(node.targets)) if len(node.targets) > 1 else None
    return _make(cst.Del, target=several or _expression(node.targets[0]))


_COMPOUND: dict[type, Callable[[Any], Any]] = {
    ast.FunctionDef: _function,
    ast.AsyncFunctionDef: _function,
    ast.ClassDef: _class,
    ast.If: _if,
    ast.For: _for,
    ast.AsyncFor: _for,
    ast.While: lambda n: _make(cst.While, test=_expression(n.test), body=LazyBody(n.body), orelse=_else(n.orelse)),
    ast.With: _with,
    ast.AsyncWith: _with,
    ast.Try: _try,
    ast.Match: _match,
    **({ast.TryStar: _try} if hasattr(ast, "TryStar") else {}),
}

_SMALL: dict[type, Callable[[Any], Any]] = {
    ast.Expr: lambda n: _make(cst.Expr, value=_expression(n.value)),
    ast.Assign: lambda n: _make(cst.Assign, targets=_targets(n.targets), value=_expression(n.value)),
    ast.AnnAssign: lambda n: _make(cst.AnnAssign, target=_expression(n.target), annotation=_annotation(n.annotation),
                                   value=_expression(n.value) if n.value is not None else None),
    ast.AugAssign: lambda n: _make(cst.AugAssign, target=_expression(n.target), operator=_IN_PLACE[type(n.op)],
                                   value=_expression(n.value)),
    ast.Return: lambda n: _make(cst.Return, value=_expression(n.value) if n.value is not None else None),
    ast.Raise: lambda n: _make(cst.Raise, exc=_expression(n.exc) if n.exc is not None else None,
                               cause=_make(cst.From, item=_expression(n.cause)) if n.cause is not None else None),
    ast.Assert: lambda n: _make(cst.Assert, test=_expression(n.test),
                                msg=_expression(n.msg) if n.msg is not None else None),
    ast.Delete: _delete,
    ast.Import: lambda n: _make(cst.Import, names=_aliases(n.names)),
    ast.ImportFrom: _import_from,
    ast.Global: lambda n: _make(cst.Global, names=[_make(cst.NameItem, name=_name(name)) for name in n.names]),
    ast.Nonlocal: lambda n: _make(cst.Nonlocal, names=[_make(cst.NameItem, name=_name(name)) for name in n.names]),
    ast.Break: lambda n: _make(cst.Break),
    ast.Continue: lambda n: _make(cst.Continue),
}


def _statement(node: ast.stmt) -> Any:
    compound = _COMPOUND.get(node.__class__)
    if compound is not None:
        made = compound(node)
    else:
        small = _SMALL.get(node.__class__)
        made = _make(cst.SimpleStatementLine, body=[small(node) if small is not None else _make(cst.Pass)])
    object.__setattr__(made, _PLACE_OF_STATEMENT, node)
    return made


SHARED = frozenset([*_OPERATORS.values(), *_IN_PLACE.values(), _DOT])
"""Nodes that all outlines have in common."""


# ------------------------------------------------------------------------- text


def expression_text(node: Any) -> str:
    """Names, attributes, constants and operators of an expression, in order."""
    if node is None or isinstance(node, str):
        return node or ""
    if isinstance(node, (list, tuple)):
        return " ".join(map(expression_text, node))
    if isinstance(node, (cst.Name, cst.Integer, cst.Float, cst.SimpleString)):
        return str(node.value)
    if isinstance(node, cst.Attribute):
        return f"{expression_text(node.value)}.{node.attr.value}"
    if isinstance(node, cst.Call):
        return f"{expression_text(node.func)}({expression_text(node.args)})"
    words = [_WORDS.get(node.__class__, "")]
    words += [expression_text(getattr(node, field, None)) for field in _TEXT_FIELDS if hasattr(node, field)]
    return " ".join(filter(None, words))


_TEXT_FIELDS = ("left", "operator", "expression", "right", "comparisons", "comparator", "value", "slice", "elements",
                "test", "body", "orelse")
_WORDS: dict[type, str] = {
    cst.Not: "not", cst.And: "and", cst.Or: "or", cst.Is: "is", cst.IsNot: "is not", cst.In: "in",
    cst.NotIn: "not in", cst.Modulo: "%", cst.Equal: "==", cst.NotEqual: "!=", cst.LessThan: "<",
    cst.LessThanEqual: "<=", cst.GreaterThan: ">", cst.GreaterThanEqual: ">=", cst.Add: "+", cst.Subtract: "-",
    cst.Multiply: "*", cst.Divide: "/", cst.FloorDivide: "//",
}
