"""Below AMQP: TLS and WebSockets in memory, and the two modules that open sockets."""
