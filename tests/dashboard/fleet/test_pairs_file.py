"""PAIRS_FILE: what is read, and the sentence for every way it can be wrong (docs/contract.md, section 3)."""

from datetime import timedelta
from pathlib import Path

import pytest

from dashboard.fleet.pairs.pairs_file import DrillConfig, EntityConfig, PairsFileError, load_pairs
from tests.documented.blocks import ROOT, fenced

VARIABLES = {
    "PRIMARY": "Endpoint=sb://contoso.servicebus.windows.net/;SharedAccessKeyName=k;SharedAccessKey=secret",
    "SECONDARY": "Endpoint=sb://contoso-dr.servicebus.windows.net/;SharedAccessKeyName=k;SharedAccessKey=secret",
    "LOCAL": "Endpoint=sb://127.0.0.1:5672;SharedAccessKeyName=k;SharedAccessKey=secret;UseDevelopmentEmulator=true;",
    "BROKEN": "hunter2",
}
GOOD = """
[pairs.contoso]
primary = { connection_string_env = "PRIMARY", subscription = "prod", region = "westeurope", tier = "Standard" }
secondary = { connection_string_env = "SECONDARY", region = "northeurope" }
backlog_queue_count = 4
failover_interval_s = 5
ping_primary_interval_s = 2.5
entities = ["orders", "queue:payments", "topic:shipments/eu"]
"""


def read(tmp_path: Path, text: str, variables=VARIABLES):
    file = tmp_path / "pairs.toml"
    file.write_text(text, encoding="utf-8")
    return load_pairs(file, variables)


def test_the_file_of_the_installation_page_is_one(tmp_path):
    (written,) = [text for language, text in fenced(ROOT / "docs" / "installation.md") if language == "toml"]
    variables = {"CONTOSO_PRIMARY": VARIABLES["PRIMARY"], "CONTOSO_SECONDARY": VARIABLES["SECONDARY"]}
    assert read(tmp_path, written, variables)["contoso"].entities == (EntityConfig("orders", "queue"),)


def test_a_pair_is_read_with_its_namespaces_options_and_entities(tmp_path):
    pair = read(tmp_path, GOOD)["contoso"]

    assert (pair.primary.namespace, pair.secondary.namespace) == ("contoso", "contoso-dr")
    assert (pair.primary.tier, pair.secondary.tier) == ("standard", "standard")
    assert pair.backlog_queue_count == 4
    assert pair.failover_interval == timedelta(seconds=5)
    assert pair.ping_primary_interval == timedelta(seconds=2.5)
    assert pair.entities == (
        EntityConfig("orders", "queue"),
        EntityConfig("payments", "queue"),
        EntityConfig("shipments/eu", "topic"),
    )


def test_what_is_left_out_has_the_specified_default(tmp_path):
    pair = read(
        tmp_path,
        '[pairs.c]\nprimary = {connection_string_env = "PRIMARY"}\nsecondary = {connection_string_env = "SECONDARY"}',
    )["c"]

    assert pair.backlog_queue_count == 10
    assert pair.failover_interval == pair.ping_primary_interval == timedelta(minutes=1)
    assert pair.watches_all
    assert pair.entities == ()


def test_the_scope_is_the_subscription_or_the_pair_s_name(tmp_path):
    pair = read(tmp_path, GOOD)["contoso"]

    assert pair.scope("contoso") == "prod"
    assert pair.scope("contoso-dr") == "contoso"


def test_a_subscription_has_one_spelling(tmp_path):
    guid = "0A6ACD66-E8F9-4C1B-9D3E-5A0B6C7D8E9F"
    pair = read(tmp_path, GOOD.replace('"prod"', f'"{guid}"'))["contoso"]
    assert pair.scope("contoso") == guid.lower()


def test_a_bare_address_takes_the_pair_s_name_for_the_primary(tmp_path, monkeypatch):
    text = (
        '[pairs.local]\nprimary = {connection_string_env = "LOCAL"}\nsecondary = {connection_string_env = "SECONDARY"}'
    )
    pair = read(tmp_path, text)["local"]

    for name, text in VARIABLES.items():
        monkeypatch.setenv(name, text)

    assert pair.primary.namespace == "local"
    assert [end.emulator for end in pair.endpoints()] == [True, False]


def test_a_connection_string_may_come_from_a_file(tmp_path):
    (tmp_path / "secret").write_text(VARIABLES["PRIMARY"] + "\n")
    variables = {"PRIMARY_FILE": str(tmp_path / "secret"), "SECONDARY": VARIABLES["SECONDARY"]}

    pair = read(tmp_path, GOOD, variables)["contoso"]

    assert pair.primary.connection_string(variables) == VARIABLES["PRIMARY"]


