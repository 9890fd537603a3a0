"""The docs are held to the code: what exists is documented, what is cited exists, and examples at least parse.

Nothing here is a copied list of names: each is read from the code it belongs to.
"""

import ast
import dataclasses
import importlib
import json
import re
import tomllib
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from django.urls import URLPattern, URLResolver, get_resolver

from dashboard.fleet.pairs.pairs_file import EndpointConfig, PairConfig, load_pairs
from dashboard.metrics import exposition
from dashboard.site.environment import Environment
from emulator.faults import EFFECTS, fault_from_json
from pairing import SendAvailabilityOptions
from pairing.events import KINDS
from pairing.telemetry import metering
from tools import tables

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("pairing", "amqp10", "emulator", "gateway", "dashboard", "workers", "pipeline", "examples", "tools", "tests")
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
STRING = "Endpoint=sb://{}.servicebus.windows.net/;SharedAccessKeyName=K;SharedAccessKey=V"
SOURCES = sorted(path for room in ROOMS for path in (ROOT / room).rglob("*.py") if "migrations" not in path.parts)


def text_of(*names: str) -> str:
    return "\n".join((ROOT / name).read_text(encoding="utf-8") for name in names)


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def undocumented(names: set[str], text: str) -> list[str]:
    """The names that the text does not have as words of their own."""
    return sorted(name for name in names if not re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text))


def modules(*rooms: str) -> Iterator[ast.AST]:
    """Every node of the modules of these rooms."""
    for room in rooms:
        for path in sorted((ROOT / room).rglob("*.py")):
            yield from ast.walk(ast.parse(path.read_text(encoding="utf-8")))


READERS = vars(Environment)


def settings() -> set[str]:
    """The variables that are read: `_env.text("NAME", …)`, `os.environ["NAME"]`."""
    found = set()
    for node in modules("dashboard", "workers"):
        match node:
            case ast.Call(func=ast.Attribute(attr=way), args=[ast.Constant(value=str(name)), *_]) if way in READERS:
                found.add(name)
            case ast.Subscript(value=source, slice=ast.Constant(value=str(name)), ctx=ast.Load()) if (
                "environ" in ast.unparse(source)
            ):
                found.add(name)
    return {name for name in found if re.fullmatch(r"[A-Z][A-Z0-9_]+", name)} - {"PATH", "HOME"}


def routes(patterns: list[URLPattern | URLResolver], prefix: str = "/") -> Iterator[str]:
    """Every route as the docs write it, `/pairs/<pair>/`: of Django's admin where it begins, of redirects none."""
    for pattern in patterns:
        route = prefix + re.sub(r"<(?:\w+:)?(\w+)>", r"<\1>", str(pattern.pattern))
        if route.endswith("<rest>") or (prefix != "/" and pattern.pattern.regex.pattern == r"^\Z"):
            continue  # what answers where there is nothing
        if isinstance(pattern, URLResolver) and pattern.app_name != "admin":
            yield from routes(pattern.url_patterns, route)
        elif isinstance(pattern, URLResolver) or pattern.name:
            yield route


def pages_of_the_dashboard() -> set[str]:
    return set(routes(get_resolver().url_patterns))


def options_of(*rooms: str) -> set[str]:
    """What is declared as `add_argument("--name", …, help=…)`, by whatever name that method goes."""
    calls = (node for node in modules(*rooms) if isinstance(node, ast.Call))
    declared = (call for call in calls if {"help", "action"} & {keyword.arg for keyword in call.keywords})
    names = (str(argument.value) for call in declared for argument in call.args if isinstance(argument, ast.Constant))
    return {name for name in names if name.startswith("--")}


def redis_keys() -> set[str]:
    calls = (node for node in modules("pairing") if isinstance(node, ast.Call))
    keys = (call.args for call in calls if isinstance(call.func, ast.Attribute) and call.func.attr in ("_key", "_hash"))
    return {str(key.value) for key, *_ in keys if isinstance(key, ast.Constant)}


def commands() -> set[str]:
    folder = ROOT / "dashboard/management/commands"
    return {path.stem for path in folder.glob("*.py") if not path.stem.startswith("_")}


def faults() -> set[str]:
    fields = fault_from_json({"operation": "send", "effect": "reject"}, 0.0).as_json()
    return {*EFFECTS, *(effect for effects in EFFECTS.values() for effect in effects), *fields} - {"hits"}


def pairs_file_keys() -> set[str]:
    fields = {**PairConfig.model_fields, **EndpointConfig.model_fields}
    return {field.alias or name for name, field in fields.items()} - {"name"}


@dataclasses.dataclass(frozen=True)
class Fact:
    """`names` are in these pages as words, or as `spelt`; `known` are some that the search has to find."""

    names: Callable[[], set[str]]
    pages: str
    known: set[str]
    spelt: str = ""


