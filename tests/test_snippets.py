"""Every command and every Python example of README and docs/ is run as a reader would run it."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from antiphon import environment
from support.pages.doc_files import write_doc_files
from support.pages.snippets import PAGES, ROOT, Snippet, in_language, line_is_shown, snippets
from support.server.serve_command import ServeCommand

COMMANDS = in_language("sh")
#: At most so many blocks are not run. A new one needs a reason in its page and a look at this number.
MAX_NOT_RUN = 16
ADDRESS = "http://127.0.0.1:8000"
TIMEOUT = 240

#: What output must have besides being there, by a piece of the command.
EXPECTED = {
    "antiphon transcribe meeting.m4a": "fellow Americans",
    "-F file=@meeting.m4a": "fellow Americans",
    "antiphon list": "smollm2-135m",
    "--json-schema person.schema.json": '"born"',
    "antiphon batch": '"finish_reason"',
    "antiphon --version": "antiphon",
}


def is_server(snippet: Snippet) -> bool:
    return snippet.code.startswith("antiphon serve")


def names(found: list[Snippet]) -> list[str]:
    return [snippet.name for snippet in found]


RUN = list({snippet.code: snippet for snippet in COMMANDS if snippet.not_run is None}.values())
SERVERS = [snippet for snippet in RUN if is_server(snippet)]
OTHERS = [snippet for snippet in RUN if not is_server(snippet)]
PROGRAMS = [page for page in PAGES if any(s.language == "python" and s.not_run is None for s in snippets(page))]


def test_blocks_that_are_not_run_have_a_reason_and_are_few() -> None:
    skipped = [s for s in [*COMMANDS, *in_language("python")] if s.not_run is not None]
    for snippet in skipped:
        print(f"{snippet.name}: {snippet.not_run}")
        assert snippet.not_run is not None and len(snippet.not_run.split()) >= 3
    assert len(skipped) <= MAX_NOT_RUN
    assert len(RUN) > len(skipped) and len(PROGRAMS) >= 3


def test_every_block_names_its_language() -> None:
    known = {"sh", "python", "text", "json", "toml", "ini"}
    found = [snippet for page in PAGES for snippet in snippets(page)]
    assert [snippet.name for snippet in found if snippet.language not in known] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_examples_compile(page: Path) -> None:
    compile(program(page, ADDRESS), str(page), "exec")


@pytest.fixture(scope="session")
def doc_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("doc-files") / "files"
    write_doc_files(folder)
    return folder


@pytest.fixture
def folder(doc_files: Path, tmp_path: Path) -> Path:
    """A fresh folder with every file that the docs name, so that no block depends on another."""
    return Path(shutil.copytree(doc_files, tmp_path / "work"))


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server with the default models; answers are kept short."""
    files = tmp_path_factory.mktemp("served-files")  # only one server at a time can use the default folder
    command = ServeCommand("--port", "0", "--max-output-tokens", "256", "--files-dir", str(files))
    try:
        command.wait_until_ready()
        yield command.url()
    finally:
        end(command)


def end(command: ServeCommand) -> int:
    if command.process.poll() is None:
        command.process.send_signal(signal.SIGTERM)
    return command.wait_for_end()


