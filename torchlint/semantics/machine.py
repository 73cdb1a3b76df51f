"""Puts the parts of the interpreter together."""

from __future__ import annotations

from torchlint.semantics import attributes, calls, expressions, python_library, statements, torch_library
from torchlint.semantics.interpreter import Interpreter
from torchlint.semantics.linker import Linker

LIBRARIES = (python_library, torch_library)  # their handlers register themselves when they are imported

Interpreter.expressions = expressions.EXPRESSIONS
Interpreter.statements = statements.STATEMENTS
Interpreter.call_value = calls.call_value
Interpreter.bind_parameters = calls.bind_parameters
Interpreter.attribute = attributes.attribute
Interpreter.set_attribute = attributes.set_attribute
Interpreter.passes_over = statements.passes_over
Interpreter.settle = calls.settle
Interpreter.run_layers = calls.run_layers
Interpreter.opaque_forward = calls.opaque_forward
Interpreter.as_promised = calls.as_promised


def new_machine(linker: Linker) -> Interpreter:
    """An interpreter that has run nothing yet."""
    return Interpreter(linker)
