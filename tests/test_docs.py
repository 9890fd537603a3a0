"""The docs are held to the code: what exists is reported, what is cited exists, and examples at least parse.

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

from dashboard.fleet.pairs.pairs_file import ENDPOINT_KEYS, PAIR_KEYS, load_pairs
from dashboard.metrics import exposition
from emulator.faults import EFFECTS, fault_from_json
from pairing import SendAvailabilityOptions
from pairing.events import KINDS
from pairing.telemetry import metering
from tools import tables

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("pairing", "emulator", "dashboard", "workers", "pipeline", "examples", "tools", "tests")
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
SOURCES = sorted(path for room in ROOMS for path in (ROOT / room).rglob("*.py") if "migrations" not in path.parts)


def text_of(*names: str) -> str:
    return "\n".join((ROOT / name).read_text(encoding="utf-8") for name in names)


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def undocumented(names: set[str], reported: str) -> list[str]:
    """The names that the text does not have as words of their own."""
    return sorted(name for name in names if not re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", reported))


# -- what exists is documented ----------------------------------------------------------------------------------------


def test_every_option_is_explained() -> None:
    names = {f"`{field.name}`" for field in dataclasses.fields(SendAvailabilityOptions)}
    assert not [name for name in sorted(names) if name not in text_of("docs/options.md")]


def test_every_public_name_of_the_library_is_documented() -> None:
    pages = text_of(*(name_of(page) for page in PAGES))
    names = {name for room in ("pairing", "pairing.aio") for name in importlib.import_module(room).__all__}
    assert not undocumented(names, pages)


READERS = {"text", "words", "whole", "flag", "path", "url"}  # of dashboard.site.environment.Environment


def modules(*rooms: str) -> Iterator[ast.Module]:
    for room in rooms:
        for path in sorted((ROOT / room).rglob("*.py")):
            yield ast.parse(path.read_text(encoding="utf-8"))


def environment_variables(module: ast.Module) -> Iterator[str]:
    """The variables a module reads: `_env.text("NAME", …)`, `os.environ.get("NAME")`, `os.environ["NAME"]`."""
    for node in ast.walk(module):
        match node:
            case ast.Call(func=ast.Attribute(attr=reader), args=[ast.Constant(value=str(name)), *_]) if (
                reader in READERS
            ):
                pass
            case ast.Subscript(value=source, slice=ast.Constant(value=str(name)), ctx=ast.Load()):
                if "environ" not in ast.unparse(source):
                    continue
            case _:
                continue
        if re.fullmatch(r"[A-Z][A-Z0-9_]+", name):
            yield name


def test_every_setting_of_the_control_plane_is_documented() -> None:
    names = {name for module in modules("dashboard", "workers") for name in environment_variables(module)}
    assert names >= {"DATABASE_URL", "REDIS_URL", "SECRET_KEY", "UNDO_WINDOW_S"}  # the search itself works
    from_system = {"PATH", "HOME"}
    assert not undocumented(names - from_system, text_of("docs/settings.md"))


def test_every_management_command_is_documented() -> None:
    folder = ROOT / "dashboard/management/commands"
    commands = {path.stem for path in folder.glob("*.py") if not path.stem.startswith("_")}
    assert "demo" in commands
    assert not undocumented(commands, text_of("docs/contract.md", "docs/production.md", "docs/dashboard.md"))


def test_every_make_target_is_documented() -> None:
    targets = re.search(r"^\.PHONY: (.+)$", text_of("Makefile"), re.MULTILINE)
    assert targets
    reported = text_of("README.md", "CONTRIBUTING.md", "docs/contract.md")
    assert not [target for target in targets[1].split() if f"make {target}" not in reported]


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


def test_every_page_of_the_dashboard_is_documented() -> None:
    reported = text_of("docs/contract.md", "docs/dashboard.md", "docs/api.md")
    assert not [route for route in routes(get_resolver().url_patterns) if f"`{route}" not in reported]


def test_every_kind_of_event_is_documented() -> None:
    assert not undocumented(set(KINDS), text_of("docs/contract.md"))
    assert not undocumented(set(KINDS), text_of("docs/dashboard.md"))


@pytest.mark.parametrize("name", tables.TABLES)
def test_a_table_is_as_its_rows_are_declared(name: str) -> None:
    text = tables.TABLES[name][0].read_text(encoding="utf-8")

    assert tables.written(name, text) == text, "run `python -m tools.tables`"
    assert "|  |" not in tables.operations(), "every operation has a description"


def command_line_options(*rooms: str) -> set[str]:
    """What is declared as `add_argument("--name", …, help=…)`, by whatever name that method goes."""
    calls = (node for module in modules(*rooms) for node in ast.walk(module) if isinstance(node, ast.Call))
    declared = (call for call in calls if {"help", "action"} & {keyword.arg for keyword in call.keywords})
    names = (str(argument.value) for call in declared for argument in call.args if isinstance(argument, ast.Constant))
    return {name for name in names if name.startswith("--")}


def test_every_option_of_the_emulator_is_documented() -> None:
    options = command_line_options("emulator")
    assert "--namespace" in options
    assert not undocumented(options, text_of("docs/emulator.md"))


def test_every_option_of_a_management_command_is_documented() -> None:
    options = command_line_options("dashboard")
    assert "--month" in options
    pages = ("contract", "production", "dashboard", "costs")
    assert not undocumented(options, text_of(*(f"docs/{page}.md" for page in pages)))


@pytest.mark.django_db
def test_every_metric_is_documented() -> None:
    names = set(re.findall(r"^# TYPE (\S+)", exposition(datetime.now(UTC)), re.MULTILINE))
    assert names
    assert not undocumented(names, text_of("docs/observability.md"))


def test_every_fault_is_documented() -> None:
    reported = text_of("docs/contract.md")
    assert not undocumented(set(EFFECTS) | {effect for effects in EFFECTS.values() for effect in effects}, reported)
    assert not undocumented(
        set(fault_from_json({"operation": "send", "effect": "reject"}, 0.0).as_json()) - {"hits"}, reported
    )


def test_every_kind_of_usage_is_documented() -> None:
    assert not undocumented(set(metering.KINDS), text_of("docs/contract.md"))


def test_every_key_of_the_pairs_file_is_documented() -> None:
    assert not undocumented({*PAIR_KEYS, *ENDPOINT_KEYS}, text_of("docs/contract.md"))


def test_every_key_in_redis_is_documented() -> None:
    calls = (node for module in modules("pairing") for node in ast.walk(module) if isinstance(node, ast.Call))
    keys = (call.args for call in calls if isinstance(call.func, ast.Attribute) and call.func.attr in ("_key", "_hash"))
    names = {str(key.value) for key, *_ in keys if isinstance(key, ast.Constant)}
    assert names >= {"health", "ping-due"}
    reported = text_of("docs/design/coordination.md")
    assert not [name for name in sorted(names) if f"`pairing:{{<pair>}}:{name}`" not in reported]


def test_every_file_of_tests_that_a_page_names_is_there() -> None:
    named = set(re.findall(r"`([\w/]+/test_\w+\.py)", text_of(*map(name_of, PAGES))))
    assert named
    assert not [name for name in sorted(named) if not (ROOT / "tests" / name.removeprefix("tests/")).is_file()]


# -- what is documented exists, or is said to be missing --------------------------------------------------------------


def section(page: str, title: str) -> str:
    """The text of one section, its title left out."""
    return re.split(rf"^#+ {re.escape(title)}$", text_of(page), flags=re.MULTILINE)[1].split("\n## ")[0]


def missing() -> str:
    return section("CHANGELOG.md", "Not there yet")


def test_every_command_of_the_contract_is_there() -> None:
    row = re.search(r"^\| `python manage.py (.+?) \|", section("docs/contract.md", "1. Commands"), re.MULTILINE)
    assert row
    names = set(re.findall(r"\w+", row[1]))
    there = {path.stem for path in (ROOT / "dashboard/management/commands").glob("*.py")}
    assert names >= {"demo", "compute_charges"}
    assert not undocumented(names - there, missing())
    assert not [name for name in sorted(there) if f"command `{name}`" in missing()]


def test_every_page_of_the_contract_is_there() -> None:
    reported = set(re.findall(r"`(/[^`?*$]*)", section("docs/contract.md", "6. The dashboard")))
    assert "/pairs/<pair>/" in reported
    absent = reported - set(routes(get_resolver().url_patterns))
    assert not [page for page in sorted(absent) if f"`{page}`" not in missing()]


@pytest.mark.parametrize("room", ["pairing", "pairing.aio"])
def test_every_member_of_the_contract_is_there(room: str) -> None:
    string = "Endpoint=sb://{}.servicebus.windows.net/;SharedAccessKeyName=K;SharedAccessKey=V"
    make = importlib.import_module(room).PairedServiceBusClient.from_connection_string
    client = make(string.format("contoso"), string.format("contoso-dr"))
    cells = re.findall(r"^\| (`.+?) \|", section("docs/contract.md", "2. The library"), re.MULTILINE)
    names = {name for cell in cells for name in re.findall(r"`(\w+)", cell)}
    assert names >= {"open", "get_queue_sender", "entity_health"}
    assert not [name for name in sorted(names) if not hasattr(client, name)]


# -- what is cited exists ---------------------------------------------------------------------------------------------

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


# -- examples parse, and nothing of one machine is in the docs --------------------------------------------------------


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
    string = "Endpoint=sb://{}.servicebus.windows.net/;SharedAccessKeyName=K;SharedAccessKey=V"
    variables = {"CONTOSO_PRIMARY": string.format("contoso"), "CONTOSO_SECONDARY": string.format("contoso-dr")}
    pair = load_pairs(tmp_path / "pairs.toml", variables)["contoso"]
    assert [entity.path for entity in pair.entities] == ["orders", "payments", "shipments"]


HOST = re.compile(r"https?://(\[[^\]]+\]|[\w.-]+)")
KNOWN_HOSTS = {
    "127.0.0.1",
    "localhost",
    "schemas.microsoft.com",
    "prices.azure.com",
    "learn.microsoft.com",
    "www.w3.org",
    "example.com",
}
MACHINE = re.compile(r"(?<![\w.>])/(?:work|root|home|Users)/")


def test_no_page_names_a_place_of_one_machine_or_a_strange_host() -> None:
    texts = {name_of(document): document.read_text(encoding="utf-8") for document in PAGES}
    assert {name: places for name, text in texts.items() if (places := MACHINE.findall(text))} == {}
    named = {(name, host.removesuffix(".")) for name, text in texts.items() for host in HOST.findall(text)}
    assert [(name, host) for name, host in sorted(named) if host not in KNOWN_HOSTS] == []
