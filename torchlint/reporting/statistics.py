"""``--statistics``: how often each rule was found, the most frequent first."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass

from torchlint.findings import Applicability
from torchlint.reporting.report import Report, Write


@dataclass(frozen=True, slots=True)
class Statistic:
    """The findings of one rule, and how many of them carry a safe and an unsafe fix."""

    code: str
    rule: str
    count: int
    safe: int
    unsafe: int


def statistics(report: Report) -> list[Statistic]:
    """A statistic for each rule found, by falling count, then by code."""
    counts = Counter((f.code, f.rule) for f in report.findings)
    fixes = Counter((f.code, f.rule, f.fix.applicability) for f in report.findings if f.fix is not None)
    found = [
        Statistic(code, rule, count, fixes[code, rule, Applicability.SAFE], fixes[code, rule, Applicability.UNSAFE])
        for (code, rule), count in counts.items()
    ]
    return sorted(found, key=lambda statistic: (-statistic.count, statistic.code))


def render(report: Report, write: Write) -> None:
    """Write the table as text; nothing where nothing was found."""
    table = statistics(report)
    if not table:
        return
    digits = max(len(str(statistic.count)) for statistic in table)
    slug = max(len(statistic.rule) for statistic in table)
    for s in table:
        fixes = ", ".join(f"{n} {kind}" for n, kind in ((s.safe, "fixable"), (s.unsafe, "unsafe fix")) if n)
        write(f"{s.count:>{digits}}  {s.code}  {s.rule:<{slug}}  {fixes}".rstrip() + "\n")


def render_json(report: Report, write: Write) -> None:
    """Write the table as a JSON array."""
    keys = [
        {"code": s.code, "rule": s.rule, "count": s.count, "safe_fixes": s.safe, "unsafe_fixes": s.unsafe}
        for s in statistics(report)
    ]
    write(json.dumps(keys, indent=2) + "\n")
