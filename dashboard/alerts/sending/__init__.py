"""How messages leave: their content, channels, attempts and results."""
