"""The torch version that a project asks for, read from its own requirement files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchlint.config import TorchVersion, parse_toml

if TYPE_CHECKING:
    from packaging.specifiers import SpecifierSet

_LAST_MINOR = {0: 4, 1: 13}
"""The last minor release of each finished major one: https://pypi.org/project/torch/#history"""

_LARGEST = 1_000_000
"""No requirement file is longer; a longer one (a lock file) is not read."""


def required_torch(folder: Path) -> TorchVersion | None:
    """The lowest torch that the requirement files of this very folder still allow; None if they do not say.

    ``torch>=1.8,<2`` gives 1.8. With a limit only from above, the newest release below it: who
    writes ``torch<2`` runs 1.13, not 0.1. Of several requirements the lowest counts.
    """
    versions = [version for text in _torch_lines(folder) if (version := lowest_allowed(text)) is not None]
    return min(versions, default=None)


def nearest_torch(folder: Path, root: Path) -> tuple[TorchVersion, Path] | None:
    """The torch that is asked for in the folder, or in the nearest one above it up to ``root``; and in which."""
    for place in (folder, *folder.parents):
        version = required_torch(place)
        if version is not None:
            return version, place
        if place == root or not place.is_relative_to(root):
            break
    return None


def lowest_allowed(requirement: str) -> TorchVersion | None:
    """The lowest version of one requirement such as ``torch~=1.13; python_version > "3.7"``, or None."""
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    text = requirement.partition(";")[0].partition("#")[0].strip()
    text = re.sub(r"^[\w.-]+\s*(\[[^]]*\])?", "", text).strip().strip("()")
    try:
        return _lowest(SpecifierSet(_as_pep440(text)))
    except InvalidSpecifier:
        return None


def _as_pep440(text: str) -> str:
    """Poetry's ``^1.8``, conda's ``=1.8`` and build strings, ``1.8`` alone, as standard specifiers."""
    parts = []
    for part in text.split(","):
        part = part.strip()
        if match := re.fullmatch(r"[\^~]\s*(\d.*)", part):
            parts.append(f">={match[1]}")
        elif match := re.fullmatch(r"=?\s*(\d[\w.*]*)(=\S*)?", part):
            parts.append(f"=={match[1]}")
        elif part and part != "*":
            parts.append(part)
    return ",".join(parts)


def _lowest(specifiers: SpecifierSet) -> TorchVersion | None:
    lower: list[TorchVersion] = []
    upper: list[TorchVersion] = []
    for specifier in specifiers:
        numbers = _numbers(specifier.version)
        if specifier.operator in ("==", "===", ">=", "~=", ">"):
            lower.append(numbers)
        elif specifier.operator == "<=":
            upper.append(numbers)
        elif specifier.operator == "<" and (below := _below(numbers)) is not None:
            upper.append(below)
    if lower:
        return max(lower)
    return min(upper, default=None)


def _numbers(version: str) -> TorchVersion:
    parts = re.match(r"(?:\d+!)?v?(\d+(?:\.\d+)*)", version)
    numbers = [int(part) for part in parts[1].split(".")] if parts else [0]
    return tuple((*numbers, 0)[:2]) if len(numbers) < 2 else tuple(numbers[:3])


def _below(version: TorchVersion) -> TorchVersion | None:
    major, minor, *patch = version
    if any(patch):
        return (major, minor)
    if minor:
        return (major, minor - 1)
    return (major - 1, _LAST_MINOR[major - 1]) if major - 1 in _LAST_MINOR else None


def _torch_lines(folder: Path) -> Iterator[str]:
    """Every requirement in the folder's files that names torch itself."""
    for path in (*_files(folder), *_files(folder / "requirements")):
        reader = _reader(path)
        text = _read(path) if reader is not None else None
        if reader is not None and text is not None and "torch" in text:
            yield from (line for line in reader(text) if _names_torch(line))


def _files(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def _names_torch(requirement: str) -> bool:
    return re.match(r"(py)?torch(?![\w.-])", requirement.strip(), re.IGNORECASE) is not None


def _read(path: Path) -> str | None:
    try:
        if path.stat().st_size > _LARGEST:
            return None
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None


def _reader(path: Path) -> Any:
    name = path.name
    if name.endswith((".txt", ".in", ".pip")) and ("requirement" in name.lower() or path.parent.name == "requirements"):
        return str.splitlines
    if name.endswith((".yml", ".yaml")) and name.lower().startswith(("environment", "conda", "env")):
        return _from_yaml
    return _READERS.get(name)


def _from_yaml(text: str) -> list[str]:
    # Lines of a list are all that is wanted: no YAML reader needed.
    return re.findall(r"""^\s*-\s*["']?(?:[\w-]+::)?([^"'\n]+)""", text, re.MULTILINE)


def _from_setup_cfg(text: str) -> list[str]:
    return [line.split("=", 1)[1] if re.match(r"\s*install_requires\s*=", line) else line for line in text.splitlines()]


def _from_setup_py(text: str) -> list[str]:
    return [match[1] for match in re.finditer(r"""["']((?:py)?torch\s*(?:[<>=!~][^"'\n]*)?)["']""", text)]


def _from_pyproject(text: str) -> list[str]:
    table = _toml(text)
    project = _table(table, "project")
    found = [*_strings(project.get("dependencies"))]
    for extra in _table(project, "optional-dependencies").values():
        found += _strings(extra)
    for group in _table(table, "dependency-groups").values():
        found += _strings(group)
    poetry = _table(_table(table, "tool"), "poetry")
    for dependencies in (_table(poetry, "dependencies"), *_groups(poetry)):
        found += _from_mapping(dependencies)
    return found


def _groups(poetry: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for group in _table(poetry, "group").values():
        if isinstance(group, dict):
            yield _table(group, "dependencies")


def _from_pipfile(text: str) -> list[str]:
    table = _toml(text)
    return [*_from_mapping(_table(table, "packages")), *_from_mapping(_table(table, "dev-packages"))]


def _from_mapping(dependencies: dict[str, Any]) -> list[str]:
    found = []
    for name, wanted in dependencies.items():
        version = wanted.get("version", "") if isinstance(wanted, dict) else wanted
        found.append(f"{name} {version if isinstance(version, str) else ''}")
    return found


def _toml(text: str) -> dict[str, Any]:
    try:
        return parse_toml(text)
    except (ValueError, RecursionError):
        return {}  # somebody else's file: the version stays unknown


def _table(table: dict[str, Any], key: str) -> dict[str, Any]:
    value = table.get(key)
    return value if isinstance(value, dict) else {}


def _strings(value: Any) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


_READERS = {
    "pyproject.toml": _from_pyproject,
    "setup.cfg": _from_setup_cfg,
    "setup.py": _from_setup_py,
    "Pipfile": _from_pipfile,
}
