"""Whatever comes in, texts, files, reports: it ends as text, as a fact, or as a sentence (docs/security.md)."""

import csv
import io
import json
from contextlib import suppress
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest
from azure.servicebus.amqp import AmqpMessageBodyType
from django.template import Context, Template
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from dashboard.alerts.sending.config import ChannelsFileError, load_channels
from dashboard.backlog import browsing
from dashboard.costs.csv_export import write_csv
from dashboard.costs.statements import StatementError, read_export
from dashboard.fleet.pairs.pairs_file import PairsFileError, load_pairs
from dashboard.fleet.state import projection
from dashboard.fleet.state.catching_up import parsed
from dashboard.models import Charge, ChargeRun, FailoverEvent, Invoice
from dashboard.site.tables import cell
from pairing.events import Event
from pipeline.months import Month
from pipeline.prices import PriceError, parse_items, price_list
from tests.selection import depth

few = settings(max_examples=depth(60), deadline=None, suppress_health_check=list(HealthCheck))
any_text = st.text(st.characters(), max_size=60)  # halves of characters, too
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | any_text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(any_text, inner, max_size=3),
    max_leaves=8,
)
DEEP = "[" * 200_000


def is_quiet(text: str) -> bool:
    return all(char.isprintable() or char in "\n\t" for char in text)


# -- messages ---------------------------------------------------------------------------------------------------------


def message(body: object, properties: dict, **more: object) -> SimpleNamespace:
    raw = SimpleNamespace(body=body, body_type=AmqpMessageBodyType.VALUE, header=None)
    known = dict.fromkeys(
        ("message_id", "subject", "enqueued_time_utc", "dead_letter_reason", "dead_letter_error_description")
    )
    return SimpleNamespace(
        raw_amqp_message=raw, application_properties=properties, sequence_number=1, delivery_count=0, **known | more
    )


@few
@given(
    body=values | st.binary(),
    properties=st.dictionaries(any_text | st.binary(), values | st.binary(), max_size=50),
    word=any_text,
)
@example(body="\x1b]0;title\x07\u202e<script>", properties={b"\xff<b>": "=1+1", "a" * 999: "b" * 9999}, word="<i>")
def test_whatever_a_message_carries_is_shown_as_short_quiet_escaped_text(body, properties, word):
    one = browsing.shown("q", message(body, properties, message_id=word, dead_letter_reason=word, subject=word))

    texts = [one.message_id, one.subject, one.reason, one.about, one.body, *sum(one.properties, ())]
    assert all(map(is_quiet, texts))
    assert max(map(len, texts)) <= 2000
    assert len(one.properties) <= 40
    page = Template("{{ one.body }}{{ one.message_id }}{% for k, v in one.properties %}{{ k }}{{ v }}{% endfor %}")
    assert "<" not in page.render(Context({"one": one}))


@few
@given(text=any_text)
def test_no_cell_of_a_file_is_a_formula(text):
    assert cell(text)[:1] not in ("=", "+", "-", "@", "\t", "\r")
    assert cell(text).replace("'", "") == text.replace("'", "")


# -- reports of applications ------------------------------------------------------------------------------------------

report = st.one_of(
    any_text,
    values.map(json.dumps),
    st.fixed_dictionaries(
        dict.fromkeys(("id", "pair", "entity", "kind", "reason", "process"), any_text),
        optional={"operator": any_text | st.none() | st.integers(), "time": any_text},
    ).map(lambda given: json.dumps({"time": "2026-11-02T03:00:00+00:00", **given})),
)


@few
@given(reports=st.lists(report, max_size=4))
@example(reports=[DEEP, '{"a":' * 200_000, "1e999", ""])
@example(
    reports=[
        json.dumps(
            {
                **dict.fromkeys(("id", "pair", "entity", "kind", "reason", "process"), "\ud800\x00"),
                "time": "0001-01-01T00:00:00+14:00",
            }
        )
    ]
)
@pytest.mark.django_db
def test_no_report_stops_those_behind_it(reports):
    good = Event("a" * 32, datetime(2026, 11, 2, tzinfo=UTC), "contoso", "orders", "failing", "x", "host:1:a")

    facts = parsed([(str(i), text) for i, text in enumerate((*reports, good.to_json()))], Event.from_json)
    projection.record_events(facts)

    assert facts[-1] == good
    assert FailoverEvent.objects.filter(event_id=good.id).exists()


# -- files ------------------------------------------------------------------------------------------------------------

HEAD = "Date,MeterCategory,MeterName,Quantity,CostInBillingCurrency,BillingCurrency,ResourceId,UnitOfMeasure\n"
RESOURCE = "/subscriptions/s/resourceGroups/g/providers/Microsoft.ServiceBus/namespaces/n"
ROW = f"2026-10-01,Service Bus,Standard Messaging Operations,1,0.1,EUR,{RESOURCE},10M\n"


