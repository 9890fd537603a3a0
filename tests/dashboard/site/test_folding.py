"""Long tables in parts: the first rows, the rest, and the rows of zero together."""

import pytest

from dashboard.site.tables import folded


@pytest.mark.parametrize(
    ("rows", "parts"),
    [
        pytest.param([], ([], [], []), id="nothing"),
        pytest.param([3, 2], ([3, 2], [], []), id="few"),
        pytest.param([9, 8, 7, 6], ([9, 8], [7, 6], []), id="many"),
        pytest.param([9, 0, 8, 0, 7], ([9, 8], [7], [0, 0]), id="zeros among them"),
        pytest.param([9, 0], ([9, 0], [], []), id="one zero stays"),
        pytest.param([0, 0, 0], ([0, 0], [0], []), id="nothing but zeros is the table"),
    ],
)
def test_a_table_is_cut_and_loses_no_row(rows, parts):
    found = folded(rows, 2, lambda value: not value)

    assert (list(found.first), list(found.rest), list(found.zeros)) == parts
    assert len(found.first) + len(found.rest) + len(found.zeros) == len(rows)
