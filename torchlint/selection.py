"""Which rules run on a file, which of their fixes may be applied, and with what options."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from torchlint.config import ConfigError, Settings
from torchlint.findings import Applicability, Finding
from torchlint.rules import registry
from torchlint.rules.rule import Rule


@dataclass(frozen=True)
class Selection:
    """The rules that one configuration chooses, in the order of their codes."""

    rules: tuple[Rule, ...]
    options: Mapping[str, Mapping[str, Any]]
    fixable: frozenset[str]
    safe: frozenset[str]
    unsafe: frozenset[str]
    complete: bool
    """Every rule that runs by default is among them: only then can a bare ignore be called unused."""

    def without(self, selectors: Iterable[str]) -> Selection:
        """The selection less the rules of these selectors (per-file ignores)."""
        dropped = {rule.slug for name in selectors for rule in registry.rules_named(name)}
        if not dropped:
            return self
        kept = tuple(rule for rule in self.rules if rule.slug not in dropped)
        return dataclasses.replace(self, rules=kept, complete=self.complete and len(kept) == len(self.rules))

    def with_applicability(self, finding: Finding) -> Finding:
        """The finding with its fix promoted, demoted or withheld as the configuration says."""
        fix = finding.fix
        if fix is None:
            return finding
        wanted = fix.applicability
        if finding.rule not in self.fixable:
            wanted = Applicability.DISPLAY
        elif wanted is Applicability.UNSAFE and finding.rule in self.safe:
            wanted = Applicability.SAFE
        elif wanted is Applicability.SAFE and finding.rule in self.unsafe:
            wanted = Applicability.UNSAFE
        if wanted is fix.applicability:
            return finding
        return dataclasses.replace(finding, fix=dataclasses.replace(fix, applicability=wanted))


def selection_of(settings: Settings) -> Selection:
    """The rules that the settings choose; ConfigError names a selector or option that does not exist.

    As in ruff, the more specific selector wins (a rule over a code prefix, a longer prefix over a
    shorter one, anything over ``all``), and ``ignore`` wins a tie. A preview rule runs under
    ``preview`` or when named exactly.
    """
    chosen = _levels(settings, "select", settings.select if settings.select is not None else ("all",))
    for slug, level in _levels(settings, "extend-select", settings.extend_select).items():
        chosen[slug] = max(level, chosen.get(slug, 0))
    ignored = _levels(settings, "ignore", settings.ignore)
    rules = tuple(
        rule
        for rule in registry.all_rules()
        if chosen.get(rule.slug, 0) > ignored.get(rule.slug, 0)
        and (not rule.preview or settings.preview or chosen[rule.slug] == _EXACT)
    )
    slugs = {rule.slug for rule in rules}
    return Selection(
        rules=rules,
        options=_options(settings),
        fixable=_fixable(settings),
        safe=frozenset(_levels(settings, "extend-safe-fixes", settings.extend_safe_fixes)),
        unsafe=frozenset(_levels(settings, "extend-unsafe-fixes", settings.extend_unsafe_fixes)),
        complete=all(rule.slug in slugs for rule in registry.all_rules() if not rule.preview),
    )


def needs_rules(settings: Settings) -> bool:
    """Whether the settings name a rule, so that the registry must be loaded to check them."""
    return bool(
        settings.select is not None or settings.extend_select or settings.ignore or settings.per_file_ignores
        or settings.unfixable or settings.extend_safe_fixes or settings.extend_unsafe_fixes or settings.rules
        or settings.fixable != ("all",)
    )  # fmt: skip


def check_selectors(settings: Settings) -> None:
    """ConfigError where a selector of ``per-file-ignores`` names no rule."""
    for pattern, names in settings.per_file_ignores.items():
        _levels(settings, f"per-file-ignores.{pattern}", names)


_EXACT = 1_000
_FAMILY = 500


def _levels(settings: Settings, key: str, selectors: Iterable[str]) -> dict[str, int]:
    """Slug → how specific the most specific selector that names it is."""
    levels: dict[str, int] = {}
    for selector in selectors:
        rules = registry.rules_named(selector)
        if not rules:
            origin = settings.origin_of(key, selector)
            raise ConfigError(f"{origin}: '{key}' names no rule: '{selector}'{near_name(selector)}")
        for rule in rules:
            levels[rule.slug] = max(levels.get(rule.slug, 0), _specificity(selector, rule))
    return levels


def _specificity(selector: str, rule: Rule) -> int:
    if selector == "all":
        return 1
    if selector == rule.slug or selector.upper() == rule.code:
        return _EXACT
    return _FAMILY if selector == rule.family else 1 + len(selector)


def _fixable(settings: Settings) -> frozenset[str]:
    allowed = _levels(settings, "fixable", settings.fixable)
    refused = _levels(settings, "unfixable", settings.unfixable)
    return frozenset(slug for slug, level in allowed.items() if level > refused.get(slug, 0))


def _options(settings: Settings) -> dict[str, dict[str, Any]]:
    options: dict[str, dict[str, Any]] = {
        rule.slug: dict(rule.defaults) for rule in registry.all_rules() if rule.options
    }
    for name, given in settings.rules.items():
        rule = registry.rule_by_name(name)
        if rule is None:
            raise ConfigError(f"{settings.origin}: 'rules.{name}' names no rule{near_name(name)}")
        known = {option.name.replace("_", "-"): option for option in rule.options}
        for written, value in given.items():
            key = written.replace("_", "-")
            where = f"{settings.origin}: 'rules.{name}.{written}'"
            if key not in known:
                raise ConfigError(f"{where}: {rule.slug} has no such option; it has {', '.join(known) or 'none'}")
            if objection := known[key].objection(value):
                raise ConfigError(f"{where} {objection}")
            options[rule.slug][known[key].name] = value
    return options


def near_name(name: str, others: Iterable[str] = ()) -> str:
    """A hint at the rule or family, or other word, that is spelled most like the name; empty where none is."""
    near = registry.nearest_name(name, others)
    return f" (did you mean '{near}'?)" if near else ""
