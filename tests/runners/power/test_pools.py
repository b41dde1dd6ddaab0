"""Prefill and decode on GPUs of their own: each pool is a line of the ledger, and the lines are the whole."""

import pytest

from runners.power.energy import mean_power_w, window_ledger
from runners.power.placement import as_stated
from runners.power.pools import in_pools
from runners.powers import Pool
from runners.spec import Load, Power, RunSpec, SpecError, Target

S = 1_000_000_000
FOUR = "gpus 4\n" + "".join(f"constant {gpu} {100_000 * (gpu + 1)}\n" for gpu in range(4))
UUID = "GPU-{:08d}-0000-0000-0000-000000000000"


def lines(ledger):
    return [(layer["pool"], layer["label"], layer["energy_j"]) for layer in ledger["layers"]]


def ledger_of(play, *pools, end_s=15, more=""):
    samples, account = play(FOUR + more, ticks=140)
    stated = as_stated(account, Power(pools=pools))
    return window_ledger(samples, 11 * S, end_s * S, description=stated, pue=1.25), stated, samples


def test_each_pool_is_a_line_and_the_lines_are_exactly_the_whole(play):
    ledger, stated, samples = ledger_of(play, Pool("prefill", ("3",)), Pool("decode", ("0", "1", "2")))
    (_, _, prefill_j), (_, decode_label, decode_j), *_ = lines(ledger)
    assert [pool for pool, _, _ in lines(ledger)] == ["prefill", "decode", ""]
    assert (prefill_j, decode_j) == (pytest.approx(1600, rel=0.01), pytest.approx(2400, rel=0.01))
    assert decode_label == "3 × NVIDIA H200"
    assert ledger["narrow_j"] == ledger["it_j"] == prefill_j + decode_j
    assert ledger["full_j"] == 1.25 * (prefill_j + decode_j)
    assert mean_power_w(samples, 11 * S, 15 * S, description=stated) * 4 == pytest.approx(ledger["it_j"])


def test_pools_and_one_group_count_the_same_energy(play):
    apart, _, _ = ledger_of(play, Pool("prefill", ("3",)), Pool("decode"))
    together, _, _ = ledger_of(play)
    assert [layer["pool"] for layer in together["layers"]] == ["", ""]
    assert apart["it_j"] == pytest.approx(together["it_j"], rel=1e-12)
    assert apart["boundary"] == together["boundary"] == "accelerator"


def test_a_gpu_is_named_by_uuid_or_its_beginning_and_the_pool_without_names_has_the_rest(play):
    ledger, _, _ = ledger_of(play, Pool("prefill", (UUID.format(2).lower(), "GPU-00000001")), Pool("decode"))
    assert [round(energy_j, -2) for _, _, energy_j in lines(ledger)[:2]] == [2000, 2000]


def test_a_gpu_in_no_pool_is_a_bystander_and_counts_for_nothing(play):
    ledger, stated, _ = ledger_of(play, Pool("prefill", ("0",)), Pool("decode", ("1",)))
    assert ledger["it_j"] == pytest.approx(1200, rel=0.01)
    note = next(note["text"] for note in stated["notes"] if note["code"] == "pool_bystanders")
    assert note.startswith("2 of 4 sampled GPUs are in no pool")
    assert as_stated(stated, Power(pools=(Pool("prefill", ("0",)), Pool("decode", ("1",))))) == stated


def test_a_pool_without_a_number_leaves_the_whole_without_one(play):
    ledger, _, _ = ledger_of(play, Pool("prefill", ("3",)), Pool("decode"), more="lost 3 13\n")
    assert lines(ledger)[0][2] is None
    assert lines(ledger)[1][2] == pytest.approx(2400, rel=0.01)
    assert (ledger["narrow_j"], ledger["it_j"], ledger["full_j"]) == (None, None, None)


@pytest.mark.parametrize(
    ("pools", "words"),
    [
        ((Pool("prefill", ("7",)), Pool("decode")), "7 of prefill is none of the GPUs that were sampled: GPU-0000"),
        ((Pool("prefill", ("GPU-0",)), Pool("decode")), "GPU-0 of prefill is more than one of"),
        ((Pool("prefill", ("*",)), Pool("decode")), "no GPU is left for decode"),
        ((Pool("prefill", ("0",)), Pool("decode", ("GPU-00000000",))), "is named more than once"),
        ((Pool("prefill", ("gpu-9/*",)), Pool("decode")), "gpu-9/* of prefill is none of"),
    ],
)
def test_a_pool_that_was_not_sampled_is_a_fault_and_no_part_is_shown_as_the_whole(play, pools, words):
    _, stated, _ = ledger_of(play, *pools)
    assert stated["fault"]["code"] == "pool_unknown"
    assert words in stated["fault"]["text"]
    assert stated["notes"][0] == stated["fault"]
    healed = as_stated(stated, Power(pools=(Pool("prefill", ("0",)), Pool("decode"))))
    assert healed["fault"] is None
    assert all(note["code"] != "pool_unknown" for note in healed["notes"])


def test_the_machine_tells_gpus_of_the_same_index_apart(device):
    devices = [device(f"{host}/GPU-{host[-1]}", host=host, facts={"index": 0}).to_json() for host in ("gpu-1", "gpu-2")]
    account = {"devices": devices, "notes": []}
    found = in_pools(account, (Pool("prefill", ("gpu-2/0",)), Pool("decode", ("gpu-1/*",))))
    assert [(one["host"], one["pool"]) for one in found["devices"]] == [("gpu-2", "prefill"), ("gpu-1", "decode")]
    assert in_pools(account, (Pool("prefill", ("0",)), Pool("decode")))["fault"]["code"] == "pool_unknown"


def test_without_an_accelerator_there_is_nothing_to_divide(device):
    account = {"devices": [device("cpu", layer="cpu").to_json()], "notes": []}
    assert in_pools(account, (Pool("prefill", ("0",)), Pool("decode"))) == account


@pytest.mark.parametrize(
    ("pools", "words"),
    [
        ((Pool("prefill"), Pool("decode")), "name the GPUs of all pools but one"),
        ((Pool("a", ("0",)), Pool("a")), "a name of its own"),
        ((Pool("", ("0",)),), "give each pool a name"),
        ((Pool("a", ("0", "0")),), "GPU 0 is named twice"),
        ((Pool("a", ("0;1",)),), "names no GPU"),
    ],
)
def test_pools_that_cannot_be_told_apart_are_refused(pools, words):
    with pytest.raises(SpecError, match=words):
        RunSpec(target=Target("http://localhost:1"), load=Load(requests=1), power=Power("nvml", pools=pools))


def test_pools_are_part_of_the_specification():
    power = Power("nvml", pools=(Pool("prefill", ("0",)), Pool("decode")))
    spec = RunSpec(target=Target("http://localhost:1"), load=Load(requests=1), power=power)
    assert RunSpec.from_json(spec.to_json()) == spec
