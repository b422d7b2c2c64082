"""Score tool calls of small models: ten questions to `antiphon serve` and to llama.cpp's server, on the same files.

    python benchmarks/tool_calls.py [MODEL ...] [--llama-server PATH] [--show]

Eight questions need a call, with arguments that can be checked, and two need none. Decoding is greedy and `tool_choice`
is left at `auto`. Without `--llama-server`, llama.cpp's server is the one in the `xllamacpp` wheel, with `--jinja`. A
leak is an answer whose text contains a call or part of a call.
"""

from __future__ import annotations

import argparse
import json
import socket
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from antiphon.weights.catalog.resolve import resolve
from support.programs.server_process import ServerProcess, antiphon_server, started_server

MODELS = ["qwen2.5-coder-0.5b", "smollm2-135m", "tinyllama-1.1b"]
MAX_TOKENS = 96
CONTEXT = 2048

#: Script that runs the wheel's server until SIGTERM.
WHEEL_SERVER = """
import signal, sys, xllamacpp
params = xllamacpp.CommonParams()
params.model.path, params.port, params.n_ctx = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
params.use_jinja, params.n_parallel = True, 1
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = int(sys.argv[4])
server = xllamacpp.Server(params)
signal.sigwait([signal.SIGTERM])
"""


def tool(name: str, description: str, **properties: Any) -> dict[str, Any]:
    """Build a tool whose arguments are all required. A property is a schema, or the description of a string."""
    schemas = {
        key: {"type": "string", "description": value} if isinstance(value, str) else value
        for key, value in properties.items()
    }
    parameters = {"type": "object", "properties": schemas, "required": list(schemas)}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


def number(description: str) -> dict[str, Any]:
    return {"type": "number", "description": description}


WEATHER = tool("get_weather", "Get the current weather in a city.", city="Name of the city")
TIME = tool("get_time", "Get the current time in a city.", city="Name of the city")
ADD = tool("add", "Add two numbers.", a=number("First number"), b=number("Second number"))
MULTIPLY = tool("multiply", "Multiply two numbers.", a=number("First number"), b=number("Second number"))
MAIL = tool("send_email", "Send an e-mail.", to="Address of the recipient", subject="Subject line")
SEARCH = tool("search_web", "Search the web.", query="Words to search for")
TIMER = tool("set_timer", "Start a timer.", minutes=number("Length in minutes"))
LIGHT = tool(
    "set_light",
    "Switch the light of a room.",
    room="Name of the room",
    state={"type": "string", "enum": ["on", "off"], "description": "New state"},
)
CONVERT = tool(
    "convert_currency",
    "Convert an amount of money.",
    amount=number("Amount"),
    source="Currency code to convert from, such as USD",
    target="Currency code to convert to, such as EUR",
)
STOCK = tool("get_stock_price", "Get the price of a stock.", symbol="Ticker symbol, such as AAPL")


@dataclass(frozen=True)
class Question:
    """Question with the tools that it offers.

    `call` is the name and arguments of a correct call; None asks for text.
    """

    text: str
    tools: tuple[dict[str, Any], ...]
    call: tuple[str, dict[str, Any]] | None


QUESTIONS = [
    Question("What is the weather in Paris?", (WEATHER, TIME), ("get_weather", {"city": "Paris"})),
    Question("What time is it in Tokyo right now?", (WEATHER, TIME), ("get_time", {"city": "Tokyo"})),
    Question("Use a tool to add 17 and 25.", (ADD, MULTIPLY, WEATHER), ("add", {"a": 17, "b": 25})),
    Question("Multiply 6 by 7 with a tool.", (ADD, MULTIPLY), ("multiply", {"a": 6, "b": 7})),
    Question("Turn off the light in the kitchen.", (LIGHT, TIMER), ("set_light", {"room": "kitchen", "state": "off"})),
    Question("Set a timer for 15 minutes.", (TIMER, LIGHT, TIME), ("set_timer", {"minutes": 15})),
    Question(
        "Convert 100 USD to EUR.",
        (CONVERT, ADD, STOCK),
        ("convert_currency", {"amount": 100, "source": "USD", "target": "EUR"}),
    ),
    Question(
        "What is the current price of the stock with the symbol MSFT?",
        (STOCK, SEARCH, MAIL, CONVERT),
        ("get_stock_price", {"symbol": "MSFT"}),
    ),
    Question("Say hello to me in French.", (WEATHER, MAIL), None),
    Question("Write one short sentence about the sea.", (ADD, TIMER), None),
]