FACTS = {
    "options": Fact(
        lambda: {field.name for field in dataclasses.fields(SendAvailabilityOptions)}, "options", {"classify"}, "`{}`"
    ),
    "the library": Fact(
        lambda: {*importlib.import_module("pairing").__all__, *importlib.import_module("pairing.aio").__all__},
        "contract quickstart options syphon failures",
        {"Syphon"},
    ),
    "settings": Fact(settings, "settings", {"DATABASE_URL", "REDIS_URL", "SECRET_KEY", "UNDO_WINDOW_S"}),
    "commands": Fact(commands, "contract production dashboard costs", {"demo"}),
    "make": Fact(
        lambda: set(re.findall(r"[\w-]+", text_of("Makefile").partition(".PHONY: ")[2].partition("\n")[0])),
        "contract ../README ../CONTRIBUTING",
        {"demo"},
        "make {}",
    ),
    "pages": Fact(
        lambda: {page for page in pages_of_the_dashboard() if not page.startswith("/api/v1/")},
        "contract dashboard api",
        {"/pairs/<pair>/"},
        "`{}",
    ),
    "events of the contract": Fact(lambda: set(KINDS), "contract", {"forced"}),
    "events of the dashboard": Fact(lambda: set(KINDS), "dashboard", {"forced"}),
    "options of the emulator": Fact(lambda: options_of("emulator"), "emulator", {"--namespace"}),
    "options of the gateway": Fact(lambda: options_of("gateway"), "gateway", {"--listen-tls"}),
    "options of commands": Fact(lambda: options_of("dashboard"), "contract production dashboard costs", {"--month"}),
    "metrics": Fact(
        lambda: set(re.findall(r"^# TYPE (\S+)", exposition(datetime.now(UTC)), re.MULTILINE)),
        "observability",
        {"paired_redis_up"},
    ),
    "faults": Fact(faults, "contract", {"silent", "probability"}),
    "usage": Fact(lambda: set(metering.KINDS), "contract", {"ping"}),
    "pairs file": Fact(pairs_file_keys, "contract", {"entities"}),
    "redis": Fact(redis_keys, "design/coordination", {"health", "ping-due"}, "`pairing:{{<pair>}}:{}`"),
}


@pytest.mark.django_db
@pytest.mark.parametrize("fact", FACTS.values(), ids=FACTS)
def test_what_exists_is_documented(fact: Fact) -> None:
    names, text = fact.names(), text_of(*(f"docs/{page}.md" for page in fact.pages.split()))
    assert names >= fact.known
    if fact.spelt:
        assert not [name for name in sorted(names) if fact.spelt.format(name) not in text]
    else:
        assert not undocumented(names, text)


@pytest.mark.parametrize("name", tables.TABLES)
def test_a_table_is_as_its_rows_are_declared(name: str) -> None:
    text = tables.TABLES[name][0].read_text(encoding="utf-8")
    assert tables.written(name, text) == text, "run `python -m tools.tables`"


def section(page: str, title: str) -> str:
    """The text of one section, its title left out."""
    return re.split(rf"^#+ {re.escape(title)}$", text_of(page), flags=re.MULTILINE)[1].split("\n## ")[0]


def test_every_file_and_folder_that_a_page_names_is_there() -> None:
    """Those of tests may be named from `tests/` on, or without it."""
    rooms = "|".join((*ROOMS, "deploy", "packages", "templates"))
    named = set(re.findall(rf"`((?:{rooms})/[\w./-]+)`", text_of(*map(name_of, PAGES))))
    assert {"pairing/events.py", "dashboard/access/test_access_walk.py"} <= named
    assert not [name for name in sorted(named) if not (ROOT / name).exists() and not (ROOT / "tests" / name).exists()]


def test_every_setting_that_is_documented_is_read() -> None:
    cells = re.findall(r"^\| (`.+?) \|", text_of("docs/settings.md"), re.MULTILINE)
    assert {name for cell in cells for name in re.findall(r"`(\w+)`", cell)} <= settings()


def test_every_command_and_page_of_the_contract_is_there() -> None:
    row = re.search(r"^\| `python manage.py (.+?) \|", section("docs/contract.md", "1. Commands"), re.MULTILINE)
    assert row
    assert {"demo", "compute_charges"} <= set(re.findall(r"\w+", row[1])) <= commands()
    promised = set(re.findall(r"`(/[^`?*$]*)", section("docs/contract.md", "6. The dashboard")))
    assert "/pairs/<pair>/" in promised
    assert promised <= pages_of_the_dashboard()


