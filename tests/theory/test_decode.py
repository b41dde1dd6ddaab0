"""Decode and prefill: what each term does alone, limits, and memory."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from observatory.theory import common, decode, prefill
from observatory.theory.calculator import Refused

BASE = decode.Inputs()
DEEPSEEK = replace(
    BASE, parameters_b=671, active_b=37, experts=256, experts_active=8, layers=61, latent_dim=576, weight_bits=8
)


def test_at_the_crossover_batch_memory_and_arithmetic_take_the_same_time() -> None:
    at = replace(BASE, batch=round(decode.crossover(BASE)))
    step = decode.simple_step(at)
    assert step.weights_s == pytest.approx(step.compute_s, rel=0.01)


def test_long_contexts_make_every_batch_memory_bound() -> None:
    outputs = decode.compute(replace(BASE, context=100_000))
    assert outputs.full_crossover_batch is None
    assert decode.full_step(replace(BASE, context=100_000, batch=65_536)).bound == "memory"


def test_the_full_crossover_is_the_first_batch_that_arithmetic_binds() -> None:
    found = decode.compute(BASE).full_crossover_batch
    assert found is not None
    before, at = (decode.full_step(replace(BASE, batch=batch)) for batch in (found - 1, found))
    assert before.compute_s <= before.memory_s
    assert at.compute_s > at.memory_s


@pytest.mark.parametrize(("kv_heads", "kilobytes"), [(64, 2621.44), (8, 327.68), (1, 40.96)])
def test_fewer_key_and_value_heads_take_less_cache(kv_heads: int, kilobytes: float) -> None:
    assert common.cache_bytes_per_token(replace(BASE, kv_heads=kv_heads)) == pytest.approx(kilobytes * 1000)


def test_a_latent_cache_is_as_in_deepseek_v3() -> None:
    assert common.cache_bytes_per_token(DEEPSEEK) == pytest.approx(70_272)  # 61 layers x 576 values x 2 bytes


def test_a_cache_in_8_bits_is_read_in_half_the_time() -> None:
    whole, half = (decode.full_step(replace(BASE, kv_bits=bits)).cache_s for bits in (16, 8))
    assert half == pytest.approx(whole / 2)


def test_one_head_is_never_split_over_accelerators() -> None:
    assert common.cache_share(replace(BASE, kv_heads=8), 16) == 1 / 8
    assert common.cache_share(replace(BASE, kv_heads=8), 4) == 1 / 4
    assert common.cache_share(DEEPSEEK, 16) == 1


def test_one_token_reads_its_own_experts_and_a_large_batch_reads_all() -> None:
    assert common.touched(DEEPSEEK, 1) == pytest.approx(37e9)
    assert common.touched(DEEPSEEK, 100_000) == pytest.approx(671e9)


@given(st.integers(1, 4096))
def test_a_step_reads_between_the_active_and_all_parameters(batch: int) -> None:
    assert 37e9 * 0.999999 <= common.touched(DEEPSEEK, batch) <= 671e9 * 1.000001


@given(st.integers(1, 4096), st.integers(0, 100_000))
def test_a_larger_batch_or_longer_context_never_makes_a_step_shorter(batch: int, context: int) -> None:
    at = replace(BASE, batch=batch, context=context)
    step = decode.full_step(at).total_s
    assert decode.full_step(replace(at, batch=batch + 1)).total_s >= step
    assert decode.full_step(replace(at, context=context + 1)).total_s >= step


@given(st.integers(1, 4096), st.sampled_from([1, 2, 4, 8]))
def test_no_term_makes_the_limit_faster_than_the_simple_model_of_a_dense_model(batch: int, accelerators: int) -> None:
    at = replace(BASE, batch=batch, accelerators=accelerators)
    assert decode.full_step(at).total_s >= decode.simple_step(at).total_s * (1 - 1e-12)


def test_one_accelerator_sends_nothing() -> None:
    assert decode.full_step(replace(BASE, accelerators=1)).links_s == 0


def test_what_fits_fills_the_memory_and_one_more_does_not() -> None:
    most = decode.largest_batch(BASE)
    cache_gb = decode.compute(replace(BASE, batch=most)).cache_gb / BASE.accelerators
    room = BASE.memory_gb * BASE.usable_share - 140 / 4
    assert cache_gb <= room < cache_gb * (most + 1) / most
    assert decode.compute(replace(BASE, batch=most)).fits
    assert not decode.compute(replace(BASE, batch=most + 1)).fits


def test_weights_that_do_not_fit_leave_room_for_no_sequence() -> None:
    assert decode.compute(replace(BASE, accelerators=1)).largest_batch == 0


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"active_b": 71.0}, "active_b"),
        ({"active_b": 30.0}, "experts"),
        ({"experts": 2, "experts_active": 3}, "experts_active"),
        ({"active_b": 1.0, "experts": 8, "experts_active": 4}, "active_b"),
    ],
)
def test_parameters_and_experts_that_contradict_each_other_are_refused(changes: dict[str, float], field: str) -> None:
    with pytest.raises(Refused) as caught:
        decode.DECODE_LIMIT.run(replace(BASE, **changes))
    assert caught.value.faults[0].field == field


def test_prefill_of_a_short_prompt_waits_for_memory_and_of_a_long_one_for_arithmetic() -> None:
    short, long = (prefill.compute(prefill.Inputs(prompt_tokens=tokens)).bound for tokens in (16, 4096))
    assert (short, long) == ("memory", "compute")


def test_prefill_in_two_parts_takes_the_arithmetic_of_the_whole() -> None:
    whole = prefill.prefill(prefill.Inputs(prompt_tokens=8192))
    first = prefill.prefill(prefill.Inputs(prompt_tokens=3000))
    second = prefill.prefill(prefill.Inputs(prompt_tokens=8192, cached_tokens=3000))
    assert first.compute_s + second.compute_s == pytest.approx(whole.compute_s)


def test_a_prompt_that_is_wholly_cached_is_refused() -> None:
    with pytest.raises(Refused, match="At least one token must be read anew"):
        prefill.PREFILL.run(prefill.Inputs(prompt_tokens=10, cached_tokens=10))
