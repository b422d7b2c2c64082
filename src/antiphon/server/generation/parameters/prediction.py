"""`prediction`: the answer that a caller expects, as in OpenAI's API, checked before the engine drafts from it."""

from __future__ import annotations

from typing import Literal

from antiphon.errors import TooManyTokensError
from antiphon.server.generation.parameters.messages import TextContent
from antiphon.server.serving.models import ReadyModel
from antiphon.server.web.http.errors import invalid
from antiphon.server.web.http.schemas import Body


class PredictedContent(Body):
    """Text that the answer will largely repeat, such as a file that is to be changed."""

    type: Literal["content"]
    content: TextContent


def predicted_text(prediction: PredictedContent | None, model: ReadyModel) -> str:
    """Return the expected text. Raise `ApiError` if it is longer than the model's context. Blocks."""
    if prediction is None:
        return ""
    content = prediction.content
    text = content if isinstance(content, str) else "".join(part.text for part in content)
    try:
        model.text.tokenizer.encode(text, add_special_tokens=False, parse_special=False, max_tokens=model.max_tokens)
    except TooManyTokensError as error:
        message = f"prediction has {error.counted} tokens; the context of model {model.name!r} has {error.limit}"
        raise invalid(message, "prediction") from None
    return text
