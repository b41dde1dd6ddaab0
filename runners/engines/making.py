"""Making model files out of the packaged model: fewer layers, other types of numbers, another format."""

import re
import shutil
import tempfile
from pathlib import Path

from runners.engines import adapters, checkpoint, feed_forward, heads
from runners.engines.derived import GGUF_FORMS, LAYERS, SUMS, Derived, cache, is_whole, path_of, sums_of
from runners.engines.ggml import BLOCKS, Gguf, Tensor, write
from runners.engines.packaged import model_path

#: What stands in for a type whose blocks do not divide a row, as llama.cpp does it (src/llama-quant.cpp).
_FALLBACK = {"Q4_K": "Q5_0", "Q6_K": "Q8_0"}


def make(asked: Derived) -> Path:
    """Makes it where it is not there whole. Raises GgufError, OSError."""
    if not is_whole(asked):
        folder = cache() / asked.folder_name
        cache().mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache()) as parent:
            made = Path(parent) / asked.folder_name
            made.mkdir()
            _fill(asked, made)
            (made / SUMS).write_text(sums_of(made))
            shutil.rmtree(folder, ignore_errors=True)
            made.rename(folder)
    return path_of(asked)


def _fill(asked: Derived, folder: Path) -> None:
    source = Gguf(model_path())
    kept = source.tensors(lambda name: kept_name(name, asked.layers))
    if asked.is_head:
        heads.write(source, asked.form, folder)
        return
    if asked.is_adapter:
        adapters.write(source, asked.seed, folder)
        return
    if asked.is_folder:
        checkpoint.write(source, kept, asked.layers, asked.form, folder)
        return
    architecture = source.text("general.architecture")
    numbers = {
        "general.file_type": GGUF_FORMS[asked.form],
        f"{architecture}.block_count": asked.layers,
        **feed_forward.numbers(asked, architecture, source.number(f"{architecture}.feed_forward_length")),
    }
    typed = ((made, kind_of(made, asked)) for tensor in kept for made in feed_forward.remade(tensor, asked))
    write(source, typed, numbers, folder / f"{asked.folder_name}.gguf")


def kept_name(name: str, layers: int) -> str | None:
    """The name of a tensor in a model of so few layers; None where it goes: the layers before the last two go."""
    found = re.fullmatch(r"blk\.(\d+)\.(.+)", name)
    if found is None:
        return name
    layer, dropped = int(found[1]), LAYERS - layers
    first = LAYERS - 2 - dropped
    if first <= layer < first + dropped:
        return None
    return f"blk.{layer if layer < first else layer - dropped}.{found[2]}"


def kind_of(tensor: Tensor, asked: Derived) -> str:
    """Norms and routers of experts stay as they are. As llama.cpp does it (src/llama-quant.cpp): the embedding, which
    is the output too, is kept in 6 bits or more; in the mixed form half of the layers have attention values and down
    projections in 6 bits.
    """
    if not tensor.matrix or feed_forward.ROUTER in tensor.name:
        return "F32"
    if asked.form in ("F16", "BF16"):
        return asked.form
    kind = "Q4_K" if asked.form == "Q4_K_M" else asked.form
    if tensor.name == "token_embd.weight":
        kind = "Q8_0" if kind == "Q8_0" else "Q6_K"
    elif (
        asked.form == "Q4_K_M" and re.search(r"attn_v|ffn_down", tensor.name) and _gets_more(tensor.name, asked.layers)
    ):
        kind = "Q6_K"
    return kind if tensor.shape[-1] % BLOCKS.get(kind, 32) == 0 else _FALLBACK[kind]


def _gets_more(name: str, layers: int) -> bool:
    """The first and the last eighth, and of those between each third."""
    layer, eighth = int(name.split(".")[1]), layers // 8
    return layer < eighth or layer >= 7 * layers // 8 or (layer - eighth) % 3 == 2