@pytest.mark.parametrize("room", ["pairing", "pairing.aio"])
def test_every_member_of_the_contract_is_there(room: str) -> None:
    make = importlib.import_module(room).PairedServiceBusClient.from_connection_string
    client = make(STRING.format("contoso"), STRING.format("contoso-dr"))
    cells = re.findall(r"^\| (`.+?) \|", section("docs/contract.md", "2. The library"), re.MULTILINE)
    names = {name for cell in cells for name in re.findall(r"`(\w+)", cell)}
    assert names >= {"open", "get_queue_sender", "entity_health"}
    assert not [name for name in sorted(names) if not hasattr(client, name)]


HEADING = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def headings(page: Path) -> list[str]:
    return HEADING.findall(FENCE.sub("", page.read_text(encoding="utf-8")))


def anchor(heading: str) -> str:
    """The anchor that a heading gets where Markdown is rendered."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def dead_links(document: Path) -> Iterator[str]:
    for link in LINK.findall(FENCE.sub("", document.read_text(encoding="utf-8"))):
        file, _, fragment = link.partition("#")
        target = document.parent / file if file else document
        if re.match(r"[a-z]+:", link):
            continue
        if not target.exists():
            yield f"{name_of(document)}: {link} leads nowhere"
        elif fragment and fragment not in map(anchor, headings(target)):
            yield f"{name_of(document)}: {link} names no heading"


def test_every_relative_link_leads_somewhere() -> None:
    assert [problem for document in PAGES for problem in dead_links(document)] == []


NUMBER = r"\d+(?:\.\d+)?"
CITATION = re.compile(rf"(docs/[\w/-]+\.md)(?:,?\s+sections?\s+({NUMBER}(?:(?:,\s+|\s+and\s+|\s+to\s+){NUMBER})*))?")


def wrong_citations(source: Path) -> Iterator[str]:
    for page, sections in CITATION.findall(source.read_text(encoding="utf-8")):
        if not (ROOT / page).is_file():
            yield f"{name_of(source)}: {page} is cited and does not exist"
            continue
        for number in re.findall(NUMBER, sections):
            if not any(re.match(rf"{number}\b", title) for title in headings(ROOT / page)):
                yield f"{name_of(source)}: {page} has no section {number}"


def test_every_cited_page_and_section_exists() -> None:
    assert [problem for source in SOURCES for problem in wrong_citations(source)] == []


def test_every_page_can_be_reached() -> None:
    linked = {
        (page.parent / link.partition("#")[0]).resolve()
        for page in PAGES
        for link in LINK.findall(page.read_text(encoding="utf-8"))
        if link.partition("#")[0] != page.name
    }
    assert [name_of(page) for page in PAGES if page.name != "README.md" and page not in linked] == []


PARSERS: dict[str, Callable[[str], object]] = {"python": ast.parse, "json": json.loads, "toml": tomllib.loads}


def unreadable_examples(document: Path) -> Iterator[str]:
    for language, example in FENCE.findall(document.read_text(encoding="utf-8")):
        try:
            PARSERS.get(language, str)(example)
        except (SyntaxError, ValueError) as error:
            yield f"{name_of(document)}: {error}: {example}"


def test_every_example_parses() -> None:
    assert [problem for document in PAGES for problem in unreadable_examples(document)] == []


def test_the_pairs_file_of_the_contract_is_read_as_it_stands(tmp_path: Path) -> None:
    example = next(body for language, body in FENCE.findall(text_of("docs/contract.md")) if language == "toml")
    (tmp_path / "pairs.toml").write_text(example, encoding="utf-8")
    variables = {"CONTOSO_PRIMARY": STRING.format("contoso"), "CONTOSO_SECONDARY": STRING.format("contoso-dr")}
    pair = load_pairs(tmp_path / "pairs.toml", variables)["contoso"]
    assert [entity.path for entity in pair.entities] == ["orders", "payments", "shipments"]


HOST = re.compile(r"https?://(\[[^\]]+\]|[\w.-]+)")
KNOWN_HOSTS = {
    *("127.0.0.1", "localhost", "example.com", "gateway.example.com"),
    *("schemas.microsoft.com", "prices.azure.com", "learn.microsoft.com", "www.w3.org"),
}
MACHINE = re.compile(r"(?<![\w.>])/(?:work|root|home|Users)/")


def test_no_page_names_a_place_of_one_machine_or_a_strange_host() -> None:
    texts = {name_of(document): document.read_text(encoding="utf-8") for document in PAGES}
    assert {name: places for name, text in texts.items() if (places := MACHINE.findall(text))} == {}
    named = {(name, host.removesuffix(".")) for name, text in texts.items() for host in HOST.findall(text)}
    assert [(name, host) for name, host in sorted(named) if host not in KNOWN_HOSTS] == []
