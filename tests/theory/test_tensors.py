"""Matrices of model files: written here byte by byte, and those of a real GGUF."""

import json
import struct
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from observatory.theory import model_files, quantization, tensors
from observatory.theory.calculator import Refused
from runners.engines.packaged import model_path

VALUES = np.arange(-64, 64, dtype=np.float64).reshape(2, 64) / 16


def safetensors(path: Path, stored: dict[str, tuple[str, bytes]], shape: tuple[int, ...] = (2, 64)) -> Path:
    header, body = {"__metadata__": {"format": "pt"}}, b""
    for name, (kind, raw) in stored.items():
        header[name] = {"dtype": kind, "shape": list(shape), "data_offsets": [len(body), len(body) + len(raw)]}
        body += raw
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)
    return path


def text(words: str) -> bytes:
    return struct.pack("<Q", len(words)) + words.encode()


def gguf(path: Path, kind: int, raw: bytes, alignment: int = 64) -> Path:
    pairs = text("general.alignment") + struct.pack("<II", 4, alignment)
    pairs += text("general.name") + struct.pack("<I", 8) + text("small")
    pairs += text("tokens") + struct.pack("<IIQ", 9, 8, 2) + text("a") + text("b")
    pairs += text("scores") + struct.pack("<IIQ2f", 9, 6, 2, 1.0, 2.0)
    info = text("w") + struct.pack("<IQQIQ", 2, 64, 2, kind, 0)
    head = struct.pack("<4sIQQ", b"GGUF", 3, 1, 4) + pairs + info
    path.write_bytes(head + b"\0" * (-len(head) % alignment) + raw)
    return path


def bf16(values: np.ndarray[Any, Any]) -> bytes:
    return (values.astype("<f4").view("<u4") >> 16).astype("<u2").tobytes()


def q8_0(values: np.ndarray[Any, Any]) -> bytes:
    blocks = b""
    for block in values.reshape(-1, 32):
        scale = np.float16(np.abs(block).max() / 127)
        blocks += scale.tobytes() + np.rint(block / float(scale)).astype("i1").tobytes()
    return blocks


def packed(levels: np.ndarray[Any, Any]) -> bytes:
    return (levels[:16] | (levels[16:] << 4)).astype("u1").tobytes()


def q4_0(values: np.ndarray[Any, Any]) -> bytes:
    blocks = b""
    for block in values.reshape(-1, 32):
        scale = np.float16(np.abs(block).max() / 7)
        levels = np.clip(np.rint(block / float(scale)) + 8, 0, 15).astype("u1")
        blocks += scale.tobytes() + packed(levels)
    return blocks


def q4_1(values: np.ndarray[Any, Any]) -> bytes:
    blocks = b""
    for block in values.reshape(-1, 32):
        least = np.float16(block.min())
        scale = np.float16((block.max() - block.min()) / 15)
        levels = np.clip(np.rint((block - float(least)) / float(scale)), 0, 15).astype("u1")
        blocks += scale.tobytes() + least.tobytes() + packed(levels)
    return blocks


def only(path: Path) -> np.ndarray[Any, Any]:
    (found,) = tensors.listing(path)
    assert found.shape == (2, 64)
    return tensors.read(path, found, 100, 100)


@pytest.mark.parametrize(
    ("kind", "raw"),
    [
        ("F64", VALUES.astype("<f8").tobytes()),
        ("F32", VALUES.astype("<f4").tobytes()),
        ("F16", VALUES.astype("<f2").tobytes()),
        ("BF16", bf16(VALUES)),
    ],
)
def test_safetensors_are_read_exactly(tmp_path: Path, kind: str, raw: bytes) -> None:
    assert (only(safetensors(tmp_path / "a.safetensors", {"w": (kind, raw)})) == VALUES).all()


@pytest.mark.parametrize(
    ("kind", "raw", "step"),
    [
        (0, VALUES.astype("<f4").tobytes(), 0),
        (1, VALUES.astype("<f2").tobytes(), 0),
        (30, bf16(VALUES), 0),
        (8, q8_0(VALUES), 4 / 127),
        (2, q4_0(VALUES), 4 / 7),
        (3, q4_1(VALUES), 2 / 15),
    ],
)
def test_gguf_is_read_to_within_half_a_step_of_its_type(tmp_path: Path, kind: int, raw: bytes, step: float) -> None:
    assert np.abs(only(gguf(tmp_path / "a.gguf", kind, raw)) - VALUES).max() <= step * 0.51