def installed(tmp_path: Path) -> dict[str, str]:
    """Variables with which `antiphon` and `python` are those of this test, offline as far as models go."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "python").symlink_to(sys.executable)
    start = f"#!{sys.executable}\nimport sys\nfrom antiphon.cli.app import main\nsys.exit(main())\n"
    (programs / "antiphon").write_text(start)
    (programs / "antiphon").chmod(0o755)
    (programs / ".curlrc").write_text("fail-with-body\nno-progress-meter\n")  # an HTTP error fails the block
    return {
        **os.environ,
        "CURL_HOME": str(programs),
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "ANTIPHON_HOME": str(environment.home()),
        "NO_COLOR": "1",
    }


def run(command: list[str], folder: Path, variables: dict[str, str], typed: str = "") -> tuple[int, str]:
    done = subprocess.run(
        command,
        cwd=folder,
        env=variables,
        input=typed,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    return done.returncode, done.stdout


def check_shown(snippet: Snippet, output: str) -> None:
    for line in snippet.shown:
        assert line_is_shown(line, output), f"{snippet.name} shows {line!r}, which was not printed:\n{output}"


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.weights
@pytest.mark.parametrize("snippet", OTHERS, ids=names(OTHERS))
def test_commands(snippet: Snippet, folder: Path, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    variables = installed(tmp_path)
    code = snippet.code
    if ADDRESS in code or re.search(r"antiphon (ps|stop)\b", code):
        address = request.getfixturevalue("server")
        code = code.replace(ADDRESS, address)
        variables["ANTIPHON_BASE_URL"] = address
    if "antiphon rm" in code:
        variables["ANTIPHON_HOME"] = own_home(tmp_path, code)
    before = set(folder.rglob("*"))
    typed = "Say hello in one word.\n" if code.startswith("antiphon chat") else ""
    status, output = run(["bash", "-euo", "pipefail", "-c", code], folder, variables, typed)
    assert status == 0, f"{snippet.name} ended with {status}:\n{output}"
    made = [path for path in set(folder.rglob("*")) - before if path.is_file() and path.stat().st_size]
    assert output.strip() or made, f"{snippet.name} printed nothing and wrote no file"
    assert "Traceback" not in output, output
    for piece, wanted in EXPECTED.items():
        assert piece not in code or wanted in output, f"{snippet.name} printed no {wanted!r}:\n{output}"
    check_shown(snippet, output)


def own_home(tmp_path: Path, code: str) -> str:
    """A models folder with links to the files of the models that the block names, which it may remove."""
    from antiphon.weights.catalog.catalog import catalog
    from antiphon.weights.catalog.resolve import resolve

    home = tmp_path / "home"
    for name in catalog():
        if re.search(rf"\b{re.escape(name)}\b", code):
            resolve(name)
            source = environment.home() / "models" / name
            shutil.copytree(source, home / "models" / name, copy_function=os.link)
    return str(home)


@pytest.mark.slow
@pytest.mark.weights
@pytest.mark.parametrize("snippet", SERVERS, ids=names(SERVERS))
def test_servers_get_ready_and_stop(snippet: Snippet, folder: Path) -> None:
    (line,) = snippet.code.replace("\\\n", "").splitlines()
    arguments = shlex.split(line, comments=True)[2:]
    ports = ["--port", "0", *(["--wyoming", "0"] if "--wyoming" in arguments else [])]  # the last one given counts
    command = ServeCommand(*arguments, *ports, folder=folder)
    try:
        command.wait_until_ready()
    finally:
        status = end(command)
    assert status == 0 and "Traceback" not in command.text(), command.text()


def program(page: Path, address: str) -> str:
    """The Python blocks of a page as one program whose line numbers are the page's."""
    lines: list[str] = []
    for snippet in snippets(page):
        if snippet.language == "python" and snippet.not_run is None:
            lines += [""] * (snippet.line - 1 - len(lines))
            lines += snippet.code.splitlines()
    return "\n".join(lines).replace(ADDRESS, address) + "\n"


@pytest.mark.slow
@pytest.mark.weights
@pytest.mark.parametrize("page", PROGRAMS, ids=lambda page: page.name)
def test_python_examples(page: Path, folder: Path, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    uses_server = ADDRESS in program(page, ADDRESS)
    address = request.getfixturevalue("server") if uses_server else ADDRESS
    script = tmp_path / f"{page.name}.py"
    script.write_text(program(page, address), encoding="utf-8")
    status, output = run([sys.executable, str(script)], folder, installed(tmp_path))
    assert status == 0 and output.strip(), f"{page.relative_to(ROOT)}:\n{output}"
    for snippet in snippets(page):
        if snippet.language == "python" and snippet.not_run is None:
            check_shown(snippet, output)


@pytest.mark.parametrize(
    ("line", "output", "found"),
    [
        ("Hello ... world", "say: Hello big world", True),
        ("Hello ... world", "Hello big\nworld", False),
        ("a.b", "axb", False),
        ("paid (1)", "paid (1).", True),
    ],
)
def test_lines_that_are_shown_are_looked_for(line: str, output: str, found: bool) -> None:
    assert line_is_shown(line, output) is found


def test_blocks_are_read_from_a_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# A\n\n```sh\nls\n```\n\n```text\nfile\n```\n\n<!-- not run: needs a sound card -->\n```sh\nx\n```\n"
    )
    listed, output, unrun = snippets(page)
    assert (listed.line, listed.code, listed.not_run, listed.shown) == (4, "ls\n", None, ("file",))
    assert output.language == "text" and unrun.not_run == "needs a sound card" and unrun.shown == ()
