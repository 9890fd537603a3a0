"""Whether two real namespaces behave as the documentation assumes."""
