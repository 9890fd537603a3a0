"""What a soak calls flat, and what it must find: a leak, however noisy its series, and a process that was replaced."""

import random
from collections.abc import Callable
from typing import Any

import pytest
from django.apps import apps

from dashboard.fleet.pruning import KEPT
from tests.campaign.flatness import FEWEST, RETAINED, Judged, judge, restarted

HOUR_S, EVERY_S, WARM_UP_S = 3600, 30, 600
Series = Callable[[float], float]


def samples(**series: Series) -> list[dict[str, Any]]:
    """An hour of samples; `_` in a name is a blank, two are a colon and a blank."""
    names = {name: name.replace("__", ": ").replace("_", " ") for name in series}
    return [
        {"at_s": float(at), "pids": {"web": 7}, "values": {names[one]: series[one](at) for one in series}}
        for at in range(0, HOUR_S + 1, EVERY_S)
    ]


def result_of(series: Series, name: str = "descriptors__web") -> Judged:
    [found] = judge(samples(**{name: series}), WARM_UP_S)
    return found


def noise(size: float) -> Callable[[], float]:
    chance = random.Random("soak")
    return lambda: chance.uniform(-size, size)


JITTER, NOISE = noise(15.0), noise(12.0)
MEMORY = "memory_(MiB)__web"


@pytest.mark.parametrize(
    ("series", "name", "result"),
    [
        pytest.param(lambda at: 40.0, "descriptors__web", "flat", id="constant"),
        pytest.param(lambda at: min(at, WARM_UP_S), "descriptors__web", "flat", id="rises in the warm-up alone"),
        pytest.param(lambda at: 40.0 + JITTER(), "descriptors__web", "flat", id="noise"),
        pytest.param(lambda at: 40.0 + 30.0 * (at % 60 == 30), "descriptors__web", "flat", id="rises in each outage"),
        pytest.param(lambda at: 900.0 if at in (3000, 3570) else 40.0, "descriptors__web", "flat", id="single samples"),
        pytest.param(lambda at: 400.0 - at / 60, "descriptors__web", "flat", id="falls"),
        pytest.param(lambda at: 60.0 + 4.0 * at / HOUR_S, MEMORY, "flat", id="what an allocator does"),
        pytest.param(lambda at: 60.0 + 6.0 * at / HOUR_S, MEMORY, "grows", id="more than that"),
        pytest.param(
            lambda at: 200.0 + 20.0 * at / HOUR_S + 25.0 * (at % 60 == 30) + NOISE(), MEMORY, "grows", id="a leak"
        ),
    ],
)
def test_what_grows_is_found_under_noise_and_outages_and_nothing_else(series: Series, name: str, result: str) -> None:
    assert result_of(series, name).result == result


@pytest.mark.parametrize("size", [0.0, 3.0, 10.0])
def test_one_descriptor_lost_in_each_fifth_outage_is_found(size: float) -> None:
    jitter = noise(size)
    found = result_of(lambda at: 40.0 + at // 300 + jitter())
    assert found.result == "grows"
    assert found.per_hour == pytest.approx(12, abs=2 + size)


def test_rows_that_are_kept_for_a_time_are_named_with_it() -> None:
    assert result_of(lambda at: at, "rows__FailoverEvent").result == "kept for 400 days"
    assert result_of(lambda at: at, "rows__Heartbeats").result == "grows"


def test_a_series_of_few_samples_is_left_out_and_too_few_samples_fail() -> None:
    few = samples(threads__web=lambda at: 8.0)
    few[-1]["values"]["threads: job"] = 99.0
    assert [one.name for one in judge(few, WARM_UP_S)] == ["threads: web"]
    with pytest.raises(ValueError, match="only"):
        judge(few[: FEWEST - 1], 0)


def test_a_process_that_was_started_again_is_found() -> None:
    taken = samples(threads__web=lambda at: 8.0)
    assert restarted(taken) == {}
    taken[-1]["pids"] = {"web": 8}
    assert restarted(taken) == {"web": 1}


def test_every_row_with_a_retention_is_one_that_is_pruned() -> None:
    """None is excused that nothing deletes."""
    named = {model.__name__ for model in apps.get_models()}
    pruned = {model.__name__: kept for model, (_, kept) in KEPT.items()}
    for name, text in RETAINED.items():
        model = name.removeprefix("rows: ")
        assert model in named
        assert f"{pruned[model].days} day" in text, f"{model} is kept for {pruned[model].days} days"
