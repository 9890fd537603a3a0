"""docs/specification.md, section 6: backlog queues and the rotation."""

from collections import Counter
from random import Random

import pytest

from pairing.backlog.rotation import Rotation, backlog_path, parse_backlog_path

PATHS = [f"contoso/x-servicebus-transfer/{i}" for i in range(4)]


def rotation(paths=PATHS, seed=1) -> Rotation:
    return Rotation(paths, probation_s=60.0, random=Random(seed))


def kinds(events) -> list[str]:
    return [event.kind for event in events]


@pytest.mark.parametrize(
    ("path", "parsed"),
    [
        ("contoso/x-servicebus-transfer/7", ("contoso", 7)),
        ("contoso/X-ServiceBus-Transfer/0", ("contoso", 0)),
        ("contoso/x-servicebus-transfer/07", None),
        ("contoso/x-servicebus-transfer/", None),
        ("a/b/x-servicebus-transfer/1", None),
        ("orders", None),
    ],
)
def test_only_backlog_queues_parse(path, parsed):
    assert parse_backlog_path(path) == parsed
    assert parsed is None or backlog_path(*parsed).lower() == path.lower()


def test_senders_choose_at_random_and_spread():
    chosen = Counter(rotation(seed=seed).choose() for seed in range(200))
    assert set(chosen) == set(PATHS)
    assert max(chosen.values()) < 100


def test_a_sender_stays_with_its_queue():
    queues = rotation()
    first = queues.choose()
    assert all(queues.choose(current=first) == first for _ in range(50))


def test_probation_doubles_up_to_thirty_minutes():
    queues, now, lengths = rotation(), 0.0, []
    for _ in range(8):
        queues.failed(PATHS[0], "no answer", now, began=now)
        probation = next(s for s in range(1, 4000) if queues.expire(now + s))
        lengths.append(probation)
        now += probation
    assert lengths == [60, 120, 240, 480, 960, 1800, 1800, 1800]


def test_the_last_resort_is_the_longest_pulled_queue_not_yet_tried():
    queues = rotation()
    for now, path in enumerate([PATHS[2], PATHS[0], PATHS[3], PATHS[1]]):
        queues.failed(path, "no answer", float(now), began=float(now))
    assert queues.last_resort() == PATHS[2]
    assert queues.last_resort(tried={PATHS[2]}) == PATHS[0]
    assert queues.last_resort(tried=set(PATHS)) is None


def test_a_queue_that_failed_elsewhere_is_left_without_being_reported_again_and_comes_back_with_it():
    queues = rotation()
    queues.adopt_pull(PATHS[0], 60.0, 0.0)
    assert all(queues.choose() != PATHS[0] for _ in range(50))
    assert queues.expire(60.0) == []
    assert queues.usable(PATHS[0])
    queues.adopt_pull(PATHS[0], 120.0, 60.0)
    queues.adopt_return(PATHS[0], 1.0)
    assert queues.usable(PATHS[0])


def test_a_queue_this_process_saw_fail_stays_out_whatever_others_say():
    queues = rotation()
    queues.failed(PATHS[0], "no answer", 0.0, began=0.0)
    queues.adopt_pull(PATHS[0], 5.0, 0.0)
    queues.adopt_return(PATHS[0], 1.0)
    assert not queues.usable(PATHS[0])
    assert kinds(queues.expire(60.0)) == ["queue_returned"]


def test_a_queue_that_failed_elsewhere_and_here_is_reported_here_too():
    queues = rotation()
    queues.adopt_pull(PATHS[0], 60.0, 0.0)
    assert kinds(queues.failed(PATHS[0], "no answer", 1.0, began=1.0)) == ["queue_pulled"]


def test_a_session_has_one_queue_whoever_sends():
    by_process = {(seed, f"s{i}"): rotation(seed=seed).choose(session=f"s{i}") for seed in range(5) for i in range(40)}
    for i in range(40):
        assert len({by_process[seed, f"s{i}"] for seed in range(5)}) == 1
    assert set(by_process.values()) == set(PATHS)


def test_a_queue_that_leaves_moves_only_its_own_sessions():
    queues = rotation()
    before = {f"s{i}": queues.choose(session=f"s{i}") for i in range(100)}
    queues.failed(PATHS[1], "no answer", 0.0, began=0.0)
    moved = {s for s, queue in before.items() if queues.choose(session=s) != queue}
    assert moved == {s for s, queue in before.items() if queue == PATHS[1]}


def test_a_queue_that_was_deleted_is_not_counted_until_its_namespace_has_it_again():
    queues = rotation()
    queues.failed(PATHS[0], "not found", 0.0, began=0.0)
    queues.doubt(PATHS[0], is_missing=True, began=0.0)
    assert (queues.present, queues.is_doubtful) == (len(PATHS) - 1, True)
    returned = queues.found(PATHS, 1.0)
    assert [(event.kind, event.path) for event in returned] == [("queue_returned", PATHS[0])]
    assert (queues.present, queues.is_doubtful, queues.trusts(PATHS[0])) == (len(PATHS), False, True)


def test_what_an_operation_saw_before_the_queue_was_found_again_is_of_the_past():
    queues = rotation()
    queues.failed(PATHS[0], "not found", 0.0, began=0.0)
    queues.doubt(PATHS[0], is_missing=True, began=0.0)
    queues.found(PATHS, 5.0)
    assert queues.failed(PATHS[0], "not found", 6.0, began=4.0) == []
    queues.doubt(PATHS[0], is_missing=True, began=4.0)
    assert (queues.present, queues.usable(PATHS[0])) == (len(PATHS), True)
    assert kinds(queues.failed(PATHS[0], "not found", 7.0, began=5.0)) == ["queue_pulled"]
    queues.doubt(PATHS[0], is_missing=True, began=5.0)
    assert queues.present == len(PATHS) - 1


def test_a_queue_that_stays_deleted_is_tried_after_each_probation_and_reported_once():
    queues = rotation()
    reported = kinds(queues.failed(PATHS[0], "not found", 0.0, began=0.0))
    queues.doubt(PATHS[0], is_missing=True, began=0.0)
    reported += kinds(queues.found(PATHS[1:], 1.0)) + kinds(queues.expire(60.0))
    assert queues.usable(PATHS[0])
    reported += kinds(queues.failed(PATHS[0], "not found", 61.0, began=61.0)) + kinds(queues.expire(181.0))
    assert (reported, queues.present) == (["queue_pulled"], len(PATHS) - 1)
    assert kinds(queues.accepted(PATHS[0], 182.0)) == ["queue_returned"]
    assert queues.present == len(PATHS)


def test_a_queue_that_another_process_created_again_is_back_here_too():
    queues = rotation()
    queues.failed(PATHS[0], "not found", 0.0, began=0.0)
    queues.doubt(PATHS[0], is_missing=True, began=0.0)
    queues.adopt_return(PATHS[0], 1.0)
    assert queues.usable(PATHS[0])
    assert queues.present == len(PATHS)
