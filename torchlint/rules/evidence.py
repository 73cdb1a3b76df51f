"""What was measured of a rule's fix: the newest reports of ``torchlint bench`` that are kept, in words."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torchlint.rules.rule import Rule

_KINDS = {"cpu": "CPU", "cuda": "GPU", "mps": "GPU"}


def folder() -> Path | None:
    """Where the reports are: in the package, as a wheel has them, or in a checkout's docs; None where nowhere."""
    root = Path(__file__).parents[1]
    return next((found for found in (root / "evidence", root.parent / "docs" / "evidence") if found.is_dir()), None)


@functools.cache
def reports() -> tuple[dict[str, Any], ...]:
    """The reports, the newest first."""
    where = folder()
    found = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(where.glob("*.json"))] if where else []
    return tuple(sorted(found, key=lambda report: str(report["date"]), reverse=True))


def told(rule: Rule) -> str:
    """The rule's evidence, and for which kind of device there is none; empty where there is no evidence at all."""
    lines: list[str] = []
    kinds = set()
    for report in reports():
        kind = _KINDS[report["kind"]]
        results = [result for result in report["results"] if result["rule"] == rule.slug and _is_measured(result)]
        if kind not in kinds and results:
            kinds.add(kind)
            lines.append(f"On the {kind} ({report['device']}, torch {report['torch']}, {report['date'][:10]}), before "
                         f"and after the fix of `fixtures/loops/{rule.slug.replace('-', '_')}.py`:")
            lines += ["", *(f"- {line}" for result in results for line in _lines(result)), ""]
    if lines and "GPU" not in kinds:
        lines.append("No measurement on a GPU yet.")
    return "\n".join(lines).strip()


def _is_measured(result: dict[str, Any]) -> bool:
    return result["time_ratio"] is not None or bool(result["rates_before"])


def _lines(result: dict[str, Any]) -> Iterator[str]:
    if result["rates_before"]:
        before, after = (_held(result[name]) for name in ("rates_before", "rates_after"))
        yield f"the first learning rate is held for {before} optimizer steps before, {after} after."
        return
    ratio = result["time_ratio"]
    condition = f" {result['reason']}" if result["reason"] else ""
    memory = f"; peak memory {_mebibytes(result['memory_before'])} before, {_mebibytes(result['memory_after'])} after" \
        if result["verdict"] == "less memory" else ""
    yield (f"{result['size']}: {result['verdict']}{condition}; a step took {_milliseconds(result['time_before'])} "
           f"before and {_milliseconds(result['time_after'])} after, a ratio of {ratio['median']:.2f} "
           f"(95%: {ratio['low']:.2f} to {ratio['high']:.2f}){memory}; {result['repeats']} pairs of runs.")


def _held(rates: list[float]) -> int:
    return next((number for number, rate in enumerate(rates) if rate != rates[0]), len(rates))


def _mebibytes(count: int) -> str:
    return f"{count / 2**20:.0f} MiB"


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:.3g} ms"
