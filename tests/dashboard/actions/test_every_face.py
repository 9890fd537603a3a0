"""Every declared action, through every face it has: who may do it, its answer, its audit entry, its event.

A face is the page, the API, the command and Django's administration. What each does is compared with the rule itself,
carried out on the same state. Whoever declares an action says here where it changes something.
"""

import json
import re
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from typing import Any

import pytest
from django.apps import apps
from django.contrib import admin
from django.core.management import CommandError, CommandParser, call_command
from django.db import transaction
from django.test import Client
from django.utils import timezone
from django.utils.html import escape
from django.utils.text import capfirst

from dashboard.access import registry, tokens
from dashboard.access.audited import Request
from dashboard.access.rights import Right
from dashboard.actions.entities import FAIL_OVER, HOLD, MARK_HEALTHY, RELEASE, EntityAction
from dashboard.actions.syphons import PACE_SYPHON, PAUSE_SYPHON, RESUME_SYPHON, SyphonAction
from dashboard.alerts import actions as alerts
from dashboard.backlog import actions as queues
from dashboard.backlog import cleanup
from dashboard.command_line.operations import operations
from dashboard.costs import actions as costs
from dashboard.drills.actions import Wanted, abort, start_drill
from dashboard.drills.canary import CANARY
from dashboard.management.commands import pairing
from dashboard.models import Alert, AlertRule, ApiToken, AuditEntry, BacklogQueue, ChannelState, Drill, FailoverEvent
from tests.dashboard.conftest import NOW
from tests.dashboard.drills.test_drills_pages import canary_queue, drill, primary
from tests.dashboard.secondary import ORPHAN

pytestmark = pytest.mark.slow

__all__ = ["canary_queue", "primary"]
REASON = "it is wanted"
LEAST = {Right.VIEW: "viewer", Right.OPERATE: "operator", Right.ADMINISTER: "administrator"}
ROLES = ("nobody", "viewer", "operator", "administrator")
SCOPES = {"viewer": "read", "operator": "operate", "administrator": "administer"}
CHANNELS = '[channels.mail]\nkind = "email"\nto = ["night@example.com"]\n'
RULE = {"name": "nights", "channels": ["mail"]}
RULE_FORM = {
    **RULE, "is_enabled": "on", "pair": "*", "entity": "*", "least_severity": "info", "notifies_resolved": "on",
}  # fmt: skip


@dataclass
class Place:
    """A pair where everything can be acted on, and everybody who might."""

    pair: Any
    people: Any
    shared: Any
    secondary: Any = None

    def request(self, role: str, target: str) -> Request:
        return Request(self.people[role], self.pair, target, REASON)

    def alert_request(self, role: str, target: str = "*") -> Request:
        return Request(self.people[role], target=target, reason=REASON)


@dataclass(frozen=True)
class Case:
    """Where an action changes something, and what each face is sent for it."""

    rule: Callable[[Place, str], Any]
    page: tuple[str, dict[str, Any]]
    api: tuple[str, dict[str, Any]]
    """The subcommand is built from it."""
    administration: dict[str, Any] | None = None
    """What is sent to the list of queues, beside the selected queue."""
    prepare: tuple[Callable[[Place], Any], ...] = ()
    needs: str = ""
    """A fixture: namespaces, or a canary in them."""
    page_says_why: bool = True
    takes_reason: bool = True

    def reason_by(self, face: str) -> str:
        """The reason that its audit entry has by this face."""
        return REASON if self.takes_reason and (face != "page" or self.page_says_why) else ""


def before(action: Any, target: str, **more: Any) -> Callable[[Place], Any]:
    return lambda place: action.run(place.request("administrator", target), **more)


def on_entity(action: Any, *prepare: Callable[[Place], Any]) -> Case:
    return Case(
        rule=lambda place, role: action.run(place.request(role, "orders")),
        page=(f"/pairs/contoso/actions/{action.name}/", {"path": "orders"}),
        api=(action.operation.path.format(pair="contoso"), {"paths": ["orders"]}),
        prepare=prepare,
    )


def on_syphon(action: Any, *prepare: Callable[[Place], Any], **arguments: Any) -> Case:
    rate = arguments.get("rate")
    return Case(
        rule=lambda place, role: action.run(place.request(role, "*"), **arguments),
        page=(f"/pairs/contoso/actions/{action.name}/", {"path": "*", **arguments}),
        api=(
            action.operation.path.format(pair="contoso"),
            {"target": "*", **({"messages_per_s": rate} if rate else {})},
        ),
        prepare=prepare,
    )


