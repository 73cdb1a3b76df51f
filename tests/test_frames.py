"""The code frames of the ``full`` format, as they are read."""

from __future__ import annotations

from random import Random
from textwrap import dedent

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.reports import report, span
from torchlint.findings import Applicability
from torchlint.reporting.frame import frame
from torchlint.reporting.text import width as columns


def framed(code: str, width: int | None = None) -> str:
    found = report(dedent(code).lstrip("\n"))
    rows = frame(found.findings[0].span, found.lines, width)
    return "\n".join("".join(text for text, _ in row).rstrip() for row in rows)


def expected(text: str) -> str:
    return dedent(text).strip("\n")


def test_the_span_is_underlined_between_two_lines_of_context() -> None:
    code = """
    import torch
    from torch import nn

    class Net:
        conv = nn.Conv2d(3, 16, 3)
        #      ^^^^^^^^^^^^^^^^^^^
        norm = nn.BatchNorm2d(16)

    net = Net()
    """
    assert framed(code) == expected(
        """
          |
        4 | class Net:
        5 |     conv = nn.Conv2d(3, 16, 3)
          |            ^^^^^^^^^^^^^^^^^^^
        6 |     norm = nn.BatchNorm2d(16)
          |
        """
    )


def test_tabs_take_their_columns() -> None:
    assert framed("if x:\n\ty =\tf(1)\n#    ^^^^\n") == expected(
        """
          |
        1 | if x:
        2 |     y = f(1)
          |         ^^^^
          |
        """
    )


def test_wide_and_combining_characters_take_their_columns() -> None:
    assert framed('漢 = f("漢e\u0301", g(漢))\n#            ^^^^\n') == expected(
        """
          |
        1 | 漢 = f("漢e\u0301", g(漢))
          |               ^^^^^
          |
        """
    )


def test_characters_that_would_drive_the_terminal_are_made_visible() -> None:
    text = framed('x = "\x1b[31m\u202e\x0c", f(1)\n#                 ^^^^\n')
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert '"␛[31m\N{REPLACEMENT CHARACTER}␌"' in text


def test_a_span_of_several_lines_that_begins_in_a_line() -> None:
    code = "x = torch.tensor(\n#   ^...\n    np.stack(images),\n    )\n# ...^\n"
    assert framed(code) == expected(
        """
          |
        1 |   x = torch.tensor(
          |  _____^
        2 | |     np.stack(images),
        3 | |     )
          | |_____^
          |
        """
    )


def test_a_long_span_is_shown_by_its_ends() -> None:
    body = "".join(f"    step({number:02})\n" for number in range(1, 13))
    code = f"for batch in loader:\n#^...\n{body}#      ...^\n"
    assert framed(code) == expected(
        """
           |
         1 | / for batch in loader:
         2 | |     step(01)
         3 | |     step(02)
         4 | |     step(03)
        ...  |
        12 | |     step(11)
        13 | |     step(12)
           | |___________^
           |
        """
    )


@pytest.mark.parametrize("width", [60, None])
def test_a_very_long_line_is_cropped_around_the_span(width: int | None) -> None:
    code = f"x = [{'1, ' * 500}f(1), {'2, ' * 5000}]\n#{' ' * 1504}^^^^\n"
    lines = framed(code, width).splitlines()
    assert all(len(line) <= (width or 165) for line in lines)
    shown, marks = lines[1], lines[2]
    assert shown[marks.index("^") : marks.rindex("^") + 1] == "f(1)"
    assert shown.count("…") == 2


def test_a_span_longer_than_the_line_shows_its_beginning() -> None:
    code = f"x = f({'1, ' * 500})\n#   {'^' * 1503}\n"
    lines = framed(code, 60).splitlines()
    assert lines[1].startswith("1 | x = f(1, 1,")
    assert lines[2].startswith("  |     ^^^^")
    assert len(lines[2]) <= 60


def test_an_empty_span_and_an_empty_line_have_a_mark() -> None:
    found = report("x = 1\n#   ^\n")
    where = found.findings[0].span
    rows = frame(type(where)(where.path, 4, 4, where.start, where.start), found.lines, None)
    assert "".join(text for text, _ in rows[2]) == "  |     ^"


def test_no_frame_where_the_lines_are_not_known() -> None:
    found = report("x = f(1)\n#   ^^^^\n", fix=Applicability.SAFE)
    assert frame(found.findings[0].span, {}, None) == []


LINES = st.lists(st.text(st.sampled_from("ab \t漢e\u0301\x1b\u200b🙂("), max_size=60), min_size=1, max_size=30)


@given(LINES, st.randoms(use_true_random=False), st.integers(30, 90))
@example(["漢" * 60], Random(1), 31)
def test_any_frame_fits_and_has_a_mark(lines: list[str], random: Random, width: int) -> None:
    text = "\n".join(lines) + "\n"
    chosen = random.choices(range(1, len(lines) + 1), k=2)
    start, end = sorted((n, random.randint(1, len(lines[n - 1]) + 1)) for n in chosen)
    rows = frame(span(text, start, end), {("train.py", None, n): line for n, line in enumerate(lines, 1)}, width)
    shown = ["".join(piece for piece, _ in row) for row in rows]
    assert sum("^" in row for row in shown) in (1, 2)
    assert max(columns(row) for row in shown) <= width
