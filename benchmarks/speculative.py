"""Compare speculative with plain decoding, in turns, and with llama.cpp on the same file.

    python benchmarks/speculative.py [--model qwen2.5-coder-1.5b] [--draft qwen2.5-coder-0.5b] [--rounds 10]
        [--minutes N] [--tokens 160] [--kinds editing,…] [--modes oracle,…] [--rows] [--llama DIR] [--json FILE]

The prompts are those of `benchmarks/speculation/prompts.py`: editing code, summarising, filling in JSON under a schema,
open chat. Decoding is greedy. In a round, every mode answers every prompt, in a rotating order:

    off      one token per step
    ngram    with drafts from n-grams and from the grammar, as long as the engine's cost model expects to pay off
    oracle   the same drafts, cut at their first wrong token: the gain if the acceptance were known in advance
    draft    with `--draft`: also with drafts of that model, where the engine expects them to pay off
    ceiling  with `--draft`: n-grams off; before every step, the model drafts exactly as many tokens as will be right:
             the maximum gain from a draft model

The answers must be equal tokens. Times are from the first token to the last, without the prompt; a kind's figure is the
median over rounds of the sum over its prompts. `--rows` first measures steps of 1 to 16 tokens of a request, which
bound every gain. `--llama` is a folder of llama.cpp's binaries: its server then answers the same prompts in every
round, plainly, with n-gram drafts and, with `--draft`, with drafts of that model; its answers may differ.

On a GPU, batches of other sizes round differently, and a greedy answer may differ: such answers are counted, and
`oracle` and `ceiling` are left out, since each knows a single answer.
"""

from __future__ import annotations

import argparse
import copy
import json
import math
import socket
import statistics
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from antiphon import Engine, SamplingParams
from antiphon.engine.speculation.acceptance import Acceptance
from antiphon.engine.speculation.drafting import Draft, Drafting
from antiphon.engine.speculation.passes import MOST_PASSES
from antiphon.engine.speculation.speculator import Speculator
from antiphon.ops.threads import machine_threads
from antiphon.text.grammar_spec import GrammarSpec
from antiphon.weights.catalog.resolve import resolve
from speculation.prompts import TASKS, Task
from support.programs.server_process import started_server

MODES = ("off", "ngram", "oracle")
DRAFT_MODES = ("draft", "ceiling")
CONTEXT = 4096
#: Options of llama.cpp's server by mode; a draft model's file is added.
LLAMA_DRAFT = "llama.cpp draft"
LLAMA_MODES = {
    "llama.cpp": [],
    "llama.cpp ngram": ["--spec-type", "ngram-simple"],
    LLAMA_DRAFT: ["--spec-type", "draft-simple"],
}


@dataclass
class Lengths:
    """Replacement for the engine's choice of draft lengths: cuts drafts where they leave the known answer."""

    answer: list[int] = field(default_factory=list)
    fixed: int | None = None
    #: Tokens that the request had sampled before the step; set by the speculator's search.
    start: int = 0

    def __call__(self, drafts: Sequence[Draft], *_: Any) -> list[int]:
        if self.fixed is not None:
            return [min(self.fixed, len(draft.tokens)) for draft in drafts]
        (draft,) = drafts
        coming = self.answer[self.start :]
        right = 0
        while right < min(len(draft.tokens), len(coming)) and draft.tokens[right] == coming[right]:
            right += 1
        return [right]


@contextmanager
def oracle(lengths: Lengths) -> Iterator[None]:
    """Make the engine's speculators use these lengths."""
    own_lengths, own_search = Speculator._lengths, Speculator._search

    def search(speculator: Speculator, request: Any) -> Draft:
        lengths.start = request.num_output_tokens
        return own_search(speculator, request)

    Speculator._lengths = lambda _, drafts, *rest: lengths(drafts)  # type: ignore[assignment, method-assign]
    Speculator._search = search  # type: ignore[method-assign]
    try:
        yield
    finally:
        Speculator._lengths, Speculator._search = own_lengths, own_search  # type: ignore[method-assign]


@dataclass(frozen=True)
class Answer:
    tokens: list[int]
    seconds: float
    drafted: int = 0
    accepted: int = 0


