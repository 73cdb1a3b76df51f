"""Puts the parts of the interpreter together."""

from __future__ import annotations

from torchlint.semantics import attributes, calls, expressions, library, statements
from torchlint.semantics.interpreter import Interpreter
from torchlint.semantics.linker import Linker

Interpreter.expressions = expressions.EXPRESSIONS
Interpreter.statements = statements.STATEMENTS
Interpreter.call_value = staticmethod(calls.call_value)
Interpreter.bind_parameters = staticmethod(calls.bind_parameters)
Interpreter.attribute = staticmethod(attributes.attribute)
Interpreter.set_attribute = staticmethod(attributes.set_attribute)
Interpreter.passes_over = staticmethod(statements.passes_over)
Interpreter.run_layers = staticmethod(calls.run_layers)
Interpreter.opaque_forward = staticmethod(calls.opaque_forward)
Interpreter.mark_used = staticmethod(library.mark_used)


def new_machine(linker: Linker) -> Interpreter:
    """An interpreter that has run nothing yet."""
    return Interpreter(linker)
