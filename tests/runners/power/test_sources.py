"""Which instruments serve what is asked for, each device once."""

import argparse

import pytest

from runners.meters import EXAMPLES, Dcgm, JsonMeter, Prometheus, Redfish, SmiLog, complaint, meter_text, parse_meter
from runners.power.devices import SourceError
from runners.power.options import add_power, arguments_of, power_of
from runners.power.sources import describe, open_sources
from runners.spec import Load, Power, RunSpec, SpecError, Target
from tests.services import instruments
from tests.services.instruments import serving


def given(*arguments):
    parser = argparse.ArgumentParser(exit_on_error=False)
    add_power(parser, "--power")
    return power_of(parser.parse_args(arguments))


def test_a_device_that_two_instruments_tell_of_counts_by_the_first():
    with serving(instruments.dcgm_page) as server:
        sources = open_sources(Power("none", meters=(Dcgm(server.url), Dcgm(f"{server.url}/again"))))
        rows = [row for source in sources for row in source.read()]
        account = describe(sources)
        for source in sources:
            source.close()
    assert [device["id"] for device in account["devices"]] == ["GPU-aaaa"]
    assert len(rows) == 1
    assert "device_repeated" in [note["code"] for note in account["notes"]]


def test_instruments_elsewhere_say_nothing_of_the_machine_that_samples():
    with serving(instruments.dcgm_page) as server:
        sources = open_sources(Power("estimate", meters=(Dcgm(server.url),)))
        alone = open_sources(Power("none", meters=(Dcgm(server.url),)))
        assert "sampled_host" in [note["code"] for note in describe(sources)["notes"]]
        assert "sampled_host" not in [note["code"] for note in describe(alone)["notes"]]
        for source in (*sources, *alone):
            source.close()


def test_several_names_are_joined():
    sources = open_sources(Power("rapl+estimate"))
    assert [source.name for source in sources] == ["rapl", "estimate"]


@pytest.mark.parametrize(("names", "words"), [("nvml+geiger", "'geiger' is not known"), ("dcgm", "dcgm:http://gpu-1")])
def test_a_name_that_cannot_be_asked_says_what_to_write(names, words):
    with pytest.raises(SourceError, match=words):
        open_sources(Power(names))


# on the command line


def test_nothing_given_is_auto_and_a_place_alone_is_that_alone():
    assert given() == Power()
    assert given("--power", "none") == Power("none")
    assert given("--power", "dcgm:http://h:9400/metrics") == Power("none", meters=(Dcgm("http://h:9400/metrics"),))
    both = given("--power", "auto", "--power", "redfish:https://bmc", "--cpu-idle-w", "40")
    assert both == Power("auto", cpu_idle_w=40, meters=(Redfish("https://bmc"),))


@pytest.mark.parametrize(
    "power",
    [
        Power(),
        Power("none"),
        Power("nvml+rapl", cpu_max_w=90),
        Power("auto", meters=(Redfish("https://bmc", user_env="U", password_env="P", session=True),)),
        Power("none", meters=(SmiLog("a b.csv", "UTC"), Dcgm("http://h", gpus="1+2"))),
        Power("none", meters=(Prometheus("http://p", query='a{b="c",step_s="d"}', step_s=0.125, unit="mW"),)),
        Power("none", meters=(JsonMeter("http://m", pointer="/a", scale=1 / 3),)),
    ],
)
def test_options_and_back_are_the_same(power):
    options = [str(part) for pair in arguments_of(power, "--power") if pair[1] is not None for part in pair]
    assert given(*options) == power


@pytest.mark.parametrize("text", EXAMPLES.values(), ids=EXAMPLES)
def test_every_example_can_be_used(text):
    meter = parse_meter(text)
    assert complaint(meter) is None
    assert meter_text(meter) == text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("geiger:http://h", "'geiger' is not one of dcgm"),
        ("dcgm:gpu-1", "url: must start with http"),
        ("dcgm:http://h,colour=red", "no option 'colour'; known are url"),
        ("prometheus:http://h", "query: the PromQL"),
        ("prometheus:http://h,step_s=soon,query=up", "'soon' is not a number"),
        ("prometheus:http://h,step_s=0,query=up", "step_s: above 0"),
        ("redfish:https://h,session=maybe", "'maybe' is not yes or no"),
        ("redfish:https://h,user_env=U", "give user_env and password_env together"),
        ("redfish:https://h,user_env=my secret,password_env=P", "never the secret itself"),
        ("redfish:http://h,ca_file=x.pem", "only https"),
        ("meter:http://h,pointer=apower", "a JSON pointer"),
        ("meter:http://h,pointer=/a,unit=BTU", "'BTU' is not one of W, mW"),
        ("meter:http://h,pointer=/a,layer=roof", "'roof' is not one of accelerator"),
        ("csv:log.csv", "zone: the time zone"),
        ("csv:,zone=UTC", "file: the CSV file"),
        ("gpu-model:0", "tdp_w: above 0"),
        ("gpu-model:300,idle_w=400", "idle_w: 0 or more"),
    ],
)
def test_what_is_wrong_with_a_place_is_said_with_what_to_write(text, words):
    with pytest.raises(argparse.ArgumentError, match=words.replace("(", r"\(")):
        given("--power", text)


def spec_with(meter):
    data = RunSpec(Target("http://h"), load=Load(requests=1)).to_json()
    data["power"]["meters"] = [meter]
    return RunSpec.from_json(data)


def test_a_specification_holds_instruments_by_kind_and_refuses_what_it_does_not_know():
    spec = spec_with({"kind": "meter", "url": "http://m", "pointer": "/a", "layer": "host"})
    assert spec.power.meters == (JsonMeter("http://m", pointer="/a"),)
    assert RunSpec.from_json(spec.to_json()) == spec
    for wrong, words in (
        ({"kind": "geiger"}, "power.meters\\[0\\].kind: must be one of dcgm"),
        ({"kind": "dcgm", "url": "h"}, "power.meters\\[0\\].url: must start with http"),
        ({"kind": "dcgm", "url": "http://h", "password": "x"}, "no such field"),
    ):
        with pytest.raises(SpecError, match=words):
            spec_with(wrong)
