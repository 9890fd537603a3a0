"""What serves the links of a client: one endpoint class for each kind of node and direction."""
