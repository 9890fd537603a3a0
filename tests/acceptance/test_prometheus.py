"""The numbers, the rules and the dashboard, judged by Prometheus's own programs; and alerts by real workers.

A control plane with a worker and beat of its own is scraped by a real Prometheus and gets a failover: the webhook is
received by a real server.
"""

import json
import re
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest
import redis

from dashboard.metrics import exposition
from dashboard.models import Alert
from pairing.fleet.coordination import SharedState
from tests import forked
from tests.acceptance.prometheus import Server, promtool, running
from tests.dashboard import served as site
from tests.dashboard.receivers import Mailbox, Receiver, http_server, smtp_server
from tests.pace import GUARD, eventually
from tests.ports import free_port

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
CHANNELS = """
[channels.hook]
kind = "webhook"
url_env = "HOOK_URL"
secrets_env = "HOOK_SECRETS"

[channels.night]
kind = "email"
to = ["night@example.com"]
"""
RULE = """
from django.utils import timezone
from dashboard.models import AlertRule
AlertRule.objects.create(name="all", channels=["hook", "night"], kinds=["failover"], changed_at=timezone.now())
"""


def expressions() -> list[str]:
    """What the dashboard's panels ask for, with its variables filled in."""
    panels = json.loads((DEPLOY / "grafana/dashboard.json").read_text())["panels"]
    return [target["expr"].replace("$pair", ".*") for panel in panels for target in panel["targets"]]


def names(text: str) -> set[str]:
    return set(re.findall(r"\bpaired_\w+", text))


@pytest.mark.django_db
def test_rules_and_dashboard_ask_only_for_metrics_that_there_are() -> None:
    reported = set(re.findall(r"^# TYPE (\S+)", exposition(datetime.now(UTC)), re.MULTILINE))
    rules = (DEPLOY / "prometheus/alerts.yml").read_text()
    asked = names(rules) | names("\n".join(expressions()))

    assert len(asked) > 20
    assert asked <= reported


def test_every_rule_is_reported_and_tried() -> None:
    rules = set(re.findall(r"- alert: (\w+)", (DEPLOY / "prometheus/alerts.yml").read_text()))
    tried = (DEPLOY / "prometheus/alerts.test.yml").read_text()
    reported = (ROOT / "docs/observability.md").read_text()

    assert {rule for rule in rules if f"alertname: {rule}\n" not in tried} == set()
    assert {rule for rule in rules if f"`{rule}`" not in reported} == set()


def test_every_rule_and_every_kind_of_alert_leads_to_a_runbook_that_is_there() -> None:
    page = (ROOT / "docs/operations.md").read_text().partition("\n## Runbooks\n")[2].partition("\n## ")[0]
    runbooks = {title.lower().replace(" ", "-") for title in re.findall(r"^### (.+)$", page, re.MULTILINE)}
    rules = (DEPLOY / "prometheus/alerts.yml").read_text().split("- alert: ")[1:]
    section = (ROOT / "docs/alerts.md").read_text().partition("## 1. What an alert is\n")[2]
    kinds = section.partition("| --- |")[2].partition("\n\n")[0].splitlines()[1:]
    for text in [*rules, *kinds]:
        linked = re.findall(r"operations\.(?:html|md)#([\w-]+)", text)
        assert linked, text
        assert set(linked) <= runbooks, text
    assert len(kinds) == len(Alert.Kind)


def test_configuration_and_rules_are_valid() -> None:
    checked = promtool("check", "config", DEPLOY / "prometheus/prometheus.yml")
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_each_rule_fires_when_it_should_and_not_when_it_should_not() -> None:
    tested = promtool("test", "rules", DEPLOY / "prometheus/alerts.test.yml")
    assert tested.returncode == 0, tested.stdout + tested.stderr


def test_every_question_of_the_dashboard_can_be_asked(tmp_path: Path) -> None:
    rules = [{"record": f"panel:{number}", "expr": one} for number, one in enumerate(expressions())]
    file = tmp_path / "rules.json"  # JSON is YAML
    file.write_text(json.dumps({"groups": [{"name": "panels", "rules": rules}]}))
    checked = promtool("check", "rules", file)
    assert checked.returncode == 0, checked.stdout + checked.stderr


