"""Prompts have their length and no two runs share an opening."""

import pytest

from runners.load.words import WORDS, LengthFit, Words


def test_the_same_seed_salt_and_index_give_the_same_prompt():
    assert Words(0, "a").text("3", 50) == Words(0, "a").text("3", 50)


def test_prompts_differ_from_the_first_words_on_between_indices_salts_and_seeds():
    openings = {
        " ".join(Words(seed, salt).text(str(index), 40).split()[:4])
        for seed in range(3)
        for salt in ("a", "b", "c")
        for index in range(100)
    }
    assert len(openings) == 900


def test_words_are_distinct_and_the_length_is_as_asked():
    assert len(set(WORDS)) == len(WORDS) > 200
    assert len(Words(1, "s").text("0", 77).split()) == 77


@pytest.mark.parametrize(("overhead", "per_word"), [(30, 1), (0, 1), (12, 1.25)])
def test_the_fit_finds_the_template_and_the_tokens_of_a_word(overhead, per_word):
    fit = LengthFit.from_counts((16, round(overhead + 16 * per_word)), (112, round(overhead + 112 * per_word)))
    assert fit.checked
    words = fit.words_for(500)
    assert overhead + words * per_word == pytest.approx(500, abs=1)


def test_an_endpoint_that_counts_nonsense_is_not_believed():
    assert LengthFit.from_counts((16, 50), (112, 50)) == LengthFit()


def test_a_prompt_has_at_least_one_word():
    assert LengthFit(overhead_tokens=30).words_for(5) == 1
