"""Below AMQP: TLS and WebSockets in memory, and the listener, the one module that opens sockets."""
