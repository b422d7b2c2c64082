"""Fields of OpenAI, vLLM and llama.cpp that would change the answer, but that no model here supports.

Requests with one of these fields are rejected, while other unknown fields are ignored.
"""

from __future__ import annotations

from antiphon.server.web.http.schemas import Unsupported
from antiphon.server.web.http.text_only import TEXT_ONLY

SAMPLER = "this sampler is not supported; see the sampling options of the documentation"

GENERATION: dict[str, Unsupported] = {
    "moderation": Unsupported("there is no moderation model; omit it"),
    "use_beam_search": Unsupported("beam search is supported by transcription only"),
    "prompt_embeds": Unsupported("prompts are text or token ids; embeddings are not supported"),
    "bad_words": Unsupported("use banned_token_ids or logit_bias"),
    "logits_processors": Unsupported("code of clients is not run"),
    "chat_template": Unsupported("the model's own template is used; chat_template_kwargs sets its options"),
    "documents": Unsupported("put documents into the messages, or into chat_template_kwargs"),
    "lora": Unsupported("name an adapter by model: base:adapter"),
    "image_data": Unsupported(TEXT_ONLY),
    "images": Unsupported(TEXT_ONLY),
    "mirostat": Unsupported(SAMPLER),
    "tfs_z": Unsupported(SAMPLER, (1,)),
    "dry_multiplier": Unsupported(SAMPLER),
    "xtc_probability": Unsupported(SAMPLER),
    "dynatemp_range": Unsupported(SAMPLER),
    "top_n_sigma": Unsupported(SAMPLER, (-1,)),
    "samplers": Unsupported("the order of samplers is fixed; set their values by name"),
}

COMPLETION: dict[str, Unsupported] = GENERATION

CHAT: dict[str, Unsupported] = {
    **GENERATION,
    "web_search_options": Unsupported(
        "the server does not search the web; give the model a tool that does", asks_when_empty=True
    ),
}

RESPONSES: dict[str, Unsupported] = {
    **GENERATION,
    "prompt": Unsupported("prompts that are stored at OpenAI are not available; send instructions and input"),
    "context_management": Unsupported("a conversation is shortened by truncation: auto only"),
}
