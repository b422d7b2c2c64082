"""Patterns by which byte-level BPE vocabularies split text into words, by GGUF's `tokenizer.ggml.pre`.

Patterns are in the syntax of the `tokenizers` library. The patterns of Llama 3, Qwen 2, Command R, DeepSeek V3, Tekken
and GPT-4o are from the models' own `tokenizer.json`; the others, and `default`, follow llama.cpp's table of the same
names. Several patterns apply one after the other; each isolates its matches within the parts left by the previous one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from antiphon.errors import UnsupportedError


@dataclass(frozen=True)
class PreTokenizer:
    """The patterns of one way to split text, and properties of the models that use it."""

    patterns: tuple[str, ...]
    #: Text is first normalized to NFC, Unicode's composed form.
    composed: bool = False
    #: Words that are tokens are not merged.
    whole_words: bool = False
    #: Default for adding a begin-of-text token.
    add_bos: bool = False


CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
LETTERS = r"[^\r\n\p{L}\p{N}]?\p{L}+"
PUNCTUATION = r" ?[^\s\p{L}\p{N}]+[\r\n]*"
PUNCTUATION_SLASH = r" ?[^\s\p{L}\p{N}]+[\r\n/]*"
BLANKS = r"\s*[\r\n]+|\s+(?!\S)|\s+"
UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
CAMEL_START = r"[^\r\n\p{L}\p{N}]?" + f"{UPPER}*{LOWER}+"
CAMEL_CAPITALS = r"[^\r\n\p{L}\p{N}]?" + f"{UPPER}+{LOWER}*"
HAN_AND_HANGUL = r"[\x{4E00}-\x{9FA5}\x{800}-\x{4E00}\x{AC00}-\x{D7FF}]+"
ASCII_PUNCTUATION = r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~]"""
CASED_LETTERS = (
    r"A-Za-z\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA}\x{1BC}-\x{1BF}\x{1C4}-\x{293}\x{295}-\x{2AF}"
    r"\x{370}-\x{373}\x{376}\x{377}\x{37B}-\x{37D}\x{37F}\x{386}\x{388}-\x{38A}\x{38C}\x{38E}-\x{3A1}"
    r"\x{3A3}-\x{3F5}\x{3F7}-\x{481}\x{48A}-\x{52F}\x{531}-\x{556}\x{10A0}-\x{10C5}\x{13A0}-\x{13F5}"
    r"\x{13F8}-\x{13FD}\x{1C90}-\x{1CBA}\x{1CBD}-\x{1CBF}\x{1D00}-\x{1D2B}\x{1D6B}-\x{1D77}\x{1D79}-\x{1D9A}"
    r"\x{1E00}-\x{1F15}\x{1F18}-\x{1F1D}\x{1F20}-\x{1F45}\x{1F48}-\x{1F4D}\x{1F50}-\x{1F57}\x{1F59}\x{1F5B}"
    r"\x{1F5D}\x{1F5F}-\x{1F7D}\x{1F80}-\x{1FB4}\x{1FB6}-\x{1FBC}\x{1FBE}\x{1FC2}-\x{1FC4}\x{1FC6}-\x{1FCC}"
    r"\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB}\x{1FE0}-\x{1FEC}\x{1FF2}-\x{1FF4}\x{1FF6}-\x{1FFC}\x{2102}\x{2107}"
    r"\x{210A}-\x{2113}\x{2115}\x{2119}-\x{211D}\x{2124}\x{2126}\x{2128}\x{212A}-\x{212D}\x{212F}-\x{2134}"
    r"\x{2139}\x{213C}-\x{213F}\x{2145}-\x{2149}\x{214E}\x{2183}\x{2184}\x{2C00}-\x{2C7B}\x{2C7E}-\x{2CE4}"
    r"\x{2CEB}-\x{2CEE}\x{2CF2}\x{2CF3}\x{A640}-\x{A66D}\x{A680}-\x{A69B}\x{A722}-\x{A76F}\x{A771}-\x{A787}"
    r"\x{A78B}-\x{A78E}\x{AB70}-\x{ABBF}\x{FB00}-\x{FB06}\x{FB13}-\x{FB17}\x{FF21}-\x{FF3A}\x{FF41}-\x{FF5A}"
    r"\x{10400}-\x{1044F}\x{104B0}-\x{104D3}\x{104D8}-\x{104FB}\x{10C80}-\x{10CB2}\x{10CC0}-\x{10CF2}"
    r"\x{118A0}-\x{118DF}\x{1E900}-\x{1E943}"
)

GPT2_PATTERN = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"

