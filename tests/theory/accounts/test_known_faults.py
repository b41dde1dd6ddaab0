"""Energy and cost numbers that came out wrong in other tools, each case as a test.

PROVEN names the tests that hold the right value of each case of the field's issue trackers. Those of units, boundaries,
price and cost that carry no number there stand here too.
"""

from decimal import Decimal

import pytest

from observatory.theory import registry
from observatory.theory.accounts.hourly import Denominator, TokenPrice, token_price
from observatory.theory.calculator import Refused
from runners.prices import lists
from runners.prices.usage import Convention, usage_of
from runners.prices.usd import Usd, UsdPerMtok
from tests.named import missing

HERE = "theory/accounts/test_known_faults.py::"
POWER = "runners/power/"
SOURCES = "runners/power/sources/"

PROVEN: dict[str, tuple[str, ...]] = {
    "codecarbon 1309: wrap without a range": (
        HERE + "test_readings_that_cannot_be_trusted_give_no_number_but_a_reason",
        SOURCES + "test_rapl.py::test_a_wrap_without_a_readable_range_loses_the_interval_and_not_the_run",
    ),
    "codecarbon 1316: no counter": (
        POWER + "test_recording.py::test_250_w_for_ten_seconds_are_2500_j_without_counter_or_fields",
    ),
    "likwid 646: sampling slower than a wrap": (
        SOURCES + "test_rapl.py::test_sampling_too_slow_to_see_every_wrap_is_refused",
    ),
    "kepler 53: unsigned decrease": (
        HERE + "test_readings_that_cannot_be_trusted_give_no_number_but_a_reason",
        POWER + "test_instruments.py::test_a_decrease_of_a_counter_that_never_wraps_is_a_reset_and_never_a_huge_number",
    ),
    "pynvml 18: two reads in a millisecond": (
        HERE + "test_readings_that_cannot_be_trusted_give_no_number_but_a_reason",
        POWER + "test_energy.py::test_two_reads_of_the_same_value_a_millisecond_apart_are_refused",
    ),
    "amdsmi 115: accumulator backwards": (
        HERE + "test_readings_that_cannot_be_trusted_give_no_number_but_a_reason",
        SOURCES + "test_amd.py::test_an_accumulator_that_goes_backwards_loses_the_interval",
    ),
    "rocm_smi 180: counter stands still": (
        HERE + "test_readings_that_cannot_be_trusted_give_no_number_but_a_reason",
        POWER + "test_instruments.py::test_a_counter_that_stands_still_is_stale",
    ),
    "zeus 113: impossible power": (
        HERE + "test_readings_that_cannot_be_trusted_give_no_number_but_a_reason",
        POWER + "test_energy.py::test_impossible_power_is_not_believed",
        SOURCES + "test_amd.py::test_energy_beyond_the_cap_is_not_believed",
    ),
    "aiperf 1350: no energy on a P100": (
        SOURCES + "test_nvml.py::test_a_card_without_a_counter_is_told_of_once_and_its_power_is_integrated",
    ),
    "zeus 45: mean taken for instant": (SOURCES + "test_nvml.py::test_mean_and_instant_power_are_two_named_series",),
    "codecarbon 117: a burst extrapolated": (
        POWER + "test_instruments.py::test_a_short_burst_is_not_stretched_over_the_window",
    ),
    "codecarbon 567: all cards billed": (SOURCES + "test_nvml.py::test_only_the_visible_gpu_of_eight_is_measured",),
    "zeus 109: MIG names": (SOURCES + "test_nvml_visible.py::test_a_mig_instance_stands_for_its_whole_board_once",),
    "netdata 15755: renamed power field": (
        SOURCES + "test_archives.py::test_driver_535_has_two_powers_and_both_keep_their_own_column",
    ),
    "dcgm 257: board power per MIG instance": (
        POWER + "test_attribution.py::test_seven_mig_instances_share_one_board_and_not_seven",
        SOURCES + "test_exporters.py::test_a_board_counts_once_however_many_mig_instances_repeat_it",
    ),
    "dcgm-exporter 464: observer effect": (POWER + "test_idle.py::test_what_being_read_costs_is_measured_and_flagged",),
    "srt-slurm 481: one rail for the socket": (
        SOURCES + "test_sysfs.py::test_the_socket_counts_and_not_one_rail_of_it",
        SOURCES + "test_exporters.py::test_the_cpu_field_of_dcgm_is_one_rail_and_is_not_counted",
    ),
    "aiconfigurator: CUDA order": (SOURCES + "test_nvml.py::test_an_index_follows_the_pci_bus",),
    "cortex 166: mean of cards": (POWER + "test_recording.py::test_four_gpus_of_300_w_take_12000_j_in_ten_seconds",),
    "codecarbon 936: several processes": (
        POWER + "test_attribution.py::test_processes_on_one_card_share_it_by_their_time",
    ),
    "nviwatch 28: one unsupported fact": (SOURCES + "test_nvml.py::test_each_fact_fails_alone",),
    "pai 889: lost GPU": (POWER + "test_recording.py::test_a_lost_gpu_ends_its_series_and_the_others_go_on",),
    "codecarbon 420: power under an energy label": (
        POWER + "test_instruments.py::test_0_3_kw_for_two_hours_are_0_6_kwh",
    ),
    "kepler 2465: idle handed out or lost": (POWER + "test_energy.py::test_active_and_idle_add_up_to_the_node",),
}


