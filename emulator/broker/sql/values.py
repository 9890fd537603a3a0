"""The operators on values, with the type promotions of C# and None for unknown."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any
from uuid import UUID

Value = Any  # str, int, float, bool, datetime, timedelta, UUID, bytes; None is unknown

# Limits the cost of evaluating an expression.
MAX_TEXT = 256 * 1024
MAX_PATTERN = 1024

_INT64 = range(-(2**63), 2**63)

_ORDER: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
COMPARISONS = frozenset(_ORDER)
_OTHER = "another type"
_UNORDERED = (bool, UUID, bytes)


class FilterError(Exception):
    """An expression that cannot be evaluated for a message, such as `'red' > 5`."""


def compare(sign: str, left: Value, right: Value) -> bool | None:
    """Return whether `left sign right`; None if either is unknown. Raises FilterError if they do not compare."""
    if left is None or right is None:
        return None
    left, right = _comparable(left), _comparable(right)
    family = _family(left)
    is_ordered = sign in ("=", "<>", "!=") or not isinstance(left, _UNORDERED)
    if family != _family(right) or family == _OTHER or not is_ordered:
        raise FilterError(f"The operator {sign} does not compare {_name(left)} with {_name(right)}.")
    return _ORDER[sign](left, right)


def same(left: Value, right: Value) -> bool:
    """Return whether two values are equal, as in a correlation filter: values of different types are not equal."""
    try:
        return compare("=", left, right) is True
    except FilterError:
        return False


def calculate(sign: str, left: Value, right: Value) -> Value:
    """Return `left sign right`; None if either is unknown. Raises FilterError for types without this operator."""
    if left is None or right is None:
        return None
    if sign == "+" and (isinstance(left, str) or isinstance(right, str)):
        return _joined(to_text(left), to_text(right))
    try:
        return _calculated(sign, left, right)
    except ZeroDivisionError:
        raise FilterError("A whole number is divided by zero.") from None
    except (TypeError, OverflowError):
        raise FilterError(f"The operator {sign} does not take {_name(left)} and {_name(right)}.") from None


def _joined(left: str, right: str) -> str:
    if len(left) + len(right) > MAX_TEXT:
        raise FilterError(f"A text becomes longer than {MAX_TEXT} characters.")
    return left + right


def negate(value: Value) -> Value:
    """Return `-value`; None if it is unknown."""
    return None if value is None else calculate("-", timedelta(0) if isinstance(value, timedelta) else 0, value)


def _calculated(sign: str, left: Value, right: Value) -> Value:
    if _is_number(left) and _is_number(right):
        both_whole = isinstance(left, int) and isinstance(right, int)
        return _whole(sign, left, right) if both_whole else _fraction(sign, float(left), float(right))
    if sign in "+-" and isinstance(left, datetime | timedelta) and isinstance(right, datetime | timedelta):
        left, right = _comparable(left), _comparable(right)
        return operator.add(left, right) if sign == "+" else operator.sub(left, right)
    raise TypeError


def _whole(sign: str, left: int, right: int) -> int:
    """Division rounds towards zero, the remainder has the sign of the dividend."""
    match sign:
        case "+":
            result = left + right
        case "-":
            result = left - right
        case "*":
            result = left * right
        case _:
            quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
            result = quotient if sign == "/" else left - quotient * right
    if result not in _INT64:
        raise OverflowError
    return result


def _fraction(sign: str, left: float, right: float) -> float:
    match sign:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
        case "/":
            return (
                left / right if right else math.nan if not left or math.isnan(left) else math.copysign(math.inf, left)
            )
        case _:
            return math.fmod(left, right) if right and not math.isinf(left) else math.nan


def is_like(value: Value, pattern: Value, escape: Value) -> bool | None:
    """Return whether the text matches the pattern; None if either is unknown. Raises FilterError for other types."""
    if value is None or pattern is None:
        return None
    if not isinstance(value, str) or not isinstance(pattern, str):
        raise FilterError(f"LIKE compares texts, not {_name(value)} with {_name(pattern)}.")
    if escape is not None and (not isinstance(escape, str) or len(escape) != 1):
        raise FilterError("The escape character of LIKE must be a text of one character.")
    if len(pattern) > MAX_PATTERN:
        raise FilterError(f"The pattern of LIKE is longer than {MAX_PATTERN} characters.")
    return _matches(value, _segments(pattern, escape))


@dataclass(frozen=True, slots=True)
class _Segment:
    """The part of a pattern between two `%`: characters and `_`, of a fixed width."""

    expression: re.Pattern[str]
    width: int


@lru_cache(maxsize=1024)
def _segments(pattern: str, escape: str | None) -> tuple[_Segment, ...]:
    """The pattern, split at `%`. Raises FilterError if it ends with its escape character."""
    segments: list[list[str]] = [[]]
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            escaped = next(characters, None)
            if escaped is None:
                raise FilterError("The pattern of LIKE ends with its escape character.")
            segments[-1].append(re.escape(escaped))
        elif character == "%":
            segments.append([])
        else:
            segments[-1].append("." if character == "_" else re.escape(character))
    return tuple(_Segment(re.compile("".join(parts), re.DOTALL), len(parts)) for parts in segments)


def _matches(value: str, segments: tuple[_Segment, ...]) -> bool:
    """The first segment must begin the text, the last end it; the others match at their first occurrence."""
    first, *others = segments
    if not others:
        return first.expression.fullmatch(value) is not None
    if first.expression.match(value) is None:
        return False
    at = first.width
    for segment in others[:-1]:
        found = segment.expression.search(value, at)
        if found is None:
            return False
        at = found.end()
    end = len(value) - others[-1].width
    return end >= at and others[-1].expression.match(value, end) is not None


def to_text(value: Value) -> str:
    """The value as C# formats it in a text."""
    match value:
        case bool():
            return "True" if value else "False"
        case float() if value.is_integer() and abs(value) < 1e15:
            return str(int(value))
        case bytes():
            raise FilterError("Binary values have no text.")
        case _:
            return str(value)


def convert_like(value: Value, existing: Value) -> Value:
    """Return the value converted to the type of the one it replaces, where C# could; otherwise unchanged."""
    if value is None or existing is None or _family(value) == _family(existing) == "text":
        return value
    try:
        match existing:
            case str():
                return to_text(value)
            case bool():
                return value
            case int() if not isinstance(value, bool):
                return int(value)
            case float() if not isinstance(value, bool):
                return float(value)
    except (ValueError, TypeError, OverflowError, FilterError):
        pass
    return value


def _comparable(value: Value) -> Value:
    """Times without an offset are UTC."""
    return value.replace(tzinfo=UTC) if isinstance(value, datetime) and value.tzinfo is None else value


def _is_number(value: Value) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _family(value: Value) -> str:
    return "number" if _is_number(value) else _name(value)


_NAMES: tuple[tuple[type, str], ...] = (
    (bool, "a boolean"),
    (int, "a whole number"),
    (float, "a number"),
    (str, "a text"),
    (datetime, "a time"),
    (timedelta, "a duration"),
    (UUID, "a GUID"),
    (bytes, "binary"),
)


def _name(value: Value) -> str:
    return next((name for kind, name in _NAMES if isinstance(value, kind)), _OTHER)
