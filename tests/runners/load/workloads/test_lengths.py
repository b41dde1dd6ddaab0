"""Token lengths are drawn as asked, within their bounds, and always the same from the same seed."""

import numpy as np
import pytest

from runners.load.words import Words
from runners.load.workloads.lengths import Lengths, mean_tokens
from runners.sources import Length, Shape, length_complaint, length_option, parse_length
from runners.strict_json import SpecError


def drawn(tokens, count=20_000, seed=1):
    lengths, words = Lengths(tokens), Words(seed, "")
    return np.array([lengths.draw(words, key) for key in range(count)])


def test_a_number_is_a_fixed_length():
    assert set(drawn(128, 50)) == {128}


def test_a_uniform_length_reaches_both_of_its_ends():
    found = drawn(Length(Shape.UNIFORM, low=5, high=9))
    assert set(found) == {5, 6, 7, 8, 9}
    assert found.mean() == pytest.approx(7, abs=0.05)


def test_a_uniform_length_in_steps_takes_no_other():
    tokens = Length(Shape.UNIFORM, low=64, high=270, step=64)
    assert set(drawn(tokens)) == {64, 128, 192, 256}
    assert mean_tokens(tokens) == 160
    assert parse_length(length_option(tokens)) == tokens


def test_a_uniform_length_of_one_value_is_that_value_and_never_0():
    assert set(drawn(Length(Shape.UNIFORM, low=1, high=1), 100)) == {1}


@pytest.mark.parametrize("shape", [Shape.NORMAL, Shape.LOGNORMAL])
def test_a_bell_has_the_mean_and_standard_deviation_that_were_asked_for(shape):
    found = drawn(Length(shape, mean=512, sd=100))
    assert found.mean() == pytest.approx(512, rel=0.01)
    assert found.std() == pytest.approx(100, rel=0.03)


@pytest.mark.parametrize("shape", [Shape.NORMAL, Shape.LOGNORMAL])
def test_bounds_are_kept_and_what_lies_outside_does_not_pile_up_on_them(shape):
    found = drawn(Length(shape, mean=100, sd=100, low=20, high=300))
    assert found.min() >= 20
    assert found.max() <= 300
    assert (found == 20).mean() < 0.02


def test_lengths_of_a_file_are_drawn_as_often_as_they_stand_there(tmp_path):
    (tmp_path / "lengths").write_text("10\n10\n10\n\n500\n")
    tokens = Length(Shape.FILE, file=str(tmp_path / "lengths"))
    found = drawn(tokens)
    assert set(found) == {10, 500}
    assert (found == 10).mean() == pytest.approx(0.75, abs=0.02)
    assert mean_tokens(tokens) == pytest.approx(132.5)


@pytest.mark.parametrize(("text", "words"), [("12\nx\n", "line 2"), ("0\n", "line 1"), ("\n", "is empty")])
def test_a_file_that_holds_something_else_is_refused_with_the_line(tmp_path, text, words):
    (tmp_path / "lengths").write_text(text)
    with pytest.raises(SpecError, match=words):
        Lengths(Length(Shape.FILE, file=str(tmp_path / "lengths")))


def test_a_file_that_is_missing_is_refused():
    with pytest.raises(SpecError, match="cannot be read"):
        Lengths(Length(Shape.FILE, file="/nowhere/lengths"))


@pytest.mark.parametrize(
    "tokens",
    [
        128,
        Length(Shape.UNIFORM, low=64, high=256),
        Length(Shape.LOGNORMAL, mean=512.0, sd=99.5, low=16, high=2048),
        Length(Shape.FILE, file="/a/b"),
    ],
)
def test_a_length_is_written_as_an_option_and_read_back_the_same(tokens):
    assert parse_length(length_option(tokens)) == tokens


@pytest.mark.parametrize("text", ["", "-1", "1.5", "bell:mean=3", "normal:mean", "normal:mode=3", "normal:mean=nan"])
def test_what_is_no_length_is_refused(text):
    with pytest.raises(ValueError, match=r"neither|is not one of|write it as"):
        parse_length(text)


@pytest.mark.parametrize(
    "tokens",
    [
        0,
        Length(Shape.UNIFORM, low=5),
        Length(Shape.UNIFORM, low=9, high=5),
        Length(Shape.NORMAL, mean=5),
        Length(Shape.NORMAL, mean=5, sd=-1),
        Length(Shape.LOGNORMAL, mean=500, sd=1, high=100),
        Length(Shape.FILE),
        Length(Shape.UNIFORM, low=0, high=5),
    ],
)
def test_lengths_that_cannot_be_drawn_have_a_complaint(tokens):
    assert length_complaint(tokens, 1000)
