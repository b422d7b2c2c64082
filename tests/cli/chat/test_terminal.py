"""`antiphon chat` as a person at a terminal uses it. The model behind it echoes, and takes its time where told to."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.models.tiny_model import CONFIG, write_folder
from support.programs.command_line import PROGRAM as ANTIPHON
from support.programs.forks import ENGINE_MODULES, LIGHT_MODULES, template
from support.programs.screen import UP, Screen
from support.programs.terminal import CTRL_C, CTRL_D

#: A chat model without weights, so that the tests are about the terminal: it echoes, and knows `say TEXT`,
#: `endless` and `until FILE`, an answer that waits for a file.
PROGRAM = """
import pathlib, sys, time
from antiphon.cli.chat_models.interface import AnswerStats
from antiphon.cli.chat.loop import converse
from antiphon.cli.chat.state import ChatState
from antiphon.errors import ContextLengthError

class Answer:
    def __init__(self, pieces, seed):
        self.pieces, self.seed, self.reason, self.count = iter(pieces), seed, "stop", 0
    def __iter__(self):
        return self
    def __next__(self):
        if self.reason == "cancelled":
            raise StopIteration
        self.count += 1
        return next(self.pieces)
    def cancel(self):
        self.reason = "cancelled"
    def stats(self):
        return AnswerStats(7, 3, self.count, 0.25, 12.5, self.reason, self.seed)

def endless():
    number = 0
    while True:
        number += 1
        yield f"word{number} "
        time.sleep(0.005)

def until(path):
    yield "before"
    while not path.exists():
        time.sleep(0.005)
    yield " and after"

class Model:
    name = "parrot"
    def answer(self, messages, settings):
        text = messages[-1]["content"]
        seed = settings.get("seed", 1)
        if text == "long":
            raise ContextLengthError("prompt has 5000 tokens; model 'parrot' takes 4096, the answer included")
        if text == "endless":
            return Answer(endless(), seed)
        if text.startswith("until "):
            return Answer(until(pathlib.Path(text[6:])), seed)
        if text.startswith("say "):
            return Answer([*eval(text[4:])], seed)
        system = [m["content"] for m in messages if m["role"] == "system"]
        turns = sum(m["role"] == "user" for m in messages)
        return Answer([f"{text!r} turn {turns} seed {seed} system {system}"], seed)

