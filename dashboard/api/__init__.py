"""The HTTP API under /api/v1/: what the pages tell and what their buttons do, for programs (docs/api.md)."""
