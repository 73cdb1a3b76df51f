"""Settings: read from the nearest ``pyproject.toml`` or ``torchlint.toml``, overridden by the command line."""

from __future__ import annotations

import dataclasses
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

TorchVersion = tuple[int, ...]
"""A release of torch as numbers: ``(2, 1)`` or ``(2, 1, 2)``."""

DEFAULT_INCLUDE = ("*.py", "*.pyw", "*.ipynb")

# The folders that ruff skips by default: https://docs.astral.sh/ruff/settings/#exclude
DEFAULT_EXCLUDE = (
    ".bzr", ".direnv", ".eggs", ".git", ".git-rewrite", ".hg", ".ipynb_checkpoints", ".mypy_cache", ".nox", ".pants.d",
    ".pyenv", ".pytest_cache", ".pytype", ".ruff_cache", ".svn", ".torchlint_cache", ".tox", ".venv", ".vscode",
    "__pypackages__", "_build", "buck-out", "build", "dist", "node_modules", "site-packages", "venv",
)  # fmt: skip

CONFIG_NAMES = ("torchlint.toml", ".torchlint.toml", "pyproject.toml")
"""The files that may hold a configuration; in one folder the first that does wins."""


class ConfigError(Exception):
    """The configuration cannot be used; the message names the file and the key."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What a run does with the files below one configuration file.

    ``root`` is the folder that the patterns are relative to: the configuration file's, or the
    working directory where there is none. ``select`` is None when nobody chose: the default rules.
    ``given`` holds, by name, what the command line said.
    """

    root: Path
    file: Path | None = None
    select: tuple[str, ...] | None = None
    extend_select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    preview: bool = False
    include: tuple[str, ...] = DEFAULT_INCLUDE
    exclude: tuple[str, ...] = DEFAULT_EXCLUDE
    extend_exclude: tuple[str, ...] = ()
    force_exclude: bool = False
    respect_gitignore: bool = True
    per_file_ignores: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    target_torch: TorchVersion | None = None
    fixable: tuple[str, ...] = ("all",)
    unfixable: tuple[str, ...] = ()
    extend_safe_fixes: tuple[str, ...] = ()
    extend_unsafe_fixes: tuple[str, ...] = ()
    unsafe_fixes: bool = False
    output_format: str | None = None
    cache_dir: str = ".torchlint_cache"
    rules: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    given: Mapping[str, Any] = field(default_factory=dict)

    @property
    def origin(self) -> str:
        """The configuration file as messages name it."""
        return str(self.file) if self.file is not None else "the command line"

    @property
    def cache_folder(self) -> Path:
        """Where results are kept: by default beside the configuration."""
        return self.root / Path(self.cache_dir).expanduser()

    def origin_of(self, key: str, item: str) -> str:
        """Where an item of a key's list comes from, as messages name it."""
        return "the command line" if item in self.given.get(key.replace("-", "_"), ()) else self.origin

    def excluded_patterns(self) -> tuple[str, ...]:
        return self.exclude + self.extend_exclude


def parse_version(text: str) -> TorchVersion | None:
    """``"2.1"`` or ``"2.1.2"`` as numbers; None for anything else."""
    if not re.fullmatch(r"\d{1,4}(\.\d{1,4}){1,2}", text.strip(), re.ASCII):
        return None
    return tuple(int(part) for part in text.strip().split("."))


def config_in(folder: Path) -> Path | None:
    """The configuration file that this very folder holds, or None."""
    for name in CONFIG_NAMES:
        path = folder / name
        try:
            if path.is_file() and (name != "pyproject.toml" or b"torchlint" in path.read_bytes()):
                if name != "pyproject.toml" or _own_table(path, _toml(path)) is not None:
                    return path
        except OSError as error:
            raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    return None


def load(path: Path) -> Settings:
    """The settings that a file holds; ConfigError for an unknown key, a wrong type, or bad TOML."""
    try:
        table = _toml(path)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    own = _own_table(path, table)
    return settings_from(own or {}, path)


def settings_from(table: Mapping[str, Any], path: Path) -> Settings:
    """The settings of a table of keys and values, as read from ``path``."""
    values: dict[str, Any] = {}
    for key, value in table.items():
        name = key.replace("-", "_")
        if key not in _READERS:
            raise ConfigError(f"{path}: unknown key '{key}'{_hint(key, _READERS)}")
        try:
            values[name] = _READERS[key](value)
        except _WrongType as error:
            raise ConfigError(
                f"{path}: '{key}{error.where}' must be {error.wanted}, not {_kind(value, error)}"
            ) from None
    return Settings(root=path.parent, file=path, **values)


def overridden(settings: Settings, overrides: Mapping[str, Any]) -> Settings:
    """The settings with what the command line says instead; lists that extend are joined."""
    joined: dict[str, Any] = {
        name: (*getattr(settings, name), *value) if name in _JOINED else value
        for name, value in overrides.items()
        if value is not None
    }
    if overrides.get("select") is not None:
        joined["extend_select"] = tuple(overrides.get("extend_select") or ())
    return dataclasses.replace(settings, **joined, given=dict(overrides))  # a view could not be sent to a worker


_JOINED = frozenset({"extend_select", "ignore", "extend_exclude", "extend_safe_fixes", "extend_unsafe_fixes"})


