"""The whole machine by its management controller (Redfish, IPMI) and by a meter at the wall."""

import base64
import json

import pytest

from runners.meters import JsonMeter, Redfish
from runners.power.devices import Layer, SourceError
from runners.power.sources.ipmi import IpmiSource
from runners.power.sources.meter import MeterSource, resolve
from runners.power.sources.redfish import RedfishSource
from tests.services import instruments
from tests.services.instruments import WATTS, ipmitool, serving
from tests.services.tls import Authority


def codes(source):
    return [note.code for note in source.notes]


def watts(source):
    rows = source.read()
    source.close()
    return [row["power_mw"] / 1e3 for row in rows]


# Redfish


@pytest.mark.parametrize(("environment", "words"), [(True, "EnvironmentMetrics"), (False, "PowerConsumedWatts")])
def test_both_models_of_redfish_are_read(environment, words):
    with serving(instruments.redfish(environment)) as server:
        source = RedfishSource(Redfish(server.url))
        assert watts(source) == [WATTS]
    (device,) = source.devices()
    assert (device.layer, device.name) == (Layer.HOST, "Contoso 3500")
    assert words in device.reading


def pages(**found):
    root = "/redfish/v1/Chassis"

    def script(asked):
        path = asked.path.removeprefix(root)
        return (200, {}, found[path]) if path in found else (404, {}, {})

    return script


def link(path):
    return {"@odata.id": f"/redfish/v1/Chassis{path}"}


def test_supplies_are_added_up_where_nothing_tells_the_whole():
    script = pages(
        **{
            "": {"Members": [link("/A")]},
            "/A": {"Id": "A", "PowerSubsystem": link("/A/PowerSubsystem")},
            "/A/PowerSubsystem": {"CapacityWatts": 4000, "PowerSupplies": link("/A/PowerSubsystem/PowerSupplies")},
            "/A/PowerSubsystem/PowerSupplies": {"Members": [link("/A/ps1"), link("/A/ps2")]},
            "/A/ps1": {"Metrics": link("/A/ps1/Metrics")},
            "/A/ps2": {"Metrics": link("/A/ps2/Metrics")},
            "/A/ps1/Metrics": {"InputPowerWatts": {"Reading": 400.5}},
            "/A/ps2/Metrics": {"InputPowerWatts": {"Reading": 399.5}},
        }
    )
    with serving(script) as server:
        assert watts(RedfishSource(Redfish(server.url))) == [800]


def test_a_chassis_inside_another_is_not_added_to_it():
    script = pages(
        **{
            "": {"Members": [link("/Node"), link("/GPU_1")]},
            "/Node": {"Id": "Node", "EnvironmentMetrics": link("/Node/E")},
            "/GPU_1": {
                "Id": "GPU_1", "EnvironmentMetrics": link("/GPU_1/E"), "Links": {"ContainedBy": link("/Node")},
            },
            "/Node/E": {"PowerWatts": {"Reading": 5000}},
            "/GPU_1/E": {"PowerWatts": {"Reading": 700}},
        }
    )  # fmt: skip
    with serving(script) as server:
        source = RedfishSource(Redfish(server.url))
        assert watts(source) == [5000]
        assert codes(source) == ["redfish_inner"]
        assert watts(RedfishSource(Redfish(server.url, chassis="GPU_1"))) == [700]


@pytest.mark.parametrize("reading", [None, 0, "420", True, [1]])
def test_what_is_no_reading_is_no_zero(reading):
    script = pages(
        **{
            "": {"Members": [link("/A")]},
            "/A": {"Id": "A", "EnvironmentMetrics": link("/A/E")},
            "/A/E": {"PowerWatts": {"Reading": reading}},
        }
    )
    with serving(script) as server:
        source = RedfishSource(Redfish(server.url))
    assert (source.devices(), codes(source)) == ([], ["redfish_no_power"])


def test_the_account_goes_as_basic_authentication_over_tls_with_its_own_authority(tmp_path, monkeypatch):
    authority = Authority(tmp_path)
    monkeypatch.setenv("BMC_USER", "reader")
    monkeypatch.setenv("BMC_PASSWORD", "s3cret")
    account = {"user_env": "BMC_USER", "password_env": "BMC_PASSWORD"}
    with serving(instruments.redfish(), authority.certificate()) as server:
        trusted = RedfishSource(Redfish(server.url, ca_file=str(authority.ca), **account))
        assert watts(trusted) == [WATTS]
        distrusted = RedfishSource(Redfish(server.url, **account))
        told = {asked.headers["authorization"] for asked in server.asked}
    assert told == {"Basic " + base64.b64encode(b"reader:s3cret").decode()}
    assert distrusted.devices() == []
    assert "tls_error" in distrusted.notes[0].text
    assert "s3cret" not in json.dumps([device.to_json() for device in trusted.devices()]) + str(distrusted.notes)


def test_a_session_is_opened_used_and_closed(monkeypatch):
    monkeypatch.setenv("BMC_USER", "reader")
    monkeypatch.setenv("BMC_PASSWORD", "s3cret")
    inner = instruments.redfish()

    def script(asked):
        if asked.method == "POST":
            assert json.loads(asked.body) == {"UserName": "reader", "Password": "s3cret"}
            return 201, {"X-Auth-Token": "t0ken", "Location": "/redfish/v1/SessionService/Sessions/7"}, {}
        return inner(asked) if asked.headers.get("x-auth-token") == "t0ken" else (401, {}, {})

    with serving(script) as server:
        source = RedfishSource(
            Redfish(server.url, user_env="BMC_USER", password_env="BMC_PASSWORD", session=True)
        )  # fmt: skip
        assert watts(source) == [WATTS]
        assert (server.asked[-1].method, server.asked[-1].path) == ("DELETE", "/redfish/v1/SessionService/Sessions/7")