@dataclass
class Place:
    """A control plane with workers, and who is reported by it."""

    address: str
    receiver: Receiver
    mailbox: Mailbox
    shared: SharedState
    started: float
    """Before its worker and beat were: nothing that they measure is longer ago."""

    def since_start_s(self) -> float:
        return time.monotonic() - self.started


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, lasting_redis_url: str) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("watched")
    (folder / "channels.toml").write_text(CHANNELS)
    with site.namespaces() as strings, http_server() as receiver, smtp_server() as mailbox:
        environment = {
            **site.environment_of(folder, strings, lasting_redis_url),
            "CHANNELS_FILE": str(folder / "channels.toml"),
            "HOOK_URL": receiver.url,
            "HOOK_SECRETS": "whsec_" + "QUFB" * 8,
            "EMAIL_URL": f"smtp://{mailbox.host}:{mailbox.port}",
        }
        with site.serve(folder, environment, free_port()) as address:
            forked.run(("manage.py", "shell", "-v0", "-c", RULE), environment, check=True)
            client = redis.Redis.from_url(lasting_redis_url, decode_responses=True)
            started = time.monotonic()
            celery = ("-m", "celery", "-A", "workers")
            commands = ((*celery, "worker", "--concurrency", "8"), (*celery, "beat", "-l", "WARNING"))
            processes = [forked.start(command, environment, 1, 2) for command in commands]
            try:
                yield Place(address, receiver, mailbox, SharedState(client, "contoso"), started)
            finally:
                client.close()
                for process in processes:
                    process.terminate()
                try:
                    for process in processes:
                        process.wait(60)
                finally:
                    for process in processes:
                        process.kill()


@pytest.fixture(scope="module")
def prometheus(place: Place, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The configuration as it is delivered, but for the address and the pace."""
    folder = tmp_path_factory.mktemp("prometheus")
    text = (DEPLOY / "prometheus/prometheus.yml").read_text()
    text = text.replace("127.0.0.1:8000", place.address.removeprefix("http://")).replace("15s", "1s")
    (folder / "prometheus.yml").write_text(text)
    (folder / "alerts.yml").write_text((DEPLOY / "prometheus/alerts.yml").read_text())
    with running(folder / "prometheus.yml", free_port()) as server:
        yield server


def text_of(place: Place) -> str:
    with urllib.request.urlopen(f"{place.address}/metrics", timeout=60) as answer:
        return str(answer.read().decode())


@pytest.mark.acceptance
def test_a_failover_reaches_a_webhook_and_a_mailbox_through_beat_and_worker(place: Place) -> None:
    place.shared.fail_over("orders", "tried by a test", operator="ada", process="elsewhere:1:aaaa")
    first = eventually(lambda: place.receiver.bodies[:1], GUARD * 60)[0]
    place.shared.mark_healthy("orders", operator="ada", process="elsewhere:1:aaaa")
    second = eventually(lambda: place.receiver.bodies[1:2], GUARD * 60)[0]

    reported = [json.loads(body) for body in (first, second)]
    assert [one["type"] for one in reported] == ["alert.opened", "alert.resolved"]
    assert reported[0]["data"]["detail"] == "tried by a test"
    subjects = eventually(lambda: [str(mail["Subject"]) for mail in place.mailbox.mails], GUARD * 60)
    assert subjects[0] == "[warning] orders was failed over by ada"


@pytest.mark.acceptance
def test_a_real_prometheus_scrapes_it_and_loads_the_rules(place: Place, prometheus: Server) -> None:
    assert prometheus.await_value('up{job="paired-namespaces"} == 1') == 1
    assert prometheus.await_value('paired_entities{pair="contoso", state="unknown"}') >= 0
    assert prometheus.await_value('paired_task_starts_total{task="alerts.look"}') >= 1
    delay = prometheus.await_value('paired_task_start_delay_longest_seconds{task="alerts.look"}')
    assert 0 <= delay < place.since_start_s()
    # the database of served pages knows of a worker that is never late; the one of this place is real
    age = prometheus.await_value('min(paired_worker_heartbeat_age_seconds{process!="host:1:aaaa"})')
    assert 0 <= age < place.since_start_s()
    (group,) = prometheus.api("rules")["groups"]
    health = {rule["name"]: rule["health"] for rule in eventually(lambda: _evaluated(prometheus), GUARD * 60)}
    assert len(health) == len(group["rules"])
    assert set(health.values()) == {"ok"}


def _evaluated(prometheus: Server) -> list[dict[str, str]] | None:
    rules = prometheus.api("rules")["groups"][0]["rules"]
    return None if any(rule["health"] == "unknown" for rule in rules) else list(rules)


@pytest.mark.acceptance
def test_its_linter_has_nothing_to_say_about_what_is_really_exposed(place: Place) -> None:
    linted = promtool("check", "metrics", text=text_of(place))
    assert (linted.returncode, linted.stderr) == (0, "")
