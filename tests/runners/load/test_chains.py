"""A turn is held back until the one before it was answered, whatever starts new conversations."""

import numpy as np

from runners.load.arrivals import ClosedLoop, OpenLoop, Span
from runners.load.chains import Chains
from runners.load.workloads import Message, Turn

TURN = Turn((Message("user", "and then?"),), None, 8)


def closed(concurrency=2, **span):
    return Chains(ClosedLoop(concurrency, Span(0)), Span(0, **span))


def test_as_many_conversations_begin_as_are_asked_for_and_thinking_ones_count():
    chains = closed()
    assert chains.take(0) == (0, False)
    assert chains.take(0) == (0, False)
    assert chains.following is None
    assert chains.next_due_ns(5, in_flight=0) is None
    chains.hold(TURN, 50)
    assert chains.next_due_ns(6, in_flight=0) == 50
    assert chains.take(50) == (50, False)
    assert chains.following is TURN


def test_a_conversation_that_ended_makes_room_for_another():
    chains = closed(concurrency=1)
    chains.take(0)
    assert chains.next_due_ns(5, in_flight=0) is None
    chains.close()
    assert chains.next_due_ns(5, in_flight=0) == 5


def test_turns_come_in_the_order_of_their_due_times_before_later_starts():
    chains = Chains(OpenLoop(np.array([0, 100]), Span(0), 9), Span(0))
    chains.take(0)
    late, early = Turn((), None, 1), Turn((), None, 2)
    chains.hold(late, 90)
    chains.hold(early, 40)
    due = []
    for _ in range(3):
        due.append((chains.take(200)[0], chains.following))
    assert due == [(40, early), (90, late), (100, None)]


def test_the_stage_ends_when_its_requests_were_sent_turns_of_conversations_counted():
    chains = closed(concurrency=1, requests=2)
    chains.take(0)
    chains.hold(TURN, 10)
    assert not chains.ended(5)
    chains.take(10)
    chains.hold(TURN, 20)
    assert chains.ended(11)
    assert chains.next_due_ns(30, in_flight=0) is None


def test_an_open_loop_ends_with_its_last_conversation():
    chains = Chains(OpenLoop(np.array([0]), Span(0), 9), Span(0))
    chains.take(0)
    assert not chains.ended(5)
    chains.close()
    assert chains.ended(6)


def test_turns_after_the_end_of_the_measured_part_are_load_only():
    chains = closed(concurrency=1, end_ns=100, cooldown_ns=50)
    assert chains.take(0) == (0, False)
    chains.hold(TURN, 120)
    assert chains.take(120) == (120, True)
    assert chains.ended(150)