@few
@given(data=st.binary(max_size=300) | any_text.map(lambda text: (HEAD + text).encode(errors="replace")))
@example(data=(HEAD + ROW.replace("0.1", "1e999999999")).encode())
@example(data=(HEAD + ROW.replace("2026-10-01", "9999-99-99")).encode())
@example(data=DEEP.encode())
@example(data=b"\xff\xfe" + b"\x00\xd8" * 9)
def test_every_upload_is_read_or_refused_with_a_sentence(data):
    with suppress(StatementError):
        read_export(io.BytesIO(data), "2026-10")


def toml(value: object) -> str:
    """JSON values are TOML values, but for null and what is empty of a type."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {toml(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    return "0" if value is None else json.dumps(value)


storable = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
toml_values = st.recursive(
    st.booleans() | st.integers(-(2**62), 2**62) | storable,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(storable, inner, max_size=3),
    max_leaves=6,
)
SECRETS = {"CONTOSO_PRIMARY": "canary-in-a-connection-string", "ONCALL_URL": "https://canary.example.com/x"}


@few
@given(
    key=st.sampled_from(["primary", "secondary", "entities", "failover_interval_s", "backlog_queue_count", "drill"])
    | storable,
    value=toml_values,
)
def test_every_pairs_file_is_read_or_refused_without_what_is_in_the_environment(tmp_path_factory, key, value):
    table = {
        "primary": {"connection_string_env": "CONTOSO_PRIMARY"},
        "secondary": {"connection_string_env": "CONTOSO_PRIMARY", "namespace": "dr"},
        key: value,
    }
    file = tmp_path_factory.mktemp("pairs") / "pairs.toml"
    file.write_text(f"pairs = {{contoso = {toml(table)}}}", encoding="utf-8")
    with pytest.raises(PairsFileError) as refused:
        load_pairs(file, SECRETS)
    assert "canary" not in str(refused.value)


@few
@given(
    key=st.sampled_from(["kind", "url_env", "secrets_env", "to", "from"]) | storable,
    value=toml_values | st.sampled_from(["webhook", "email", "slack", "teams"]),
)
def test_every_channels_file_is_read_or_refused_with_a_sentence(tmp_path_factory, key, value):
    table = {"kind": "webhook", "url_env": "ONCALL_URL", key: value}
    file = tmp_path_factory.mktemp("channels") / "channels.toml"
    file.write_text(f"channels = {{one = {toml(table)}}}", encoding="utf-8")
    with suppress(ChannelsFileError):
        load_channels(file)


@few
@given(data=st.binary(max_size=200))
@example(data=b"x = " + b"[" * 5000)
def test_what_is_no_toml_is_a_sentence(tmp_path_factory, data):
    file = tmp_path_factory.mktemp("toml") / "file.toml"
    file.write_bytes(data)
    for load, error in (
        (lambda: load_pairs(file, {}), PairsFileError),
        (lambda: load_channels(file), ChannelsFileError),
    ):
        with pytest.raises(error):
            load()


ITEM = {
    "meterName": "Standard Base Unit",
    "retailPrice": 0.0135,
    "currencyCode": "EUR",
    "armRegionName": "westeurope",
    "unitOfMeasure": "1/Hour",
    "effectiveStartDate": "2020-01-01T00:00:00Z",
    "tierMinimumUnits": 0,
    "skuName": "Standard",
    "type": "Consumption",
}


@few
@given(name=st.sampled_from(sorted(ITEM)), value=values)
@example(name="retailPrice", value=float("inf"))
def test_every_price_list_is_read_or_refused_with_a_sentence(name, value):
    with suppress(PriceError):
        price_list(list(parse_items(json.dumps({"Items": [{**ITEM, name: value}]}))), Month(2026, 10))


@few
@given(text=any_text)
@example(text=DEEP)
@example(text="1" * 5000)
def test_what_is_no_price_list_is_a_sentence(text):
    with suppress(PriceError):
        price_list(list(parse_items(text)), Month(2026, 10))


@pytest.mark.django_db
def test_an_entity_named_like_a_formula_is_text_in_the_export_and_amounts_stay_numbers():
    now = datetime(2026, 11, 2, tzinfo=UTC)
    run = ChargeRun.objects.create(month="2026-10", status="succeeded", started_at=now, heard_at=now)
    bill = Invoice.objects.create(
        run=run, month="2026-10", scope="s", rule="published", allocation="time", currency="EUR", cents=-5,
        exact="-0.05", units=1,
    )  # fmt: skip
    Charge.objects.create(
        invoice=bill, namespace="contoso", entity='=HYPERLINK("x")', kind="send", operations=1, billing_units=1,
        included_units=0, quantity="1", exact="-0.05", cents=-5,
    )  # fmt: skip
    out = io.StringIO()
    write_csv(out, "2026-10")

    (row,) = csv.DictReader(io.StringIO(out.getvalue()))
    assert (row["entity"], row["charge"]) == ('\'=HYPERLINK("x")', "-0.05")
