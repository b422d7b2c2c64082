"""The docs say what the program does."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import typer

import antiphon
from antiphon.cli.app import app
from antiphon.models.registry import architectures
from antiphon.runtime.analysis.recommended import TASKS, candidates, needed_bytes
from antiphon.weights.catalog.catalog import catalog
from support import cli_docs, python_docs

ROOT = Path(__file__).parents[1]
DESIGN = sorted((ROOT / "docs" / "design").glob("*.md"))
#: Pages of folders, which the page with the folder's name links.
FOLDERS = {name: sorted((ROOT / "docs" / name).glob("*.md")) for name in ("server", "recipes")}
IN_FOLDERS = [page for pages in FOLDERS.values() for page in pages]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md")), *IN_FOLDERS, *DESIGN]
LINKED = [*PAGES, ROOT / "benchmarks" / "RESULTS.md", ROOT / "examples" / "README.md"]
#: Maximum number of words of a page in a folder and of the folder's first page: one subject that a reader comes for.
MAX_WORDS = 2500
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_cli_help_is_current() -> None:
    stored = cli_docs.PATH.read_text(encoding="utf-8")
    made_with = re.search(r"<!-- typer (\d+\.\d+)", stored)
    assert made_with is not None
    if typer.__version__.split(".")[:2] != made_with[1].split("."):
        pytest.skip(f"Typer {typer.__version__} may lay help out in another way than {made_with[1]}")
    assert stored.partition("<!-- typer")[0] == cli_docs.cli_docs().partition("<!-- typer")[0], (
        "run python tests/support/cli_docs.py"
    )


@pytest.mark.parametrize("columns", ["40", "80", "200"])
def test_help_in_the_docs_does_not_depend_on_the_terminal(columns: str, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = cli_docs.help_text("run")
    monkeypatch.setenv("COLUMNS", columns)
    assert cli_docs.help_text("run") == wanted


def test_every_environment_variable_is_documented() -> None:
    source = (Path(antiphon.__file__).parent / "environment.py").read_text(encoding="utf-8")
    read = set(re.findall(r'environ(?:\.get\(|\[)"((?:ANTIPHON|HF)_\w+)"', source))
    assert read >= {"ANTIPHON_HOME", "ANTIPHON_OFFLINE", "HF_ENDPOINT", "HF_HUB_CACHE"}
    documented = (ROOT / "docs" / "environment.md").read_text(encoding="utf-8")
    assert {name for name in read if f"`{name}`" not in documented} == set()
    assert set(re.findall(r"`(ANTIPHON_\w+)`", documented)) <= read


def test_variables_are_read_in_one_file() -> None:
    source = Path(antiphon.__file__).parent
    reading = re.compile(r"environ(\.get\(|\[)|getenv\(")
    wrong = [path.name for path in source.rglob("*.py") if reading.search(path.read_text(encoding="utf-8"))]
    assert [name for name in wrong if name not in ("environment.py", "packages.py")] == []


def test_readme_names_every_architecture_and_every_catalog_model() -> None:
    tried = [entry for entry in catalog().values() if entry.is_tried]
    assert [name for name in [*architectures(), *(entry.name for entry in tried)] if f"`{name}`" not in README] == []
    for entry in tried:
        (row,) = (line for line in README.splitlines() if line.startswith(f"| `{entry.name}` |"))
        assert f"| {entry.size / 1e6:,.0f} MB | {entry.licence} |" in row


def test_the_page_of_models_lists_every_recommended_model_with_its_figures() -> None:
    page = (ROOT / "docs" / "models.md").read_text(encoding="utf-8")
    named = {line.split("`")[1]: line for line in page.splitlines() if line.startswith("| `")}
    rows = {name: line for name, line in named.items() if name in catalog()}
    wanted = [entry for task in TASKS for entry in candidates(task, True)]
    assert list(rows) == [entry.name for entry in wanted]
    for entry in wanted:
        memory, tried = needed_bytes(entry) / 1e9, "yes" if entry.is_tried else "no"
        figures = f"| {entry.use} | {memory:.1f} GB | {entry.size / 1e9:.2f} GB | {entry.licence} | {tried} |"
        assert rows[entry.name].endswith(figures), figures


def shell_blocks(text: str) -> list[str]:
    return [line for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL) for line in block.splitlines()]


def test_readme_examples_are_commands_that_exist() -> None:
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    examples = [line.rpartition("| ")[2] for line in shell_blocks(README) if "antiphon " in line]
    assert len(examples) >= 6
    for example in examples:
        name, *arguments = shlex.split(example, comments=True)[1:]
        context = commands[name].make_context(name, arguments)
        for model in [context.params.get("model"), context.params.get("name"), *(context.params.get("names") or [])]:
            is_input = model is not None and (" " in model or (ROOT / model).is_file())  # of the default model
            assert model is None or is_input or model in catalog()


def test_readme_has_exactly_two_set_up_commands() -> None:
    targets = [line.split()[1] for line in shell_blocks(README) if line.startswith("make ")]
    assert targets == ["run", "test"]
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for target in targets)


def anchors(page: Path) -> set[str]:
    """The `#names` of a page's headings, as GitHub makes them: of equal headings the second ends in -1."""
    found: dict[str, int] = {}
    for heading in re.findall(r"^#+ (.+)$", without_code(page), re.MULTILINE):
        text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading)
        name = re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", "-")
        found[name] = found.get(name, -1) + 1
        if found[name]:
            found[f"{name}-{found[name]}"] = 0
    return set(found)


