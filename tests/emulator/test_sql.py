"""The SQL of rules: what it means, and that nothing written in it does harm (docs/emulator.md)."""

import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.broker.sql import FilterError, SqlError, parse_action, parse_condition
from tests.selection import depth


class Message:
    """What a condition asks, from two dictionaries."""

    def __init__(self, user=None, **system):
        self._user = {name.casefold(): value for name, value in (user or {}).items()}
        self._system = system

    def user(self, name):
        return self._user.get(name.casefold())

    def has_user(self, name):
        return name.casefold() in self._user

    def system(self, name):
        return self._system.get(name)


ORDER = Message(
    {
        "color": "red",
        "quantity": 10,
        "price": 2.5,
        "urgent": True,
        "empty": None,
        "HR-Id": "x]y",
        "Contoso & Northwind": 'a"b',
        "due": datetime(2026, 7, 5, 11, 12, 13, tzinfo=UTC),
        "wait": timedelta(minutes=5),
        "größe": 4,
        "text": "50% off_now",
        "order": "by",
    },
    label="bus ride",
    to="Store1",
    sessionid=None,
)


def value(expression, message=ORDER, **parameters):
    return parse_condition(expression, {f"@{name}": given for name, given in parameters.items()}).value(message)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("user.color = 'red'", True),
        ("USER.Color = 'red'", True),
        ("sys.Subject = 'bus ride'", True),
        ("SYS.[Label] = 'bus ride'", True),
        ("[HR-Id] = 'x]y'", True),
        ('"Contoso & Northwind" = \'a"b\'', True),
        ("größe = 4", True),
        ("color = 'it''s'", False),
        ("quantity > 9 AND quantity <= 10", True),
        ("quantity = 10.0", True),
        ("quantity + 2 * 3 = 16", True),
        ("(quantity + 2) * 3 = 36", True),
        ("quantity / 3 = 3", True),
        ("quantity % 3 = 1", True),
        ("-7 / 2 = -3", True),
        ("-7 % 2 = -1", True),
        ("7.0 / 2 = 3.5", True),
        ("- - quantity = +10", True),
        ("1.5E2 = 150", True),
        (".5 = 0.5", True),
        ("1.0 / 0 > 1", True),
        ("color + '!' = 'red!'", True),
        ("color + quantity = 'red10'", True),
        ("urgent", True),
        ("NOT urgent = true", False),
        ("NOT NOT urgent", True),
        ("quantity IN (1, 5 + 5)", True),
        ("color = 'red' OR color = 'blue' AND quantity = 11", True),
        ("(color = 'red' OR color = 'blue') AND quantity = 11", False),
        ("NOT EXISTS(sys.SessionId)", True),
        ("EXISTS(empty)", True),
        ("empty IS NULL", True),
        ("color IS NOT NULL", True),
        ("sys.SessionId IS NULL", True),
        ("property('col' + 'or') = 'red'", True),
        ("p('missing') IS NULL", True),
        ("newid() <> newid()", True),
        ("color = @wanted", True),
        ("wait = @pause", True),
        ("due + wait > due", True),
        ("color < 'reda'", True),
        ("[order] = 'by'", True),
    ],
)
def test_a_condition_means_what_it_means_in_sql(expression, expected):
    given = {"wanted": "red", "since": datetime(2026, 7, 5), "pause": timedelta(minutes=5)}
    assert value(expression, **given) is expected


U = None


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("missing = 1", U),
        ("missing <> 1", U),
        ("missing + 1 = 2", U),
        ("-missing = 1", U),
        ("missing LIKE 'a%'", U),
        ("color LIKE missing", U),
        ("missing NOT LIKE 'a%'", U),
        ("missing IN (1, 2)", U),
        ("missing NOT IN (1, 2)", U),
        ("color IN ('blue', missing)", U),
        ("color IN ('red', missing)", True),
        ("color = NULL", U),
        ("NOT missing = 1", U),
        ("1=1 AND missing = 1", U),
        ("1=0 AND missing = 1", False),
        ("missing = 1 AND 1=0", False),
        ("missing = 1 AND missing = 2", U),
        ("1=1 OR missing = 1", True),
        ("missing = 1 OR 1=1", True),
        ("1=0 OR missing = 1", U),
        ("missing = 1 OR missing = 2", U),
        ("(missing = 1) IS NULL", True),
    ],
)
def test_unknown_is_neither_true_nor_false(expression, expected):
    assert value(expression) is expected


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("'50%'", True),
        ("'%now'", True),
        ("'50% off_now'", True),
        ("'50!% off!_now' ESCAPE '!'", True),
        ("'50!% off!_now!' ESCAPE '!'", FilterError),
        ("'50\\% %' ESCAPE '\\'", True),
        ("'5_!%%' ESCAPE '!'", True),
        ("'!%%' ESCAPE '!'", False),
        ("'%%%%%%%%'", True),
        ("'___________'", True),
        ("'____________'", False),
        ("'OFF'", False),
        ("'.*'", False),
        ("'%off%now%'", True),
        ("'%off%off%'", False),
        ("'x' ESCAPE '!!'", FilterError),
        ("5", FilterError),
    ],
)
def test_like_knows_two_wildcards_and_an_escape(pattern, expected):
    if expected is FilterError:
        with pytest.raises(FilterError):
            value(f"text LIKE {pattern}")
    else:
        assert value(f"text LIKE {pattern}") is expected
        assert value(f"text NOT LIKE {pattern}") is not expected


