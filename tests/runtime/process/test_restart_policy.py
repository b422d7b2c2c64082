"""When a dead engine process is started again."""

from __future__ import annotations

from antiphon.runtime.process.restart_policy import RestartPolicy


def test_ready_processes_that_die_are_always_replaced_soon() -> None:
    policy = RestartPolicy()
    delays = [policy.next_delay(now, 1.0) for now in range(1000)]
    assert delays[:6] == [0.0, 0.5, 1.0, 2.0, 4.0, 4.0] and set(delays[5:]) == {4.0}


def test_a_stable_life_clears_the_record() -> None:
    policy = RestartPolicy()
    for now in range(5):
        policy.next_delay(now, 1.0)
    assert policy.next_delay(100, 59.9) == 4.0
    assert policy.next_delay(200, 60.0) == 0.0
    assert policy.next_delay(201, 1.0) == 0.5


def test_starts_that_fail_are_given_up_after_minutes() -> None:
    policy = RestartPolicy()
    now, delays = 0.0, []
    while (delay := policy.next_delay(now, None)) is not None:
        delays.append(delay)
        now += delay + 2
    assert delays[:9] == [0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0] and max(delays) == 30.0
    assert 300 <= now < 340


def test_slow_failures_get_several_tries() -> None:
    policy = RestartPolicy()
    assert policy.next_delay(0, None) == 0.0
    assert policy.next_delay(400, None) == 0.5
    assert policy.next_delay(800, None) is None


def test_one_success_starts_the_count_of_failures_again() -> None:
    policy = RestartPolicy()
    for now in (0, 100, 200):
        policy.next_delay(now, None)
    assert policy.next_delay(300, 0.1) is not None
    for now in (301, 400, 599):
        assert policy.next_delay(now, None) is not None
    assert policy.next_delay(601, None) is None
