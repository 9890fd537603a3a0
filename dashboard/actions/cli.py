"""The commands for actions on entities and syphons, built from their declarations."""

from functools import partial

from django.core.management.base import CommandError

from dashboard.actions import entities, syphons
from dashboard.actions.entities import EntityAction
from dashboard.actions.syphons import SyphonAction
from dashboard.command_line.subcommands import (
    Answer,
    Options,
    Subcommands,
    add_action,
    arguments,
    pair_named,
    perform,
)
from dashboard.models import Pair
from dashboard.models.syphon import WHOLE_PAIR


def add(commands: Subcommands) -> None:
    """Declare them."""
    for entity_action in entities.ACTIONS:
        add_action(commands, entity_action, "ENTITY", partial(_on_entity, entity_action))
    for syphon_action in syphons.ACTIONS:
        add_action(commands, syphon_action, "TARGET", partial(_on_syphon, syphon_action))


def _on_entity(action: EntityAction, options: Options) -> Answer:
    _require_entity(pair_named(options["pair"]), options["target"])
    return perform(options, partial(action.run, **arguments(action, options)))


def _on_syphon(action: SyphonAction, options: Options) -> Answer:
    _require_target(pair_named(options["pair"]), options["target"])
    return perform(options, partial(action.run, **arguments(action, options)))


def _require_entity(pair: Pair, path: str) -> None:
    if not pair.entities.filter(path=path).exists():
        raise CommandError(f"{pair} has no entity {path}; `pairing status {pair} --all` lists them.")


def _require_target(pair: Pair, path: str) -> None:
    if pair.entities.filter(path=path).exists():
        return
    if path != WHOLE_PAIR and not pair.backlog_queues.filter(path=path, is_gone=False).exists():
        raise CommandError(f"{pair} has no entity or backlog queue {path}; `backlog --pair {pair}` lists the queues.")
