"""GBNF grammars accept what llama.cpp's notation says they do: compared with `re`, `json` and a count of brackets."""

from __future__ import annotations

import itertools
import json
import random
import re
from functools import lru_cache
from pathlib import Path

import pytest
from llguidance import LLMatcher, LLTokenizer

from antiphon.errors import InvalidRequestError
from antiphon.text.gbnf import MAX_DEPTH, is_gbnf, lark_from_gbnf
from antiphon.text.grammar import GrammarCompiler
from antiphon.text.grammar_spec import GrammarSpec
from antiphon.text.tokenization.gguf_vocab import tokenizer_from_gguf
from antiphon.weights.formats.open import open_checkpoint
from support.models.tiny_model import tiny_state, vocabulary, write_gguf
from support.text.llama_cpp_grammar import LlamaGrammar, llama_vocabulary
from support.text.random_walk import allowed, random_answer
from support.text.vocabularies import small_bpe

JSON = r"""
# any JSON value, with blanks where JSON allows them
root   ::= ws value
value  ::= (object | array | text | number | "true" | "false" | "null") ws

object ::=
  "{" ws ( member ("," ws member)* )? "}"   # members are named
member ::= text ws ":" ws value
array  ::= "[" ws ( value ("," ws value)* )? "]"
text   ::= "\"" ( [^"\\\x00-\x1F] | "\\" (["\\/bfnrt] | "u" [0-9a-fA-F]{4}) )* "\""
number ::= "-"? ("0" | [1-9] [0-9]*) ("." [0-9]+)? ([eE] [-+]? [0-9]+)?
ws     ::= [ \t\n\r]*
"""


@lru_cache
def byte_tokenizer() -> LLTokenizer:
    return LLTokenizer("byte")


def accepts(grammar: str, text: str) -> bool:
    vocabulary = byte_tokenizer()
    matcher = LLMatcher(vocabulary, LLMatcher.grammar_from_lark(lark_from_gbnf(grammar)), log_level=0)
    assert not matcher.is_error(), matcher.get_error()
    tokens = vocabulary.tokenize_bytes(text.encode())
    return matcher.validate_tokens(tokens) == len(tokens) and matcher.consume_tokens(tokens) and matcher.is_accepting()


def random_pattern(source: random.Random, depth: int) -> tuple[str, str]:
    """The same expression in GBNF and as a regular expression."""
    kind = source.randrange(7 if depth else 3)
    if kind == 0:
        text = "".join(source.choices("ab", k=source.randint(1, 3)))
        return f'"{text}"', f"(?:{text})"
    if kind == 1:
        return "[ab]", "[ab]"
    if kind == 2:
        return ("[^a]", "[^a]") if source.random() < 0.5 else (".", "(?s:.)")
    left, right = random_pattern(source, depth - 1), random_pattern(source, depth - 1)
    if kind == 3:
        return f"({left[0]} {right[0]})", f"(?:{left[1]}{right[1]})"
    if kind == 4:
        return f"({left[0]}\n | {right[0]})", f"(?:{left[1]}|{right[1]})"
    sign = source.choice(["*", "+", "?", "{2}", "{1,}", "{0,2}", "{1,3}"])
    return left[0] + sign, f"(?:{left[1]}){sign}"


@pytest.mark.parametrize("seed", range(30))
def test_random_patterns_as_re_has_them(seed: int) -> None:
    """Overlapping and ambiguous parts included: nothing is matched greedily."""
    parts = [random_pattern(random.Random(10 * seed + part), 3) for part in range(2)]
    grammar = f"root ::= first second # comment\nfirst ::= {parts[0][0]}\n\nsecond ::= {parts[1][0]}\n"
    wanted = re.compile(parts[0][1] + parts[1][1])
    words = ["".join(letters) for length in range(5) for letters in itertools.product("ab", repeat=length)]
    for word in [*words[:: 1 + seed % 3], "é", "aéb", "a\nb"]:
        assert accepts(grammar, word) == bool(wanted.fullmatch(word)), (grammar, word)


