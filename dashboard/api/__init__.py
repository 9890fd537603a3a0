"""The HTTP API under /api/v1/: the data and the actions of the pages, for programs (docs/api.md)."""
