"""The kinds of usage: the library that counts them and the pipeline that prices them know the same."""

import pytest

from pairing.telemetry.metering import KINDS, SETTLEMENT_KINDS
from pipeline import schemas


def test_the_pipeline_prices_every_kind_that_is_counted_and_no_other() -> None:
    assert set(schemas.KINDS) == set(KINDS)
    assert set(schemas.SETTLEMENTS) == set(SETTLEMENT_KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_reports_have_a_label_of_its_own_for_every_kind(kind: str) -> None:
    labels = [other.label for other in KINDS.values()]

    assert labels.count(KINDS[kind].label) == 1
