"""Chat templates in processes of their own: the same text, and limits that hold whatever a template does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from antiphon.errors import OverloadedError, TemplateError
from antiphon.text import chat_template
from antiphon.text.chat_template import ChatTemplate
from antiphon.text.known_templates import is_known
from antiphon.text.template_process import TemplateProcesses
from antiphon.text.tokenization.gguf_vocab import tokenizer_from_gguf
from support.vocabularies import small_bpe
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
def processes() -> Iterator[TemplateProcesses]:
    processes = TemplateProcesses(1)
    yield processes
    processes.close()


@pytest.mark.parametrize("name", ATTACKS)
def test_attacks_end_within_the_limits(processes: TemplateProcesses, name: str) -> None:
    started = time.monotonic()
    with pytest.raises(TemplateError) as caught:
        processes.render(ATTACKS[name], {"messages": [{"content": "abc" * 100_000}]}, "", seconds=0.4)
    assert "\n" not in str(caught.value)
    assert time.monotonic() - started < 20  # of which a new process may take seconds on a busy machine
    assert processes.render("{{ x }} goes on", {"x": "it"}, "") == "it goes on"


def test_unknown_templates_have_a_process_and_known_ones_have_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[str] = []
    original = TemplateProcesses.render

    def counted(self: TemplateProcesses, source: str, *rest: object) -> str:
        calls.append(source)
        return original(self, source, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(TemplateProcesses, "render", counted)
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


def test_a_template_has_so_many_renderings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat_template, "MAX_RENDERINGS", 0)
    with pytest.raises(OverloadedError, match="0 renderings of this chat template"):
        ChatTemplate("{{ messages }} of a stranger").render([])


def test_a_process_that_was_killed_is_replaced(processes: TemplateProcesses) -> None:
    assert processes.render("{{ 1 }}", {}, "") == "1"
    os.kill(processes._idle[0]._process.pid, signal.SIGKILL)
    processes._idle[0]._process.wait()
    assert processes.render("{{ 2 }}", {}, "") == "2"


def test_the_process_ends_with_its_parent() -> None:
    code = (
        "from antiphon.text.template_process import TemplateProcesses as P; import os\n"
        "p = P(); p.render('{{ 1 }}', {}, ''); print(p._idle[0]._process.pid, flush=True); os._exit(0)"
    )
    child = int(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)

    def has_ended() -> bool:
        try:
            with open(f"/proc/{child}/stat", encoding="ascii") as file:
                return file.read().rpartition(")")[2].split()[0] == "Z"
        except OSError:
            return True

    wait_until(has_ended)


def test_the_process_needs_no_tensor_library_and_sees_no_keys() -> None:
    code = "import sys, antiphon.text.template_worker; print('torch' in sys.modules or 'numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


def test_every_character_of_every_plane_in_a_message() -> None:
    tokenizer = tokenizer_from_gguf(small_bpe()[0])
    template = ChatTemplate("{{ messages[0].content }} and more")
    private = "".join(map(chr, [*range(0xE000, 0xF900), *range(0xF0000, 0xFFFFE), *range(0x100000, 0x10FFFE)]))
    for text in (private, "<|im_start|>" + private[-70_000:]):
        assert template.prompt(tokenizer, [{"role": "user", "content": text}]).text == text + " and more"
    every = "".join(map(chr, [*range(1, 0xD800), *range(0xE000, 0x110000)]))
    with pytest.raises(TemplateError, match="every character for private use"):
        template.prompt(tokenizer, [{"role": "user", "content": every}])
