"""SHA-256 hashes of chat templates known to do a bounded amount of work per message."""

from __future__ import annotations

from hashlib import sha256

KNOWN_TEMPLATES = frozenset(
    {
        "872be49dbb638044ad01b60388f48d469ff2980e5f0dccdc22ec907db54d0788",  # SmolLM2
        "cd8e9439f0570856fd70470bf8889ebd8b5d1107207f67a5efb46e342330527f",  # Qwen 2.5
        "66291cf0045c2425a3a667cf3cbb7af2b11f09e025c02f97245323ab79119362",  # TinyLlama, Zephyr
        "c3804cedeb1d20d25be5a5155c3373c945ebfb82eedb82f66245e329b765e463",  # ChatML
        "5e8c0ca7854e55bb199a0acbf09e2a2f08e4393b807e2640ff26ab5a257614e8",  # Llama 3
        "5eac030378bb93e4fb202a5c7357845a503a920d263ad62ca3dad76e9d78c1c8",  # Gemma
    }
)


def is_known(source: str) -> bool:
    return sha256(source.encode("utf-8", "surrogatepass")).hexdigest() in KNOWN_TEMPLATES
