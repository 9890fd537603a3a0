"""The benchmarks of the control plane in small: they run, and what they count is as it should be."""

import pytest

from tests.benchmarks import bench_dashboard, bench_dashboard_live


@pytest.mark.nightly
def test_pages_of_many_entities_and_samples_are_measured():
    found = bench_dashboard.run(entities=60, samples=400, rounds=1)

    assert found["overview"]["queries"] <= 12
    assert found["search"]["queries"] <= 12
    assert all(found[page]["median_ms"] > 0 for page in ("by_folder", "pair_with_charts", "entity_with_chart"))
    assert all(found[f"pair_over_{span}"]["median_ms"] > 0 for span in bench_dashboard.SPANS)


@pytest.mark.nightly
def test_every_open_page_is_notified_of_a_change_and_shows_it():
    found = bench_dashboard_live.run(pages=5, quiet_s=0.2, events=3)

    assert found["pages"] == 5
    assert 0 < found["reported_all_ms"]["median"] <= found["on_the_page_ms"]["worst"]