GPT2 = PreTokenizer((GPT2_PATTERN,))
GPT2_COMPOSED = replace(GPT2, composed=True)
SINGLE_DIGITS = PreTokenizer((r"\p{N}", GPT2_PATTERN))
LLAMA3 = PreTokenizer(
    (f"{CONTRACTIONS}|{LETTERS}|" + r"\p{N}{1,3}" + f"|{PUNCTUATION}|{BLANKS}",), whole_words=True, add_bos=True
)
CL100K = replace(LLAMA3, whole_words=False, add_bos=False)
QWEN2_DIGITS = PreTokenizer((f"{CONTRACTIONS}|{LETTERS}|" + r"\p{N}" + f"|{PUNCTUATION}|{BLANKS}",))
QWEN2 = replace(QWEN2_DIGITS, composed=True)
QWEN35 = PreTokenizer(
    (f"{CONTRACTIONS}|" + r"[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*" + f"|{BLANKS}",),
    composed=True,
)
TEKKEN = PreTokenizer(
    (f"{CAMEL_START}|{CAMEL_CAPITALS}|" + r"\p{N}" + f"|{PUNCTUATION_SLASH}|{BLANKS}",), whole_words=True, add_bos=True
)
GPT4O = PreTokenizer(
    (
        f"{CAMEL_START}{CONTRACTIONS}?|{CAMEL_CAPITALS}{CONTRACTIONS}?|"
        + r"\p{N}{1,3}"
        + f"|{PUNCTUATION_SLASH}|{BLANKS}",
    )
)
DEEPSEEK_LLM = PreTokenizer(
    (
        r"[\r\n]",
        rf"\s?[{CASED_LETTERS}]+",
        r"\s?[!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F}\x{3000}-\x{3002}]+",
        r"\s+$",
        HAN_AND_HANGUL,
        r"\p{N}+",
    )
)
DEEPSEEK_CODER = PreTokenizer((r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", HAN_AND_HANGUL, r"\p{N}"))
DEEPSEEK_V3 = PreTokenizer(
    (
        r"\p{N}{1,3}",
        r"[\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+",
        f"{ASCII_PUNCTUATION}[A-Za-z]+|"
        + r"[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*"
        + f"|{BLANKS}",
    )
)
FALCON = PreTokenizer((r"[\p{P}\$\+<=>\^~\|`]+", GPT2_PATTERN, "[0-9][0-9][0-9]"))
BLOOM = PreTokenizer((r" ?[^(\s|.,!?…。，、।۔،)]+",))
VIKING = PreTokenizer((*BLOOM.patterns, r"\p{N}"))
SEED_CODER = PreTokenizer((f"{CONTRACTIONS}|{LETTERS}|" + r"\p{N}| ?[^\s\p{L}\p{N}\r\n]+" + f"|{BLANKS}",))
BAILING = PreTokenizer(
    (
        r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*"
        r"|\s*[\r\n]|\s+(?!\S)|\s+",
    )
)
DEFAULT = PreTokenizer((r"[\p{P}\$\+<=>\^~\|]+", GPT2_PATTERN, r"\p{N}+", "[0-9][0-9][0-9]"))

_BY_KIND: tuple[tuple[PreTokenizer, tuple[str, ...]], ...] = (
    (DEFAULT, ("default",)),
    (GPT2, ("gpt-2", "phi-2", "jina-es", "jina-de", "jina-v2-es", "jina-v2-de", "gigachat", "mellum", "modern-bert")),
    (GPT2, ("a.x-4.0", "exaone4", "jais", "trillion", "granite-docling")),
    (GPT2_COMPOSED, ("mpt", "olmo")),
    (SINGLE_DIGITS, ("starcoder", "refact", "smollm", "codeshell", "exaone", "minerva-7b")),
    (replace(SINGLE_DIGITS, composed=True), ("command-r",)),
    (LLAMA3, ("llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2")),
    (CL100K, ("dbrx", "smaug-bpe", "glm4", "chatglm-bpe")),
    (QWEN2, ("qwen2",)),
    (QWEN2_DIGITS, ("deepseek-r1-qwen", "stablelm2", "hunyuan", "megrez", "grok-2", "solar-open", "kormo", "f2llmv2")),
    (QWEN35, ("qwen35",)),
    (TEKKEN, ("tekken",)),
    (GPT4O, ("gpt-4o", "llama4", "kanana2", "minimax-m2")),
    (DEEPSEEK_LLM, ("deepseek-llm",)),
    (DEEPSEEK_CODER, ("deepseek-coder",)),
    (DEEPSEEK_V3, ("deepseek-v3", "hunyuan-dense", "joyai-llm")),
    (FALCON, ("falcon",)),
    (BLOOM, ("bloom", "poro-chat", "gpt3-finnish")),
    (VIKING, ("viking",)),
    (SEED_CODER, ("seed-coder",)),
    (BAILING, ("bailingmoe", "bailingmoe2", "llada-moe")),
)

PRE_TOKENIZERS: dict[str, PreTokenizer] = {name: kind for kind, names in _BY_KIND for name in names}


def pre_tokenizer(name: str) -> PreTokenizer:
    """Return the pre-tokenizer of that name, or raise `UnsupportedError`: a substitute would give wrong tokens."""
    found = PRE_TOKENIZERS.get(name)
    if found is None:
        raise UnsupportedError(f"pre-tokenizer {name!r} is not known; known are {', '.join(sorted(PRE_TOKENIZERS))}")
    return found
