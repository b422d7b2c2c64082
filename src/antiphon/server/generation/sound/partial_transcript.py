"""`PartialTranscript`: the final part of a transcription in progress."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from antiphon.runtime.calls.transcript import Segment, TranscriptProgress, joined_text
from antiphon.runtime.transcription.captions import segment_fields
from antiphon.server.web.http.errors import ApiError


@dataclass
class PartialTranscript:
    """Segments that are final so far. `seconds` of the recording are done, silences included."""

    segments: list[Segment] = field(default_factory=list)
    seconds: float = 0.0

    def take(self, update: TranscriptProgress) -> None:
        self.segments += update.segments
        self.seconds = update.processed_seconds

    def body(self) -> dict[str, Any]:
        return {
            "text": joined_text(self.segments),
            "segments": [segment_fields(index, segment) for index, segment in enumerate(self.segments)],
            "seconds": round(self.seconds, 3),
        }

    def add_to(self, error: ApiError) -> None:
        """Add the transcript so far to an error, unless the request caused the error."""
        if error.status < 500:
            return
        error.partial = self.body()
        if error.code == "timeout":
            error.message += (
                f"; {self.seconds:.1f} s of the recording are transcribed (see error.partial). With stream the limit "
                "counts from the last segment; background has the transcription go on without a connection"
            )


def tell_progress(error: ApiError) -> None:
    """Complete the timeout error of a transcription whose time limit restarts with each segment."""
    if error.code == "timeout":
        error.message += " since its last segment"