@dataclass
class Passes:
    """Replacement for the engine's choice of draft passes.

    While learning, it drafts the maximum at every position of an answer, to learn how many tokens the draft model gets
    right there. Then it drafts exactly as many.
    """

    answer: list[int]
    right: dict[int, int] = field(default_factory=dict)
    is_learning: bool = True
    #: Acceptance statistics in use and their saved copy, restored afterwards: these drafts are right by choice.
    kept: tuple[Acceptance, Acceptance] | None = None

    def __call__(self, speculator: Speculator, requests: Sequence[Any], *_: int) -> tuple[list[Any], int]:
        (request,) = requests
        if self.kept is None:
            self.kept = speculator._acceptance, copy.deepcopy(speculator._acceptance)
        speculator._search(request)
        most = min(MOST_PASSES, request.limit - request.num_tokens - 1)
        passes = most if self.is_learning else min(most, self.right.get(request.num_output_tokens, 0))
        return ([request], passes) if passes > 0 else ([], 0)

    def lengths(self, drafts: Sequence[Draft], start: int) -> list[int]:
        """Return the length of each draft.

        While learning, it is 0: the step has a token, and the draft is compared with the answer. Then it is the number
        of right tokens.
        """
        known = Lengths(self.answer, start=start)(drafts)[0]
        if self.is_learning:
            self.right[start] = max(known, self.right.get(start, 0))
        return [0 if self.is_learning else known]


@contextmanager
def ceiling(passes: Passes) -> Iterator[None]:
    """Make the draft model draft by these passes, and switch off all other drafts."""
    own = Speculator.passes, Speculator._lengths, Speculator._search, Drafting.propose
    start = [0]

    def search(speculator: Speculator, request: Any) -> Draft:
        start[0] = request.num_output_tokens
        return own[2](speculator, request)

    def propose(drafting: Drafting, count: int, forced: Sequence[int] = ()) -> Draft:
        return own[3](drafting, count) if drafting.has_drawn else Draft([], [])

    def lengths(_: Speculator, drafts: Sequence[Draft], *rest: int) -> list[int]:
        return passes.lengths(drafts, start[0])

    Speculator.passes = lambda *given: passes(*given)  # type: ignore[assignment, method-assign]
    Speculator._lengths, Speculator._search, Drafting.propose = lengths, search, propose  # type: ignore[method-assign]
    try:
        yield
    finally:
        Speculator.passes, Speculator._lengths, Speculator._search, Drafting.propose = own  # type: ignore[method-assign]
        if passes.kept is not None:
            changed, before = passes.kept
            changed.__dict__.update(before.__dict__)
            passes.kept = None


def answer(
    engine: Engine, task: Task, mode: str, tokens: int, known: list[int], passes: Passes | None = None
) -> Answer:
    way = "off" if mode == "off" else "draft" if mode in DRAFT_MODES else "ngram"
    params = SamplingParams(max_tokens=tokens, speculate=way)
    grammar = None if task.schema is None else GrammarSpec(json_schema=json.dumps(task.schema))
    manner = oracle(Lengths(known)) if mode == "oracle" else ceiling(passes) if passes is not None else _nothing()
    with manner:
        (made,) = engine.generate([task.messages], params, grammar=grammar)
    seconds = made.timings.time_per_output_token * (len(made.token_ids) - 1)
    return Answer(made.token_ids, seconds, made.drafted_tokens, made.accepted_tokens)


@contextmanager
def _nothing() -> Iterator[None]:
    yield