def on_queue(action: Any, *prepare: Callable[[Place], Any]) -> Case:
    return Case(
        rule=lambda place, role: action.run(place.request(role, ORPHAN)),
        page=(f"/pairs/contoso/actions/{action.name}/", {"path": ORPHAN}),
        api=(action.operation.path.format(pair="contoso"), {"queue": ORPHAN}),
        administration={"action": action.administration.name} if action.administration else None,
        prepare=prepare,
        needs="reachable",
    )


def on_letters(action: Any, *prepare: Callable[[Place], Any]) -> Case:
    return Case(
        rule=lambda place, role: action.run(place.request(role, ORPHAN)),
        page=("/backlog/contoso/dead-letters/", {"queue": ORPHAN, "verb": action.choice, "which": "all"}),
        api=(action.operation.path.format(pair="contoso"), {"queue": ORPHAN}),
        prepare=(dead, *prepare),
        needs="reachable",
    )


def on_channel(verb: str, *prepare: Callable[[Place], Any]) -> Case:
    action, run = alerts.ON_CHANNEL[verb]
    return Case(
        rule=lambda place, role: run(place.alert_request(role, "mail")),
        page=(f"/alerts/channels/mail/{verb}/", {}),
        api=(action.operation.path.format(channel="mail"), {}),
        prepare=prepare,
        page_says_why=False,
    )


def on_rule(
    action: Any, run: Any, page: str, form: dict[str, Any], body: dict[str, Any], *prepare: Callable[[Place], Any]
) -> Case:
    def row() -> AlertRule:
        return AlertRule.objects.filter(pk=7).first() or AlertRule(name="nights", channels=["mail"])

    return Case(
        rule=lambda place, role: run(place.alert_request(role), row()),
        page=(page, form),
        api=(action.operation.path.format(rule=7), body),
        prepare=prepare,
        page_says_why=False,
    )


def on_costs(
    action: Any, run: Callable[[Request], Any], page: str, form: dict[str, Any], month: str = "", *, without: str = ""
) -> Case:
    return Case(
        rule=lambda place, role: run(costs.about(place.people[role], month)),
        page=(page, form),
        api=(action.operation.path, {key: value for key, value in form.items() if key != without}),
        takes_reason=False,
    )


def filled(place: Place) -> None:
    place.secondary.fill(ORPHAN, "one")


def dead(place: Place) -> None:
    filled(place)
    place.secondary.dead_letter(ORPHAN, 1)


def deviating(place: Place) -> None:
    queue = place.secondary.administration.get_queue(ORPHAN)
    queue.max_delivery_count = 10
    place.secondary.administration.update_queue(queue)


def begun(place: Place) -> None:
    drill(place.pair, pk=7)


def alerted(place: Place) -> None:
    reported = {"kind": "backlog", "severity": "info", "title": "many", "began_at": NOW, "opened_at": NOW}
    Alert.objects.create(pk=7, key="backlog:contoso", pair="contoso", **reported)


def ruled(place: Place) -> None:
    AlertRule.objects.create(pk=7, name="nights", channels=["mail"], changed_at=NOW)


def disabled(place: Place) -> None:
    ChannelState.objects.create(channel="mail", disabled_at=NOW, failing_since=NOW)


def owned(place: Place) -> None:
    end = timezone.now() + timedelta(days=1)
    ApiToken.objects.create(
        owner=place.people["viewer"], name="export", prefix="0123456789", scope="read", made_at=NOW, expires_at=end
    )


def drilled(place: Place, role: str) -> Any:
    return start_drill(place.request(role, CANARY), Wanted(messages=12))


def aborted(place: Place, role: str) -> Any:
    row = Drill.objects.get(pk=7)
    return abort(place.request(role, row.path), row)


def made(place: Place, role: str) -> Any:
    return tokens.make(place.people[role], "export", "read", 30, timezone.now())


def revoked(place: Place, role: str) -> Any:
    return tokens.revoke(ApiToken.objects.get(prefix="0123456789"), place.people[role], timezone.now())