class Configuration:
    """Finds the settings of any folder: the nearest configuration file wins, read once."""

    def __init__(
        self,
        overrides: Mapping[str, Any] = MappingProxyType({}),
        *,
        file: Path | None = None,
        isolated: bool = False,
        working_folder: Path | None = None,
    ) -> None:
        self._overrides = dict(overrides)  # a view could not be sent to a worker
        self._file, self._isolated = file, isolated
        self._working_folder = working_folder if working_folder is not None else Path.cwd()
        self._by_folder: dict[Path, Settings] = {}
        self._default = overridden(Settings(root=self._working_folder), overrides)
        self._fixed: Settings | None = None
        if file is not None:
            # Patterns given by hand with --config are relative to where the user stands.
            self._fixed = overridden(dataclasses.replace(load(file), root=self._working_folder), overrides)
        elif isolated:
            self._fixed = self._default

    def anew(self) -> Configuration:
        """The same, to be read from the files as they are now."""
        return Configuration(self._overrides, file=self._file, isolated=self._isolated,
                             working_folder=self._working_folder)

    def for_folder(self, folder: Path) -> Settings:
        """The settings for files of an absolute folder; ConfigError where its file is wrong."""
        if self._fixed is not None:
            return self._fixed
        known = self._by_folder.get(folder)
        if known is None:
            known = self._by_folder[folder] = self._find(folder)
        return known

    def _find(self, folder: Path) -> Settings:
        file = config_in(folder)
        if file is not None:
            return overridden(load(file), self._overrides)
        if folder.parent == folder:
            return self._default
        return self.for_folder(folder.parent)


def _toml(path: Path) -> dict[str, Any]:
    data = path.read_bytes()
    try:
        return parse_toml(data.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: not valid TOML: {error}") from error


def parse_toml(text: str) -> dict[str, Any]:
    """A TOML text as a table; ValueError where it is none."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    return tomllib.loads(text)


def _own_table(path: Path, table: dict[str, Any]) -> Mapping[str, Any] | None:
    if path.name != "pyproject.toml":
        return table
    tools = table.get("tool")
    own = tools.get("torchlint") if isinstance(tools, dict) else None
    if own is not None and not isinstance(own, dict):
        raise ConfigError(f"{path}: 'tool.torchlint' must be a table, not {_NAMES.get(type(own), 'something else')}")
    return own


class _WrongType(Exception):
    def __init__(self, wanted: str, where: str = "", value: Any = None) -> None:
        self.wanted, self.where, self.value = wanted, where, value


def _strings(value: Any, where: str = "") -> tuple[str, ...]:
    if not isinstance(value, list):
        raise _WrongType("a list of strings", where, value)
    for number, item in enumerate(value):
        if not isinstance(item, str):
            raise _WrongType("a string", f"{where}[{number}]", item)
    return tuple(value)


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise _WrongType("true or false", "", value)
    return value


def _path(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise _WrongType("a path in quotes", "", value)
    return value


def _version(value: Any) -> TorchVersion:
    version = parse_version(value) if isinstance(value, str) else None
    if version is None:
        raise _WrongType('a version in quotes such as "2.1"', "", value)
    return version


def _format(value: Any) -> str:
    from torchlint.reporting import FORMATS

    if value not in FORMATS:
        raise _WrongType(f"one of {', '.join(FORMATS)}", "", value)
    return str(value)


def _lists_by_pattern(value: Any) -> Mapping[str, tuple[str, ...]]:
    if not isinstance(value, dict):
        raise _WrongType("a table of lists of strings", "", value)
    return {pattern: _strings(names, f".{pattern}") for pattern, names in value.items()}


def _rule_options(value: Any) -> Mapping[str, Mapping[str, Any]]:
    if not isinstance(value, dict):
        raise _WrongType("a table with a table for each rule", "", value)
    for slug, options in value.items():
        if not isinstance(options, dict):
            raise _WrongType("a table of the rule's options", f".{slug}", options)
    return value


_READERS: Mapping[str, Callable[[Any], Any]] = {
    "select": _strings,
    "extend-select": _strings,
    "ignore": _strings,
    "preview": _boolean,
    "include": _strings,
    "exclude": _strings,
    "extend-exclude": _strings,
    "force-exclude": _boolean,
    "respect-gitignore": _boolean,
    "per-file-ignores": _lists_by_pattern,
    "target-torch": _version,
    "fixable": _strings,
    "unfixable": _strings,
    "extend-safe-fixes": _strings,
    "extend-unsafe-fixes": _strings,
    "unsafe-fixes": _boolean,
    "output-format": _format,
    "cache-dir": _path,
    "rules": _rule_options,
}

KEYS: tuple[str, ...] = tuple(_READERS)
"""Every key of ``[tool.torchlint]``."""

_NAMES: Mapping[type, str] = {
    bool: "true or false", int: "an integer", float: "a number", str: "a string", list: "a list", dict: "a table",
}  # fmt: skip


def _kind(value: Any, error: _WrongType) -> str:
    found = error.value if error.value is not None else value
    if isinstance(found, (bool, int, float, str)):
        return f"'{found}'" if isinstance(found, str) else str(found).lower()
    return _NAMES.get(type(found), f"a {type(found).__name__}")


def _hint(word: str, known: Mapping[str, Any] | tuple[str, ...]) -> str:
    import difflib

    near = difflib.get_close_matches(word, known, n=1)
    return f" (did you mean '{near[0]}'?)" if near else ""
