"""Turn type annotations (of stubs, signatures and docstrings) into torchlint's kind tokens."""

from __future__ import annotations

import ast

_NAMES = {
    "Tensor": "tensor",
    "LongTensor": "tensor",
    "BoolTensor": "tensor",
    "Parameter": "parameter",
    "ndarray": "ndarray",
    "Module": "module",
    "Optimizer": "optimizer",
    "LRScheduler": "scheduler",
    "device": "device",
    "_device": "device",
    "dtype": "dtype",
    "_dtype": "dtype",
    "Generator": "generator",
    "int": "number",
    "_int": "number",
    "float": "number",
    "_float": "number",
    "complex": "number",
    "Number": "number",
    "SymInt": "number",
    "bool": "bool",
    "_bool": "bool",
    "str": "string",
    "Size": "tuple",
    "_size": "tuple",
    "tuple": "tuple",
    "Tuple": "tuple",
    "list": "list",
    "List": "list",
    "dict": "dict",
    "Dict": "dict",
    "OrderedDict": "dict",
    "None": "none",
}


def kind_of_text(annotation: str, structs: dict[str, int] | None = None) -> str:
    """Return the kind token that a written annotation stands for, or "unknown"."""
    try:
        tree = ast.parse(annotation.strip(), mode="eval").body
    except SyntaxError:
        return "unknown"
    return kind_of(tree, structs or {})


def kind_of(node: ast.expr | None, structs: dict[str, int]) -> str:
    """Return the kind token of an annotation's tree; `structs` gives the length of torch.return_types."""
    if isinstance(node, ast.Constant):
        if node.value is None:
            return "none"
        return kind_of_text(node.value, structs) if isinstance(node.value, str) else "unknown"
    if isinstance(node, ast.Attribute):
        written = ast.unparse(node)
        if written.startswith("torch.return_types."):
            return _tuple(["tensor"] * structs[node.attr]) if node.attr in structs else "tuple"
        return _NAMES.get(node.attr, "unknown")
    if isinstance(node, ast.Name):
        return _NAMES.get(node.id, "unknown")
    if isinstance(node, ast.Tuple):
        return _tuple([kind_of(part, structs) for part in node.elts])
    if isinstance(node, ast.Subscript):
        return _subscripted(node, structs)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        kinds = {kind_of(node.left, structs), kind_of(node.right, structs)}
        return kinds.pop() if len(kinds) == 1 else "unknown"
    return "unknown"


def _subscripted(node: ast.Subscript, structs: dict[str, int]) -> str:
    outer = kind_of(node.value, structs)
    if outer == "tuple" and isinstance(node.slice, ast.Tuple):
        parts = node.slice.elts
        if isinstance(parts[-1], ast.Constant) and parts[-1].value is ...:
            return "tuple"
        return _tuple([kind_of(part, structs) for part in parts])
    if outer == "list":
        inner = kind_of(node.slice, structs)
        return "list" if inner == "unknown" else f"list[{inner}]"
    return outer


def _tuple(kinds: list[str]) -> str:
    return f"tuple[{','.join(kinds)}]" if kinds else "tuple"