CASES = {
    "fail_over": on_entity(FAIL_OVER),
    "hold": on_entity(HOLD, before(FAIL_OVER, "orders"), before(RELEASE, "orders")),
    "release": on_entity(RELEASE, before(FAIL_OVER, "orders")),
    "mark_healthy": on_entity(MARK_HEALTHY, before(FAIL_OVER, "orders")),
    "pause_syphon": on_syphon(PAUSE_SYPHON),
    "resume_syphon": on_syphon(RESUME_SYPHON, before(PAUSE_SYPHON, "*")),
    "pace_syphon": on_syphon(PACE_SYPHON, rate=5.0),
    "quarantine_queue": on_queue(queues.QUARANTINE_QUEUE),
    "reopen_queue": on_queue(queues.REOPEN_QUEUE, before(queues.QUARANTINE_QUEUE, ORPHAN)),
    "drain_queue": on_queue(queues.DRAIN_QUEUE, filled),
    "stop_drain": on_queue(queues.STOP_DRAIN, filled, before(queues.DRAIN_QUEUE, ORPHAN)),
    "repair_queue": on_queue(queues.REPAIR_QUEUE, deviating),
    "take_back": on_queue(queues.TAKE_BACK, before(queues.DELETE_QUEUE, ORPHAN)),
    "delete_queue": on_queue(queues.DELETE_QUEUE),
    "resubmit_dead_letters": on_letters(queues.RESUBMIT),
    "discard_dead_letters": on_letters(queues.DISCARD),
    "stop_dead_letters": on_letters(queues.STOP_DEAD_LETTERS, before(queues.RESUBMIT, ORPHAN)),
    "start_drill": Case(
        rule=drilled,
        page=("/drills/start/", {"pair": "contoso", "path": CANARY, "messages": "12"}),
        api=("/pairs/contoso/start-drill", {"path": CANARY, "messages": 12}),
        needs="canary_queue",
    ),
    "abort_drill": Case(rule=aborted, page=("/drills/7/abort/", {}), api=("/drills/7/abort", {}), prepare=(begun,)),
    "acknowledge_alert": Case(
        rule=lambda place, role: alerts.acknowledge(place.alert_request(role), 7),
        page=("/alerts/7/acknowledge/", {}),
        api=("/alerts/7/acknowledge", {}),
        prepare=(alerted,),
        page_says_why=False,
    ),
    "acknowledge_alerts": Case(
        rule=lambda place, role: alerts.acknowledge_all(place.alert_request(role)),
        page=("/alerts/acknowledge/", {}),
        api=("/alerts/acknowledge-all", {}),
        prepare=(alerted,),
        page_says_why=False,
    ),
    "try_alert_channel": on_channel("test"),
    "enable_alert_channel": on_channel("enable", disabled),
    "make_alert_rule": on_rule(alerts.MAKE_RULE, alerts.save_rule, "/alerts/rules/new/", RULE_FORM, RULE),
    "change_alert_rule": on_rule(alerts.CHANGE_RULE, alerts.save_rule, "/alerts/rules/7/", RULE_FORM, RULE, ruled),
    "delete_alert_rule": on_rule(alerts.DELETE_RULE, alerts.delete_rule, "/alerts/rules/7/delete/", {}, {}, ruled),
    "compute_charges": on_costs(
        costs.COMPUTE_CHARGES, costs.compute_charges, "/costs/compute/", {"month": "2026-10"}, "2026-10"
    ),
    "set_cost_rule": on_costs(
        costs.SET_COST_RULE,
        lambda request: costs.set_cost_rule(request, "settlements", "time"),
        "/costs/rule/",
        {"rule": "settlements", "allocation": "time"},
    ),
    "set_budget": on_costs(
        costs.SET_BUDGET,
        lambda request: costs.set_budget(request, 1_000, 80),
        "/costs/budget/",
        {"month": "2026-10", "pair": "*", "amount": "10.00"},
        without="month",
    ),
    "make_token": Case(
        rule=made,
        page=("/tokens/make/", {"name": "export", "scope": "read", "days": "30"}),
        api=("/tokens", {"name": "export"}),
        page_says_why=False,
    ),
    "revoke_token": Case(
        rule=revoked,
        page=("/tokens/0123456789/revoke/", {}),
        api=("/tokens/0123456789/revoke", {}),
        prepare=(owned,),
        page_says_why=False,
    ),
}
FACES = {
    name: [face for face in ("page", "api", "command", "administration") if getattr(case, face, case.api) is not None]
    for name, case in CASES.items()
}
LISTED = [name for name, faces in FACES.items() if "administration" in faces]
QUEUES = "/admin/dashboard/backlogqueue/"
OF_PAIRS = (EntityAction, SyphonAction, queues.QueueAction, queues.LetterAction)
WITH_DRY_RUN = [name for name, action in registry.actions().items() if isinstance(action, OF_PAIRS)]
KEY = str(uuid.uuid4())


