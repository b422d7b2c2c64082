"""Error of a prompt that is too long, in OpenAI's words, by which clients and agents recognise it."""

from __future__ import annotations

from antiphon.server.web.http.errors import TOO_LONG, ApiError, invalid


def context_length_error(
    limit: int, prompt_tokens: int, output_tokens: int, param: str, more: str = "", is_exact: bool = True
) -> ApiError:
    """Build the error. `param` is the field with the prompt, `more` another sentence.

    Unless `is_exact`, `prompt_tokens` is a number that the prompt certainly exceeds.
    """
    total, than = prompt_tokens + output_tokens, "" if is_exact else "more than "
    message = (
        f"This model's maximum context length is {limit} tokens. However, you requested {than}{total} tokens "
        f"({than}{prompt_tokens} in the {param}, {output_tokens} in the completion). "
        f"Please reduce the length of the {param} or completion."
    )
    return invalid(
        " ".join(filter(None, [message, more, TOO_LONG])), param.partition("[")[0], "context_length_exceeded"
    )
