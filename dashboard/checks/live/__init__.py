"""`check --live PAIR`: what two namespaces do with the assumptions of the documentation, tried on scratch entities."""
