"""Frames (who binds which name) and the model of one module of the project."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    import libcst as cst

    from torchlint.semantics.recording import Block
    from torchlint.semantics.values import Class, Function, Value
    from torchlint.syntax.linked import LinkedTree
    from torchlint.syntax.tree import Tree


class Frame:
    """The names of one running module body, class body or function."""

    __slots__ = ("names", "enclosing", "module", "function", "receiver", "owner", "declared", "returns",
                 "stashed", "yields", "arguments", "yield_grads")

    def __init__(self, module: ModuleModel, enclosing: Frame | None = None, function: Function | None = None) -> None:
        self.names: dict[str, Value] = {}
        self.enclosing = enclosing
        self.module = module
        self.function = function
        self.receiver: Value | None = None
        self.owner: Class | None = None
        self.declared: dict[str, Frame] = {}  # names that `global` and `nonlocal` say belong to another frame
        self.returns: list[Value] = []
        self.stashed: list[Any] = []  # heap changes of paths that returned early
        self.yields: list[Value] = []
        self.yield_grads: set[bool | None] = set()
        self.arguments: dict[str, Value] = {}

    def declare_nonlocal(self, name: str) -> None:
        """A name belongs to the innermost function around this one that has it."""
        frame = self.enclosing
        while frame is not None and frame.function is not None:
            if name in frame.names:
                self.declared[name] = frame
                return
            frame = frame.enclosing

    def find(self, name: str) -> Value | None:
        """The innermost binding of a name, the module's own included."""
        frame: Frame | None = self
        while frame is not None:
            value = frame.names.get(name)
            if value is not None:
                return value
            frame = frame.enclosing
        return None


class ModuleModel:
    """A file of the project, as far as it has been run."""

    def __init__(self, name: str, path: Path, tree: Tree | LinkedTree) -> None:
        self.name = name
        self.path = path
        self.tree = tree
        self.frame = Frame(self)
        self.state = "new"  # running, done
        self.stars: list[str] = []  # libraries whose public names are imported with a star
        self.star_files: list[Path] = []  # files of the project, likewise
        self.functions: list[Function] = []  # every def, in order of definition, methods included
        self.classes: list[Class] = []
        self.mains: list[cst.If] = []  # `if __name__ == "__main__"`
        self.body: Block | None = None
        self.is_package = False

    def __repr__(self) -> str:
        return f"ModuleModel({self.name})"
