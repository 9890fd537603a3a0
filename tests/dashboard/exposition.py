"""Prometheus's text format, read as Prometheus reads it: the order of labels and `1` or `1.0` make no difference."""

from prometheus_client.parser import text_string_to_metric_families

Sample = tuple[str, frozenset[tuple[str, str]], float]


def samples(text: str, prefix: str = "") -> list[Sample]:
    """All samples of metrics whose names begin so, in their order."""
    found = (sample for family in text_string_to_metric_families(text) for sample in family.samples)
    return [(one.name, frozenset(one.labels.items()), one.value) for one in found if one.name.startswith(prefix)]


def sample(line: str) -> Sample:
    """The one sample of a line."""
    (only,) = samples(line)
    return only
