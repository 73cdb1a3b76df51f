"""``jsonlines``: the objects of ``json``, one a line."""

from __future__ import annotations

import json

from torchlint.reporting.json_array import as_object
from torchlint.reporting.report import Report, Write


def render(report: Report, write: Write) -> None:
    """Write a line of JSON for each finding."""
    for finding in report.findings:
        write(json.dumps(as_object(finding)) + "\n")
