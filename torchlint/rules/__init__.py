"""The rules, one file each, in a folder per family; found by walking this package."""

from torchlint.rules.registry import all_rules, rule_by_name, rules_named
from torchlint.rules.rule import Rule

__all__ = ["Rule", "all_rules", "rule_by_name", "rules_named"]