def without_code(page: Path) -> str:
    return re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


def broken_links(page: Path) -> list[str]:
    """Links of a page to files or headings that do not exist. Addresses on the web are not looked up."""
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", without_code(page)):
        target, _, anchor = link.partition("#")
        if target.startswith(("http://", "https://")):
            continue
        path = (page.parent / target).resolve() if target else page
        if not path.exists() or (anchor and anchor not in anchors(path)):
            broken.append(link)
    return broken


@pytest.mark.parametrize("page", LINKED, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    assert broken_links(page) == []


def test_broken_links_are_found(tmp_path: Path) -> None:
    (tmp_path / "other.md").write_text("# One & two\n\n```sh\n# Not a heading\n```\n\n## Again\n\n## Again\n")
    page = tmp_path / "page.md"
    good = "[a](other.md#one--two) [b](other.md#again-1) [c](#here) [d](https://example.org/#x) ![e](other.md)\n"
    page.write_text(f"## Here\n\n{good}[f](gone.md) [g](other.md#not-a-heading) [h](#gone)\n")
    assert broken_links(page) == ["gone.md", "other.md#not-a-heading", "#gone"]


def test_every_page_is_linked_from_readme() -> None:
    assert [page.name for page in (ROOT / "docs").glob("*.md") if f"(docs/{page.name})" not in README] == []


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_first_page_of_a_folder_links_its_pages_and_all_are_short(folder: str) -> None:
    first, pages = ROOT / "docs" / f"{folder}.md", FOLDERS[folder]
    text = first.read_text(encoding="utf-8")
    assert pages
    assert [page.name for page in pages if f"({folder}/{page.name})" not in text] == []
    assert [page.name for page in [first, *pages] if len(page.read_text(encoding="utf-8").split()) > MAX_WORDS] == []


def test_the_python_reference_is_current_and_complete() -> None:
    assert python_docs.missing_docstrings() == []
    stored = python_docs.PATH.read_text(encoding="utf-8")
    assert stored == python_docs.python_docs(), "run python tests/support/python_docs.py"


def test_every_design_page_is_linked_from_the_architecture() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert DESIGN
    assert [page.name for page in DESIGN if f"(design/{page.name})" not in text] == []


@pytest.mark.parametrize("page", [ROOT / "docs" / "architecture.md", *DESIGN], ids=lambda page: page.name)
def test_design_pages_name_files_that_exist(page: Path) -> None:
    package = Path(antiphon.__file__).parent
    named = re.findall(r"`([\w/]+\.(?:py|h|cpp))`", page.read_text(encoding="utf-8"))
    assert [path for path in named if not (package / path).exists() and not (ROOT / path).exists()] == []


def test_architecture_names_every_package() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    package = Path(antiphon.__file__).parent
    for name in sorted({path.parent.name for path in package.glob("*/__init__.py")}):
        assert f"`{name}/`" in text
