"""`antiphon run`, `chat` and `info` as a user types them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryFile

import pytest
import torch

from antiphon.ops import native
from support.models.tiny_model import CONFIG, CONTEXT, write_bert, write_folder
from support.programs.command_line import PROGRAM, Invoke, Outcome, assert_refused
from support.programs.forks import ENGINE_MODULES, template
from support.programs.terminal import CTRL_C, CTRL_D, Terminal

GREEDY = ("--temperature", "0")


class TestRun:
    def test_answers_a_prompt_and_gives_figures(self, invoke: Invoke, tiny_llama: Path) -> None:
        asked = ("run", str(tiny_llama), "hello", "--max-tokens", "12", "--seed", "1")
        assert len(invoke(*asked).err.splitlines()) == 1  # only the figures
        outcome = invoke(*asked, "--verbose")
        assert outcome.code == 0
        assert len(outcome.out.rstrip("\n")) == 12  # a character a token
        loaded, figures = outcome.err.splitlines()[0], outcome.err.splitlines()[-1]
        assert re.match(r"tiny-llama: \w+ backend; weights F32 \d+ MB .*; fetch .*s, open .*s", loaded)
        assert re.fullmatch(
            r"\d+ prompt tokens, first token after \d+ ms, "
            r"12 tokens at \d+\.\d tok/s, \d+\.\d GB/s of weights read, ended by length, seed 1; "
            r"temperature 0\.7, top_p 0\.95 \(default\)",
            figures,
        )

    def test_speculation_changes_no_token_and_is_reported(self, invoke: Invoke, tiny_llama: Path) -> None:
        asked = ("run", str(tiny_llama), "hello hello", *GREEDY, "--max-tokens", "60")
        plain, ahead = invoke(*asked), invoke(*asked, "--speculate", "ngram")
        assert (plain.code, ahead.code, ahead.out) == (0, 0, plain.out)
        assert "drafted" not in plain.err  # a first draft is computed before its cost is known
        assert re.search(r"tok/s \((\d+) of (\d+) drafted tokens? accepted\), ", ahead.err)

    def test_a_wrong_way_to_speculate_is_one_error(self, invoke: Invoke) -> None:
        for command in ("run m hi", "chat m", "batch m -", "serve m", "bench throughput m"):
            outcome = invoke(*command.split(), "--speculate", "medusa")
            assert (outcome.code, outcome.out) == (2, "") and "Traceback" not in outcome.err
            assert "speculate is 'medusa'; it must be off, ngram or a model: no model is called" in outcome.err

    def test_a_model_that_cannot_draft_is_one_error(self, invoke: Invoke) -> None:
        for command in ("run m hi", "serve m"):
            outcome = invoke(*command.split(), "--speculate", "kokoro-82m")
            assert (outcome.code, outcome.out) == (2, "")
            assert "speculate is 'kokoro-82m', which is a speech model; a draft model generates text" in outcome.err

    def test_a_draft_model_changes_no_token(self, invoke: Invoke, tiny_llama: Path, tmp_path: Path) -> None:
        draft = shutil.copytree(tiny_llama, tmp_path / "draft")
        asked = ("run", str(tiny_llama), "hello hello", *GREEDY, "--max-tokens", "40")
        plain, ahead = invoke(*asked), invoke(*asked, "--speculate", str(draft))
        assert (plain.code, ahead.code, ahead.out) == (0, 0, plain.out)

    @pytest.mark.skipif(not native.available(), reason="programs need the native extension")
    def test_a_profile_follows_the_answer(self, invoke: Invoke, tiny_llama: Path) -> None:
        plain = invoke("run", str(tiny_llama), "hello", *GREEDY, "--max-tokens", "12", "--no-record")
        profiled = invoke("run", str(tiny_llama), "hello", *GREEDY, "--max-tokens", "12", "--profile")
        assert (plain.code, profiled.code, profiled.out) == (0, 0, plain.out)
        assert re.search(r"^  linear F32 +\d+ +[\d.]+ +[\d.]+ % +[\d.]+ +[\d.]+ +\d+ %$", profiled.err, re.MULTILINE)
        assert "outside the program" in profiled.err

    def test_standard_input_is_the_prompt(self, invoke: Invoke, tiny_llama: Path) -> None:
        given = invoke("run", str(tiny_llama), "hello there", *GREEDY, "--max-tokens", "8").out
        assert invoke("run", str(tiny_llama), *GREEDY, "--max-tokens", "8", stdin="hello there").out == given
        assert invoke("run", str(tiny_llama), "-", *GREEDY, "--max-tokens", "8", stdin="hello there").out == given

    def test_raw_leaves_the_template_out(self, invoke: Invoke, tiny_llama: Path) -> None:
        raw = invoke("run", str(tiny_llama), "hello", "--raw", "--max-tokens", "4")
        assert raw.err.splitlines()[-1].startswith("1 prompt token, ")  # "hello" is one token
        wrapped = invoke("run", str(tiny_llama), "hello", "--max-tokens", "4")
        assert not wrapped.err.splitlines()[-1].startswith("1 prompt token, ")

    def test_a_system_message_is_part_of_the_prompt(self, invoke: Invoke, tiny_llama: Path) -> None:
        plain = invoke("run", str(tiny_llama), "hello", "--max-tokens", "4").err
        told = invoke("run", str(tiny_llama), "hello", "--max-tokens", "4", "--system", "be brief").err
        count = [int(text.splitlines()[-1].split()[0]) for text in (plain, told)]
        assert count[1] > count[0]
        assert_refused(invoke("run", str(tiny_llama), "hello", "--raw", "--system", "be brief"), "--system", code=2)

    def test_a_base_model_continues_the_text(self, invoke: Invoke, tmp_path: Path) -> None:
        folder = str(write_folder(tmp_path / "base", chat_template=None))
        assert invoke("run", folder, "hello", "--max-tokens", "4").err.splitlines()[-1].startswith("1 prompt token,")

    def test_a_seed_repeats_itself(self, invoke: Invoke, tiny_llama: Path) -> None:
        def text(seed: int) -> str:
            options = ["--temperature", "3", "--max-tokens", "16", "--seed", str(seed)]
            return invoke("run", str(tiny_llama), "hello", *options).out

        first = text(7)
        assert text(7) == first != text(8)

    def test_without_a_seed_one_is_drawn_and_reported(self, invoke: Invoke, tiny_llama: Path) -> None:
        options = ["--temperature", "3", "--max-tokens", "16"]
        drawn = invoke("run", str(tiny_llama), "hello", *options)
        seed = re.search(r", seed (\d+); temperature 3", drawn.err)
        assert seed is not None
        assert invoke("run", str(tiny_llama), "hello", *options, "--seed", seed[1]).out == drawn.out
        assert invoke("run", str(tiny_llama), "hello", *options).out != drawn.out

    def test_the_models_own_settings_are_used_and_named(self, invoke: Invoke, tmp_path: Path) -> None:
        folder = write_folder(tmp_path / "tiny-llama")
        greedy = invoke("run", str(folder), "hello", *GREEDY, "--max-tokens", "16").out
        (folder / "generation_config.json").write_text('{"do_sample": false}')
        own = invoke("run", str(folder), "hello", "--max-tokens", "16")
        assert own.out == greedy
        assert own.err.splitlines()[-1].endswith("ended by length; temperature 0 (generation_config.json)")
        given = invoke("run", str(folder), "hello", "--max-tokens", "16", "--temperature", "3")
        assert given.out != greedy and given.err.rstrip().endswith("; temperature 3")

    @pytest.mark.parametrize(
        ("option", "value", "complaint"),
        [
            ("--temperature", "-1", "temperature is -1.0; it must be between 0 and 100"),
            ("--temperature", "nan", "temperature is nan"),
            ("--top-p", "0", "top_p is 0.0; it must be above 0 and at most 1"),
            ("--top-p", "1.5", "top_p is 1.5"),
            ("--top-k", "-2", "top_k is -2; it must be 0 (off) or more"),
            ("--max-tokens", "0", "max_tokens is 0; it must be 1 or more"),
            ("--seed", str(2**63), f"seed is {2**63}; it must be a 64-bit integer"),
        ],
    )
    @pytest.mark.parametrize("command", [["run", "no-such-model", "hello"], ["chat", "no-such-model"]])
    def test_a_senseless_parameter_is_refused_before_anything_is_loaded(
        self, invoke: Invoke, command: list[str], option: str, value: str, complaint: str
    ) -> None:
        outcome = invoke(*command, option, value)
        assert_refused(outcome, complaint, code=2)
        assert outcome.err.count("\n") == 1

    def test_an_unknown_model_has_near_names(self, invoke: Invoke) -> None:
        assert_refused(invoke("run", "qwen2.5-coder-0.5", "hello"), "'qwen2.5-coder-0.5'", "qwen2.5-coder-0.5b")

    def test_a_path_that_leads_nowhere(self, invoke: Invoke) -> None:
        assert_refused(invoke("run", "some/folder", "hello"), "there is no model at some/folder")

    @pytest.mark.parametrize("stdin", ["", " \n\t"])
    def test_an_empty_prompt_on_standard_input(self, invoke: Invoke, stdin: str) -> None:
        assert_refused(invoke("run", "smollm2-135m", stdin=stdin), "the prompt on standard input is empty")

    def test_an_empty_prompt_in_a_raw_run(self, invoke: Invoke, tiny_llama: Path) -> None:
        assert_refused(invoke("run", str(tiny_llama), "", "--raw"), "the prompt has no tokens")

    def test_a_prompt_too_long_is_refused_with_both_sizes(self, invoke: Invoke, tiny_llama: Path) -> None:
        outcome = invoke("run", str(tiny_llama), "--raw", stdin="x" * 5000)
        assert_refused(outcome, "prompt has 5000 tokens", f"takes {CONTEXT}")

    def test_a_model_that_cannot_run_is_refused_by_name(self, invoke: Invoke, tmp_path: Path) -> None:
        folder = str(write_folder(tmp_path / "model", config=CONFIG | {"model_type": "mamba"}))
        assert_refused(invoke("run", folder, "hello"), "architecture 'mamba' is not supported")

    def test_a_model_that_does_not_generate(self, invoke: Invoke, tmp_path: Path) -> None:
        complaint = "bert is an embedding model; use `antiphon embed`"
        assert_refused(invoke("run", str(write_bert(tmp_path)), "hello"), complaint)
        assert_refused(invoke("chat", str(tmp_path / "bert")), complaint)

    @pytest.mark.long("a program on a terminal loads a model and is stopped")
    def test_ctrl_c_shows_what_there_is(self, talkative: Path) -> None:
        arguments = ["run", str(talkative), "hello", "--max-tokens", "60000", *GREEDY]
        with Terminal(template(*ENGINE_MODULES), PROGRAM, arguments) as terminal:
            terminal.wait_for("loading ")
            wait_for_some_answer(terminal, after="\x1b[K")
            terminal.type(CTRL_C)
            terminal.wait_for("(stopped)")
            terminal.wait_for("ended by cancelled")
            assert terminal.wait_for_end() == 130

    def test_piped_out_and_cut_off(self, tiny_llama: Path) -> None:
        """A reader that goes away early, as in `antiphon run ... | head -c 1`, ends the program without a traceback."""
        arguments = ["run", str(tiny_llama), "hello", "--max-tokens", "4000"]
        reading, writing = os.pipe()
        with TemporaryFile("w+") as errors:
            program = template(*ENGINE_MODULES).start(PROGRAM, arguments, (writing, writing, errors.fileno()))
            os.close(writing)
            os.read(reading, 1)
            os.close(reading)
            program.wait(60)
            errors.seek(0)
            told = errors.read()
        assert "Traceback" not in told and "Exception ignored" not in told


class TestChat:
    def test_a_conversation_at_a_terminal(self, talkative: Path) -> None:
        arguments = ["chat", str(talkative), "--max-tokens", "30000", "--temperature", "0"]
        with Terminal(template(*ENGINE_MODULES), PROGRAM, arguments) as terminal:
            terminal.wait_for("/help for the commands")
            terminal.wait_for("> ")

            terminal.type("hello\n")
            terminal.wait_for("hello")  # the echo
            wait_for_some_answer(terminal)
            terminal.type(CTRL_C)
            terminal.wait_for("(stopped)")
            terminal.wait_for("> ")

            terminal.type("/nonsense now\n")
            terminal.wait_for("there is no command /nonsense; ")
            terminal.wait_for("> ")
            terminal.type("/reset\n")
            terminal.wait_for("Conversation cleared.")
            terminal.wait_for("> ")
            terminal.type("/system be brief\n")
            terminal.wait_for("System message set.")
            terminal.wait_for("> ")

            terminal.type("half a line")
            terminal.wait_for("half a line")
            terminal.press_until(CTRL_C, "> ")  # at the prompt it only clears the line
            terminal.type("again\n")
            wait_for_some_answer(terminal)
            terminal.type(CTRL_C)
            terminal.wait_for("(stopped)")
            terminal.wait_for("> ")

            terminal.type(CTRL_D)
            assert terminal.wait_for_end() == 0
            assert "Traceback" not in terminal.shown

    def test_piped_lines_are_turns(self, invoke: Invoke, tiny_llama: Path) -> None:
        options = ["--temperature", "0", "--max-tokens", "5"]
        outcome = invoke("chat", str(tiny_llama), *options, stdin="hello\n\n/reset\nhello\n")
        assert outcome.code == 0
        first, second = outcome.out.splitlines()
        assert first == second and len(first) == 5  # the same answer, since the first was cleared
        continued = invoke("chat", str(tiny_llama), *options, stdin="hello\nhello\n").out.splitlines()
        assert continued[0] == first and continued[1] != first

    def test_the_system_message_is_used(self, invoke: Invoke, tiny_llama: Path) -> None:
        options = ["--temperature", "0", "--max-tokens", "12"]
        plain = invoke("chat", str(tiny_llama), *options, stdin="hello\n").out
        told = invoke("chat", str(tiny_llama), *options, "--system", "be brief", stdin="hello\n").out
        set_later = invoke("chat", str(tiny_llama), *options, stdin="/system be brief\nhello\n").out
        unset = invoke("chat", str(tiny_llama), *options, "--system", "be brief", stdin='/system ""\nhello\n').out
        assert plain == unset != told == set_later

    def test_a_turn_too_long_is_refused_and_the_conversation_goes_on(self, invoke: Invoke, tiny_llama: Path) -> None:
        options = ["--temperature", "0", "--max-tokens", "5"]
        outcome = invoke("chat", str(tiny_llama), *options, stdin="x" * 5000 + "\nhello\n")
        alone = invoke("chat", str(tiny_llama), *options, stdin="hello\n")
        assert outcome.code == 1 and outcome.out == alone.out  # a script must notice the turn without an answer
        assert re.search(rf"antiphon: prompt has 50\d\d tokens; model 'tiny-llama' takes {CONTEXT}", outcome.err)

    def test_a_model_without_a_template(self, invoke: Invoke, tmp_path: Path) -> None:
        folder = str(write_folder(tmp_path / "base", chat_template=None))
        assert_refused(invoke("chat", folder), "'base' has no chat template", "antiphon run")


@pytest.fixture
def talkative(tmp_path: Path) -> Path:
    """A model whose context is long enough for an answer that is still going on when somebody wants to stop it."""
    return write_folder(tmp_path / "tiny-llama", config=CONFIG | {"max_position_embeddings": 1 << 16})


def wait_for_some_answer(terminal: Terminal, after: str = "\n") -> None:
    """Until the answer has begun: printed characters after the echoed line, or after other text."""
    terminal.wait_for(after)
    seen = len(terminal.shown)
    while len(terminal.shown) < seen + 20:
        terminal.shown += terminal._read()


class TestInfo:
    def rows(self, outcome: Outcome) -> dict[str, str]:
        assert outcome.code == 0, outcome.err
        return dict(re.split(r" {2,}", line.strip(), maxsplit=1) for line in outcome.out.splitlines())  # type: ignore[misc]

    def test_a_folder(self, invoke: Invoke, tiny_llama: Path) -> None:
        rows = self.rows(invoke("info", str(tiny_llama)))
        assert (rows["name"], rows["format"], rows["architecture"]) == ("tiny-llama", "hf", "llama")
        assert rows["context"] == "4,096 tokens"
        assert rows["KV bytes per token"] == "fp32 512, fp16 256, bf16 256, fp8 128"
        assert "not runnable" not in rows

    @pytest.mark.skipif(not native.available(), reason="programs need the native extension")
    def test_the_program(self, invoke: Invoke, tiny_llama: Path) -> None:
        outcome = invoke("info", str(tiny_llama), "--program")
        head, *lines = outcome.out.partition("\nprogram ")[2].splitlines()
        assert head == "forward: 20 instructions; T tokens, R requests, L logit rows"
        rows = [re.split(r" {2,}", line.strip()) for line in lines]
        assert rows[1][:5] == ["0", "embed", "[T, 64]", "token_ids", rows[1][4]]
        assert ["linear", "[T, 96]"] in [row[1:3] for row in rows]  # gate and value in one product
        assert rows[20][1:5] == ["linear", "[L, 272]", rows[20][3], "result"]
        assert "weights read by a run: 315,392 bytes" in lines
        assert sum(line.startswith("buffers for each") for line in lines) == 2
        assert any(line.startswith("least time of forward for 1 row after 512 tokens, at ") for line in lines)

    @pytest.mark.skipif(not native.available(), reason="programs need the native extension")
    def test_the_program_at_given_limits(self, invoke: Invoke, tiny_gguf: Path) -> None:
        limits = ["--rows", "4", "--context", "8", "--bandwidth", "0.001", "--compute", "1000"]
        lines = invoke("info", str(tiny_gguf), "--program", *limits).out.splitlines()
        assert "least time of forward for 4 rows after 8 tokens, at 0.0 GB/s and 1,000.0 GMAC/s" in lines
        all_of_it = next(line for line in lines if line.startswith("all ")).split()
        assert float(all_of_it[1]) * 1e6 == pytest.approx(float(all_of_it[3].replace(",", "")), rel=0.01)

    @pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
    def test_the_program_of_a_gpu_needs_one(self, invoke: Invoke, tiny_gguf: Path) -> None:
        outcome = invoke("info", str(tiny_gguf), "--program", "--device", "cuda")
        assert outcome.code == 1 and "use the device cpu" in outcome.err

    def test_a_gguf(self, invoke: Invoke, tiny_gguf: Path) -> None:
        rows = self.rows(invoke("info", str(tiny_gguf)))
        assert (rows["format"], rows["F32"].split(",")[0]) == ("gguf", "21 tensors")

    def test_what_cannot_run_says_why(self, invoke: Invoke, tmp_path: Path) -> None:
        folder = str(write_folder(tmp_path / "model", config=CONFIG | {"model_type": "mamba"}))
        assert "'mamba' is not supported" in self.rows(invoke("info", folder))["not runnable"]

    @pytest.mark.weights
    def test_whisper(self, invoke: Invoke) -> None:
        rows = self.rows(invoke("info", "whisper-tiny.en"))
        assert (rows["format"], rows["architecture"], rows["context"]) == ("openai-whisper", "whisper", "448 tokens")
        assert rows["parameters"] == "37,760,256"

    @pytest.mark.weights
    def test_a_gguf_of_the_catalog(self, invoke: Invoke) -> None:
        rows = self.rows(invoke("info", "gemma-3-270m"))
        assert rows["parameters"] == "268,098,176"
        assert rows["KV bytes per token"] == "fp32 36,864, fp16 18,432, bf16 18,432, int8 9,792, fp8 9,216"


@pytest.mark.weights
class TestRealModels:
    def test_the_capital_of_france(self, invoke: Invoke) -> None:
        question = ["What is the capital of France?", "--max-tokens", "32", "--temperature", "0"]
        outcome = invoke("run", "qwen2.5-coder-0.5b", *question)
        assert outcome.code == 0 and "Paris" in outcome.out
        assert outcome.err.splitlines()[-1].endswith("ended by stop; temperature 0")

    def test_an_embedding_model_does_not_generate(self, invoke: Invoke) -> None:
        assert_refused(
            invoke("run", "all-minilm-l6-v2", "hello"), "all-minilm-l6-v2 is an embedding model; use `antiphon embed`"
        )

    def test_resident_memory_is_little_more_than_the_file(self) -> None:
        """After 32 tokens, less the process that has run another model and freed it, and less the cache."""
        code = """
import sys
from antiphon import Engine, SamplingParams
from antiphon.runtime.loading.process_memory import resident_bytes, return_memory

with Engine("stories-15m") as engine:
    engine.generate("Once", SamplingParams(max_tokens=8))
del engine
return_memory()
empty = resident_bytes()
engine = Engine(sys.argv[1])
(answer,) = engine.generate("def fibonacci(n):", SamplingParams(max_tokens=32, ignore_eos=True))
assert len(answer.token_ids) == 32
print(resident_bytes() - empty - engine.figures()["arena"]["lent_bytes"])
"""
        from antiphon.weights.catalog.resolve import resolve

        model = "qwen2.5-coder-0.5b"
        size = resolve(model).path.stat().st_size
        result = subprocess.run([sys.executable, "-c", code, model], capture_output=True, text=True, check=True)
        assert 0.5 * size < int(result.stdout) <= 1.15 * size