@pytest.mark.parametrize("text", [
    '{"a": [1, -2.5e+3, true, null], "b\\u00e9\\n": {}}', "[]", " [ 1 ,2 ] ", '"\\x"', "01", "1.", "{'a': 1}", "[1,]",
    '"a\nb"', '{"a" : {"b" : [[], [[]]]}}', "nul", "-", '"é漢😀"', '{"a":1}}',
])  # fmt: skip
def test_json_as_json_has_it(text: str) -> None:
    try:
        json.loads(text)
        is_json = True
    except ValueError:
        is_json = False
    assert accepts(JSON, text) == is_json


def test_rules_that_contain_themselves() -> None:
    nested = 'root ::= "(" root ")" root |\n'
    left = 'root ::= root "+" digit | digit\ndigit ::= [0-9]\n'
    for word in map("".join, itertools.product("()", repeat=6)):
        assert accepts(nested, word) == (
            word.count("(") == 3 and all(word[:end].count("(") >= word[:end].count(")") for end in range(7))
        )
    assert accepts(left, "1+2+3") and not accepts(left, "1+")


def test_escapes_classes_and_names() -> None:
    grammar = r"""root ::= rule-1 "\x41\u00e9\U0001F600\t\"\\" [\]\-a] [^\n] [x-] Rule_2{0} Rule_2{1,}
rule-1 ::= "a" |
  "b"   # a rule goes on after a bar
Rule_2 ::= "z"
"""
    assert accepts(grammar, 'bAé😀\t"\\]é-z') and accepts(grammar, 'aAé😀\t"\\-.xzz')
    assert not accepts(grammar, 'aAé😀\t"\\b.xz') and not accepts(grammar, 'aAé😀\t"\\a\nxz')
    assert accepts('root ::= "a" # the last definition of a rule holds\nroot ::= "b"', "b")
    assert accepts('root ::= ""', "") and not accepts('root ::= ""', "a")


@pytest.mark.parametrize(("grammar", "message"), [
    ("", "has no rule 'root'"),
    ('start ::= "a"', "has no rule 'root'"),
    ('root ::= "a"\n\nother ::= missing', "line 3 of the grammar: rule 'missing' is not defined"),
    ('root ::= "a\n"', "line 1 of the grammar: the string is not closed"),
    ('root ::= "a"\nb ::= [a', "line 2 of the grammar: the class is not closed"),
    ("root ::= []", "the class has no characters"),
    ("root ::= [z-a]", "the range from 'z' to 'a' is empty"),
    ('root ::= ("a"', r"'\)' is missing"),
    ('root ::= "a")', r"line 1 of the grammar: '\)' is not expected"),
    ('root = "a"', "'::=' is expected after 'root'"),
    ('root ::= "\\q"', "\\\\q is not an escape"),
    ('root ::= "\\x4"', "takes 2 hexadecimal digits"),
    ('root ::= "\\ud800"', "U\\+D800 is not a character"),
    ('root ::= "a"{2,1}', "at least 2 and at most 1"),
    ('root ::= "a"{,2}', "a repetition is {m}, {m,} or {m,n}"),
    ('root ::= "a"{2', "a repetition is {m}, {m,} or {m,n}"),
    ('root ::= "a"{1,99999999999}', "more than 2,000 times"),
    ('root ::= (("a"{100}){100}){100}', "expands to 1,000,000 elements; at most 20,000 are allowed"),
    ('root ::= "a"' + "{2000}" * 2_000, "expands to 4,000,000 elements; at most 20,000 are allowed"),
    ("root ::= " + " ".join(['"a"{1500}'] * 20), "has 30,000 elements with its repetitions; at most 20,000"),
    ("root ::= <think>", "tokens .* are not supported"),
    ("root ::= " + "(" * 100 + ")" * 100, f"nested more than {MAX_DEPTH} levels"),
])  # fmt: skip
def test_errors_name_the_line(grammar: str, message: str) -> None:
    with pytest.raises(InvalidRequestError, match=message):
        GrammarSpec(gbnf=grammar)


