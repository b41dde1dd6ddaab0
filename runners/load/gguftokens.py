"""The tokenizer that lies in a GGUF model file, made with the tokenizers library.

Of the kinds that GGUF has ("tokenizer.ggml.model"), byte-level BPE ("gpt2") is read; how text is cut into words before
it is merged goes by "tokenizer.ggml.pre". The names and cuts are those of llama.cpp (src/llama-vocab.cpp).
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from runners.gguf import GgufError, read_head

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from tokenizers.pre_tokenizers import PreTokenizer

_MODEL, _PRE, _TOKENS, _TYPES, _MERGES = (
    f"tokenizer.ggml.{name}" for name in ("model", "pre", "tokens", "token_type", "merges")
)
#: Types of tokens that stand for themselves wherever their text occurs: unknown, control, user defined.
_WHOLE = (2, 3, 4)

_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,%d}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)
_MARKED_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)
#: Words in which a capital after small letters begins the next one.
_CAPITALS = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+%s"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*%s"
    r"|\p{N}%s| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_SHORTENED = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
_DEEPSEEK = (
    r"\p{N}{1,3}",
    r"[一-龥぀-ゟ゠-ヿ]+",
    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*"""
    r"""|\s*[\r\n]+|\s+(?!\S)|\s+""",
)
#: Byte-level BPE of the family of Llama 3: a word that is a token is not merged from its parts.
_LLAMA3 = ("llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2")
_WHOLE_WORDS = (*_LLAMA3, "tekken")
#: Cuts, one within the other, by the name of the pre-tokenizer.
_CUTS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("gpt-2", "phi-2", "mpt", "olmo", "jais"), (_GPT2,)),
    **dict.fromkeys(
        ("smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b"), (r"\p{N}", _GPT2)
    ),
    **dict.fromkeys(("qwen2", "deepseek-r1-qwen", "stablelm2", "megrez", "hunyuan"), (_WORDS % 1,)),
    **dict.fromkeys((*_LLAMA3, "dbrx", "smaug-bpe", "glm4", "chatglm-bpe"), (_WORDS % 3,)),
    "qwen35": (_MARKED_WORDS,),
    "tekken": (_CAPITALS % ("", "", ""),),
    **dict.fromkeys(("gpt-4o", "llama4"), (_CAPITALS % (_SHORTENED, _SHORTENED, "{1,3}"),)),
    "deepseek-v3": _DEEPSEEK,
}


class NotRead(ValueError):
    """A tokenizer of a kind that is not read, or a file that is not whole."""


def gguf_tokenizer(path: Path) -> "Tokenizer":
    """Raises NotRead."""
    try:
        with path.open("rb") as file:
            values = read_head(file, {_MODEL, _PRE, _TOKENS, _TYPES, _MERGES}).values
    except (OSError, GgufError) as error:
        raise NotRead(str(error)) from None
    kind, cut = values.get(_MODEL), values.get(_PRE)
    if kind != "gpt2":
        raise NotRead(f'its tokenizer is of the kind "{kind}"; of a GGUF file only "gpt2" (byte-level BPE) is read')
    if cut not in _CUTS:
        raise NotRead(f'how its tokenizer cuts words ("{cut}") is not known; known are {", ".join(_CUTS)}')
    try:
        return _made(values, cut)
    except Exception as error:  # the library raises plain Exception
        raise NotRead(f"its tokenizer is not whole ({error})") from None


def _made(values: dict[str, Any], cut: str) -> "Tokenizer":
    from tokenizers import AddedToken, Tokenizer, models

    tokens = values[_TOKENS]
    split = [merge.index(" ", 1) for merge in values[_MERGES]]
    merges = [(merge[:at], merge[at + 1 :]) for merge, at in zip(values[_MERGES], split, strict=True)]
    numbers = {token: number for number, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.BPE(numbers, merges, ignore_merges=cut in _WHOLE_WORDS))
    tokenizer.pre_tokenizer = _pre_tokenizer(cut)
    whole = [token for token, kind in zip(tokens, values[_TYPES], strict=True) if kind in _WHOLE]
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in whole])
    return tokenizer


def _pre_tokenizer(cut: str) -> "PreTokenizer":
    from tokenizers import Regex, pre_tokenizers

    cuts = [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in _CUTS[cut]]
    return pre_tokenizers.Sequence([*cuts, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