@dataclass
class Score:
    calls: int = 0
    texts: int = 0
    leaks: int = 0

    def __str__(self) -> str:
        return f"{self.calls} of 8 | {self.texts} of 2 | {self.leaks}"


def ask(url: str, model: str, question: Question) -> dict[str, Any]:
    """Return the message of the answer, or a message with the server's error."""
    body = {
        "model": model,
        "messages": [{"role": "user", "content": question.text}],
        "tools": list(question.tools),
        "temperature": 0,
        "max_tokens": MAX_TOKENS,
    }
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"{url}/v1/chat/completions", json.dumps(body).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=600) as answer:
            return dict(json.load(answer)["choices"][0]["message"])
    except urllib.error.HTTPError as error:
        return {"content": None, "error": error.read().decode("utf-8", "replace")}


def is_same(found: object, wanted: object) -> bool:
    """Compare an argument with the wanted value, ignoring case and the type of numbers."""
    if isinstance(wanted, str):
        return isinstance(found, str) and found.strip().lower() == wanted.lower()
    return isinstance(found, int | float) and not isinstance(found, bool) and found == wanted


def is_correct_call(message: dict[str, Any], question: Question) -> bool:
    calls = message.get("tool_calls") or []
    if question.call is None or len(calls) != 1:
        return False
    name, wanted = question.call
    try:
        arguments = json.loads(calls[0]["function"]["arguments"])
    except ValueError:
        return False
    if calls[0]["function"]["name"] != name or not isinstance(arguments, dict) or arguments.keys() != wanted.keys():
        return False
    return all(is_same(arguments[key], value) for key, value in wanted.items())


def is_leak(message: dict[str, Any], question: Question) -> bool:
    content = message.get("content") or ""
    names = [str(entry["function"]["name"]) for entry in question.tools]
    return "<tool_call>" in content or any(f'"{name}"' in content for name in names)


def scored(url: str, model: str, label: str, show: bool) -> Score:
    score = Score()
    for question in QUESTIONS:
        message = ask(url, model, question)
        has_calls = bool(message.get("tool_calls"))
        is_correct = is_correct_call(message, question)
        score.calls += is_correct
        score.texts += question.call is None and not has_calls and bool((message.get("content") or "").strip())
        score.leaks += is_leak(message, question)
        if show:
            kept = {key: value for key, value in message.items() if value and key != "role"}
            mark = "+" if is_correct or (question.call is None and not has_calls) else "-"
            print(f"{mark} {label}: {question.text} {json.dumps(kept)}", file=sys.stderr, flush=True)
    return score


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def llama_server(binary: Path | None, model: Path, threads: int) -> Iterator[ServerProcess]:
    port = free_port()
    command = [sys.executable, "-c", WHEEL_SERVER, str(model), str(port), str(CONTEXT), str(threads)]
    if binary is not None:
        command = [str(binary), "-m", str(model), "--port", str(port), "-c", str(CONTEXT), "-np", "1", "--jinja",
                   "-t", str(threads)]  # fmt: skip
    with started_server(command, f"http://127.0.0.1:{port}", "/health") as server:
        yield server


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=MODELS, help="GGUF files, or catalog names of such")
    parser.add_argument("--llama-server", type=Path, help="a llama-server binary, in place of the wheel")
    parser.add_argument("--threads", type=int, default=2, help="threads of llama.cpp")
    parser.add_argument("--only", choices=["antiphon", "llama.cpp"], help="ask one of the two")
    parser.add_argument("--show", action="store_true", help="print every answer")
    arguments = parser.parse_args()
    print("| model | server | correct calls | text where no call is needed | leaked calls |\n|---|---|---|---|---|")
    for name in arguments.models:
        path = resolve(name).path
        if arguments.only != "llama.cpp":
            with antiphon_server(name) as ours:
                model = path.stem if Path(name).exists() else name
                print(f"| {name} | antiphon | {scored(ours.url, model, 'antiphon', arguments.show)} |", flush=True)
        if arguments.only != "antiphon":
            with llama_server(arguments.llama_server, path, arguments.threads) as theirs:
                score = scored(theirs.url, path.stem, "llama.cpp", arguments.show)
                print(f"| {name} | llama.cpp | {score} |", flush=True)


if __name__ == "__main__":
    main()
