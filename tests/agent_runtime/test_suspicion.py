"""How much evidence convicts an episode of having ended its server."""

from agent_runtime.suspicion import Suspicion


def test_two_ends_among_others_and_two_alone_convict():
    suspicion = Suspicion()
    for number, (suspected, convicted) in enumerate(
        [(False, False), (True, False), (True, False), (True, True)], start=1
    ):
        suspicion.record(alone=suspicion.suspected, by_message=False)
        assert (suspicion.suspected, suspicion.convicted) == (suspected, convicted)
        assert suspicion.breaks == number


def test_a_message_that_breaks_its_stream_is_convicted_at_the_second_time():
    suspicion = Suspicion()
    suspicion.record(alone=suspicion.suspected, by_message=True)
    assert (suspicion.suspected, suspicion.convicted) == (True, False)
    suspicion.record(alone=suspicion.suspected, by_message=True)
    assert suspicion.convicted


def test_an_answered_step_clears():
    suspicion = Suspicion()
    for _ in range(3):
        suspicion.record(alone=suspicion.suspected, by_message=False)
    suspicion.clear()
    assert not suspicion.suspected
    suspicion.record(alone=False, by_message=False)
    assert not suspicion.suspected
