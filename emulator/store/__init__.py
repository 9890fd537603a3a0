"""Persistence of a namespace: a journal in SQLite (docs/emulator.md)."""

from emulator.store.journal import Store, StoreError

__all__ = ["Store", "StoreError"]
