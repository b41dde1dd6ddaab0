"""Tokens counted with a GGUF model file are those that llama.cpp counts with it."""

import json
import random
import struct
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from runners.engines.packaged import model_path
from runners.load.gguftokens import gguf_tokenizer
from runners.load.tokens import tokenizer_counter
from tests.services.engine import embedded_engine

TEXTS = (
    "", "Hello world", " leading and  double   spaces ", "tabs\t\tand\nlines\n\n\n  x\r\n\r\n",
    "12345 1 22 3.14e-10 0x1F", "I'm you're WE'LL it's DON'T o'clock 's", "camelCase HTTPServer2 a_b",
    'def f(x: int) -> str:\n    return f"{x!r}"  # ok\n\n\nclass A:\n\tpass\n', "{}[]()<>/\\|`~@#$%^&*_+-=",
    "na\u00efve caf\u00e9 \u00df \u017f \u00bd \u00b2 \u2167 \u0663\u0664 \u0967\u0968",
    "日本語のテキスト、漢字。", "한국어 텍스트", "e\u0301 a\u030a", "x" * 300, " " * 130, "\n" * 20,
    "русский текст, ещё", "العربية", "हिन्दी क्षत्रिय", "👍🏽 🎉🎉", "\U0001f468\u200d\U0001f467", "…—–“quotes” «g»",
    "!!!??? ;;;", "<|im_start|>user\nhi<|im_end|>", "a\u00a0b\u2003c\u200bd\u3000e", "\x85 \u2028 x",
)  # fmt: skip


def mixed() -> list[str]:
    chance, characters = random.Random(3), "".join(TEXTS)
    return ["".join(chance.choice(characters) for _ in range(60)) for _ in range(40)]


def test_the_embedded_model_counts_as_its_server_does(tmp_path):
    count = tokenizer_counter(str(model_path()))
    with embedded_engine(tmp_path) as url:

        def asked(text: str) -> int:
            body = json.dumps({"content": text}).encode()
            request = urllib.request.Request(f"{url}/tokenize", body, {"content-type": "application/json"})
            with urllib.request.urlopen(request, timeout=20) as response:
                return len(json.loads(response.read())["tokens"])

        texts = [*TEXTS, *mixed()]
        assert [count(text) for text in texts] == [asked(text) for text in texts]


def text(value: str) -> bytes:
    raw = value.encode()
    return struct.pack("<Q", len(raw)) + raw


def gguf(path: Path, **pairs: Any) -> Path:
    """A file without tensors: texts, lists of texts and lists of numbers under tokenizer.ggml."""
    parts = [b"GGUF", struct.pack("<IQQ", 3, 0, len(pairs))]
    for name, value in pairs.items():
        parts.append(text(f"tokenizer.ggml.{name}"))
        if isinstance(value, str):
            parts += [struct.pack("<I", 8), text(value)]
        elif value and isinstance(value[0], str):
            parts += [struct.pack("<IIQ", 9, 8, len(value)), *map(text, value)]
        else:
            parts.append(struct.pack(f"<IIQ{len(value)}i", 9, 5, len(value), *value))
    path.write_bytes(b"".join(parts))
    return path


def small(path: Path, pre: str, model: str = "gpt2") -> Path:
    tokens = [*"abcABC0123456789é", "ab", "<end>"]
    return gguf(path, model=model, pre=pre, tokens=tokens, token_type=[1] * (len(tokens) - 1) + [3], merges=["a b"])


@pytest.mark.parametrize(
    ("pre", "words"),
    [
        ("gpt-2", ["ab", "'ll", "ĠAb", "Ġ12345", "!"]),
        ("smollm", ["ab", "'ll", "ĠAb", "Ġ", "1", "2", "3", "4", "5", "!"]),
        ("qwen2", ["ab", "'ll", "ĠAb", "Ġ", "1", "2", "3", "4", "5", "!"]),
        ("llama-bpe", ["ab", "'ll", "ĠAb", "Ġ", "123", "45", "!"]),
        ("gpt-4o", ["ab'll", "ĠAb", "Ġ", "123", "45", "!"]),
        ("tekken", ["ab", "'ll", "ĠAb", "Ġ", "1", "2", "3", "4", "5", "!"]),
        ("deepseek-v3", ["ab", "'ll", "ĠAb", "Ġ", "123", "45", "!"]),
    ],
)
def test_words_are_cut_as_the_file_names_it(tmp_path, pre, words):
    tokenizer = gguf_tokenizer(small(tmp_path / "m.gguf", pre))
    assert [word for word, _ in tokenizer.pre_tokenizer.pre_tokenize_str("ab'll Ab 12345!")] == words


def test_pairs_are_merged_and_special_tokens_stand_for_themselves(tmp_path):
    assert gguf_tokenizer(small(tmp_path / "m.gguf", "gpt-2")).encode("abc<end>").tokens == ["ab", "c", "<end>"]


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (lambda path: small(path, "default", model="llama"), 'of the kind "llama"'),
        (lambda path: small(path, "of-tomorrow"), r'\("of-tomorrow"\) is not known; known are gpt-2'),
        (lambda path: gguf(path, model="gpt2", pre="gpt-2", tokens=["a"]), "not whole"),
        (lambda path: path.write_bytes(small(path, "gpt-2").read_bytes()[:-30]), "cut off"),
        (lambda path: path.write_bytes(b"GGUF\xff\x00\x00\x00" + bytes(64)), "version 255"),
    ],
)
def test_one_that_cannot_be_read_is_refused_with_both_ways_out(tmp_path, made, words):
    made(tmp_path / "m.gguf")
    with pytest.raises(ValueError, match=rf"GGUF model.*{words}.*/tokenize.*tokenizer\.json"):
        tokenizer_counter(str(tmp_path / "m.gguf"))