def test_large_grammars_compile() -> None:
    tokenizer = tokenizer_from_gguf(small_bpe()[0])
    compiler = GrammarCompiler(tokenizer, tokenizer.eos_ids, tokenizer.vocab_size)
    compiler.prepare()
    compiler.compile(GrammarSpec(gbnf='root ::= a{0,2000}\na ::= b{0,2000} "x"\nb ::= [a-z]{0,2000} "y"\n'))
    with pytest.raises(InvalidRequestError, match="at most 65,536"):
        GrammarSpec(gbnf='root ::= "' + "a" * 70_000 + '"')


def test_nesting_up_to_the_limit() -> None:
    """The compiler's notation takes fewer levels in one rule than GBNF."""
    assert accepts("root ::= " + '("a" ' * MAX_DEPTH + '"b"' + ")?" * MAX_DEPTH, "a" * MAX_DEPTH + "b")
    assert accepts('root ::= "a"' + "?" * 500 + '"b"', "ab")


def test_random_answers_are_what_the_grammar_says() -> None:
    tokenizer = tokenizer_from_gguf(small_bpe()[0])
    compiler = GrammarCompiler(tokenizer, tokenizer.eos_ids, tokenizer.vocab_size)
    bounded = JSON.replace(')* "\\""', '){0,8} "\\""').replace("[ \\t\\n\\r]*", '" "?')
    found = 0
    for seed in range(30):
        answer = random_answer(compiler.compile(GrammarSpec(gbnf=bounded)), tokenizer, random.Random(seed))
        if answer is not None:
            json.loads(answer)
            found += 1
    assert found >= 5


def test_which_grammars_are_gbnf() -> None:
    assert is_gbnf(JSON) and is_gbnf('  root ::= "a"')
    assert not is_gbnf('start: "::=" | A\nA: "a"') and not is_gbnf("")


WALKED = [
    JSON,
    'root ::= ("a" | "ab") "b"? [a-d]{2,3} ("he" | "hello")* .\n',
    'root ::= "(" root ")" root | [^(\\n)]{1,2} | "hello the"\n',
    'root ::= item+\nitem ::= "- " [^\\r\\n\\x0b\\x0c\\u0085]+ "\\n"\n',
    'root ::= [1-9] [0-9]{0,15} | "t" ("h" | " t"){0,4} "ell"\n',
]


def test_masks_as_llama_cpp_has_them(tmp_path: Path) -> None:
    """At every step of random answers, llama.cpp and we allow the same tokens."""
    rows = len(vocabulary())
    state = {name: tensor[:rows] if len(tensor) > rows else tensor for name, tensor in tiny_state().items()}
    path = write_gguf(tmp_path / "tiny.gguf", state)
    tokenizer = tokenizer_from_gguf(open_checkpoint(path).metadata)
    compiler = GrammarCompiler(tokenizer, tokenizer.eos_ids, tokenizer.vocab_size)
    ascii_ids = {
        token for token in range(tokenizer.vocab_size)
        if token not in tokenizer.special_ids and tokenizer.token_bytes(token).isascii()
    }  # fmt: skip
    ascii_ids -= {token for token in ascii_ids if b"\0" in tokenizer.token_bytes(token)}  # the end of a string in C
    steps = 0
    with llama_vocabulary(path) as (library, handle):
        for seed, grammar in enumerate(WALKED * 4):
            source = random.Random(seed)
            constraint = compiler.compile(GrammarSpec(gbnf=grammar))
            theirs = LlamaGrammar(library, handle, grammar, tokenizer.vocab_size)
            written = b""
            for _ in range(24):
                own, other = set(allowed(constraint)), theirs.allowed()
                assert own & ascii_ids == other & ascii_ids, (grammar, written)
                assert (tokenizer.special.eos_id in own) == (tokenizer.special.eos_id in other), (grammar, written)
                choices = sorted(own & ascii_ids)
                if not choices:
                    break
                token = source.choice(choices)
                written += tokenizer.token_bytes(token)
                constraint.advance(token)
                theirs.advance(token)
                steps += 1
            theirs.close()
    assert steps > 100
