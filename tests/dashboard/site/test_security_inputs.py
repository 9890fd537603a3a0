"""Whatever comes in, texts, files, reports: it ends as text, as a fact, or as a sentence (docs/security.md)."""

from types import SimpleNamespace

from azure.servicebus.amqp import AmqpMessageBodyType
from django.template import Context, Template
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from dashboard.backlog import browsing
from dashboard.site.tables import cell
from tests.selection import depth

few = settings(max_examples=depth(60), deadline=None, suppress_health_check=list(HealthCheck))
any_text = st.text(st.characters(), max_size=60)  # halves of characters, too
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | any_text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(any_text, inner, max_size=3),
    max_leaves=8,
)


def is_quiet(text: str) -> bool:
    return all(char.isprintable() or char in "\n\t" for char in text)


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
