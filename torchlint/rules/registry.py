"""Finds the rules by walking the package, so that adding one edits no other file."""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Iterable

import torchlint.rules as package
from torchlint.rules.rule import Rule


@functools.cache
def all_rules() -> tuple[Rule, ...]:
    """Every rule, in the order of the codes."""
    found = []
    for family in pkgutil.iter_modules(package.__path__):
        if not family.ispkg:
            continue
        folder = importlib.import_module(f"{package.__name__}.{family.name}")
        for module in pkgutil.iter_modules(folder.__path__):
            rule = getattr(importlib.import_module(f"{folder.__name__}.{module.name}"), "rule", None)
            if isinstance(rule, Rule):
                found.append(rule)
    return tuple(sorted(found, key=lambda rule: rule.code))


def rule_by_name(name: str) -> Rule | None:
    """The rule of that slug or code (letter case of codes does not matter), or None."""
    for rule in all_rules():
        if name == rule.slug or name.upper() == rule.code:
            return rule
    return None


def rules_named(name: str) -> tuple[Rule, ...]:
    """The rules of a slug, a code, a code's prefix, a family, or ``all``; empty where nothing fits."""
    if name == "all":
        return all_rules()
    exact = rule_by_name(name)
    if exact is not None:
        return (exact,)
    return tuple(r for r in all_rules() if r.family == name or (name.startswith("TL") and r.code.startswith(name)))


def nearest_name(name: str, others: Iterable[str] = ()) -> str | None:
    """The slug, code or family, or other word, that is spelled most like a name; None where none is."""
    import difflib

    words = [*(word for rule in all_rules() for word in (rule.slug, rule.code, rule.family)), *others]
    return next(iter(difflib.get_close_matches(name, words, n=1)), None)
