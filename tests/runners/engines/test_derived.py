"""Forms of the packaged model, made by llama.cpp's own library and read by llama.cpp's own server."""

import json
import subprocess
import sys
import urllib.request
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer

from observatory.theory import tensors
from runners.engines.derived import Derived, is_whole, path_of, sums
from runners.engines.launch import launch
from runners.engines.packaged import MODEL_NAME, model_path
from runners.engines.recipe import Recipe
from runners.strict_json import SpecError

ROOT = Path(__file__).resolve().parents[3]


def asked(name: str) -> Derived:
    found = Derived.named(name, "name")
    assert found
    return found


def made(name: str) -> Path:
    ended = subprocess.run(
        [sys.executable, "-m", "runners", "model", name], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert ended.returncode == 0, ended.stderr
    assert Path(ended.stdout.strip()) == path_of(asked(name))
    return path_of(asked(name))


def kinds(path: Path) -> dict[str, str]:
    return {tensor.name: tensor.kind.name for tensor in tensors.listing(path)}


def matrix(path: Path, name: str) -> tensors.Matrix:
    tensor = next(item for item in tensors.listing(path) if item.name == name)
    return tensors.read(path, tensor, 64, 576)


def test_heads_that_guess_ahead_have_the_layout_and_the_embedding_of_their_model(cache: Path) -> None:
    medusa, eagle, model = (made(f"{MODEL_NAME}:{form}") for form in ("MEDUSA", "EAGLE", "HF:layers=2"))
    config = json.loads((medusa / "config.json").read_text())
    assert (config["model_type"], config["num_heads"], config["truncated_vocab_size"]) == ("medusa", 3, 49152)
    embedding = matrix(model / "model.safetensors", "model.embed_tokens.weight")
    assert np.array_equal(matrix(medusa / "model.safetensors", "lm_heads.2.weight"), embedding)
    with pytest.raises(tensors.TensorError, match="only zeros"):
        matrix(medusa / "model.safetensors", "blocks.0.layers.0.weight")
    assert np.array_equal(matrix(eagle / "model.safetensors", "embed_tokens.weight"), embedding)
    assert np.std(matrix(eagle / "model.safetensors", "fc.weight")) == pytest.approx(0.02, rel=0.05)
    assert json.loads((eagle / "config.json").read_text())["num_hidden_layers"] == 1
    sizes = {tensor.name: tensor.shape for tensor in tensors.listing(eagle / "model.safetensors")}
    assert sizes["layers.0.self_attn.k_proj.weight"] == (192, 576)


def test_an_adapter_has_the_layout_of_peft_and_numbers_by_its_seed(cache: Path) -> None:
    first, again, second = (made(f"{MODEL_NAME}:LORA{seed}") for seed in ("", ":seed=0", ":seed=1"))
    assert first == again != second
    config = json.loads((first / "adapter_config.json").read_text())
    assert (config["peft_type"], config["r"], len(config["target_modules"])) == ("LORA", 8, 7)
    weights = first / "adapter_model.safetensors"
    sizes = {tensor.name: tensor.shape for tensor in tensors.listing(weights)}
    assert len(sizes) == 30 * 7 * 2
    path = "base_model.model.model.layers.29.mlp.down_proj"
    assert (sizes[f"{path}.lora_A.weight"], sizes[f"{path}.lora_B.weight"]) == ((8, 1536), (576, 8))
    assert sum(np.prod(shape) for shape in sizes.values()) == 2_442_240
    name = f"{path}.lora_B.weight"
    assert not np.array_equal(matrix(weights, name), matrix(second / weights.name, name))


@pytest.mark.parametrize("form", ["MEDUSA:layers=20", "EAGLE:layers=2", "LORA:layers=2"])
def test_what_goes_with_the_model_has_no_layers_to_keep(form: str) -> None:
    with pytest.raises(SpecError, match="no layers to keep"):
        asked(f"{MODEL_NAME}:{form}")


def test_a_smaller_type_is_near_the_source_and_fewer_layers_are_served(cache: Path) -> None:
    name = f"{MODEL_NAME}:Q4_0:layers=4"
    recipe = Recipe.from_json({"engine": "llama.cpp", "model": name, "options": {"n_parallel": 1, "n_ctx": 256}})
    told: list[str] = []
    with launch(recipe, tell=told.append) as engine:
        assert engine.model == name
        assert engine.facts()["model_files"] == sums(asked(name)).splitlines()
        with urllib.request.urlopen(f"{engine.url}/v1/models", timeout=10) as response:
            about = json.load(response)["data"][0]["meta"]
    assert any(words.startswith(f"making {name}") for words in told)
    path = path_of(asked(name))
    found = kinds(path)
    assert len(found) == 2 + 4 * 9
    assert found["token_embd.weight"] == "Q8_0"
    assert found["blk.3.ffn_up.weight"] == "Q4_0"
    assert about["n_params"] < 45_000_000
    first, last = matrix(model_path(), "blk.0.attn_q.weight"), matrix(model_path(), "blk.29.attn_q.weight")
    for name, source in (("blk.0.attn_q.weight", first), ("blk.3.attn_q.weight", last)):
        error = np.abs(matrix(path, name) - source).max() / np.abs(source).max()
        assert 0 < error < 0.1


def test_a_mixture_is_served_with_all_its_experts(cache: Path) -> None:
    name = f"{MODEL_NAME}:F16:layers=2:experts=4"
    recipe = Recipe.from_json({"engine": "llama.cpp", "model": name, "options": {"n_parallel": 1, "n_ctx": 256}})
    with launch(recipe) as engine:
        with urllib.request.urlopen(f"{engine.url}/v1/models", timeout=10) as response:
            parameters = json.load(response)["data"][0]["meta"]["n_params"]
        body = json.dumps({"prompt": "The capital of France is", "max_tokens": 8, "ignore_eos": True}).encode()
        request = urllib.request.Request(f"{engine.url}/v1/completions", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as response:
            assert json.load(response)["usage"]["completion_tokens"] == 8
    width, inner = 576, 1536
    attention, norms = 2 * width * (width + 192), 2 * width
    feed_forward = 2 * 3 * width * inner + 4 * width  # four experts of half the width, and their router
    assert parameters == 49152 * width + width + 2 * (attention + norms + feed_forward)
    found = kinds(path_of(asked(name)))
    assert (found["blk.0.ffn_down_exps.weight"], found["blk.0.ffn_gate_inp.weight"]) == ("F16", "F32")


def test_a_wider_model_is_the_source_several_times(cache: Path) -> None:
    path = made(f"{MODEL_NAME}:F16:layers=2:width=2")
    tensors_by_name = {tensor.name: tensor for tensor in tensors.listing(path)}
    up, down = (
        tensors.read(path, tensors_by_name[f"blk.0.{part}.weight"], 3072, 3072) for part in ("ffn_up", "ffn_down")
    )
    assert (up.shape, down.shape) == ((3072, 576), (576, 3072))
    assert np.array_equal(up[:1536], up[1536:])
    assert np.array_equal(down[:, :1536], down[:, 1536:])
    assert np.allclose(2 * down[:64, :576], matrix(model_path(), "blk.28.ffn_down.weight"), rtol=2**-10, atol=0)


def test_a_damaged_file_is_made_again(cache: Path) -> None:
    name = f"{MODEL_NAME}:F16:layers=2"
    path = made(name)
    whole = path.read_bytes()
    assert set(kinds(path).values()) == {"F16", "F32"}
    path.write_bytes(whole[:-1])
    assert not is_whole(asked(name))
    assert made(name).read_bytes() == whole
    assert is_whole(asked(name))


def test_the_folder_for_vllm_has_the_same_words_and_weights(cache: Path, engine: tuple[str, str]) -> None:
    folder = made(f"{MODEL_NAME}:HF:layers=2")
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    for text in ("Hello, world! 1234 × 5", "<|im_start|>user\nNaïve café\n\n  tabs\t<|im_end|>", "东京 🙂 don't"):
        body = json.dumps({"content": text, "parse_special": True}).encode()
        request = urllib.request.Request(f"{engine[0]}/tokenize", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=10) as response:
            assert tokenizer.encode(text).ids == json.load(response)["tokens"]
    config = json.loads((folder / "config.json").read_text())
    assert (config["num_hidden_layers"], config["num_attention_heads"], config["num_key_value_heads"]) == (2, 9, 3)
    ours = matrix(folder / "model.safetensors", "model.layers.1.mlp.up_proj.weight")
    source = matrix(model_path(), "blk.29.ffn_up.weight")
    assert np.allclose(ours, source, rtol=2**-8, atol=0)
    rotated = matrix(folder / "model.safetensors", "model.layers.0.self_attn.q_proj.weight")
    pairs = matrix(model_path(), "blk.28.attn_q.weight")
    assert np.allclose(rotated, np.concatenate([pairs[0::2], pairs[1::2]]), rtol=2**-8, atol=0)


@pytest.mark.parametrize(
    "name",
    [
        "other",
        f"{MODEL_NAME}:Q9",
        f"{MODEL_NAME}:layers=1",
        f"{MODEL_NAME}:F16:experts=1",
        f"{MODEL_NAME}:F16:experts=4:width=2",
        f"{MODEL_NAME}:HF:width=2",
    ],
)
def test_a_name_that_is_none_is_refused_in_words(name: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "runners", "model", name], cwd=ROOT, capture_output=True, text=True, timeout=30
    )
    assert ended.returncode == 2
    assert ended.stderr.startswith("name: ")