def row_costs(engine: Engine) -> dict[int, float]:
    """Return median milliseconds of a step by its number of tokens, all of one request, while it copies a long text."""
    text = " ".join(f"{number} times {number + 3} is {number * (number + 3)}." for number in range(60))
    costs: dict[int, float] = {}
    telemetry = engine._core.telemetry
    for length in (0, 1, 2, 3, 4, 5, 6, 7, 9, 11, 13, 15):
        before = telemetry.num_steps
        params = SamplingParams(max_tokens=12 * (length + 1), ignore_eos=True, speculate="ngram", prediction=text)
        with oracle(Lengths(fixed=length)):
            engine.generate([text + " 0 times 3 is"], params)
        steps = [step for step in telemetry.steps if step.index >= before and not step.prefill_tokens]
        costs[length + 1] = 1e3 * statistics.median(step.seconds for step in steps[1:])
    return costs


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def llama_answer(url: str, task: Task, tokens: int) -> Answer:
    """Ask llama.cpp's server; the seconds are its own measure of the time after the prompt."""
    body: dict[str, Any] = {"messages": task.messages, "max_tokens": tokens, "temperature": 0, "cache_prompt": True}
    if task.schema is not None:
        body["response_format"] = {"type": "json_schema", "json_schema": {"name": "answer", "schema": task.schema}}
    request = urllib.request.Request(
        f"{url}/v1/chat/completions", json.dumps(body).encode(), {"content-type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=600) as response:
        timings = json.load(response)["timings"]
    count = timings["predicted_n"]
    return Answer(
        [0] * count, timings["predicted_ms"] / 1e3, timings.get("draft_n", 0), timings.get("draft_n_accepted", 0)
    )


def report(kind: str, found: dict[str, list[list[Answer]]]) -> dict[str, Any]:
    """Print and return medians over rounds, each the sum over the kind's prompts, and ratios within rounds."""
    seconds = {mode: [sum(one.seconds for one in row) for row in rows] for mode, rows in found.items()}
    per_token = {
        mode: statistics.median(
            1e3 * total / max(1, sum(len(one.tokens) - 1 for one in row))
            for total, row in zip(seconds[mode], rows, strict=True)
        )
        for mode, rows in found.items()
    }
    ratio = {
        mode: statistics.median(plain / own for plain, own in zip(seconds["off"], seconds[mode], strict=True))
        for mode in found
        if mode != "off" and mode not in LLAMA_MODES
    }
    last = found["ngram"][-1]
    drafted, accepted = sum(one.drafted for one in last), sum(one.accepted for one in last)
    best = ratio.get("oracle", math.nan)
    print(
        f"{kind:12} {per_token['off']:8.2f} {per_token['ngram']:8.2f} {per_token.get('oracle', math.nan):8.2f} "
        f"{ratio['ngram']:7.2f} {best:7.2f} {ratio['ngram'] / best:8.2f} "
        f"{drafted:8} {accepted / drafted if drafted else 0:7.0%}"
        + "".join(f" {ratio[mode]:8.2f}" for mode in DRAFT_MODES if mode in ratio)
        + "".join(f" {per_token[mode]:15.2f}" for mode in LLAMA_MODES if mode in per_token)
    )
    counts = {
        mode: [sum(one.drafted for one in rows[-1]), sum(one.accepted for one in rows[-1])]
        for mode, rows in found.items()
    }
    return {"kind": kind, "ms_per_token": per_token, "ratio": ratio, "drafted_and_accepted": counts}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="qwen2.5-coder-1.5b")
    parser.add_argument("--draft")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--minutes", type=float, default=math.inf, help="begin no round that would end after them")
    parser.add_argument("--tokens", type=int, default=160)
    parser.add_argument("--kinds", default="editing,summarising,filling,chat")
    parser.add_argument("--modes", help="besides off and ngram: " + ", ".join((*MODES[2:], *DRAFT_MODES)))
    parser.add_argument("--rows", action="store_true")
    parser.add_argument("--llama", type=Path, metavar="DIR", help="folder that has llama-server")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    kinds = arguments.kinds.split(",")
    tasks = [task for task in TASKS if task.kind in kinds]
    modes = MODES if arguments.draft is None else (*MODES, *DRAFT_MODES)
    wanted = modes if arguments.modes is None else ("off", "ngram", *arguments.modes.split(","))
    if unknown := set(wanted) - set(modes):
        parser.error(f"--modes: {', '.join(sorted(unknown))}; there are {', '.join(modes)}; --draft adds others")
    if arguments.llama is not None and not (arguments.llama / "llama-server").exists():
        parser.error(f"--llama: there is no llama-server in {arguments.llama}")
    begun = time.monotonic()
    engine = Engine(arguments.model, speculate=arguments.draft or "ngram")
    is_cpu = engine._factories[engine.models[0]].loaded.device.is_cpu
    known_only = () if is_cpu or arguments.modes else ("oracle", "ceiling")  # both know a single answer
    modes = tuple(mode for mode in modes if mode in wanted and mode not in known_only)
    num_different = 0
    results: dict[str, Any] = {"model": arguments.model}
    if arguments.rows:
        results["rows"] = costs = row_costs(engine)
        print("tokens of one request in a step, ms:", ", ".join(f"{rows}: {ms:.1f}" for rows, ms in costs.items()))
    with _llama_servers(arguments.llama, arguments.model, arguments.draft) as servers:
        found: dict[str, dict[str, list[list[Answer]]]] = {kind: {} for kind in kinds}
        known = {task.name: answer(engine, task, "off", arguments.tokens, []).tokens for task in tasks}
        passes = {task.name: Passes(known[task.name]) for task in tasks} if "ceiling" in modes else {}
        for task in tasks if passes else ():
            answer(engine, task, "ceiling", arguments.tokens, known[task.name], passes[task.name])
            passes[task.name].is_learning = False
        longest, num_rounds = 0.0, 0
        for number in range(arguments.rounds):
            round_begun = time.monotonic()
            if number and round_begun + longest > begun + 60 * arguments.minutes:
                break
            for kind in kinds:
                rows: dict[str, list[Answer]] = {}
                for task in (task for task in tasks if task.kind == kind):
                    for place in range(len(modes)):
                        mode = modes[(number + place) % len(modes)]
                        own = passes.get(task.name) if mode == "ceiling" else None
                        made = answer(engine, task, mode, arguments.tokens, known[task.name], own)
                        differs = made.tokens != known[task.name]
                        if differs and is_cpu:
                            sys.exit(f"{task.kind} {task.name}, {mode}: the answer differs")
                        num_different += differs
                        rows.setdefault(mode, []).append(made)
                    for mode, url in servers.items():
                        rows.setdefault(mode, []).append(llama_answer(url, task, arguments.tokens))
                for mode, answers in rows.items():
                    found[kind].setdefault(mode, []).append(answers)
            num_rounds, longest = number + 1, max(longest, time.monotonic() - round_begun)
            print(f"round {num_rounds} of {arguments.rounds}, {longest:.0f} s at most", file=sys.stderr)
    print(
        f"{'ms a token':12} {'off':>8} {'ngram':>8} {'oracle':>8} {'ratio':>7} {'oracle':>7} {'of best':>8} "
        f"{'drafted':>8} {'kept':>7}"
        + "".join(f" {mode:>8}" for mode in modes if mode in DRAFT_MODES)
        + "".join(f" {mode:>15}" for mode in servers)
    )
    results["rounds"] = num_rounds
    results["kinds"] = [report(kind, found[kind]) for kind in kinds]
    if not is_cpu:
        count = num_rounds * len(tasks) * len(modes)
        print(f"{num_different} of {count} answers differ from the first without drafts, by rounding")
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(results, indent=1))
    engine.close()


@contextmanager
def _llama_servers(binaries: Path | None, model: str, draft: str | None) -> Iterator[dict[str, str]]:
    """Run llama.cpp's servers on the same files and threads; yield their URLs by mode, none without binaries."""
    urls: dict[str, str] = {}
    with ExitStack() as servers:
        for mode, options in LLAMA_MODES.items() if binaries is not None else ():
            if mode == LLAMA_DRAFT and draft is None:
                continue
            second = ["-md", str(resolve(draft).path)] if draft is not None and mode == LLAMA_DRAFT else []
            port = free_port()
            place = ["-m", str(resolve(model).path), "--host", "127.0.0.1", "--port", str(port)]
            sizes = ["-c", str(CONTEXT), "-np", "1", "-t", str(machine_threads())]
            command = [f"{binaries}/llama-server", *place, *sizes, "--jinja", *options, *second]
            urls[mode] = f"http://127.0.0.1:{port}"
            servers.enter_context(started_server(command, urls[mode], "/health"))
        yield urls


if __name__ == "__main__":
    main()
