"""Families of samples of prometheus-client, with the common prefix."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

PREFIX = "paired_"
Sample = tuple[Mapping[str, str], float]
"""Labels and a value."""


def gauge(name: str, about: str, samples: Iterable[Sample]) -> Metric:
    """A metric that goes up and down. It is exposed even without a sample."""
    return _with_samples(GaugeMetricFamily(PREFIX + name, about), PREFIX + name, samples)


def counter(name: str, about: str, samples: Iterable[Sample]) -> Metric:
    """A metric that only increases; its name ends in `_total`."""
    return _with_samples(CounterMetricFamily(PREFIX + name, about), PREFIX + name, samples)


def each(rows: Iterable[Sequence[Any]], *labels: str) -> Iterator[Sample]:
    """The samples of rows with the values of these labels, and at the end a number or a time."""
    for *values, last in rows:
        yield dict(zip(labels, values, strict=True)), moment(last) if isinstance(last, datetime) else last


def _with_samples(family: Metric, name: str, samples: Iterable[Sample]) -> Metric:
    for labels, value in samples:
        family.add_sample(name, dict(labels), value)
    return family


def moment(at: datetime | None) -> float:
    """A time in seconds of Unix time; 0 for None."""
    return round(at.timestamp(), 3) if at else 0.0
