"""Which pairs the present request may see. Every table with facts of pairs is read through `PairScoped`.

`visible_pairs` of `dashboard.access.visibility` decides; the middleware there says for whom. Outside a request nothing
is left out: workers and commands see all pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any, ClassVar, TypeVar

from django.db import models

M = TypeVar("M", bound=models.Model)
Visible = Callable[[], models.QuerySet[Any] | None]
"""The pairs that may be seen; None: all of them."""
_visible: ContextVar[Visible | None] = ContextVar("visible_pairs", default=None)


@contextmanager
def seen_as(visible: Visible | None) -> Iterator[None]:
    """Within it, only these pairs are found in any table."""
    token = _visible.set(visible)
    try:
        yield
    finally:
        _visible.reset(token)


def all_pairs() -> AbstractContextManager[None]:
    """Within it, all pairs are found: for what must not depend on who asks."""
    return seen_as(None)


def visible_here() -> models.QuerySet[Any] | None:
    """The pairs that the present request may see; None: all of them."""
    visible = _visible.get()
    return visible() if visible else None


class PairScoped(models.Manager[M]):
    """Finds only rows of pairs that the present request may see, also through relations and in Django's admin."""

    def get_queryset(self) -> models.QuerySet[M]:
        rows, pairs = super().get_queryset(), visible_here()
        if pairs is None:
            return rows
        path: str = self.model.of_pair  # type: ignore[attr-defined]
        return rows.filter(**{f"{path}__in": pairs.values(_key(self.model, path))}) if path else rows.none()


@cache
def _key(model: type[models.Model], path: str) -> str:
    """Whether the field at the end of the path holds the key of a pair or its name."""
    field: Any = None
    for step in path.split("__"):
        field = model._meta.get_field(step)
        model = field.related_model or model
    return "pk" if field.is_relation or field.primary_key else "name"


class OfPair(models.Model):
    """A table with facts of pairs."""

    of_pair: ClassVar[str] = "pair"
    """The path to the pair or its name; a row without a pair that may be seen is left out. Empty: a row is about all
    pairs together.
    """
    objects = PairScoped()

    class Meta:
        abstract = True
