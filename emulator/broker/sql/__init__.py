"""The SQL of rules: conditions on the properties of a message, and statements that change them."""

from emulator.broker.sql.lexer import SqlError
from emulator.broker.sql.nodes import Assignment, Node, Removal, Statement, Subject, SystemProperty, UserProperty
from emulator.broker.sql.parser import parse_action, parse_condition
from emulator.broker.sql.values import FilterError, Value, convert_like, same, to_text

__all__ = [
    "Assignment",
    "FilterError",
    "Node",
    "Removal",
    "SqlError",
    "Statement",
    "Subject",
    "SystemProperty",
    "UserProperty",
    "Value",
    "convert_like",
    "parse_action",
    "parse_condition",
    "same",
    "to_text",
]
