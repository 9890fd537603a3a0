"""AMQP links under deadlines."""