def test_every_test_that_is_named_here_exists():
    assert missing(name for names in PROVEN.values() for name in names) == []


def calc(name, **inputs):
    calculator = registry.BY_NAME[name]
    return calculator.run(calculator.read({key: str(value) for key, value in inputs.items()}))


@pytest.mark.parametrize(
    ("inputs", "reason"),
    [
        ({"start": 262_143_000_000, "end": 500_000, "unit": "uJ", "wraps": "yes"}, "wrap_unresolvable"),
        ({"start": 100, "end": 40}, "counter_reset"),
        ({"start": 123_456, "end": 123_456, "seconds": 0.001}, "window_too_short"),
        ({"start": 0, "end": 1, "seconds": 0}, "window_too_short"),
        ({"start": 1_000_000, "end": 999_990, "unit": "15.259 uJ"}, "counter_reset"),
        ({"start": 5, "end": 5, "seconds": 10, "mean_power_w": 300}, "counter_stale"),
        ({"start": 0, "end": 50_000, "unit": "J", "seconds": 10, "power_limit_w": 750}, "power_out_of_range"),
    ],
)
def test_readings_that_cannot_be_trusted_give_no_number_but_a_reason(inputs, reason):
    found = calc("counter-delta", **inputs)
    assert (found.energy_j, found.reason) == (None, reason)
    assert found.advice


def test_a_wrap_with_a_known_range_is_made_whole():
    found = calc("counter-delta", start=262_000_000, end=143_000, unit="uJ", wraps="yes", wraps_at=262_143_000)
    assert found.energy_j == pytest.approx(0.286)


def test_millijoules_are_not_joules():
    assert calc("counter-delta", start=0, end=1000, unit="mJ").energy_j == 1


def test_water_of_the_site_takes_it_energy_without_pue():
    found = calc("water", it_kwh=1, pue=1.2, wue_l_per_kwh=0.5, grid_l_per_kwh=3)
    assert found.total_l == pytest.approx(4.1)


def test_an_unknown_pue_leaves_facility_energy_unknown_and_not_it_energy():
    found = calc("carbon", it_kwh=1, pue="", grid_g_per_kwh=400)
    assert (found.facility_kwh, found.carbon_g) == (None, None)
    assert calc("energy-ledger", pue="").full_wh is None


def test_pounds_per_megawatt_hour_are_converted():
    assert calc("carbon", it_kwh=1, pue=1, grid_lb_per_mwh=1000).carbon_g == pytest.approx(453.592, abs=0.0005)


def test_single_stream_energy_is_power_times_latency():
    assert calc("tokens-per-mw", tokens_per_s=1 / 0.25, kw_per_accelerator=0.4).j_per_token == pytest.approx(100)


def test_tokens_per_joule_count_all_sequences_of_the_batch():
    assert calc("tokens-per-mw", tokens_per_s=8 * 100, kw_per_accelerator=0.08).tokens_per_j == pytest.approx(10)


def test_throughput_per_accelerator_names_its_pool():
    found = calc("gpu-cost", accelerators=8, decode_accelerators=6, output_tokens_per_s=8000)
    assert found.tokens_per_s_per_accelerator == 1000
    assert found.tokens_per_s_per_decode_accelerator == pytest.approx(1333.3, abs=0.05)


def test_idle_is_a_layer_of_its_own():
    found = calc("energy-ledger", accelerator_wh=40, host_wh="", idle_wh=60)
    assert [(row.name, row.wh) for row in found.layers] == [("accelerator", 40), ("idle", 60)]
    assert found.it_wh == 100


# price and cost


def cost(**inputs):
    return calc("api-cost", **inputs).usd


