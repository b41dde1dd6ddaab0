"""Each technique's calculator: its limits, what it conserves, what it refuses."""

from dataclasses import replace
from math import sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from observatory.theory import (
    caching,
    device,
    disaggregation,
    mixture,
    parallel,
    routing,
    smaller,
    speculation,
)
from observatory.theory.calculator import Refused

shares = st.floats(0, 1)


@given(st.floats(0, 0.999), st.integers(0, 32))
def test_tokens_per_pass_follow_the_closed_form(acceptance: float, drafted: int) -> None:
    closed = (1 - acceptance ** (drafted + 1)) / (1 - acceptance)
    assert speculation.tokens_per_pass(acceptance, drafted) == pytest.approx(closed)


def test_a_draft_that_is_always_right_gives_all_its_tokens_and_one_more() -> None:
    outputs = speculation.SPECULATIVE.run(speculation.Inputs(acceptance=1, drafted=5))
    assert outputs.tokens_per_pass == 6
    assert outputs.speedup_alone == pytest.approx(6 / 1.25)


@given(shares, st.integers(1, 32), st.floats(0, 2), st.floats(64, 4096))
def test_speculation_stops_paying_at_the_break_even_batch(a: float, g: int, c: float, crossover: float) -> None:
    inputs = speculation.Inputs(a, g, c, 1, crossover)
    even = speculation.compute(inputs).break_even_batch
    if even is None:
        assert speculation.compute(inputs).speedup_alone <= 1 + 1e-9
    else:
        below, above = (replace(inputs, batch=max(1, int(even * share))) for share in (0.9, 1.2))
        assert speculation.speedup(below) >= 1 - 1e-9 or below.batch == 1
        assert speculation.speedup(above) <= 1 + 1e-9 or int(even * 1.2) <= even


def test_the_best_draft_length_beats_its_neighbours() -> None:
    inputs = speculation.Inputs(acceptance=0.8, draft_cost=0.05)
    best = speculation.compute(inputs).best_drafted
    fewer, at, more = (speculation.speedup(replace(inputs, drafted=best + step)) for step in (-1, 0, 1))
    assert at >= max(fewer, more)


def test_without_drafting_nothing_changes() -> None:
    outputs = speculation.compute(speculation.Inputs(drafted=0))
    assert (outputs.speedup, outputs.energy_ratio, outputs.break_even_batch) == (1, 1, None)


@given(st.integers(1, 8192))
def test_paging_never_holds_fewer_requests_than_reserving(mean: int) -> None:
    outputs = caching.compute(caching.Inputs(mean_tokens=mean))
    assert outputs.paged_requests >= outputs.reserved_requests
    assert 0 <= outputs.paged_waste <= 100 * 15 / 16
    assert outputs.paged_waste <= outputs.reserved_waste + 1e-9


def test_requests_that_all_have_the_longest_length_gain_nothing_from_paging() -> None:
    outputs = caching.compute(caching.Inputs(mean_tokens=8192))
    assert (outputs.gain, outputs.reserved_waste, outputs.paged_waste) == (1, 0, 0)


@given(shares)
def test_a_prefix_cache_saves_what_it_hits(rate: float) -> None:
    inputs = caching.PrefixInputs(hit_rate=rate)
    outputs = caching.PREFIX_CACHE.run(inputs)
    assert outputs.saved_share == pytest.approx(100 * rate * 0.75)
    mean = rate * outputs.ttft_hit_ms + (1 - rate) * outputs.ttft_miss_ms
    assert outputs.ttft_ms == pytest.approx(mean)
    assert outputs.throughput_gain >= 1


@given(st.integers(1, 64), st.integers(1, 300), st.floats(0, 3), st.integers(0, 50))
def test_every_token_reaches_all_of_its_experts(chosen: int, tokens: int, skew: float, seed: int) -> None:
    counts = mixture.loads(64, chosen, tokens, skew, seed)
    assert counts.sum() == chosen * tokens
    assert counts.max() <= tokens
    assert mixture.per_accelerator(counts, 8).sum() == counts.sum()


def test_the_simulation_repeats_itself_by_its_seed() -> None:
    first, again, other = (mixture.loads(64, 8, 256, 0.5, seed).tolist() for seed in (1, 1, 2))
    assert first == again != other


def test_even_routing_approaches_an_even_load_and_skew_makes_it_worse() -> None:
    small, large = (mixture.compute(mixture.Inputs(skew=0, tokens=tokens)) for tokens in (16, 8192))
    assert large.busiest_expert < 1.3 < small.busiest_expert
    assert (
        mixture.compute(mixture.Inputs(skew=1)).busiest_expert > mixture.compute(mixture.Inputs(skew=0)).busiest_expert
    )


def test_simulated_even_routing_touches_as_many_experts_as_expected() -> None:
    idle = [int((mixture.loads(256, 8, 64, 0, seed) == 0).sum()) for seed in range(30)]
    expected = 256 * (1 - 8 / 256) ** 64
    assert abs(sum(idle) / 30 - expected) < 4 * sqrt(expected) / sqrt(30)


def test_one_accelerator_is_all_efficiency() -> None:
    outputs = parallel.compute(parallel.Inputs(accelerators=1))
    assert (outputs.tensor_speedup, outputs.tensor_efficiency, outputs.pipeline_bubble) == (1, 100, 0)
    assert (outputs.all_reduce_mb, outputs.expert_sent_mb) == (0, 0)


@given(st.integers(1, 1024), st.floats(0.1, 1000))
def test_efficiency_never_passes_one_and_falls_with_slower_links(width: int, link_gb_s: float) -> None:
    inputs = parallel.Inputs(accelerators=width, link_gb_s=link_gb_s)
    outputs = parallel.PARALLEL.run(inputs)
    assert outputs.tensor_efficiency <= 100 + 1e-9
    assert 0 <= outputs.pipeline_bubble < 100
    faster = parallel.PARALLEL.run(replace(inputs, link_gb_s=link_gb_s * 2))
    assert faster.tensor_speedup >= outputs.tensor_speedup