def test_no_credential_is_in_the_record(tmp_path):
    assert "secret" not in repr(read(tmp_path, GOOD))


def changed(old: str, new: str) -> str:
    assert old in GOOD
    return GOOD.replace(old, new)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        pytest.param("[pairs", "it is not TOML", id="not TOML"),
        pytest.param("title = 'x'", "pairs: Field required", id="no pair"),
        pytest.param(changed("pairs.contoso", 'pairs."a b"'), "pairs.a b", id="a name with a space"),
        pytest.param(
            changed("backlog_queue_count", "backlog_queues"), "pairs.contoso.backlog_queues: ", id="an unknown key"
        ),
        pytest.param(
            changed("region =", "regoin ="), "pairs.contoso.primary.regoin: ", id="an unknown key of a namespace"
        ),
        pytest.param(changed("= 4", "= 0"), "backlog_queue_count: ", id="no backlog queue"),
        pytest.param(changed("= 5\n", "= 3601\n"), "failover_interval_s: ", id="too long a failover interval"),
        pytest.param(changed("= 5\n", "= true\n"), "failover_interval_s: ", id="a truth for a number"),
        pytest.param(changed("2.5", "0.5"), "ping_primary_interval_s: ", id="too short a ping interval"),
        pytest.param(changed('"queue:payments"', '"orders"'), "names an entity twice", id="an entity twice"),
        pytest.param(
            changed('"PRIMARY"', '"MISSING"'), "MISSING is not set: give it the connection", id="a missing variable"
        ),
        pytest.param(
            changed('"PRIMARY"', '"BROKEN"'),
            "BROKEN: the primary connection string is malformed",
            id="no connection string",
        ),
        pytest.param(
            changed('"PRIMARY"', '"Endpoint=sb://x/"'), "primary.connection_string_env: ", id="a string for its name"
        ),
        pytest.param(changed('"SECONDARY"', '"PRIMARY"'), "the same namespace", id="one namespace twice"),
        pytest.param(changed('"SECONDARY"', '"LOCAL"'), 'add namespace = "…"', id="a host that tells nothing"),
        pytest.param(changed('"Standard"', '"gold"'), "'basic', 'standard' or 'premium'", id="an unknown tier"),
    ],
)
def test_a_broken_file_is_one_sentence_that_names_the_file(tmp_path, text, sentence):
    with pytest.raises(PairsFileError) as error:
        read(tmp_path, text)

    said = str(error.value)
    assert sentence in said
    assert said.startswith(str(tmp_path / "pairs.toml"))
    assert "secret" not in said
    assert "hunter2" not in said


def test_a_missing_file_says_what_to_write(tmp_path):
    with pytest.raises(PairsFileError, match="there is no such file"):
        load_pairs(tmp_path / "none.toml", VARIABLES)


@pytest.mark.parametrize(
    ("reported", "drill"),
    [
        ("", None),
        ('drill = { entity = "pairing-canary" }', DrillConfig(entity="pairing-canary")),
        ('drill = { entity = "pairing-canary", every_days = 30 }', DrillConfig(entity="pairing-canary", every_days=30)),
    ],
    ids=["none", "by hand only", "every month"],
)
def test_the_canary_of_drills_is_read(tmp_path, reported, drill):
    assert read(tmp_path, f"{GOOD}{reported}")["contoso"].drill == drill


WRONG_DRILLS = {
    "a name alone": ('"pairing-canary"', "drill: "),
    "no entity": ("{ every_days = 30 }", "drill.entity: "),
    "an empty entity": ('{ entity = " " }', "drill.entity: "),
    "no number": ('{ entity = "c", every_days = "often" }', "drill.every_days: "),
    "never again": ('{ entity = "c", every_days = 0 }', "drill.every_days: "),
    "a flag": ('{ entity = "c", every_days = true }', "drill.every_days: "),
    "an unknown key": ('{ entity = "c", weekly = true }', "drill.weekly: "),
}


@pytest.mark.parametrize(("reported", "key"), WRONG_DRILLS.values(), ids=WRONG_DRILLS.keys())
def test_a_wrong_canary_is_reported_by_its_key(tmp_path, reported, key):
    with pytest.raises(PairsFileError, match=f"pairs.contoso.{key}"):
        read(tmp_path, f"{GOOD}drill = {reported}")