def test_written_cache_tokens_are_not_charged_as_input_too():
    """As Anthropic reports them, cache tokens stand beside the input; as OpenAI does, inside."""
    rates = {"input_usd": 3, "cache_write_usd": "3.75", "output_usd": 15, "output_tokens": 550}
    apart = cost(convention="anthropic", input_tokens=3, cache_write_tokens=12_304, **rates)
    inside = cost(convention="openai", input_tokens=12_307, cache_write_tokens=12_304, **rates)
    assert apart == inside == Decimal("0.054399")


def test_reasoning_is_inside_output_and_the_total_proves_it():
    inputs = {"input_tokens": 14_746, "output_tokens": 1944, "reasoning_tokens": 1360, "input_usd": 30}
    assert cost(**inputs, output_usd=180, total_tokens=16_690) == Decimal("0.79230")
    with pytest.raises(Refused, match="not input and output together"):
        cost(**inputs, output_usd=180, total_tokens=16_690 + 1360)


@pytest.mark.parametrize("convention", ["google", "xai"])
def test_reasoning_reported_apart_is_billed(convention):
    found = calc("api-cost", convention=convention, input_tokens=0, output_tokens=100, reasoning_tokens=900)
    assert [(part.kind, part.tokens) for part in found.parts] == [("output", 1000)]


def test_an_unknown_model_has_no_price_and_says_so():
    found = calc("api-cost", api_model="x-9")
    assert (found.usd, found.reason) == (None, "No list price is known for x-9.")


def test_an_hour_of_caching_is_priced_as_such_or_not_at_all():
    inputs = {"convention": "anthropic", "input_tokens": 0, "output_tokens": 0, "cache_write_1h_tokens": 1000}
    assert cost(**inputs, input_usd=3, cache_write_1h_usd=6) == Decimal("0.006")
    unknown = calc("api-cost", **inputs, input_usd=3, cache_write_usd="3.75")
    assert (unknown.usd, unknown.reason) == (None, "The price list has no rate for one-hour cache write tokens.")


def test_the_list_holds_both_times_of_caching():
    rates = lists.quote("claude-sonnet-4-5", "anthropic").rates
    assert rates.cache_write_1h.base == 2 * rates.input.base
    assert rates.cache_write.base == Decimal("1.25") * rates.input.base


def test_parts_are_summed_and_the_total_is_not_added_to_them():
    usage = usage_of(Convention.OPENAI, input=100, cache_read=60, output=0, total=100)
    assert (usage.uncached, usage.cache_read) == (40, 60)


def test_tiny_costs_are_kept_whole_and_shown_with_their_digits():
    tiny = UsdPerMtok(Decimal("0.05")).times(7)
    assert tiny == Usd(Decimal("0.00000035"))
    assert tiny.text == "$0.000000350"
    assert Usd(Decimal(0)).text == "$0.00"
    assert Usd(Decimal("1234.5")).text == "$1,234.50"


def test_each_class_is_priced_by_itself():
    inputs = {"input_usd": 1, "cache_write_usd": "1.25", "output_usd": 5, "convention": "anthropic"}
    assert cost(**inputs, input_tokens=10, cache_write_tokens=200, output_tokens=5) == Decimal("0.000285")


def test_money_does_not_mix_with_token_counts():
    price = Usd(Decimal("0.0003"))
    with pytest.raises(TypeError):
        1000 - price
    with pytest.raises(TypeError):
        price + 1000


def test_a_share_of_a_card_is_charged_by_allocation_or_by_use_with_idle_named():
    found = calc("gpu-share", share=0.25, hours=2, usd_per_accelerator_hour=2, used=0.1)
    assert found.allocated_usd == 1
    assert (found.used_usd, found.idle_usd) == pytest.approx((0.1, 0.9))


def test_prices_that_each_carry_the_whole_hour_are_not_added():
    with pytest.raises(ValueError, match="charge it twice"):
        token_price(2.8, 500, Denominator.OUTPUT) + token_price(2.8, 500, Denominator.INPUT)
    with pytest.raises(TypeError):
        TokenPrice(1.0, Denominator.TOTAL) + 1.0


def test_figures_of_different_boundaries_are_not_compared():
    found = calc("energy-ledger", other_wh=0.10, other_boundary="accelerator+host")
    assert found.comparison is None
    assert found.refused.startswith("Different energy boundaries")


def test_more_cached_than_prompt_tokens_are_refused():
    with pytest.raises(Refused, match="exceed the 100 prompt tokens"):
        cost(input_tokens=100, cache_read_tokens=150)
