"""Start `antiphon serve`, wait until it is ready, send a question as any client would, and print the answer.

On a terminal the server then stays until Ctrl-C; otherwise it is stopped again. The arguments are passed to `antiphon
serve`; QUESTION in the environment replaces the question.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

QUESTION = os.environ.get("QUESTION") or "What is the capital of France?"
ANTIPHON = Path(sys.executable).with_name("antiphon")


class Server:
    """Running `antiphon serve`. Its output is passed on, and its address is read from it."""

    def __init__(self, arguments: list[str]) -> None:
        self.process = subprocess.Popen([ANTIPHON, "serve", *arguments], stderr=subprocess.PIPE, text=True)
        self.url: str | None = None
        threading.Thread(target=self._pass_on, daemon=True).start()

    def _pass_on(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            found = re.search(r"listening on (https?://[^\s;]+)", line)
            self.url = self.url or (found[1] if found else None)
            print(line, end="", file=sys.stderr, flush=True)

    def wait_until_ready(self) -> str:
        while self.process.poll() is None:
            if self.url is not None:
                try:
                    with urllib.request.urlopen(self.url + "/readyz", timeout=10):
                        return self.url
                except urllib.error.HTTPError as answer:
                    told = json.load(answer)
                    if told["status"] == "failed":
                        sys.exit(f"the server did not get ready: {told['models']}")
                except OSError:
                    pass
            time.sleep(0.2)
        sys.exit(self.process.returncode or 1)

    def stop(self) -> int:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait()


def ask(url: str, question: str) -> str:
    body = {"model": "default-chat", "messages": [{"role": "user", "content": question}], "temperature": 0}
    request = urllib.request.Request(
        url + "/v1/chat/completions", json.dumps(body).encode(), {"content-type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=600) as answer:
        return str(json.load(answer)["choices"][0]["message"]["content"])


def main() -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    server = Server(sys.argv[1:])
    try:
        url = server.wait_until_ready()
        print(f"\nYou: {QUESTION}\ndefault-chat: {ask(url, QUESTION)}\n", flush=True)
        if sys.stdin.isatty():
            print(f"The server is at {url}/v1 for any OpenAI client. Ctrl-C stops it.", flush=True)
            server.process.wait()
        return server.stop()
    except KeyboardInterrupt:
        return server.process.wait()  # the terminal has sent Ctrl-C to the server as well
    finally:
        server.stop()


if __name__ == "__main__":
    sys.exit(main())
