"""The table of actions in the docs is what their declarations say."""

from dashboard.access.registry import actions
from tools.action_table import PAGE, table, written


def test_the_table_of_actions_is_as_they_are_declared():
    text = PAGE.read_text(encoding="utf-8")

    assert written(text) == text, "run `python tools/action_table.py`"
    assert all(f"`{name}`" in table() for name in actions())
