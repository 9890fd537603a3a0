"""`check --live PAIR`: tries the documented assumptions about Service Bus on two namespaces, with scratch entities."""
