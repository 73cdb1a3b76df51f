"""The shape of a rule: metadata, examples, one question, and the docs in its file's docstring.

The docstring's first line is the summary: what is wrong, in one sentence. Then come sections, each
begun by its heading and a colon at the start of a line, in this order: ``What it does``, ``Why is
this bad`` (with the source of the claim), ``Fix safety`` (why a fix is safe or unsafe, or why
there is none), ``Evidence`` (a measurement with device and versions, or that there is none),
``References`` (``-`` items). Other headings may stand between: ``Limits``, ``Options``, ... The
text is Markdown. Examples are not repeated there: ``rule.bad`` and ``rule.ok`` are shown.
The slug completes the sentence "allow <slug>".

A finding's message and help are a sentence each, with a full stop: what happens, and what to do. A
fix's message says what it does, without one: "Pass `bias=False`".
"""

from __future__ import annotations

import inspect
import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from torchlint.findings import Applicability, Finding, Fix, Severity
from torchlint.rules.example import Example

if TYPE_CHECKING:
    from torchlint.semantics.model import Model
    from torchlint.semantics.values import Site

Question = Callable[["Model", dict[str, Any]], Iterator[Finding]]


@dataclass(frozen=True, slots=True)
class Option:
    """A setting of one rule, ``[tool.torchlint.rules.<slug>]`` in the configuration.

    ``least`` is the smallest number that makes sense, where the setting is one.
    """

    name: str
    default: Any
    kind: type
    help: str
    least: float | None = None

    def objection(self, value: object) -> str:
        """What a value would have to be, and is not; empty where it will do."""
        if not isinstance(value, self.kind) or (isinstance(value, bool) and self.kind is not bool):
            return f"must be of type {self.kind.__name__}, not {type(value).__name__}"
        if self.least is not None and isinstance(value, (int, float)) and not value >= self.least:
            return f"must be {self.least} or more, not {value}"
        return ""


@dataclass(frozen=True, slots=True)
class Training:
    """What a rule's fix does to a training run: how the harness measures and judges it.

    ``gains`` is what the fix is for: the time of every step, the time of a run as a whole (validation
    and the start of workers included), peak memory, or the schedule of a rule about correctness.
    ``tolerance`` is the largest relative difference of losses that still counts as the
    same training. A fix that ``moves_random_stream`` (initial weights or augmentations are drawn in
    another order) is judged by final losses over several seeds. ``gpus`` says how many GPUs it takes
    to show anything, and ``on_gpu_only`` why. What is fixed is started by the ``launcher``, with a
    process for each GPU where that is torchrun.
    """

    gains: Literal["step", "run", "memory", "schedule"] = "step"
    tolerance: float = 1e-5
    moves_random_stream: bool = False
    gpus: int = 0
    on_gpu_only: str = ""
    launcher: Literal["python", "torchrun"] = "python"


class Rule:
    """One documented mistake; made once at the top of its file.

    The slug and the family come from the file: ``rules/<family>/<slug_with_underscores>.py``.
    ``triggers`` are byte strings of which a file must hold at least one for the rule to be able
    to report in it; ``any_of`` alternatives of ``all_of`` sets are written as tuples. ``names`` are
    identifiers: a function that mentions none of them, and leads to no function of the file that
    does, cannot matter to the rule and is not run; without names every function matters. ``training``
    says how a training run shows the mistake; None where none can.
    """

    def __init__(
        self,
        code: str,
        *,
        since: str,
        names: tuple[str, ...] = (),
        triggers: tuple[bytes, ...],
        severity: Severity = Severity.WARNING,
        preview: bool = False,
        options: tuple[Option, ...] = (),
        training: Training | None = None,
    ) -> None:
        frame = sys._getframe(1)
        *_, family, stem = frame.f_globals["__name__"].split(".")
        self.code = code
        self.slug = stem.replace("_", "-")
        self.family = family.replace("_", "-")
        self.since = since
        self.triggers = triggers
        self.names = frozenset(names)
        self.severity = severity
        self.preview = preview
        self.options = options
        self.training = training
        self.docs: str = inspect.cleandoc(frame.f_globals["__doc__"] or "")
        self.examples: list[Example] = []
        self._question: Question | None = None

    def __repr__(self) -> str:
        return f"Rule({self.code} {self.slug})"

    @property
    def summary(self) -> str:
        """The docs' first line."""
        return self.docs.partition("\n")[0]

    @property
    def defaults(self) -> dict[str, Any]:
        return {option.name: option.default for option in self.options}

    def bad(
        self,
        code: str,
        *,
        fixed: str | None = None,
        applicability: Applicability | None = None,
        files: dict[str, str] | None = None,
        show: bool = True,
        options: dict[str, object] | None = None,
    ) -> None:
        """Add a snippet that must be reported, exactly at its carets (see :mod:`torchlint.rules.example`)."""
        result = None if fixed is None else _clean(fixed)
        self.examples.append(
            Example(_clean(code), True, "", result, applicability, _clean_all(files), show, options or {})
        )

    def ok(
        self,
        code: str,
        *,
        why: str,
        files: dict[str, str] | None = None,
        show: bool = True,
        options: dict[str, object] | None = None,
    ) -> None:
        """Add a look-alike that must stay silent."""
        self.examples.append(Example(_clean(code), False, why, None, None, _clean_all(files), show, options or {}))

    def question(self, function: Question) -> Question:
        """Decorator: the generator that asks a model for this rule's findings."""
        self._question = function
        return function

    def ask(self, model: Model, options: dict[str, Any]) -> Iterator[Finding]:
        assert self._question is not None, f"{self!r} has no question"
        return self._question(model, options)

    def at(self, site: Site, message: str, *, help: str | None = None, fix: Fix | None = None) -> Finding:
        """A finding of this rule whose span is the site's node."""
        return Finding(self.code, self.slug, self.severity, site.span, message, help, fix)


def _clean(code: str) -> str:
    return textwrap.dedent(code).strip("\n") + "\n"


def _clean_all(files: dict[str, str] | None) -> dict[str, str]:
    return {path: _clean(code) for path, code in (files or {}).items()}