def takes_a_key(name: str, face: str) -> bool:
    return name in WITH_DRY_RUN if face == "page" else face == "api" and not name.endswith("_token")


def least(name: str, face: str) -> str:
    """The first role that may do it there. The administration is open to administrators alone."""
    return "administrator" if face == "administration" else LEAST[registry.actions()[name].right]


def _rows() -> dict[str, list[dict[str, Any]]]:
    """Every row of the database, but when a token was used."""
    models = [model for model in apps.get_app_config("dashboard").get_models() if model is not ApiToken]
    return {model.__name__: list(model.objects.order_by("pk").values()) for model in models}


@pytest.fixture
def place(request, pair, people, shared, alive, settings, tmp_path) -> Place:
    settings.CHANNELS_FILE = tmp_path / "channels.toml"
    settings.CHANNELS_FILE.write_text(CHANNELS)
    case = CASES[request.getfixturevalue("name")]
    if not case.needs:
        return Place(pair, people, shared)
    secondary = request.getfixturevalue("reachable")
    request.getfixturevalue(case.needs)
    return Place(pair, people, shared, secondary)


@contextmanager
def prepared(place: Place, case: Case) -> Iterator[None]:
    """The state in which the action changes something; what happens inside leaves no trace."""
    place.shared.redis.flushall()
    with transaction.atomic():
        if place.secondary is not None:
            place.secondary.clear()
            place.secondary.make(ORPHAN)
            row = {"index": 7, "is_orphan": True, "seen_at": timezone.now()}
            BacklogQueue.objects.create(pair=place.pair, path=ORPHAN, **row)
        for step in case.prepare:
            step(place)
        yield
        transaction.set_rollback(True)


def trace(name: str) -> dict[str, Any]:
    """What is on record of the last action of that name: its entry, and the events of its kind."""
    entry = AuditEntry.objects.filter(verb=name).order_by("pk").last()
    fields = ("operator", "pair", "target", "outcome", "detail")
    events = FailoverEvent.objects.filter(kind=registry.actions()[name].event or "none")
    known = {field: _without_chance(getattr(entry, field)) for field in fields} if entry else {}
    return {**known, "events": list(events.values_list("kind", "entity", "operator", "reason"))}


def _without_chance(text: str) -> str:
    """Without what is drawn anew for each token, and without the minute."""
    head, _, rest = text.partition(" (")
    return f"{head} of{rest.rpartition(' of')[2]}" if rest.endswith(ROLES) else text.partition(", until ")[0]


def browser_of(place: Place, role: str) -> Client:
    client = Client()
    if role != "stranger":
        client.force_login(place.people[role])
    return client


def of_page(place: Place, case: Case, role: str, key: str = "") -> Any:
    form = {**case.page[1], "reason": REASON, **({"request_id": key} if key else {})}
    return browser_of(place, role).post(case.page[0], form, follow=role != "stranger")


def of_api(place: Place, case: Case, role: str, key: str = "", body: dict[str, Any] | None = None) -> Any:
    client, once = browser_of(place, role), {"Idempotency-Key": key} if key else {}
    if role != "stranger" and not is_about_tokens(case):
        client = program_of_role(place, role)
    text = json.dumps(body or body_of(place, case))
    return client.post(f"/api/v1{case.api[0]}", text, "application/json", headers=once)


def program_of_role(place: Place, role: str) -> Client:
    _, text = _token(place.people[role], SCOPES.get(role, "administer"))
    return Client(headers={"Authorization": f"Bearer {text}"})


def is_about_tokens(case: Case) -> bool:
    """No token makes or revokes tokens."""
    return case.api[0].startswith("/tokens")


def body_of(place: Place, case: Case) -> dict[str, Any]:
    body = {**case.api[1], **({"reason": REASON} if case.takes_reason and not is_about_tokens(case) else {})}
    if case is CASES["delete_queue"]:
        body["confirm"] = cleanup.read(place.pair, ORPHAN).confirmation
    return body


def of_administration(place: Place, case: Case, role: str, *, confirmed: bool = True) -> Any:
    assert case.administration is not None
    selected = {"_selected_action": BacklogQueue.objects.get(path=ORPHAN).pk, **case.administration}
    answered = {"confirmed": "yes", "reason": REASON, "click": "one"} if confirmed else {}
    return browser_of(place, role).post(QUEUES, {**selected, **answered}, follow=role != "stranger")


