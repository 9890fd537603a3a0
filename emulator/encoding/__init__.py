"""AMQP values and message sections as bytes (AMQP 1.0, parts 1 and 3). Shared by the protocol and the broker."""
