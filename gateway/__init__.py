"""An AMQP 1.0 front to a pair: clients of any language send with availability, everything else is passed on."""
