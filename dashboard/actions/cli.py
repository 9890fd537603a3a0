"""The words about entities and syphons: fail over, hold, release, heal, pause, resume, pace."""

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

from django.core.management.base import CommandError
from django.utils import timezone

from dashboard.actions import control
from dashboard.actions.pacing import pace_syphon
from dashboard.management.subcommands import Answer, Options, Words, deed, pair_named, perform
from dashboard.models import Pair
from dashboard.models.syphon import WHOLE_PAIR

Verb = Callable[..., control.Outcome]
VERBS: dict[str, tuple[Verb, str, str]] = {
    "fail-over": (control.fail_over, "ENTITY", "send an entity's messages to the backlog; held until released"),
    "hold": (control.hold, "ENTITY", "keep a failed-over entity from returning by itself"),
    "release": (control.release, "ENTITY", "end a hold: the next accepted ping heals the entity"),
    "mark-healthy": (control.mark_healthy, "ENTITY", "end hold and failover together, whatever the primary answers"),
    "pause": (control.pause_syphon, "TARGET", "stop bringing home: to an entity, from a backlog queue, or all (*)"),
    "resume": (control.resume_syphon, "TARGET", "go on bringing messages home"),
}


def add(words: Words) -> None:
    """Declare them."""
    for name, (verb, noun, meaning) in VERBS.items():
        parser = deed(words, name, noun, meaning, partial(_run, verb, noun))
        if name in ("fail-over", "hold"):
            parser.add_argument("--minutes", type=_positive, help="let the hold end by itself after so long")
    pace = deed(words, "pace", "TARGET", "limit the syphon of an entity, a backlog queue or all (*)", _pace)
    pace.add_argument("--rate", type=_rate, help="messages a second, at most (without: as fast as it can)")


def _run(verb: Verb, noun: str, options: Options) -> Answer:
    pair = pair_named(options["pair"])
    (_require_entity if noun == "ENTITY" else _require_target)(pair, options["target"])
    minutes = options.get("minutes")
    more: dict[str, Any] = {"expires": timezone.now() + timedelta(minutes=minutes)} if minutes else {}
    return perform(options, lambda wish: verb(wish, **more))


def _pace(options: Options) -> Answer:
    pair, target = pair_named(options["pair"]), options["target"]
    _require_target(pair, target)
    return perform(options, lambda wish: pace_syphon(wish, rate=options["rate"]))


def _require_entity(pair: Pair, path: str) -> None:
    if not pair.entities.filter(path=path).exists():
        raise CommandError(f"{pair} has no entity {path}; `pairing status {pair} --all` lists them.")


def _require_target(pair: Pair, path: str) -> None:
    if pair.entities.filter(path=path).exists():
        return
    if path != WHOLE_PAIR and not pair.backlog_queues.filter(path=path, is_gone=False).exists():
        raise CommandError(f"{pair} has no entity or backlog queue {path}; `backlog --pair {pair}` lists the queues.")


def _positive(text: str) -> float:
    minutes = float(text)
    if not 0 < minutes <= 60 * 24 * 30:
        raise ValueError
    return minutes


def _rate(text: str) -> float:
    rate = float(text)
    if not 0.01 <= rate <= 1_000_000:
        raise ValueError
    return rate
