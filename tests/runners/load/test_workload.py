"""Prompts have their length and no two runs share an opening."""

import base64
import itertools
import struct
import zlib

import pytest

from runners import spec
from runners.load.workload import WORDS, Images, LengthFit, Models, Prompts


def test_the_same_seed_salt_and_index_give_the_same_prompt():
    assert Prompts(0, "a", 50).prompt(3) == Prompts(0, "a", 50).prompt(3)


def test_prompts_differ_from_the_first_words_on_between_indices_salts_and_seeds():
    openings = {
        " ".join(Prompts(seed, salt, 40).prompt(index).split()[:4])
        for seed in range(3)
        for salt in ("a", "b", "c")
        for index in range(100)
    }
    assert len(openings) == 900


def test_words_are_distinct_and_the_length_is_as_asked():
    assert len(set(WORDS)) == len(WORDS) > 200
    assert len(Prompts(1, "s", 77).prompt(0).split()) == 77


@pytest.mark.parametrize(("overhead", "per_word"), [(30, 1), (0, 1), (12, 1.25)])
def test_the_fit_finds_the_template_and_the_tokens_of_a_word(overhead, per_word):
    fit = LengthFit.from_counts((16, round(overhead + 16 * per_word)), (112, round(overhead + 112 * per_word)))
    assert fit.checked
    words = fit.words_for(500)
    assert overhead + words * per_word == pytest.approx(500, abs=1)


def test_an_endpoint_that_counts_nonsense_is_not_believed():
    for large in (50, 60, 16 * 200, 1):
        assert LengthFit.from_counts((16, 50), (112, large)) == LengthFit()


def test_a_prompt_has_at_least_one_word():
    assert LengthFit(overhead_tokens=30).words_for(5) == 1


def decoded(png: bytes) -> tuple[int, int, bytes]:
    """(width, height, RGB of every pixel) of an 8-bit palette PNG; every checksum is checked."""
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    chunks, at = {}, 8
    while at < len(png):
        (length,) = struct.unpack(">I", png[at : at + 4])
        kind, data = png[at + 4 : at + 8], png[at + 8 : at + 8 + length]
        assert struct.unpack(">I", png[at + 8 + length : at + 12 + length])[0] == zlib.crc32(kind + data)
        chunks[kind], at = data, at + 12 + length
    assert list(chunks) == [b"IHDR", b"PLTE", b"IDAT", b"IEND"]
    width, height, depth, colour, *_ = struct.unpack(">IIBBBBB", chunks[b"IHDR"])
    assert (depth, colour) == (8, 3)
    lines = zlib.decompress(chunks[b"IDAT"])
    assert len(lines) == height * (width + 1)
    palette = chunks[b"PLTE"]
    indices = [index for row in range(height) for index in lines[row * (width + 1) + 1 : (row + 1) * (width + 1)]]
    return width, height, b"".join(palette[3 * index : 3 * index + 3] for index in indices)


@pytest.mark.parametrize(("width", "height"), [(1, 1), (64, 32), (33, 70)])
def test_images_are_valid_and_of_the_size_asked_for(width, height):
    (image,) = Images(spec.Images(1, width, height), "salt", 0).of(0)
    assert decoded(base64.b64decode(image))[:2] == (width, height)


def test_no_two_images_share_their_pixels_and_the_same_seed_gives_the_same():
    asked = spec.Images(2, 40, 40)
    first = [*Images(asked, "salt", 0).of(0), *Images(asked, "salt", 0).of(1), *Images(asked, "pepper", 0).of(0)]
    pixels = [decoded(base64.b64decode(image))[2] for image in first]
    assert len(set(pixels)) == 6
    for one, other in itertools.combinations(pixels, 2):
        assert sum(a == b for a, b in zip(one, other, strict=True)) < 0.1 * len(one)
    assert first[:2] == [*Images(asked, "salt", 0).of(0)]


def test_models_are_picked_by_weight_and_alike_for_the_same_seed():
    shares = (spec.ModelShare("base", 3), spec.ModelShare("lora", 1))
    picks = [Models(shares, 7, "salt").pick(index) for index in range(4000)]
    assert 0.72 < picks.count("base") / 4000 < 0.78
    assert picks[:50] == [Models(shares, 7, "salt").pick(index) for index in range(50)]
    assert picks[:50] != [Models(shares, 8, "salt").pick(index) for index in range(50)]
    assert Models((), 7, "salt").pick(0) == ""