HTTP = {"page": of_page, "api": of_api, "administration": of_administration}


def _token(owner: Any, scope: str) -> tuple[ApiToken, str]:
    """A token, also of somebody who may have none."""
    person = owner if scope != "administer" or owner.username == "administrator" else None
    if person is not None:
        return tokens.make(person, "a script", scope, 30, timezone.now())
    holder = type(owner).objects.get(username="administrator")
    row, text = tokens.make(holder, "a script", scope, 30, timezone.now())
    ApiToken.objects.filter(pk=row.pk).update(owner=owner)
    return row, text


@cache
def parser() -> CommandParser:
    """That of all operations, made once: it takes as long as an action."""
    return pairing.Command().create_parser("manage.py", "pairing")


@pytest.fixture(autouse=True)
def one_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    made = parser()
    monkeypatch.setattr(pairing.Command, "create_parser", lambda *_: made)


def of_command(place: Place, case: Case, role: str, capsys: Any) -> str:
    call_command("pairing", *words_of(place, case), "--user", role)
    return str(capsys.readouterr().out)


def _name_of(case: Case) -> str:
    return next(name for name, one in CASES.items() if one is case)


def words_of(place: Place, case: Case) -> list[str]:
    """The operation, its arguments, and its options, in a shell."""
    declared = registry.actions()[_name_of(case)].operation
    in_path = re.fullmatch(re.sub(r"\{(\w+)\}", r"(?P<\1>.+)", declared.path), case.api[0])
    given = {**in_path.groupdict(), **body_of(place, case)}
    operation = next(one for one in operations() if one.id == declared.id)
    arguments, options = [], []
    for value in (one for one in operation.values if one.name in given):
        texts = given[value.name] if isinstance(given[value.name], list) else [given[value.name]]
        flag = [] if value.is_positional else [f"--{value.name.replace('_', '-')}"]
        (arguments if value.is_positional else options).extend([*flag, *map(str, texts)])
    return [operation.name, *arguments, *options]


def test_every_declared_action_is_walked_through_every_face_it_has():
    declared = registry.actions()
    assert set(CASES) == {name for name, one in declared.items() if one.operation}
    for name, case in CASES.items():
        assert (case.administration is not None) == (declared[name].administration is not None)


def test_the_administration_offers_the_declared_actions_and_no_others(people, rf):
    request = rf.get("/admin/")
    request.user = people["administrator"]
    ours = [shown for model, shown in admin.site._registry.items() if model._meta.app_label == "dashboard"]
    offered = {name: text for shown in ours for name, (_, _, text) in shown.get_actions(request).items()}

    declared = [action.administration for action in registry.actions().values() if action.administration]
    assert offered == {one.name: one.label for one in declared}


@pytest.mark.parametrize("name", CASES)
def test_every_face_does_what_the_rule_does_and_a_request_that_is_sent_twice_is_one_action(place, name, capsys):
    case, expected = CASES[name], {}
    for face in FACES[name]:
        role = least(name, face)
        if role not in expected:
            with prepared(place, case):
                case.rule(place, role)
                expected[role] = trace(name)
        with prepared(place, case):
            before, body = AuditEntry.objects.filter(verb=name).count(), body_of(place, case)
            answer = _sent(face, place, case, role, capsys, body)
            found, events = trace(name), FailoverEvent.objects.count()
            reason = AuditEntry.objects.filter(verb=name).order_by("pk").last().reason
            if takes_a_key(name, face):
                again = _sent(face, place, case, role, capsys, body)
                assert (face, again.status_code) == (face, 200)
                assert face == "page" or again.json() == {**answer.json(), "is_repeated": True}
                assert AuditEntry.objects.filter(verb=name).count() == before + 1
                assert FailoverEvent.objects.count() == events

        assert (face, expected[role]["outcome"], found) == (face, "done", expected[role])
        said = _said(face, answer)
        assert said
        if not name.endswith("token"):
            assert (face, reason) == (face, case.reason_by(face))
            assert _shown(found["detail"], face) in said


def _shown(sentence: str, face: str) -> str:
    """The sentence as a face has it. Django's admin begins messages with a capital letter."""
    if face == "administration":
        return str(capfirst(escape(sentence)))
    return escape(sentence) if face == "page" else sentence


