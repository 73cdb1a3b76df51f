"""Read torchvision's API from its wheel's source with `ast`: it cannot always be imported next to the torch at hand."""

from __future__ import annotations

import ast
import zipfile
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from .kinds import kind_of
from .signatures import from_arguments
from .tables import Table

PUBLIC = """
torchvision torchvision.models torchvision.models.detection torchvision.models.segmentation torchvision.models.video
torchvision.models.optical_flow torchvision.models.quantization torchvision.models.feature_extraction
torchvision.transforms torchvision.transforms.functional torchvision.transforms.v2 torchvision.transforms.v2.functional
torchvision.datasets torchvision.ops torchvision.io torchvision.utils
""".split()
KERNELS = ("_image", "_video", "_mask", "_boxes", "_keypoints", "_tensor_")  # of v2.functional, for one type each
ROOTS = {
    "torch.nn.Module": "module",
    "torch.utils.data.Dataset": "dataset",
    "torch.utils.data.dataset.Dataset": "dataset",
    "torch.Tensor": "tensor",
}


@dataclass
class Module:
    """One source file: what it defines and what it imports from where."""

    name: str
    tree: ast.Module
    is_package: bool
    defined: dict[str, ast.ClassDef | ast.FunctionDef] = field(default_factory=dict)
    imported: dict[str, str] = field(default_factory=dict)
    stars: list[str] = field(default_factory=list)
    listed: list[str] | None = None


class Wheel:
    """The modules of a wheel, parsed when asked for."""

    def __init__(self, path: Path) -> None:
        self.archive = zipfile.ZipFile(path)
        self.names = set(self.archive.namelist())
        self.modules: dict[str, Module | None] = {}

    @cached_property
    def version(self) -> str:
        """The distribution's version."""
        metadata = next(name for name in self.names if name.endswith(".dist-info/METADATA"))
        lines = self.archive.read(metadata).decode().splitlines()
        return next(line.split(": ")[1] for line in lines if line.startswith("Version: ")).split("+")[0]

    def module(self, name: str) -> Module | None:
        """The module of this name."""
        if name not in self.modules:
            self.modules[name] = self._parse(name)
        return self.modules[name]

    def _parse(self, name: str) -> Module | None:
        base = name.replace(".", "/")
        for file, is_package in ((f"{base}/__init__.py", True), (f"{base}.py", False)):
            if file in self.names:
                module = Module(name, ast.parse(self.archive.read(file)), is_package)
                _collect(module)
                return module
        return None

    def public(self, module: Module) -> list[str]:
        """The names that a star would bind, as far as they come from this wheel."""
        if module.listed is not None:
            return module.listed
        names = [*module.defined, *module.imported]
        for star in module.stars:
            source = self.module(star)
            names += self.public(source) if source else []
        return sorted({name for name in names if not name.startswith("_")})

    def find(self, module: str, name: str, depth: int = 0) -> tuple[str, ast.ClassDef | ast.FunctionDef] | None:
        """Where a name that a module binds is defined."""
        source = self.module(module)
        if source is None or depth > 8:
            return None
        if name in source.defined:
            return module, source.defined[name]
        if name in source.imported:
            home, _, original = source.imported[name].rpartition(".")
            return self.find(home, original, depth + 1)
        for star in source.stars:
            starred = self.module(star)
            if starred and name in self.public(starred):
                return self.find(star, name, depth + 1)
        return None

    def roots(self, home: str, node: ast.ClassDef, depth: int = 0) -> list[str]:
        """The torch classes that a class derives from."""
        found: list[str] = []
        for base in node.bases:
            base = base.value if isinstance(base, ast.Subscript) else base
            written = self._written(home, ast.unparse(base))
            inner = self.find(*(written.rpartition(".")[::2])) if written.startswith("torchvision.") else None
            if inner and isinstance(inner[1], ast.ClassDef) and depth < 8:
                found += self.roots(inner[0], inner[1], depth + 1)
            else:
                found.append(written)
        return found

    def _written(self, home: str, name: str) -> str:
        module = self.module(home)
        first, dot, rest = name.partition(".")
        if module and first in module.defined:
            return f"{home}.{name}"
        return module.imported.get(first, first) + dot + rest if module else name


def _collect(module: Module) -> None:
    package = module.name if module.is_package else module.name.rpartition(".")[0]
    for node in module.tree.body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            module.defined[node.name] = node
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            source = ".".join([*above, *([node.module] if node.module else [])])
            for alias in node.names:
                if alias.name == "*":
                    module.stars.append(source)
                else:
                    module.imported[alias.asname or alias.name] = f"{source}.{alias.name}"
        elif isinstance(node, ast.Import):
            for alias in node.names:
                module.imported[alias.asname or alias.name.split(".")[0]] = alias.name
        elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            texts = [part.value for part in ast.walk(node.value) if isinstance(part, ast.Constant)]
            module.listed = [text for text in texts if isinstance(text, str)]


def _describe(wheel: Wheel, public: str, home: str, node: ast.ClassDef | ast.FunctionDef) -> str:
    if isinstance(node, ast.ClassDef):
        kind = next((ROOTS[root] for root in wheel.roots(home, node) if root in ROOTS), "unknown")
        if public.startswith("torchvision.transforms"):
            kind = "transform"
        made = next((n for n in node.body if isinstance(n, ast.FunctionDef) and n.name == "__init__"), None)
        if made is None or kind == "unknown" or public.startswith("torchvision.models"):
            return f"class {kind}"
        signature = from_arguments(made.args, drop_self=True)
        signature.returns = kind
        return f"class {signature}"
    signature = from_arguments(node.args)
    signature.returns = kind_of(node.returns, {})
    returned = wheel.find(home, ast.unparse(node.returns).strip("'\"")) if node.returns else None
    if returned and isinstance(returned[1], ast.ClassDef):
        roots = wheel.roots(returned[0], returned[1])
        signature.returns = next((ROOTS[root] for root in roots if root in ROOTS), signature.returns)
    if public.startswith("torchvision.transforms") and signature.returns == "tensor":
        signature.returns = "unknown"  # the annotation is for torchscript: images of Pillow come back as such
    return f"def {signature}"


def table(path: Path) -> Table:
    """The public modules of torchvision."""
    wheel = Wheel(path)
    result = Table("torchvision", wheel.version)
    for name in PUBLIC:
        module = wheel.module(name)
        assert module is not None, name
        entries = result.modules.setdefault(name, {})
        for attribute in wheel.public(module):
            found = wheel.find(name, attribute)
            kernel = name.endswith("v2.functional") and attribute.endswith(KERNELS)
            if found and not kernel:
                entries[attribute] = _describe(wheel, name, *found)
                _link(wheel, result, name, attribute, *found)
            elif wheel.module(f"{name}.{attribute}"):
                entries[attribute] = "module"
    for name in PUBLIC[1:]:
        parent, _, last = name.rpartition(".")
        result.modules[parent].setdefault(last, "module")
    return result


def _link(
    wheel: Wheel, result: Table, name: str, attribute: str, home: str, node: ast.ClassDef | ast.FunctionDef
) -> None:
    if home not in PUBLIC and node.name == attribute:
        targets = result.aliases.setdefault(home, [])
        if name not in targets:
            targets.append(name)
    if isinstance(node, ast.ClassDef):
        bases = [root for root in wheel.roots(home, node) if root in ROOTS]
        if bases:
            result.bases[f"{name}.{attribute}"] = bases