@pytest.mark.parametrize(("batch", "gain"), [(8, 1), (4096, 2)], ids=["bound by memory", "bound by arithmetic"])
def test_replicas_at_the_same_load_gain_only_where_arithmetic_binds(batch: int, gain: float) -> None:
    inputs = parallel.Inputs(accelerators=1, batch=batch, microbatches=1)
    one, two = (parallel.compute(replace(inputs, replicas=replicas)).tokens_per_s for replicas in (1, 2))
    assert two == pytest.approx(gain * one)


def test_the_bubble_is_that_of_gpipe() -> None:
    outputs = parallel.compute(parallel.Inputs(accelerators=4, microbatches=8))
    assert outputs.pipeline_bubble == pytest.approx(100 * 3 / 11)


@given(st.floats(0.01, 1), shares)
def test_teaching_leaves_the_loss_between_the_large_model_and_as_small_a_one(kept: float, recovered: float) -> None:
    outputs = smaller.compute(smaller.Inputs(kept_share=kept, recovered_share=recovered))
    assert outputs.large_loss - 1e-12 <= outputs.loss <= outputs.untaught_loss + 1e-12
    assert outputs.perplexity_ratio >= 1 - 1e-12


def test_the_scaling_law_gives_the_published_constant_for_endless_size_and_data() -> None:
    assert smaller.loss(1e30, 1e30) == pytest.approx(1.69, abs=0.001)


def test_2_4_sparsity_halves_the_weights_and_pays_two_bits_of_index_for_each_kept() -> None:
    outputs = smaller.compute(smaller.Inputs(method=smaller.Method.SPARSE_2_4, weight_bits=16))
    assert outputs.size_ratio == pytest.approx(100 * 9 / 16)


@given(shares, st.floats(0.5, 0.9999))
def test_routing_sends_on_the_asked_share_and_loses_no_request(share: float, auroc: float) -> None:
    inputs = routing.Inputs(escalated_share=share, auroc=auroc)
    found = routing.split(inputs)
    assert found.sent_easy + found.sent_hard == pytest.approx(share, abs=1e-9)
    assert 0 <= found.kept_right <= found.kept + 1e-9
    outputs = routing.ROUTING.run(inputs)
    assert outputs.accuracy >= outputs.random_accuracy - 1e-9


@pytest.mark.parametrize(("share", "accuracy"), [(0.0, 0.7), (1.0, 0.9)])
def test_routing_none_or_all_is_one_model_alone(share: float, accuracy: float) -> None:
    assert routing.compute(routing.Inputs(escalated_share=share)).accuracy == pytest.approx(accuracy)


def test_confidence_that_knows_nothing_is_random_routing() -> None:
    outputs = routing.compute(routing.Inputs(auroc=0.5))
    assert outputs.accuracy == pytest.approx(outputs.random_accuracy)


def test_confidence_that_knows_nearly_all_sends_on_the_hard_ones() -> None:
    outputs = routing.compute(routing.Inputs(auroc=0.9999, escalated_share=0.3))
    assert outputs.hard_caught > 97
    assert outputs.accuracy > 0.9


def test_accuracies_that_do_not_fit_are_refused_with_the_range_that_does() -> None:
    with pytest.raises(Refused, match=r"from 0.6667 to 1"):
        routing.ROUTING.run(routing.Inputs(large_on_hard=0.5))


@given(st.floats(0.01, 1000), st.floats(0.05, 0.99))
def test_pools_are_never_busier_than_asked(rate: float, load: float) -> None:
    inputs = disaggregation.Inputs(requests_per_s=rate, target_load=load)
    outputs = disaggregation.DISAGGREGATION.run(inputs)
    assert outputs.prefill_load <= 100 * load + 1e-6
    assert outputs.decode_load <= 100 * load + 1e-6
    assert outputs.overlapped_ms <= outputs.transfer_ms + 1e-9


def test_the_cache_of_a_prompt_crosses_the_link_once() -> None:
    outputs = disaggregation.compute(disaggregation.Inputs(prompt_tokens=1000, link_gb_s=32.768))
    assert outputs.cache_gb == pytest.approx(0.32768)
    assert outputs.transfer_ms == pytest.approx(10)


def test_a_link_that_carries_less_than_is_sent_is_told() -> None:
    assert disaggregation.compute(disaggregation.Inputs(link_gb_s=1)).link_limited
    assert not disaggregation.compute(disaggregation.Inputs(link_gb_s=100)).link_limited


def test_colocated_workers_without_interference_are_no_more_than_the_pools() -> None:
    outputs = disaggregation.compute(disaggregation.Inputs(interference=0))
    assert outputs.colocated_workers <= outputs.workers


@given(st.floats(0.01, 100), st.integers(1, 4096))
def test_a_battery_gives_the_energy_that_it_holds(power_w: float, tokens: int) -> None:
    inputs = device.Inputs(power_w=power_w, output_tokens=tokens)
    outputs = device.ON_DEVICE.run(inputs)
    joules = outputs.tokens_per_charge / outputs.sustained_tokens_per_s * power_w
    assert joules == pytest.approx(inputs.battery_wh * 3600)
    assert outputs.answers_per_charge * outputs.battery_share_per_answer == pytest.approx(100)


def test_half_the_bits_decode_twice_as_fast_on_a_device() -> None:
    whole, half = (device.compute(device.Inputs(weight_bits=bits)).tokens_per_s for bits in (8, 4))
    assert half == pytest.approx(2 * whole)
