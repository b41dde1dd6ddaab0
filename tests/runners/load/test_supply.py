"""Requests are built before they are due; those of the warm-up never serve the measured part where they must not."""

from runners.load.plan import fixed_stages
from runners.load.supply import Supply
from runners.load.target import Requests, base_endpoint
from runners.load.workloads import Message, Turn
from runners.spec import Load, RunSpec, Target


class Numbered:
    """A workload that counts what is asked of it."""

    def __init__(self, renews: bool) -> None:
        self.started = 0
        self._renews = renews

    def start(self, index):
        self.started += 1
        return Turn((Message("user", f"prompt {index}"),), 10, 5)

    def follow(self, turn, said):
        return None

    def renew(self):
        return self._renews


def supply(workload, warmup_s=0.0):
    spec = RunSpec(Target("http://h", "m"), load=Load(requests=100, warmup_s=warmup_s))
    return Supply(Requests(base_endpoint("http://h"), spec.target), workload, fixed_stages(spec)[0], spec)


def prompt(exchange):
    return exchange.turn.messages[0].content


def test_70_prompts_are_built_before_their_time_and_not_when_they_are_sent():
    workload = Numbered(renews=False)
    ready = supply(workload)
    ready.fill(64, 9)
    sent = [ready.take(False) for _ in range(64)]
    assert workload.started == 64
    assert [prompt(exchange) for exchange in sent] == [f"prompt {i}" for i in range(64)]
    assert [exchange.index for exchange in sent] == list(range(64))


def test_building_stops_when_its_time_is_up():
    workload = Numbered(renews=False)
    assert not supply(workload).fill(1000, 0)
    assert workload.started == 0


def test_prompts_built_for_the_warmup_are_thrown_away_where_the_measured_ones_must_share_nothing_with_them():
    ready = supply(Numbered(renews=True), warmup_s=1.0)
    ready.fill(5, 9)
    assert prompt(ready.take(True)) == "prompt 0"
    assert prompt(ready.take(False)) == "prompt 5"
    ready.fill(2, 9)
    assert prompt(ready.take(True)) == "prompt 6"  # the cool-down goes on with what there is
    assert prompt(ready.take(False)) == "prompt 7"


def test_others_keep_them():
    ready = supply(Numbered(renews=False), warmup_s=1.0)
    ready.fill(5, 9)
    assert [prompt(ready.take(warmup)) for warmup in (True, False)] == ["prompt 0", "prompt 1"]


def test_every_row_numbers_its_request_in_the_order_of_sending_turns_that_waited_too():
    ready = supply(Numbered(renews=False))
    assert ready.take(False).index == 0
    following = ready.following(Turn((Message("user", "and then?"),), None, 7))
    assert (following.index, following.asked_output_tokens, following.asked_input_tokens) == (1, 7, None)
    assert ready.take(False).index == 2
