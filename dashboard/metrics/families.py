"""Families of samples as prometheus-client writes them, under the prefix that all of ours have."""

from collections.abc import Iterable, Mapping
from datetime import datetime

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

PREFIX = "paired_"
Sample = tuple[Mapping[str, str], float]
"""Labels and a value."""


def gauge(name: str, about: str, samples: Iterable[Sample]) -> Metric:
    """A metric that goes up and down. It is listed even if it has no sample."""
    return _with_samples(GaugeMetricFamily(PREFIX + name, about), PREFIX + name, samples)


def counter(name: str, about: str, samples: Iterable[Sample]) -> Metric:
    """A metric that only grows; its name ends in `_total`."""
    return _with_samples(CounterMetricFamily(PREFIX + name, about), PREFIX + name, samples)


def _with_samples(family: Metric, name: str, samples: Iterable[Sample]) -> Metric:
    for labels, value in samples:
        family.add_sample(name, dict(labels), value)
    return family


def moment(at: datetime | None) -> float:
    """A time as Prometheus has it, seconds of Unix time; 0 where there was none."""
    return round(at.timestamp(), 3) if at else 0.0
