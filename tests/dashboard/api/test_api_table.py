"""The table of operations in docs/api.md has the descriptions of the OpenAPI document."""

from tools.api_table import PAGE, table, written


def test_the_table_of_operations_equals_the_openapi_document():
    text = PAGE.read_text(encoding="utf-8")

    assert written(text) == text, "run `python tools/api_table.py`"
    assert "| POST | `/api/v1/pairs/<pair>/take-back` | Cancel a deletion during its undo window. |" in table()
    assert "|  |" not in table(), "every operation has a description"
