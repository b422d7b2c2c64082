"""Chat templates in processes of their own: the same text, and limits that hold whatever a template does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from antiphon.errors import OverloadedError, TemplateError
from antiphon.text import chat_template
from antiphon.text.chat_template import ChatTemplate
from antiphon.text.known_templates import is_known
from antiphon.text.limited_process import LimitedProcesses
from antiphon.text.template_process import MODULE, compile_in_process, render_in_process
from antiphon.text.template_sandbox import TemplateSandbox
from antiphon.text.tokenization.gguf_vocab import tokenizer_from_gguf
from support.text.vocabularies import small_bpe
from support.waiting import wait_until

LOOP = "{% for i in range(99999) %}"
DOUBLING = "{% set n = namespace(x=[1]) %}" + LOOP[:-7] + "60) %}{% set n.x = [n.x, n.x] %}{% endfor %}"

ATTACKS = {
    "shared doubling lists": DOUBLING + "{{ n.x | tojson }}",
    "shared doubling lists as text": DOUBLING + "{{ n.x | string }}",
    "own counter": LOOP + "{{ antiphon_tick(-99999) }}{% endfor %}",
    "wide format": "{{ '{:1000000000}'.format(1) }}",
    "join": "{% set s = 'x' * 9000000 %}" + LOOP + "{% set t = [s, s, s] | join(s) %}{% endfor %}",
    "batch": "{{ range(90000) | batch(1000000000, 'x') | list }}",
    "set blocks": LOOP + "{% set s %}{% for j in range(9999) %}{{ 'x' * 9000000 }}{% endfor %}{% endset %}{% endfor %}",
    "upper": "{% set s = 'x' * 9000000 %}" + LOOP + "{% set t = s.upper() %}{% endfor %}",
    "sorting": LOOP + "{% set t = messages[0].content | list | sort | join %}{% endfor %}",
    "lists of lists": "{% set n = namespace(x=[]) %}" + LOOP + "{% set n.x = [n.x, 'x' * 9000000] %}{% endfor %}",
    "folded constants": "{{ (('x' * 9000000) | list | tojson) ~ (('x' * 9000000) | list | tojson) }}",
}


@pytest.fixture(scope="module")
def processes() -> Iterator[LimitedProcesses]:
    processes = LimitedProcesses(MODULE, 1)
    yield processes
    processes.close()


@pytest.mark.parametrize("name", ATTACKS)
def test_attacks_end_within_the_limits(processes: LimitedProcesses, name: str) -> None:
    """Without limits they take hours, or all of the memory."""
    assert render_in_process("{{ x }} begins", {"x": "it"}, processes=processes) == "it begins"
    with pytest.raises(TemplateError) as caught:
        variables = {"messages": [{"content": "abc" * 100_000}]}
        render_in_process(ATTACKS[name], variables, seconds=0.2, processes=processes)
    assert "\n" not in str(caught.value)
    assert render_in_process("{{ x }} goes on", {"x": "it"}, processes=processes) == "it goes on"


def test_unknown_templates_have_a_process_and_known_ones_have_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[str] = []

    def counted(source: str, variables: dict[str, Any], guard: str) -> str:
        calls.append(source)
        return render_in_process(source, variables, guard)

    monkeypatch.setattr(chat_template, "render_in_process", counted)
    source = "{% for message in messages %}{{ '<|im_start|>' + message['role'] }}{% endfor %}"
    messages = [{"role": "user", "content": "é" * 10}]
    assert not is_known(source)
    assert ChatTemplate(source).render(messages) == "<|im_start|>user"
    assert calls == [source]
    monkeypatch.setattr(chat_template, "is_known", lambda _: True)
    template = ChatTemplate(source)
    assert template.render(messages) == "<|im_start|>user"
    assert calls == [source]
    assert template.render(messages * 3000) == "<|im_start|>user" * 3000  # long ones never hold this process
    assert calls == [source] * 2


def test_a_template_that_compiles_too_long_is_rejected_when_it_is_made(
    monkeypatch: pytest.MonkeyPatch, processes: LimitedProcesses
) -> None:
    """This process never parses it, and so keeps answering others."""

    def compile_quickly(source: str) -> None:
        compile_in_process(source, 0.2, processes)

    def parse_here(*_: object) -> None:
        raise AssertionError("a stranger's template was parsed in this process")

    monkeypatch.setattr(chat_template, "compile_in_process", compile_quickly)
    monkeypatch.setattr(TemplateSandbox, "_parse", parse_here)
    ChatTemplate("{{ 1 }} compiles in time")
    with pytest.raises(TemplateError, match=r"took more than 0\.2 s"):
        ChatTemplate("{{ 1 }}" * 28_000)
    with pytest.raises(TemplateError, match="910,000 characters; at most 200,000 are allowed"):
        ChatTemplate("{{ 1 }}" * 130_000)


def test_a_template_has_so_many_renderings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat_template, "MAX_RENDERINGS", 0)
    with pytest.raises(OverloadedError, match="0 renderings of this chat template"):
        ChatTemplate("{{ messages }} of a stranger").render([])


def test_a_process_that_was_killed_is_replaced(processes: LimitedProcesses) -> None:
    assert render_in_process("{{ 1 }}", {}, processes=processes) == "1"
    [process] = processes.idle
    os.kill(process, signal.SIGKILL)
    wait_until(lambda: has_ended(process), "the process to end")
    assert render_in_process("{{ 2 }}", {}, processes=processes) == "2"


def test_the_process_ends_with_its_parent() -> None:
    code = (
        "from antiphon.text.template_process import *; import os; p = LimitedProcesses(MODULE, 1)\n"
        "render_in_process('{{ 1 }}', {}, processes=p); print(p.idle[0], flush=True); os._exit(0)"
    )
    child = int(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
    wait_until(lambda: has_ended(child), "the process to end after its parent")


def has_ended(process: int) -> bool:
    try:
        status = Path(f"/proc/{process}/stat").read_text(encoding="ascii")
    except OSError:
        return True
    return status.rpartition(")")[2].split()[0] == "Z"


def test_the_process_needs_no_tensor_library_and_sees_no_keys() -> None:
    code = "import sys, antiphon.text.template_worker; print('torch' in sys.modules or 'numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


def test_every_character_of_a_plane_in_a_message(monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = tokenizer_from_gguf(small_bpe()[0])
    template = ChatTemplate("{{ messages[0].content }} and more")
    plane = "<|im_start|>" + "".join(map(chr, range(0x100000, 0x10FFFE)))
    assert template.prompt(tokenizer, [{"role": "user", "content": plane}]).text == plane + " and more"
    monkeypatch.setattr(chat_template, "GUARDS", (range(0x100000, 0x10FFFE), range(0xF0000, 0xF0002)))
    few = plane + chr(0xF0000)
    assert template.prompt(tokenizer, [{"role": "user", "content": few}]).text == few + " and more"
    with pytest.raises(TemplateError, match="every character for private use"):
        template.prompt(tokenizer, [{"role": "user", "content": few + chr(0xF0001)}])
