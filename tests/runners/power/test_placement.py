import socket

import pytest

from runners.meters import Dcgm
from runners.metrics import Mark
from runners.power.devices import Device, Layer
from runners.power.placement import as_stated, own, placed
from runners.spec import Power

HERE = (socket.AF_INET, ("127.0.0.1", 80))


def device(name="cpu", host=""):
    facts = {"update_ms": 100.0, "gain_low": 0.5, "gain_high": 1.5, "gain_source": "a model"}
    return Device(name, name, Layer.CPU, "estimate", Mark.MODELLED, reading="a model", host=host, **facts).to_json()


def account(*devices):
    notes = [{"code": "no_nvml", "text": "no GPU"}, {"code": "sampled_host", "text": "of this machine"}]
    return {"source": "estimate", "mark": "modelled", "devices": list(devices), "notes": notes, "period_ms": 100.0}


@pytest.mark.parametrize(
    "address",
    [HERE, (socket.AF_INET, ("127.9.9.9", 80)), (socket.AF_INET6, ("::1", 80, 0, 0))],
    ids=["loopback", "all of loopback", "IPv6"],
)
def test_loopback_is_this_machine(address):
    if address[0] == socket.AF_INET6 and not socket.has_ipv6:
        pytest.skip("needs IPv6")
    assert own([address])


def test_an_address_of_an_interface_is_this_machine():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("203.0.113.1", 9))  # sends nothing
        except OSError:
            pytest.skip("needs a network interface besides loopback")
        assert own([(socket.AF_INET, (probe.getsockname()[0], 80))])


def test_another_machine_is_not_this_one_not_even_when_one_of_its_addresses_seems_to_be():
    elsewhere = (socket.AF_INET, ("203.0.113.1", 80))
    assert not own([elsewhere])
    assert not own([HERE, elsewhere])


def test_a_server_on_another_machine_has_no_energy_and_the_load_host_keeps_its_own_apart():
    found = placed(account(device()), Power(), here=False, url="http://gpu-1:8000")
    assert found["devices"] == []
    assert (found["source"], found["mark"], found["period_ms"]) == ("none", None, None)
    assert [one["id"] for one in found["client"]["devices"]] == ["cpu"]
    assert found["client"]["mark"] == "modelled"
    first = found["notes"][0]
    assert first == found["fault"]
    assert first["code"] == "server_elsewhere"
    assert first["text"].startswith("the energy of the server was not measured: http://gpu-1:8000 is not on this")
    assert "power.NAME" in first["text"]
    assert [note["code"] for note in found["client"]["notes"]] == ["no_nvml"]


def test_a_server_here_and_a_run_without_power_are_left_as_they_are():
    for power, here in ((Power(), True), (Power("none"), False)):
        assert placed(account(device()), power, here=here, url="http://x") == account(device())


def test_what_power_workers_sample_is_not_taken_from_this_machine_even_if_the_server_looks_local():
    found = placed(account(device()), Power(hosts=("gpu-1",)), here=True, url="http://127.0.0.1:1")
    assert found["devices"] == []
    assert found["fault"]["code"] == "power_hosts"
    assert "gpu-1" in found["fault"]["text"]


def test_what_someone_said_the_place_of_stays_in_the_ledger():
    exporter = device("gpu") | {"source": "dcgm"}
    asked = Power(meters=(Dcgm("http://gpu-1:9400/metrics"),))
    found = placed(account(device(), exporter), asked, here=False, url="http://gpu-1")
    assert [one["id"] for one in found["devices"]] == ["gpu"]
    assert [one["id"] for one in found["client"]["devices"]] == ["cpu"]
    assert found["fault"] is None


def test_a_gpu_that_is_stated_to_serve_others_is_marked_and_the_account_says_so():
    gpu = device("gpu0") | {"layer": Layer.ACCELERATOR.value}
    found = placed(account(gpu, device()), Power(shared=True), here=True, url="http://x")
    assert [one["shared"] for one in found["devices"]] == [True, False]
    assert found["notes"][0]["code"] == "gpu_shared"
    assert as_stated(found, Power(shared=True)) == found


def test_a_gpu_of_the_load_host_is_not_the_one_that_is_shared():
    gpu = device("gpu0") | {"layer": Layer.ACCELERATOR.value}
    found = placed(account(gpu), Power(shared=True), here=False, url="http://gpu-1:8000")
    assert found["client"]["devices"][0]["shared"] is False
    assert "gpu_shared" not in [note["code"] for note in found["notes"]]
