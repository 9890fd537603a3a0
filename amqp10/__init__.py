"""AMQP 1.0 as Azure Service Bus speaks it, without I/O."""