def test_only_the_rows_and_columns_asked_for_come(tmp_path: Path) -> None:
    path = safetensors(tmp_path / "a.safetensors", {"w": ("F32", VALUES.astype("<f4").tobytes())})
    assert tensors.read(path, tensors.listing(path)[0], 1, 10).tolist() == VALUES[:1, :10].tolist()


def test_the_embedded_model_is_read(tmp_path: Path, settings: Any) -> None:
    settings.MODELS_DIR = tmp_path
    matrix = model_files.matrix(model_path().name, "blk.0.attn_q.weight", 256, 1024)
    assert matrix.shape == (256, 576)
    assert 0.01 < matrix.std() < 1


@pytest.mark.parametrize(
    "damaged", [b"", b"GGUF", b"GGUF" + b"\xff" * 40, struct.pack("<Q", 10) + b"{not json}", b"\0" * 100, b"\xff" * 8]
)
def test_a_damaged_file_is_refused_in_words(tmp_path: Path, damaged: bytes) -> None:
    (tmp_path / "a.gguf").write_bytes(damaged)
    with pytest.raises(tensors.TensorError, match=r"\."):
        tensors.listing(tmp_path / "a.gguf")


@settings(max_examples=100, deadline=None, derandomize=True, database=None)
@given(place=st.integers(0, 250), value=st.integers(0, 255), length=st.integers(0, 500))
def test_a_changed_or_cut_file_is_read_or_refused_and_nothing_else(
    tmp_path_factory: pytest.TempPathFactory, place: int, value: int, length: int
) -> None:
    path = gguf(tmp_path_factory.mktemp("cut") / "a.gguf", 8, q8_0(VALUES))
    raw = bytearray(path.read_bytes())
    raw[min(place, len(raw) - 1)] = value
    path.write_bytes(bytes(raw[:length] if length < len(raw) else raw))
    with suppress(tensors.TensorError):
        for tensor in tensors.listing(path):
            assert np.isfinite(tensors.read(path, tensor, 10, 10)).all()


def test_the_lab_runs_on_a_file_by_name_and_never_by_path(tmp_path: Path, settings: Any) -> None:
    settings.MODELS_DIR = tmp_path / "models"
    settings.MODELS_DIR.mkdir()
    weights = np.random.default_rng(1).normal(0, 1, (64, 64))
    raw = {"w": ("F32", weights.astype("<f4").tobytes())}
    safetensors(settings.MODELS_DIR / "a.safetensors", raw, (64, 64))
    safetensors(tmp_path / "secret.safetensors", raw, (64, 64))
    outputs = quantization.QUANTIZATION.run(quantization.Inputs(file="a.safetensors", samples=128))
    assert (outputs.rows, outputs.columns) == (64, 64)
    for name in ("../secret.safetensors", str(tmp_path / "secret.safetensors")):
        with pytest.raises(Refused, match="There is no model file"):
            quantization.QUANTIZATION.run(quantization.Inputs(file=name))


def test_a_tensor_that_is_not_there_is_refused_with_near_names(tmp_path: Path, settings: Any) -> None:
    settings.MODELS_DIR = tmp_path
    safetensors(tmp_path / "a.safetensors", {"layer.0.weight": ("F32", VALUES.astype("<f4").tobytes())})
    with pytest.raises(Refused, match=r"Choose such as layer\.0\.weight"):
        model_files.matrix("a.safetensors", "layer.0.wieght", 10, 10)


def test_an_upload_is_kept_under_a_clean_name(tmp_path: Path, settings: Any) -> None:
    settings.MODELS_DIR = tmp_path / "models"
    raw = gguf(tmp_path / "a.gguf", 8, q8_0(VALUES)).read_bytes()
    kept = model_files.keep("../..//my model.gguf", [raw[:100], raw[100:]])
    assert kept == "my-model.gguf"
    assert (settings.MODELS_DIR / kept).read_bytes() == raw
    assert [path.name for path in settings.MODELS_DIR.iterdir()] == [kept]


@pytest.mark.parametrize(("name", "raw"), [("a.gguf", b"nonsense"), ("a.txt", b"GGUF"), (".gguf", b"GGUF")])
def test_an_upload_that_is_no_model_file_is_refused_and_not_kept(
    tmp_path: Path, settings: Any, name: str, raw: bytes
) -> None:
    settings.MODELS_DIR = tmp_path
    with pytest.raises(Refused, match=r"no (whole|model)"):
        model_files.keep(name, [raw])
    assert list(tmp_path.iterdir()) == []