converse(Model(), ChatState())
assert "torch" not in sys.modules
"""


@contextmanager
def parrot(home: Path, columns: int = 80, rows: int = 24) -> Iterator[Screen]:
    variables = {"ANTIPHON_HOME": str(home)}
    with Screen(template(*LIGHT_MODULES), PROGRAM, (), variables, columns, rows) as screen:
        screen.until_prompt()
        yield screen
        if screen.process.poll() is None:
            end(screen)


def end(screen: Screen) -> None:
    """Ctrl-D ends the chat with nothing but an end of line."""
    screen.until_prompt()
    screen.type(CTRL_D)
    assert screen.wait_for_end() == 0
    assert "Traceback" not in screen.text
    assert screen.line == ""


def words(screen: Screen) -> set[int]:
    """The numbers of the words that an endless answer has said."""
    return {int(number) for number in re.findall(r"word(\d+)", screen.text)}


def ask(screen: Screen, text: str, *shown: str) -> None:
    screen.type(text + "\r")
    screen.until_shown(*shown)
    screen.until_prompt()


class TestTyping:
    def test_pasted_lines_are_one_message(self, tmp_path: Path) -> None:
        with parrot(tmp_path) as screen:
            screen.paste("one\ntwo\nthree")
            screen.until(lambda: screen.line.strip() == "three")
            ask(screen, "", r"'one\ntwo\nthree' turn 1")

    def test_three_quotes_begin_and_end_several_lines(self, tmp_path: Path) -> None:
        with parrot(tmp_path) as screen:
            screen.type('"""first\r')
            screen.until(lambda: screen.line == "")
            screen.type("  second\r\r")
            ask(screen, '/help"""', r"'first\n  second\n\n/help' turn 1")

    def test_alt_enter_begins_a_new_line(self, tmp_path: Path) -> None:
        with parrot(tmp_path) as screen:
            screen.type("one\x1b\rtwo")
            screen.until(lambda: screen.line.strip() == "two")
            ask(screen, "", r"'one\ntwo' turn 1")

    def test_the_history_is_kept_between_runs(self, tmp_path: Path) -> None:
        home = tmp_path / "home"
        with parrot(home) as screen:
            ask(screen, "an earlier question", "'an earlier question' turn 1")
            screen.paste("two\nlines")
            ask(screen, "", r"'two\nlines' turn 2")
        file = home / "chat-history.jsonl"
        assert file.stat().st_mode & 0o777 == 0o600
        assert [json.loads(line) for line in file.read_text().splitlines()] == ["an earlier question", "two\nlines"]
        with parrot(home) as screen:
            screen.type(UP)
            screen.until(lambda: screen.line.strip() == "lines")
            screen.type(UP + UP)
            screen.until(lambda: screen.line == "> an earlier question")
            ask(screen, "", "'an earlier question' turn 1")

    def test_a_history_that_cannot_be_kept_is_reported(self, tmp_path: Path) -> None:
        home = tmp_path
        (home / "chat-history.jsonl").mkdir()
        with parrot(home) as screen:
            ask(screen, "hello", "'hello' turn 1")
            screen.type(CTRL_D)
            assert screen.wait_for_end() == 0
            assert f"the history was not kept: cannot write {home}/chat-history.jsonl: " in screen.text.replace(
                "\n", ""
            )

    def test_completion(self, tmp_path: Path) -> None:
        with parrot(tmp_path, columns=200) as screen:
            screen.type("/")
            screen.until_shown("/help", "/save", "/load", "/set", "/regen", "/system", "/clear", "/exit")
            screen.type("reg\t")
            screen.until(lambda: screen.line == "> /regen")
            screen.type("\x15/set temp\t")
            screen.until(lambda: screen.line == "> /set temperature")
            screen.type(" 0.5\r")
            screen.until_shown("temperature is now 0.5.")
            screen.until_prompt()
            (tmp_path / "a-saved-chat.json").write_text("")
            screen.type(f"/load {tmp_path}/a-sav\t")
            screen.until_shown("a-saved-chat.json")
            screen.type(CTRL_C)

    def test_ctrl_c_clears_the_line(self, tmp_path: Path) -> None:
        with parrot(tmp_path) as screen:
            screen.type("half a line")
            screen.until(lambda: screen.line == "> half a line")
            screen.type(CTRL_C)
            screen.until_prompt()
            ask(screen, "whole", "'whole' turn 1")

    def test_a_message_that_does_not_fit_is_not_lost(self, tmp_path: Path) -> None:
        with parrot(tmp_path) as screen:
            ask(screen, "hello", "turn 1")
            screen.type("long\r")
            screen.until_shown("prompt has 5000 tokens; model 'parrot' takes 4096", "/clear", "/save FILE")
            screen.until(lambda: screen.line == "> long")
            ask(screen, "er", "'longer' turn 2")


