"""Requests of a run, described by numbers and a seed so that the run can be repeated."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from antiphon.bench.load.arrivals import Arrivals
from antiphon.bench.load.lengths import Lengths
from antiphon.bench.load.openai_stream import Endpoint, Job
from antiphon.bench.load.sharegpt import Dataset, read_sharegpt
from antiphon.bench.load.words import Counter, sized_texts
from antiphon.errors import InvalidRequestError

#: Characters per token of ordinary text, for servers that do not count tokens.
CHARACTERS_PER_TOKEN = 4


@dataclass(frozen=True)
class Workload:
    """Prompts of random words with `input_lengths` tokens each, after a shared prefix; or a file's questions.

    A file replaces `input_lengths`; without `output_lengths`, answers are as long as the file's own.
    """

    endpoint: Endpoint
    arrivals: Arrivals
    num_requests: int
    input_lengths: Lengths | None
    output_lengths: Lengths | None
    shared_prefix: int = 0
    dataset_file: Path | None = None
    temperature: float = 0.0
    ignore_eos: bool = True
    num_warm_up: int = 2
    seed: int = 0

    def __post_init__(self) -> None:
        if self.num_requests < 1:
            raise InvalidRequestError(f"the number of requests is {self.num_requests}; it must be 1 or more")
        if self.num_warm_up < 0 or self.shared_prefix < 0:
            raise InvalidRequestError("neither the warm-up nor the shared prefix may be negative")
        if (self.input_lengths is None) != (self.dataset_file is not None):
            raise InvalidRequestError("prompts come from a file or have input lengths, not both")
        if self.dataset_file is None and self.output_lengths is None:
            raise InvalidRequestError("random prompts need output lengths")
        if self.dataset_file is not None and self.shared_prefix:
            raise InvalidRequestError("a shared prefix goes with random prompts, not with a file")

    def read_dataset(self) -> Dataset | None:
        """Read the file, if any; raise InvalidRequestError if it has too few conversations for all requests."""
        if self.dataset_file is None:
            return None
        dataset = read_sharegpt(self.dataset_file)
        count = self.num_warm_up + self.num_requests
        if count > len(dataset.exchanges):
            raise InvalidRequestError(
                f"{self.dataset_file} has {len(dataset.exchanges):,} usable conversations; "
                f"{self.num_requests:,} requests and {self.num_warm_up:,} to warm up need {count:,}"
            )
        return dataset

    async def jobs(self, counter: Counter | None, dataset: Dataset | None) -> tuple[list[Job], list[Job]]:
        """Return the warm-up jobs and the measured jobs, with different prompts."""
        if dataset is not None:
            jobs = await self._from(dataset, counter)
            return jobs[: self.num_warm_up], jobs[self.num_warm_up :]
        assert self.input_lengths is not None and self.output_lengths is not None
        source = random.Random(f"lengths {self.seed}")
        count = self.num_warm_up + self.num_requests
        sizes = [(self.input_lengths.draw(source), self.output_lengths.draw(source)) for _ in range(count)]
        texts = await sized_texts([size for size, _ in sizes], f"prompts {self.seed}", counter)
        if self.shared_prefix:
            [prefix] = await sized_texts([self.shared_prefix], f"prefix {self.seed}", counter)
            texts = [f"{prefix} {text}" for text in texts]
        jobs = [self._job(text, output) for text, (_, output) in zip(texts, sizes, strict=True)]
        return jobs[self.num_requests :], jobs[: self.num_requests]

    async def _from(self, dataset: Dataset, counter: Counter | None) -> list[Job]:
        source = random.Random(f"dataset {self.seed}")
        jobs = []
        for exchange in source.sample(dataset.exchanges, self.num_warm_up + self.num_requests):
            if self.output_lengths is not None:
                output = self.output_lengths.draw(source)
            elif counter is not None:
                output = await counter(exchange.answer)
            else:
                output = len(exchange.answer) // CHARACTERS_PER_TOKEN
            jobs.append(self._job(exchange.prompt, max(1, output)))
        return jobs

    def _job(self, prompt: str, output_tokens: int) -> Job:
        fields: dict[str, Any] = {"temperature": self.temperature}
        if self.ignore_eos:
            fields["ignore_eos"] = True
        return Job(prompt, output_tokens, fields)

    def description(self, dataset: Dataset | None) -> dict[str, Any]:
        """Describe the work of a run. Runs are comparable if their descriptions are equal."""
        return {
            "endpoint": self.endpoint.value,
            "requests": self.num_requests,
            "arrivals": str(self.arrivals),
            "input_tokens": None if self.input_lengths is None else str(self.input_lengths),
            "output_tokens": None if self.output_lengths is None else str(self.output_lengths),
            "shared_prefix_tokens": self.shared_prefix,
            "dataset_sha256": None if dataset is None else dataset.digest,
            "temperature": self.temperature,
            "ignore_eos": self.ignore_eos,
            "seed": self.seed,
        }
