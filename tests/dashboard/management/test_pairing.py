"""The control plane in a shell: the operations of the API, by the same rules (docs/dashboard.md).

tests/dashboard/actions/test_every_face.py calls every action so.
"""

import json
import shlex

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from dashboard.access import tokens
from dashboard.management.commands.pairing import is_well, lines
from dashboard.models import Alert, ApiToken, AuditEntry, BacklogQueue, Pair, PairReadiness, Readiness
from tests.dashboard.conftest import NOW
from tests.documented.blocks import blocks

WHY = ("--reason", "storage is down", "--user", "operator")


@pytest.fixture
def shell(capsys, pair, people, alive):
    def run(*words: str) -> str:
        call_command("pairing", *words)
        return capsys.readouterr().out

    return run


def test_a_dry_run_changes_nothing(shell, shared):
    assert "would change: orders" in shell("fail-over", "contoso", "orders", "payments", "--dry-run", *WHY)
    assert not shared.health()


def test_a_request_with_the_same_key_is_one_action(shell, shared):
    once = ("pace-syphon", "contoso", "--messages-per-s", "5", "--idempotency-key", "7", *WHY)
    assert "at most 5 messages a second" in shell(*once)
    assert json.loads(shell(*once, "--json"))["is_repeated"]
    assert AuditEntry.objects.count() == 1
    shell("pace-syphon", "contoso", *WHY)
    assert "*" not in shared.paces()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("fail-over", "contoso", "oders", *WHY), "no entity oders"),
        (("fail-over", "fabrikam", "orders", *WHY), "no pair with that name"),
        (("fail-over", "contoso", "orders", "--reason", " ", "--user", "operator"), "reason: String should match"),
        (("fail-over", "contoso", "orders", "--minutes", "-1", *WHY), "minutes: Input should be greater"),
        (("fail-over", "contoso", "orders", "--reason", "x", "--user", "mallory"), "There is no user mallory"),
        (("fail-over", "contoso", "orders", "--reason", "x", "--user", "viewer"), "needs the group operator"),
        (("give-statement", "2026-10", "/nowhere.csv", "--user", "operator"), "/nowhere.csv cannot be read"),
        (("tokens",), "name one"),
        (("charges", "2026-13"), "month: String should match"),
    ],
)
def test_what_cannot_be_done_is_refused_with_the_reason(shell, shared, words, sentence):
    with pytest.raises(CommandError, match=sentence):
        shell(*words)
    assert not shared.health()


def test_a_file_is_uploaded(shell, tmp_path):
    (tmp_path / "bill.csv").write_text("Date,Cost\n")
    with pytest.raises(CommandError, match="column"):
        shell("give-statement", "2026-10", str(tmp_path / "bill.csv"), "--user", "operator")


def test_a_token_is_printed_once_listed_without_it_and_revoked(shell):
    text = shell("make-token", "export", "--user", "viewer", "--only", "token").strip()
    row = ApiToken.objects.get()
    assert tokens.find(text, row.made_at) == row
    assert (row.prefix in (listed := shell("tokens", "--user", "viewer")), text in listed) == (True, False)
    assert "is revoked" in shell("revoke-token", row.prefix, "--user", "viewer")


def test_what_is_listed_can_be_an_exit_status(shell):
    assert shell("alerts", "--exit-code") == "None.\n"
    Alert.objects.create(
        key="failover:contoso:orders", kind="failover", severity="critical", pair="contoso", entity="orders",
        title="orders\x1b[31m failed over", detail="no answer", began_at=NOW, opened_at=NOW,
    )  # fmt: skip
    with pytest.raises(SystemExit) as ended:
        shell("alerts", "--exit-code")
    assert ended.value.code == 3


def test_readiness_is_a_gate_that_is_closed_until_everything_was_checked(shell, redis_here, pair):
    def status() -> object:
        try:
            shell("readiness-summary", "--exit-code")
        except SystemExit as ended:
            return ended.code
        return 0

    assert status() == 3
    PairReadiness.objects.create(pair=pair, score=100, checks=[], checked_at=timezone.now(), due_at=NOW)
    row = Readiness.objects.create(pair=pair, entity="orders", score=95, checked_at=timezone.now())
    assert status() == 0
    for changed in ({"score": 20}, {"score": 95, "checked_at": NOW}):
        Readiness.objects.filter(pk=row.pk).update(**changed)
        assert status() == 3
    assert "orders" in shell("readiness-summary", "--pair", "contoso")


def test_without_redis_nothing_is_ready(shell, redis_away):
    assert "does not answer" in shell("readiness-summary", "--only", "redis")


def test_documents_are_lines():
    rows = [
        {"path": "a\x1b[31mb", "count": 1200, "about": "", "more": {"x": 1}},
        {"path": "c", "count": 7, "about": "", "more": {}},
    ]
    answer = {"sentence": "So.", "outcome": "done", "counts": {"dead": 7, "none": 0}, "pairs": rows, "by": None}

    listed = [f"{'path':7}  count", "a [31mb  1,200", "c            7"]
    assert lines(answer) == ["So.", "counts: dead 7", "", "pairs:", *listed]
    assert lines({"items": rows, "next": "x"}) == [*listed, "More: --cursor x"]
    assert lines({"items": [], "next": None}) == ["None."]
    assert lines(["a", "b"]) == ["a", "b"]
    assert [is_well(one) for one in ([], [1], {"items": []}, {"items": [1]}, {"is_ready": False})] == [1, 0, 1, 0, 0]


def test_the_commands_of_the_documentation(shell, shared, reachable):
    (text,) = [one.text for one in blocks() if one.name == "docs/dashboard.md 1"]
    reachable.make("contoso/x-servicebus-transfer/0")
    pair = Pair.objects.get()
    BacklogQueue.objects.create(pair=pair, path="contoso/x-servicebus-transfer/0", index=0, seen_at=NOW)
    for words in (shlex.split(line.partition("pairing ")[2]) for line in text.splitlines()):
        assert shell(*words, "--user", "operator")