def _sent(face: str, place: Place, case: Case, role: str, capsys: Any, body: dict[str, Any]) -> Any:
    """By page and API with the key that makes it the same request whenever it is sent."""
    if face == "command":
        return of_command(place, case, role, capsys)
    if face == "administration":
        return of_administration(place, case, role)
    key = KEY if takes_a_key(_name_of(case), face) else ""
    return of_api(place, case, role, key, body) if face == "api" else of_page(place, case, role, key)


def _said(face: str, answer: Any) -> str:
    if face == "command":
        return str(answer)
    assert (face, answer.status_code) == (face, 200), answer.text
    return str(answer.json().get("sentence", "made") if face == "api" else answer.text)


@pytest.mark.parametrize("name", CASES)
def test_who_lacks_the_right_is_refused_by_every_face(place, name, capsys):
    case = CASES[name]
    with prepared(place, case):
        before_that = trace(name)
        for face, role in [(one, role) for one in FACES[name] for role in ROLES[: ROLES.index(least(name, one))]]:
            if face == "command":
                if role == "nobody" and name == "revoke_token":
                    continue  # of somebody else's token only an administrator: said below
                with pytest.raises(CommandError, match="needs the group"):
                    of_command(place, case, role, capsys)
            else:
                assert (face, HTTP[face](place, case, role).status_code) == (face, 403)
            if role != "nobody" and face != "administration":  # these two are refused before they name an action
                entry = AuditEntry.objects.filter(verb=name).order_by("pk").last()
                refused = (face, role, "refused", case.reason_by(face))
                assert (face, entry.operator, entry.outcome, entry.reason) == refused
        for face in FACES[name]:
            if face == "command":
                with pytest.raises(CommandError, match="There is no user stranger"):
                    of_command(place, case, "stranger", capsys)
            else:
                answer = HTTP[face](place, case, "stranger")
                assert (face, answer.status_code) == (face, 401 if face == "api" else 302)
        assert trace(name)["events"] == before_that["events"]


@pytest.mark.parametrize("name", [name for name in CASES if registry.actions()[name].is_severe])
def test_what_is_severe_is_not_done_without_a_reason_and_nothing_typed_is_lost(place, name):
    case, client = CASES[name], Client()
    client.force_login(place.people[least(name, "page")])
    with prepared(place, case):
        before_that = trace(name)
        ways = (({}, 400, None), ({"HX-Request": "true"}, 200, "#dialog"))
        for headers, status, target in ways[: 1 if name == "start_drill" else 2]:  # it is asked on a page of its own
            page = client.post(case.page[0], {**case.page[1], "reason": " \n "}, headers=headers)

            assert (page.status_code, page.get("HX-Retarget"), "Enter a reason" in page.text) == (status, target, True)
            assert [value for value in case.page[1].values() if f'value="{value}"' not in page.text] == []
        assert trace(name) == before_that


@pytest.mark.parametrize("name", LISTED)
def test_the_administration_asks_first_changes_nothing_and_predicts_a_refusal(place, name):
    case, declared = CASES[name], registry.actions()[name]
    assert declared.administration is not None
    with prepared(place, case):
        rows = _rows()
        asked = of_administration(place, case, "administrator", confirmed=False)

        assert asked.context["title"] == declared.administration.title
        assert [(queue.path, hindrance) for queue, hindrance in asked.context["fates"]] == [(ORPHAN, "")]
        assert declared.button in asked.text
        assert _rows() == rows

        filled(place)
        BacklogQueue.objects.filter(path=ORPHAN).update(active=1)
        asked = of_administration(place, case, "administrator", confirmed=False)
        [(_, predicted)] = asked.context["fates"]
        answer = of_administration(place, case, "administrator")

        assert "type its path" in predicted
        assert _shown(f"{ORPHAN}: ", "administration") in answer.text
        assert trace(name)["outcome"] != "done"
        assert place.secondary.status(ORPHAN) == "Active"


@pytest.mark.parametrize("name", WITH_DRY_RUN)
def test_a_dry_run_of_the_api_says_what_then_changes_and_changes_nothing(place, name):
    case, role = CASES[name], LEAST[registry.actions()[name].right]
    with prepared(place, case):
        client, rows = program_of_role(place, role), _rows()
        body = {**case.api[1], "reason": REASON, "dry_run": True}
        said = client.post(f"/api/v1{case.api[0]}", json.dumps(body), "application/json").json()

        assert (said["outcome"], said["hindrance"], _rows()) == ("preview", "", rows)
        assert said["sentence"]
        if not name.endswith("dead_letters"):
            assert (len(said["would_change"]), said["would_not_change"]) == (1, [])