class TestAnswers:
    def test_ctrl_c_stops_the_answer_and_keeps_its_text(self, tmp_path: Path) -> None:
        with parrot(tmp_path) as screen:
            screen.type("endless\r")
            screen.until(lambda: max(words(screen), default=0) > 40)
            screen.type("typed meanwhile")
            screen.type(CTRL_C)
            screen.until_shown("(stopped)")
            screen.until_prompt()  # Ctrl-C drops what was typed before it, as in a shell
            before = screen.text.partition("(stopped)")[0]
            assert "typed" not in before and "^C" not in before
            ask(screen, f"/save {tmp_path}/chat.json", "Saved 2 messages")
        question, answer = json.loads((tmp_path / "chat.json").read_text())["messages"]
        assert question == {"role": "user", "content": "endless"}
        assert answer["role"] == "assistant" and answer["content"].startswith("word1 word2 word3 ")
        said = re.findall(r"word\d+", answer["content"])
        assert said == re.findall(r"word\d+", before)

    def test_what_is_typed_meanwhile_is_read_afterwards(self, tmp_path: Path) -> None:
        with parrot(tmp_path, columns=200) as screen:
            screen.type(f"until {tmp_path}/there\r")
            screen.until_shown("before")
            screen.type("next")
            (tmp_path / "there").touch()
            screen.until(lambda: screen.line == "> next")
            assert "before and after" in screen.text
            ask(screen, "", "'next' turn 2")

    def test_regen_answers_again_with_another_seed(self, tmp_path: Path) -> None:
        with parrot(tmp_path) as screen:
            ask(screen, "/regen", "there is no message to answer again yet")
            ask(screen, "first", "'first' turn 1")
            ask(screen, "second", "'second' turn 2 seed 1 ")
            screen.type("/regen\r")
            screen.until(lambda: screen.text.count("'second' turn 2 seed ") == 2)
            seeds = re.findall(r"'second' turn 2 seed (\d+)", screen.text)
            assert seeds[0] == "1" != seeds[1]
            screen.until_prompt()
            ask(screen, "third", "'third' turn 3")  # the old answer was replaced

    def test_stats_on_request(self, tmp_path: Path) -> None:
        with parrot(tmp_path) as screen:
            ask(screen, "quiet", "'quiet' turn 1")
            assert "tok/s" not in screen.text
            ask(screen, "/set stats on", "stats is now on.")
            ask(screen, "loud", "'loud' turn 2")
            shown = screen.text.replace("\n", " ")
            assert "7 prompt tokens (3 cached), first token after 250 ms, 2 tokens at 12.5 tok/s" in shown

    def test_markdown_is_rendered(self, tmp_path: Path) -> None:
        with parrot(tmp_path) as screen:
            ask(screen, r"""say '# Title\n\nSome **bold** text\n\n- one\n- two\n'""", "• two")
            assert re.search(r"^Title\n\nSome bold text\n\n • one\n • two\n", screen.text, re.MULTILINE)
            ask(screen, "/set markdown off", "markdown is now off.")
            ask(screen, "say '**plain**'", "\n**plain**\n")

    def test_an_answer_longer_than_the_screen_is_all_there(self, tmp_path: Path) -> None:
        with parrot(tmp_path, rows=10) as screen:
            ask(screen, r"""say [f'{n}. item {n}\n' for n in range(1, 41)]""", "40 item 40")
            assert re.findall(r"item (\d+)$", screen.text, re.MULTILINE) == [str(n) for n in range(1, 41)]
            ask(screen, r"""say ['```\n', *(f'row {n}\n' for n in range(1, 41)), '```\n']""", "row 40\n```")
            assert re.findall(r"^row (\d+)$", screen.text, re.MULTILINE) == [str(n) for n in range(1, 41)]

    def test_a_resize_loses_nothing(self, tmp_path: Path) -> None:
        with parrot(tmp_path, columns=60) as screen:
            ask(screen, "before", "'before' turn 1")
            screen.type("endless\r")
            screen.until(lambda: max(words(screen), default=0) > 60)
            screen.resize(100, 30)
            screen.until(lambda: max(words(screen)) > 120)
            screen.resize(70, 16)
            screen.until(lambda: max(words(screen)) > 180)
            screen.type(CTRL_C)
            screen.until_shown("(stopped)")
            screen.until_prompt()
            assert words(screen) == set(range(1, max(words(screen)) + 1)), screen.text
            assert "\n> before\n'before' turn 1 seed 1 system []\n> endless\nword1 " in screen.text
            ask(screen, "after", "'after' turn 3")

    def test_control_characters_of_the_model_do_not_reach_the_terminal(self, tmp_path: Path) -> None:
        with parrot(tmp_path) as screen:
            ask(screen, r"""say 'a\x1b]0;title\x07b\x1b[2Jc'""", "a]0;titleb[2Jc")