def test_a_refused_account_names_the_variables_to_check(monkeypatch):
    monkeypatch.setenv("BMC_USER", "reader")
    monkeypatch.setenv("BMC_PASSWORD", "wrong")
    with serving(lambda _: (401, {}, {})) as server:
        source = RedfishSource(Redfish(server.url, user_env="BMC_USER", password_env="BMC_PASSWORD"))
    assert "check what BMC_USER and BMC_PASSWORD hold" in source.notes[0].text


def test_a_variable_that_is_not_set_cannot_be_asked_with(monkeypatch):
    monkeypatch.delenv("BMC_USER", raising=False)
    with pytest.raises(SourceError, match="BMC_USER is not set"):
        RedfishSource(Redfish("http://127.0.0.1:9", user_env="BMC_USER", password_env="BMC_USER"))


def test_a_metadata_service_is_never_asked():
    with pytest.raises(SourceError, match="never contacted"):
        RedfishSource(Redfish("http://169.254.169.254"))


# IPMI


def test_the_reading_of_ipmitool_is_that_of_the_machine(tmp_path, monkeypatch):
    ipmitool(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    source = IpmiSource()
    assert watts(source) == [WATTS]
    assert [device.layer for device in source.devices()] == [Layer.HOST]


@pytest.mark.parametrize(
    ("words", "status"),
    [
        ("Could not open device at /dev/ipmi0 or /dev/ipmi/0: No such file or directory", 1),
        ("Instantaneous power reading: 0 Watts\nPower reading state is: deactivated\n", 0),
    ],
)
def test_ipmitool_without_a_reading_is_a_note_and_no_zero(tmp_path, monkeypatch, words, status):
    ipmitool(tmp_path, words, status)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    source = IpmiSource()
    assert (source.devices(), codes(source)) == ([], ["ipmi_unreadable"])
    assert "/dev/ipmi0" in source.notes[0].text


# meters that answer in JSON


TASMOTA = {"StatusSNS": {"Time": "2026-11-29T20:35:22", "ENERGY": {"Total": 12.345, "Power": 251, "Voltage": 230}}}
GEN1 = {"meters": [{"power": 2.21, "is_valid": True, "total": 439237}]}


@pytest.mark.parametrize(
    ("answer", "options", "column", "value"),
    [
        (TASMOTA, {"pointer": "/StatusSNS/ENERGY/Power"}, "power_mw", 251_000),
        (TASMOTA, {"pointer": "/StatusSNS/ENERGY/Total", "unit": "kWh"}, "energy_mj", 12.345 * 3.6e9),
        (GEN1, {"pointer": "/meters/0/power"}, "power_mw", 2210),
        (GEN1, {"pointer": "/meters/0/total", "unit": "Wmin"}, "energy_mj", 439_237 * 60e3),
        ({"a/b": {"w~": "0.3"}}, {"pointer": "/a~1b/w~0", "unit": "kW"}, "power_mw", 300_000),
        ({"value": 2513}, {"pointer": "/value", "scale": 0.1}, "power_mw", 251_300),
    ],
)
def test_forms_of_plugs_are_read_by_pointer_unit_and_scale(answer, options, column, value):
    with serving(lambda _: (200, {}, answer)) as server:
        source = MeterSource(JsonMeter(f"{server.url}/cm?cmnd=Status%208", **options))
        (row,) = source.read()
        source.close()
        assert server.asked[0].path == "/cm?cmnd=Status%208"
    assert row[column] == pytest.approx(value)


def test_the_layer_of_a_meter_is_what_it_is_put_on():
    with serving(instruments.shelly) as server:
        source = MeterSource(JsonMeter(server.url, pointer="/apower", layer=Layer.ACCELERATOR))
        assert [row["layer"] for row in source.read()] == ["accelerator"]
        source.close()


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        ((200, {}, {"power": 3}), "nothing at /apower: beside 'apower' there is power"),
        ((200, {}, {"apower": None}), "None, which is not a number"),
        ((200, {}, {"apower": "off"}), "'off', which is not a number"),
        ((200, {}, "<html>"), "does not answer in JSON"),
    ],
)
def test_an_answer_without_the_number_is_a_note_that_says_what_is_there(reply, words):
    with serving(lambda _: reply) as server:
        source = MeterSource(JsonMeter(server.url, pointer="/apower"))
    assert source.devices() == []
    assert words in source.notes[0].text


def test_a_pointer_to_nothing_is_the_whole():
    assert resolve({"a": 1}, "") == {"a": 1}


@pytest.mark.parametrize(
    "answer", [[], {"Members": 3}, {"Members": [1, {"@odata.id": "/redfish/v1/Chassis"}]}, "<html>"]
)
def test_an_answer_in_another_form_is_a_note(answer):
    with serving(lambda _: (200, {}, answer)) as server:
        source = RedfishSource(Redfish(server.url))
    assert source.devices() == []
    assert source.notes[0].code in ("redfish_no_power", "redfish_unreadable")
