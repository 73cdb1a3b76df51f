"""Names for findings that stay the same while other lines of the file come and go."""

from __future__ import annotations

import hashlib
from collections import Counter

from torchlint.reporting.report import Report


def fingerprints(report: Report) -> list[str]:
    """A name for each finding of the report, in its order, all different.

    It is made of the rule's code, the path and the text of the line, blanks at its ends aside;
    equal ones are told apart by counting. The line's number is not in it.
    """
    seen: Counter[tuple[str, str, str]] = Counter()
    marks = []
    for finding in report.findings:
        start = finding.span.start
        line = report.lines.get((finding.path, start.cell, start.line), finding.message)
        key = (finding.code, finding.path, line.strip())
        marks.append(hashlib.sha256(repr((*key, seen[key])).encode()).hexdigest())
        seen[key] += 1
    return marks
