"""The HTTP API under /api/v1/: what the pages show and what their buttons do, for programs (docs/api.md)."""
