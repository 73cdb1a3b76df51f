"""Throwaway rules and a model that is only the source, to test the machinery apart from the interpreter.

``python -m tests.throwaway ARGUMENTS`` is torchlint with these rules.
"""

from __future__ import annotations

import ctypes
import os
import re
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any
from unittest import mock

from torchlint.checking import Checker, Task
from torchlint.findings import Applicability, Diagnostic, Edit, Finding, Fix, Severity, Span
from torchlint.rules import registry
from torchlint.rules.rule import Option, Rule
from torchlint.syntax.source import Source


@dataclass(frozen=True)
class Model:
    """All that a throwaway rule is told."""

    source: Source

    @property
    def tree(self) -> Model:
        return self


@dataclass(frozen=True)
class Site:
    """A place in a source."""

    span: Span


def make_rule(code: str, slug: str, **metadata: Any) -> Rule:
    """A rule of the family ``throwaway``."""
    module = f"torchlint.rules.throwaway.{slug.replace('-', '_')}"  # a rule takes its slug from where it is made
    names: dict[str, Any] = {"__name__": module, "__doc__": f"{slug} is found.", "Rule": Rule, "metadata": metadata}
    exec(f"rule = Rule({code!r}, since='0.1', **metadata)", names)
    rule: Rule = names["rule"]
    return rule


def word_rule(code: str, slug: str, word: str, replacement: str | None, how: Applicability, **metadata: Any) -> Rule:
    """A rule that finds a word and would have another one in its place."""
    rule = make_rule(code, slug, triggers=(word.encode(),), **metadata)

    @rule.question
    def check(model: Any, options: dict[str, Any]) -> Iterator[Finding]:
        for match in re.finditer(rf"\b{word}\b", model.tree.source.text):
            span = model.tree.source.span(*match.span())
            fix = None
            if replacement is not None:
                fix = Fix(f"Write {replacement}", how, (Edit(span, replacement),))
            yield rule.at(Site(span), f"'{word}' is bad.", help="Write something else.", fix=fix)  # type: ignore[arg-type]

    return rule


def crashing_rule() -> Rule:
    rule = make_rule("TL905", "crashing-rule", triggers=(b"CRASH",))

    @rule.question
    def check(model: Any, options: dict[str, Any]) -> Iterator[Finding]:
        for match in re.finditer("CRASH", model.tree.source.text):
            span = model.tree.source.span(*match.span())
            raise ZeroDivisionError(f"in line {span.start.line}")
        return iter(())

    return rule


RULES = (
    word_rule("TL901", "first-rule", "bad", "good", Applicability.SAFE, severity=Severity.ERROR),
    word_rule("TL902", "second-rule", "risky", "daring", Applicability.UNSAFE),
    word_rule("TL903", "third-rule", "plain", None, Applicability.SAFE,
              options=(Option("limit", 3, int, "a limit", least=1),)),
    word_rule("TL904", "fourth-rule", "early", "late", Applicability.SAFE, preview=True),
    crashing_rule(),
)

_REAL = registry.all_rules()
SUPPRESSION = tuple(rule for rule in _REAL if rule.family == "suppression")


def model_of(
    checker: Checker, source: Source, task: Task, rules: object, project: object, *, whole: bool
) -> Model | Diagnostic:
    """What stands for the interpreter; words in the text make it misbehave."""
    text = source.text
    if "SEGFAULT" in text:
        ctypes.string_at(0)
    if "KILLED" in text:
        os.kill(os.getpid(), signal.SIGKILL)
    if "LEAVE" in text:
        os._exit(7)
    if "HANG" in text:
        time.sleep(1000)
    if "SLOW" in text:
        time.sleep(0.3)
    if "RECURSE" in text:
        return _recurse(source)
    return Model(source)


def _recurse(source: Source) -> Model:
    return _recurse(source)


@contextmanager
def installed(rules: tuple[Rule, ...] = RULES) -> Iterator[None]:
    """The throwaway rules, and ``unused-ignore``, in place of all others."""
    every = tuple(sorted((*SUPPRESSION, *rules), key=lambda rule: rule.code))
    with (
        mock.patch.object(registry, "all_rules", return_value=every),
        mock.patch.object(Checker, "_model", model_of),
        mock.patch("torchlint.engine.preload"),
    ):
        yield


def finding(source: Source, text: str, rule: Rule = RULES[0]) -> Finding:
    """A finding of the rule at the text's first place."""
    begin = source.text.index(text)
    return rule.at(SimpleNamespace(span=source.span(begin, begin + len(text))), "It is bad.")  # type: ignore[arg-type]


if __name__ == "__main__":
    from torchlint import cli
    from torchlint.cli.output import prepare_streams as prepare

    def say_ready() -> None:
        """Say it where the command line has begun to listen to interrupts."""
        prepare()
        print("ready", flush=True)

    with installed(), mock.patch("torchlint.cli.prepare_streams", say_ready if "SAY_READY" in os.environ else prepare):
        cli.main()