@pytest.mark.parametrize(
    "expression",
    [
        "color = 1",
        "color > TRUE",
        "urgent > FALSE",
        "color - 1 = 1",
        "quantity / 0 = 1",
        "quantity % 0 = 1",
        "9223372036854775807 + 1 > 0",
        "quantity LIKE '1%'",
        "color AND urgent",
        "NOT quantity",
        "due > 5",
        "wait * 2 = wait",
        "p(5) = 1",
    ],
)
def test_what_does_not_go_together_is_an_error_at_the_message(expression):
    with pytest.raises(FilterError) as failed:
        value(expression)
    assert str(failed.value)


@pytest.mark.parametrize(
    ("expression", "position"),
    [
        ("", 1),
        ("color =", 8),
        ("color = 'red", 9),
        ("color = 'red' AND", 18),
        ("color == 'red'", 8),
        ("(color = 'red'", 15),
        ("color = 'red')", 14),
        ("color IN ()", 11),
        ("color IN 'red'", 10),
        ("color NOT 'red'", 11),
        ("color IS 5", 10),
        ("EXISTS color", 8),
        ("EXISTS('color')", 8),
        ("1=1; DROP TABLE x", 4),
        ("color = @missing", 9),
        ("lower(color) = 'red'", 1),
        ("sys.Nothing = 1", 5),
        ("_a = 1", 1),
        ("99999999999999999999 = 1", 1),
        ("[] = 1", 1),
        ("a ! b", 3),
        ("NOT", 4),
        ("LIKE = 1", 1),
    ],
)
def test_a_syntax_error_says_where(expression, position):
    with pytest.raises(SqlError, match=rf"position {position}\b"):
        parse_condition(expression)


@pytest.mark.parametrize(
    "expression",
    [
        "(" * 500 + "1=1" + ")" * 500,
        "NOT " * 250 + "1=1",
        "-" * 900 + "1 = 1",
        "p(" * 300 + "'a'" + ")" * 300,
        "a" * 1025,
    ],
)
def test_depth_and_length_are_bounded(expression):
    with pytest.raises(SqlError):
        parse_condition(expression)


def test_long_chains_are_not_nested():
    assert value(" + ".join(["1"] * 250) + " = 250") is True
    assert value(" AND ".join(["1=1"] * 120)) is True
    assert value(" OR ".join(["1=0"] * 120)) is False


def test_no_pattern_takes_longer_than_its_length_times_the_text():
    message = Message({"a": "a" * 200_000})
    began = time.process_time()
    assert value("a LIKE '" + "%a" * 400 + "%b'", message) is False
    assert value("a LIKE '" + "%a_a_a_a" * 100 + "%b%'", message) is False
    assert time.process_time() - began < 2


def test_texts_and_patterns_end_somewhere():
    message = Message({"a": "a" * 150_000})
    for expression in ("a + a = a", "color LIKE a"):
        with pytest.raises(FilterError, match="longer"):
            value(expression, Message({"a": message.user("a"), "color": "red"}))


@pytest.mark.parametrize(
    "action",
    [
        *("", "SET", "SET a", "SET a =", "SET 'a' = 1", "a = 1", "SET a == 1", "REMOVE", "SET sys.SequenceNumber = 1"),
        *("SET sys.Nothing = 1", "SET a = @x", "SET a = 1;; SET b = 2", "SET a = 1 " * 33),
    ],
)
def test_what_is_no_action_is_refused(action):
    with pytest.raises(SqlError):
        parse_action(action)


VALUES = st.one_of(
    *(
        st.none(),
        st.booleans(),
        st.integers(-(2**63), 2**63 - 1),
        st.floats(),
        st.text(max_size=5),
        st.binary(max_size=3),
    ),
    *(st.datetimes(), st.timedeltas(), st.uuids(), st.just(object())),
)
EXPRESSIONS = [
    "a = b",
    "a <> b",
    "a < b",
    "a + b IS NULL",
    "a - b = 0",
    "a * b = 1",
    "a / b = 1",
    "a % b = 1",
    "a LIKE b",
]


@settings(max_examples=depth(600), deadline=None)
@given(st.sampled_from([*EXPRESSIONS, "-a = b", "a IN (b)", "NOT a", "a AND b", "p(a) = b"]), VALUES, VALUES)
def test_any_values_give_a_truth_unknown_or_a_filter_error(expression, a, b):
    with suppress(FilterError):
        assert value(expression, Message({"a": a, "b": b})) in (True, False, None)


@settings(max_examples=depth(300), deadline=None)
@given(st.text("ab%_!", max_size=8), st.text("ab%_", max_size=8))
def test_an_escaped_text_matches_itself_and_nothing_else(text, other):
    escaped = "".join("!" + character if character in "%_!" else character for character in text)
    assert value("a LIKE @p ESCAPE '!'", Message({"a": text}), p=escaped) is True
    assert value("a LIKE @p ESCAPE '!'", Message({"a": other}), p=escaped) is (other == text)


def is_like(text: str, pattern: str) -> bool:
    """LIKE as its definition reads."""
    if not pattern:
        return not text
    if pattern[0] == "%":
        return is_like(text, pattern[1:]) or (bool(text) and is_like(text[1:], pattern))
    return bool(text) and pattern[0] in ("_", text[0]) and is_like(text[1:], pattern[1:])


@settings(max_examples=depth(500), deadline=None)
@given(st.text("ab\n", max_size=8), st.text("ab%_", max_size=6))
def test_like_agrees_with_its_definition(text, pattern):
    assert value("a LIKE @p", Message({"a": text}), p=pattern) is is_like(text, pattern)
