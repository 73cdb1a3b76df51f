"""Edits made from nodes of a Tree that keep the layout: comments, commas, indentation, line breaks.

Every builder returns a list of edits; one that may have to refuse returns None instead.
"""

from torchlint.syntax.editing.blocks import block_unit, decorate, unwrap_with, wrap_in_if, wrap_in_with
from torchlint.syntax.editing.calls import (
    drop_method_call,
    remove_argument,
    replace_argument,
    replace_callee,
    set_keyword,
    wrap_argument,
)
from torchlint.syntax.editing.imports import reference
from torchlint.syntax.editing.statements import (
    delete_statement,
    insert_after,
    insert_before,
    move_statement_after,
    replace,
)

__all__ = [
    "block_unit",
    "decorate",
    "delete_statement",
    "drop_method_call",
    "insert_after",
    "insert_before",
    "move_statement_after",
    "reference",
    "remove_argument",
    "replace",
    "replace_argument",
    "replace_callee",
    "set_keyword",
    "unwrap_with",
    "wrap_argument",
    "wrap_in_if",
    "wrap_in_with",
]