class TestCommands:
    def test_save_clear_load(self, tmp_path: Path) -> None:
        file = tmp_path / "a chat.json"
        with parrot(tmp_path) as screen:
            ask(screen, "/system", "There is no system message.")
            ask(screen, "/system be brief", "System message set.")
            ask(screen, "/set temperature 0.3", "temperature is now 0.3.")
            ask(screen, "hello", "turn 1 seed 1 system ['be brief']")
            ask(screen, f"/save {file}", "Saved 2 messages")
            ask(screen, "/clear", "Conversation cleared.")
            ask(screen, '/system ""', "System message removed.")
            ask(screen, "fresh", "'fresh' turn 1 seed 1 system []")
            ask(screen, f'/load "{file}"', "Loaded 2 messages")
            ask(screen, "again", "'again' turn 2 seed 1 system ['be brief']")
            screen.type("/set\r")
            screen.until(lambda: re.search(r"^temperature +0.3$", screen.text, re.MULTILINE))
        saved = json.loads(file.read_text())
        assert saved["model"] == "parrot" and saved["system"] == "be brief"
        assert saved["settings"] == {"temperature": 0.3} and saved["messages"][0]["content"] == "hello"

    def test_mistakes_are_sentences(self, tmp_path: Path) -> None:
        precious = tmp_path / "precious.json"
        precious.write_text('{"not": "a chat"}')
        with parrot(tmp_path, columns=200) as screen:
            ask(screen, "/set speculate ngram", "speculate is now ngram.")
            ask(screen, "/set speculate medusa", "antiphon: speculate is 'medusa'; it must be one of: off, ngram")
            ask(screen, "/set temperature -1", "antiphon: temperature is -1.0; it must be between 0 and 100")
            ask(screen, "/nonsense", "antiphon: there is no command /nonsense; /help lists them")
            ask(screen, f"/save {precious}", "exists and is not a saved conversation; choose another name")
            ask(screen, f"/load {tmp_path}/nothing", "nothing: No such file or directory")
            ask(screen, "/load ~nosuchuser/chat.json", "cannot find the home folder of ~nosuchuser/chat.json")
            ask(screen, "/usr/bin/env is a path", "'/usr/bin/env is a path' turn 1")
            ask(screen, "/help", "/regen              Answer the last message again, with another seed.")
            screen.type("/exit\r")
            assert screen.wait_for_end() == 0
        assert precious.read_text() == '{"not": "a chat"}'


@pytest.mark.long("a program on a terminal loads a model")
def test_with_a_model_in_this_process(tmp_path: Path) -> None:
    """The whole command once, on a real engine: an answer, one that is stopped, and the end."""
    folder = write_folder(tmp_path / "tiny-llama", config=CONFIG | {"max_position_embeddings": 1 << 16})
    arguments = ["chat", str(folder), "--stats", "--verbose", "--max-tokens", "60000", "--temperature", "0"]
    home = {"ANTIPHON_HOME": str(tmp_path / "home")}
    with Screen(template(*ENGINE_MODULES), ANTIPHON, arguments, home, columns=200) as screen:
        screen.until_shown("tiny-llama: temperature 0", "/help for the commands")
        screen.until_prompt()
        screen.type("hello\r")
        screen.until(lambda: len(screen.text.partition("> hello")[2].strip()) > 100)
        screen.type(CTRL_C)
        screen.until_shown("(stopped)", "cancelled")
        screen.until_prompt()
        ask(screen, "/set max_tokens 5", "max_tokens is now 5.")
        ask(screen, "again", "reached max_tokens, 5", "5 tokens at")
        end(screen)
