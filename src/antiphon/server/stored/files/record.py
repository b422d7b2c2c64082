"""`FileRecord`: metadata of a stored file, as written to the disk."""

from __future__ import annotations

import time
import uuid
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

FileId = Annotated[str, Field(pattern=r"^file-[0-9a-f]{32}$")]
Purpose = Literal["assistants", "batch", "fine-tune", "vision", "user_data", "evals", "batch_output"]
#: Seconds until input and output files of batches are deleted, unless the request says otherwise.
BATCH_FILE_SECONDS = 30 * 24 * 3600


class FileRecord(BaseModel):
    """Metadata of a file. `owner` is the name of the API key that owns it; the file is not found with another key."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: FileId
    owner: str
    filename: str
    purpose: Purpose
    bytes: Annotated[int, Field(ge=0)]
    created_at: int
    expires_at: int | None = None

    def has_expired(self, now: float | None = None) -> bool:
        return self.expires_at is not None and self.expires_at <= (time.time() if now is None else now)

    def body(self) -> dict[str, Any]:
        """Return the file as the API shows it."""
        shown = self.model_dump(exclude={"owner"})
        return {**shown, "object": "file", "status": "processed", "status_details": None}


def new_file_id() -> str:
    return f"file-{uuid.uuid4().hex}"
