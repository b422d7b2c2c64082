"""`Subject`: the evaluated model, in an engine of this process."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import repeat

from antiphon.engine.sampling_params import SamplingParams
from antiphon.errors import ContextLengthError
from antiphon.runtime.frontend.engine import Engine
from antiphon.runtime.frontend.streams import Stream
from antiphon.runtime.loading.loading import LoadedModel
from antiphon.runtime.text.output import Completion
from antiphon.runtime.text.requests import Prompt

#: Maximum requests in the engine at once; more than it computes together, so that it never runs dry.
IN_FLIGHT = 256


@dataclass(frozen=True)
class Subject:
    """Loaded model and the engine that holds it."""

    engine: Engine
    loaded: LoadedModel

    @property
    def name(self) -> str:
        return self.loaded.name

    def chat(self, text: str, raw: bool = False) -> Prompt:
        """Return the text as a user's message if the model has a chat template, otherwise unchanged."""
        if raw or self.loaded.chat_template is None:
            return text
        return [{"role": "user", "content": text}]

    def generate(
        self, prompts: Iterable[Prompt], params: SamplingParams, sources: Iterable[str] | None = None
    ) -> Iterator[Completion]:
        """Yield answers in the order of the prompts, computed together. Closing the iterator cancels the rest.

        `sources` name the origin of each prompt for the error about one that is too long.
        """
        flying: deque[Stream] = deque()
        named = zip(prompts, repeat(None) if sources is None else sources, strict=False)
        try:
            for prompt, source in named:
                while flying and (flying[0].output.is_done or len(flying) == IN_FLIGHT):
                    yield flying.popleft().wait()
                try:
                    flying.append(self.engine.stream(prompt, params, model=self.name))
                except ContextLengthError as error:
                    raise error if source is None else ContextLengthError(f"{source}: {error}") from error
            while flying:
                yield flying.popleft().wait()
        finally:
            for stream in flying:
                stream.close()
