"""Settings: where they come from, which win, and what is said of wrong ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import throwaway
from torchlint.checking import Checker, Task
from torchlint.config import KEYS, ConfigError, Configuration, Settings, config_in, load, parse_version
from torchlint.engine import selection_for
from torchlint.findings import Applicability, Edit, Finding, Fix, Position, Severity, Span
from torchlint.requirements import lowest_allowed, required_torch
from torchlint.selection import needs_rules, selection_of


@pytest.fixture(autouse=True)
def _throwaway_rules() -> object:
    with throwaway.installed():
        yield


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def chosen(**settings: object) -> list[str]:
    rules = selection_of(Settings(root=Path(), **settings)).rules  # type: ignore[arg-type]
    return [rule.slug for rule in rules if rule.family == "throwaway"]


def test_every_key_is_read(tmp_path: Path) -> None:
    file = write(
        tmp_path / "torchlint.toml",
        """
        select = ["TL9"]
        extend-select = ["fourth-rule"]
        ignore = ["third-rule"]
        preview = true
        include = ["*.py"]
        exclude = ["old"]
        extend-exclude = ["older"]
        force-exclude = true
        respect-gitignore = false
        per-file-ignores = { "tests/*" = ["TL901"] }
        target-torch = "2.1"
        fixable = ["all"]
        unfixable = ["first-rule"]
        extend-safe-fixes = ["second-rule"]
        extend-unsafe-fixes = ["TL901"]
        unsafe-fixes = true
        output-format = "concise"
        cache-dir = "kept"
        [rules.third-rule]
        limit = 5
        """,
    )
    settings = load(file)
    assert settings == Settings(
        root=tmp_path,
        file=file,
        select=("TL9",),
        extend_select=("fourth-rule",),
        ignore=("third-rule",),
        preview=True,
        include=("*.py",),
        exclude=("old",),
        extend_exclude=("older",),
        force_exclude=True,
        respect_gitignore=False,
        per_file_ignores={"tests/*": ("TL901",)},
        target_torch=(2, 1),
        fixable=("all",),
        unfixable=("first-rule",),
        extend_safe_fixes=("second-rule",),
        extend_unsafe_fixes=("TL901",),
        unsafe_fixes=True,
        output_format="concise",
        cache_dir="kept",
        rules={"third-rule": {"limit": 5}},
    )
    assert len(KEYS) == 19


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('selct = ["TL9"]', "unknown key 'selct' (did you mean 'select'?)"),
        ("extend_select = []", "unknown key 'extend_select' (did you mean 'extend-select'?)"),
        ("zzz = 1", "unknown key 'zzz'"),
        ('select = "TL9"', "'select' must be a list of strings, not 'TL9'"),
        ('select = ["TL9", 3]', "'select[1]' must be a string, not 3"),
        ("select = {}", "'select' must be a list of strings, not a table"),
        ('preview = "yes"', "'preview' must be true or false, not 'yes'"),
        ("preview = 1", "'preview' must be true or false, not 1"),
        ("target-torch = 2.10", "'target-torch' must be a version in quotes such as \"2.1\", not 2.1"),
        ('target-torch = "two"', "'target-torch' must be a version in quotes such as \"2.1\", not 'two'"),
        ('output-format = "xml"', "'output-format' must be one of full,"),
        ('per-file-ignores = ["a"]', "'per-file-ignores' must be a table of lists of strings, not a list"),
        ('per-file-ignores = { "a.py" = "TL9" }', "'per-file-ignores.a.py' must be a list of strings, not 'TL9'"),
        ("rules = 1", "'rules' must be a table with a table for each rule, not 1"),
        ("[rules]\nthird-rule = 1", "'rules.third-rule' must be a table of the rule's options, not 1"),
        ("select = [", "not valid TOML"),
    ],
)
def test_errors_name_the_key_and_the_file(tmp_path: Path, text: str, said: str) -> None:
    file = write(tmp_path / "torchlint.toml", text)
    with pytest.raises(ConfigError) as error:
        load(file)
    assert str(file) in str(error.value)
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('select = ["TL999"]', "'select' names no rule: 'TL999'"),
        ('ignore = ["first-rul"]', "'ignore' names no rule: 'first-rul' (did you mean 'first-rule'?)"),
        ('fixable = ["nothing"]', "'fixable' names no rule"),
        ('extend-safe-fixes = ["nothing"]', "'extend-safe-fixes' names no rule"),
        ('per-file-ignores = { "a.py" = ["nothing"] }', "'per-file-ignores.a.py' names no rule: 'nothing'"),
        ("[rules.nothing]", "'rules.nothing' names no rule"),
        ("[rules.third-rule]\nsize = 3", "'rules.third-rule.size': third-rule has no such option; it has limit"),
        ("[rules.first-rule]\nsize = 3", "first-rule has no such option; it has none"),
        ('[rules.third-rule]\nlimit = "3"', "'rules.third-rule.limit' must be of type int, not str"),
        ("[rules.third-rule]\nlimit = true", "'rules.third-rule.limit' must be of type int, not bool"),
        ("[rules.third-rule]\nlimit = 0", "'rules.third-rule.limit' must be 1 or more, not 0"),
        ("[rules.TL903]\nlimit = -2", "'rules.TL903.limit' must be 1 or more, not -2"),
    ],
)
def test_selectors_and_options_that_do_not_exist_are_errors(tmp_path: Path, text: str, said: str) -> None:
    settings = load(write(tmp_path / "torchlint.toml", text))
    assert needs_rules(settings)
    with pytest.raises(ConfigError) as error:
        selection_for(settings)
    assert str(settings.file) in str(error.value)
    assert said in str(error.value)


@pytest.mark.parametrize("key", ["select", "extend-select", "ignore"])
def test_what_an_option_gives_is_not_blamed_on_the_file(tmp_path: Path, key: str) -> None:
    file = write(tmp_path / "torchlint.toml", f'{key} = ["third-rule"]')
    configuration = Configuration({key.replace("-", "_"): ("nope",)})
    with pytest.raises(ConfigError, match=f"^the command line: '{key}' names no rule: 'nope'$"):
        selection_for(configuration.for_folder(tmp_path))
    write(file, f'{key} = ["nope"]')
    other = Configuration({"ignore" if key != "ignore" else "extend_select": ("third-rule",)})
    with pytest.raises(ConfigError) as error:
        selection_for(other.for_folder(tmp_path))
    assert str(error.value) == f"{file}: '{key}' names no rule: 'nope'"


def test_the_nearest_file_wins_and_others_are_not_merged(tmp_path: Path) -> None:
    write(tmp_path / "pyproject.toml", '[tool.torchlint]\nignore = ["TL901"]\npreview = true')
    write(tmp_path / "inner" / "torchlint.toml", 'ignore = ["TL902"]')
    write(tmp_path / "inner" / "deeper" / "pyproject.toml", '[tool.other]\nname = "torchlint"')
    configuration = Configuration(working_folder=tmp_path)
    assert configuration.for_folder(tmp_path).ignore == ("TL901",)
    inner = configuration.for_folder(tmp_path / "inner" / "deeper")
    assert (inner.ignore, inner.preview) == (("TL902",), False)
    assert inner.root == tmp_path / "inner"
    assert configuration.for_folder(tmp_path / "other") is configuration.for_folder(tmp_path)


def test_an_own_file_goes_before_pyproject(tmp_path: Path) -> None:
    write(tmp_path / "pyproject.toml", "[tool.torchlint]")
    assert config_in(tmp_path) == tmp_path / "pyproject.toml"
    write(tmp_path / "torchlint.toml", "")
    assert config_in(tmp_path) == tmp_path / "torchlint.toml"


def test_a_table_that_is_none_is_an_error(tmp_path: Path) -> None:
    write(tmp_path / "pyproject.toml", "tool.torchlint = 3")
    with pytest.raises(ConfigError, match=r"'tool\.torchlint' must be a table, not an integer"):
        Configuration(working_folder=tmp_path).for_folder(tmp_path)


def test_a_given_file_and_isolation(tmp_path: Path) -> None:
    write(tmp_path / "torchlint.toml", 'ignore = ["TL901"]')
    other = write(tmp_path / "elsewhere" / "mine.toml", 'ignore = ["TL902"]')
    given = Configuration(file=other, working_folder=tmp_path).for_folder(tmp_path)
    assert (given.ignore, given.root) == (("TL902",), tmp_path)
    isolated = Configuration(isolated=True, working_folder=tmp_path).for_folder(tmp_path)
    assert isolated.ignore == ()
    with pytest.raises(ConfigError, match="cannot be read"):
        Configuration(file=tmp_path / "missing.toml", working_folder=tmp_path)


def test_the_command_line_replaces_or_extends(tmp_path: Path) -> None:
    write(
        tmp_path / "torchlint.toml", 'select = ["TL901"]\nextend-select = ["TL903"]\nignore = ["TL902"]\npreview = true'
    )
    extended = Configuration({"extend_select": ("TL904",), "ignore": ("TL905",)}, working_folder=tmp_path)
    settings = extended.for_folder(tmp_path)
    assert (settings.extend_select, settings.ignore) == (("TL903", "TL904"), ("TL902", "TL905"))
    replaced = Configuration({"select": ("TL902",), "preview": False}, working_folder=tmp_path).for_folder(tmp_path)
    assert (replaced.select, replaced.extend_select, replaced.preview) == (("TL902",), (), False)


def test_rules_are_chosen_by_slug_code_prefix_and_family() -> None:
    stable = ["first-rule", "second-rule", "third-rule", "crashing-rule"]
    assert chosen() == stable
    assert chosen(select=("first-rule",)) == chosen(select=("TL901",)) == chosen(select=("tl901",)) == ["first-rule"]
    assert chosen(select=("TL90",)) == chosen(select=("throwaway",)) == stable
    assert chosen(select=("TL901",), extend_select=("third-rule",)) == ["first-rule", "third-rule"]
    assert chosen(ignore=("TL901", "crashing-rule")) == ["second-rule", "third-rule"]


def test_the_more_specific_selector_wins_and_ignore_wins_a_tie() -> None:
    assert chosen(select=("TL901",), ignore=("TL9",)) == ["first-rule"]
    assert chosen(select=("TL9",), ignore=("TL90", "all")) == []
    assert chosen(select=("TL90",), ignore=("TL9",)) != []
    assert chosen(select=("TL901",), ignore=("first-rule",)) == []
    assert chosen(extend_select=("first-rule",), ignore=("throwaway",)) == ["first-rule"]


def test_preview_rules_run_under_preview_or_when_named() -> None:
    assert "fourth-rule" not in chosen(select=("throwaway",))
    assert "fourth-rule" in chosen(preview=True)
    assert chosen(select=("fourth-rule",)) == ["fourth-rule"]
    assert "fourth-rule" in chosen(extend_select=("TL904",))


def test_options_are_defaults_and_what_is_set() -> None:
    assert selection_of(Settings(root=Path())).options["third-rule"] == {"limit": 3}
    assert selection_of(Settings(root=Path(), rules={"TL903": {"limit": 9}})).options["third-rule"] == {"limit": 9}


@pytest.mark.parametrize(
    ("settings", "rule", "before", "after"),
    [
        ({}, "first-rule", Applicability.SAFE, Applicability.SAFE),
        ({"unfixable": ("first-rule",)}, "first-rule", Applicability.SAFE, Applicability.DISPLAY),
        ({"fixable": ("TL902",)}, "first-rule", Applicability.UNSAFE, Applicability.DISPLAY),
        ({"fixable": ("TL902",)}, "second-rule", Applicability.UNSAFE, Applicability.UNSAFE),
        ({"extend_safe_fixes": ("second-rule",)}, "second-rule", Applicability.UNSAFE, Applicability.SAFE),
        ({"extend_safe_fixes": ("second-rule",)}, "second-rule", Applicability.DISPLAY, Applicability.DISPLAY),
        ({"extend_unsafe_fixes": ("TL9",)}, "first-rule", Applicability.SAFE, Applicability.UNSAFE),
    ],
)
def test_the_configuration_decides_how_far_fixes_are_trusted(
    settings: dict[str, tuple[str, ...]], rule: str, before: Applicability, after: Applicability
) -> None:
    span = Span("a.py", 0, 1, Position(1, 1), Position(1, 2))
    found = Finding("TL9", rule, Severity.HINT, span, "m", None, Fix("f", before, (Edit(span, "x"),)))
    changed = selection_of(Settings(root=Path(), **settings)).with_applicability(found)  # type: ignore[arg-type]
    assert changed.fix is not None
    assert changed.fix.applicability is after


@pytest.mark.parametrize(
    ("pattern", "path", "ignored"),
    [
        ("tests/*", "tests/a.py", True),
        ("tests/", "tests/deep/a.py", True),
        ("a.py", "src/a.py", True),
        ("*.py", "src/a.py", True),
        ("tests/*", "src/a.py", False),
        ("!src/**", "tests/a.py", True),
        ("!src/**", "src/a.py", False),
    ],
)
def test_per_file_ignores(tmp_path: Path, pattern: str, path: str, ignored: bool) -> None:
    file = write(tmp_path / path, "import torch\ntorch.bad\n")
    settings = Settings(root=tmp_path, per_file_ignores={pattern: ("first-rule",)})
    result = Checker([settings]).check_file(Task(file, path, 0, tmp_path, None))
    assert [f.rule for f in result.findings] == ([] if ignored else ["first-rule"])


@pytest.mark.parametrize(
    ("requirement", "version"),
    [
        ("torch", None),
        ("torch>=1.8,<2", (1, 8)),
        ("torch >= 1.8.1, != 1.9", (1, 8, 1)),
        ("torch==2.1.0+cu118  # pinned", (2, 1, 0)),
        ("torch~=1.13 ; python_version > '3.7'", (1, 13)),
        ("torch==1.8.*", (1, 8)),
        ("torch>1", (1, 0)),
        ("torch[opt]>=1.2", (1, 2)),
        ("torch (>=1.2)", (1, 2)),
        ("torch ^1.8", (1, 8)),
        ("torch ~1.8", (1, 8)),
        ("torch *", None),
        ("pytorch=1.10=py3.9_cuda11", (1, 10)),
        ("torch<2.0", (1, 13)),
        ("torch<=2.0", (2, 0)),
        ("torch<2.5", (2, 4)),
        ("torch<2.5.1", (2, 5)),
        ("torch<1", (0, 4)),
        ("torch @ https://example.org/torch.whl", None),
        ("torch=>1", None),
    ],
)
def test_the_lowest_version_that_a_requirement_allows(requirement: str, version: tuple[int, ...] | None) -> None:
    assert lowest_allowed(requirement) == version


@pytest.mark.parametrize(
    ("name", "text", "version"),
    [
        ("requirements.txt", "numpy\n# torch==1.0\ntorchvision==0.9\ntorch==1.8\n", (1, 8)),
        ("requirements-gpu.txt", "torch>=2.0", (2, 0)),
        ("requirements/base.in", "torch>=2.2", (2, 2)),
        ("requirements/base.txt", "torch>=2.2", (2, 2)),
        ("pyproject.toml", '[project]\ndependencies = ["torch>=1.9"]', (1, 9)),
        ("pyproject.toml", '[project.optional-dependencies]\nml = ["torch>=1.9", "torch-geometric>=1"]', (1, 9)),
        ("pyproject.toml", '[dependency-groups]\ndev = ["torch>=2.3", {include-group = "x"}]', (2, 3)),
        ("pyproject.toml", '[tool.poetry.dependencies]\ntorch = "^1.9"', (1, 9)),
        ("pyproject.toml", '[tool.poetry.group.ml.dependencies]\ntorch = {version = "~1.9", extras = ["a"]}', (1, 9)),
        ("pyproject.toml", "torch = [", None),
        ("pyproject.toml", 'project = "torch"', None),
        ("setup.cfg", "[options]\ninstall_requires =\n    numpy\n    torch>=1.6\n", (1, 6)),
        ("setup.cfg", "[options]\ninstall_requires = torch>=1.6\n", (1, 6)),
        ("setup.py", "setup(install_requires=['torch >= 1.5', \"torchvision>=0.1\"])", (1, 5)),
        ("environment.yml", "dependencies:\n  - pytorch::pytorch=1.7\n  - pip:\n    - torchaudio==0.1\n", (1, 7)),
        ("Pipfile", '[packages]\ntorch = "==1.4"\n[dev-packages]\ntorch = "*"', (1, 4)),
        ("notes.txt", "torch==1.0", None),
    ],
)
def test_requirement_files(tmp_path: Path, name: str, text: str, version: tuple[int, ...] | None) -> None:
    write(tmp_path / name, text)
    assert required_torch(tmp_path) == version


def test_of_several_requirement_files_the_lowest_counts(tmp_path: Path) -> None:
    write(tmp_path / "requirements.txt", "torch>=2.0")
    write(tmp_path / "setup.py", "install_requires=['torch>=1.10']")
    assert required_torch(tmp_path) == (1, 10)
    assert required_torch(tmp_path / "missing") is None


@pytest.mark.parametrize("text", ["2", "2.1.0.1", "v2.1", "2.1rc1", "", "².1"])
def test_versions_that_are_none(text: str) -> None:
    assert parse_version(text) is None
