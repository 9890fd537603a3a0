"""Two checks: whether the environment is complete, and what two real namespaces do with our assumptions."""
