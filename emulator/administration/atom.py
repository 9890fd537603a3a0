"""The Atom envelope of the administration: reading one entry safely, writing entries, feeds and errors.

Answers are written as text: a feed of a hundred queues holds some three thousand elements.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat
from xml.sax.saxutils import escape, quoteattr

from emulator.administration.durations import format_time

ATOM = "http://www.w3.org/2005/Atom"
SERVICE_BUS = "http://schemas.microsoft.com/netservices/2010/10/servicebus/connect"
COUNTS = "http://schemas.microsoft.com/netservices/2011/06/servicebus"
INSTANCE = "http://www.w3.org/2001/XMLSchema-instance"
SCHEMA = "http://www.w3.org/2001/XMLSchema"

MAX_DEPTH = 32
MAX_ELEMENTS = 10_000

_ILLEGAL = {code: "\ufffd" for code in range(32) if code not in (9, 10, 13)} | {0xFFFE: "\ufffd", 0xFFFF: "\ufffd"}

_SPECIAL = re.compile("[<>&\x00-\x08\x0b-\x1f\ufffe\uffff]")


class DocumentError(ValueError):
    """The body of a request is not the expected XML; the text says why."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One entity to be written: its name, its address below the namespace, its description as XML."""

    title: str
    address: str
    description: str
    created_at: float
    updated_at: float


def read_content(body: bytes, *descriptions: str) -> Element:
    """Return the description inside the entry's content, one of these; raise DocumentError if there is none.

    Document type declarations are refused, and with them every entity a document could define.
    """
    content = parse(body).find(f"{{{ATOM}}}content")
    for description in descriptions:
        found = content.find(f"{{{SERVICE_BUS}}}{description}") if content is not None else None
        if found is not None:
            return found
    raise DocumentError(f"The body must be an Atom entry whose content is a {' or a '.join(descriptions)}.")


def parse(body: bytes) -> Element:
    """Return the root element of a document without a type declaration, bounded in depth and size."""
    builder = _BoundedBuilder()
    parser = expat.ParserCreate(namespace_separator="}")
    parser.buffer_text = True
    parser.StartDoctypeDeclHandler = builder.doctype
    parser.StartElementHandler = builder.start
    parser.EndElementHandler = builder.end
    parser.CharacterDataHandler = builder.data
    try:
        parser.Parse(body, True)
    except (expat.ExpatError, ValueError, LookupError) as error:
        raise DocumentError(f"The body is not well-formed XML: {error}.") from None
    return builder.close()


class _BoundedBuilder:
    """Builds elements with names in Clark notation, with limits of depth and number."""

    def __init__(self) -> None:
        self._tree = TreeBuilder()
        self._depth = 0
        self._elements = 0

    def doctype(self, *_declaration: object) -> None:
        raise DocumentError("A document type declaration is not allowed.")

    def start(self, name: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        self._elements += 1
        if self._depth > MAX_DEPTH or self._elements > MAX_ELEMENTS:
            raise DocumentError("The document is too deep or has too many elements.")
        self._tree.start(_clark(name), {_clark(key): value for key, value in attributes.items()})

    def end(self, name: str) -> None:
        self._depth -= 1
        self._tree.end(_clark(name))

    def data(self, text: str) -> None:
        self._tree.data(text)

    def close(self) -> Element:
        return self._tree.close()


def _clark(name: str) -> str:
    return "{" + name if "}" in name else name


def text(value: str) -> str:
    """Escaped character data; characters that XML does not allow become replacement characters."""
    return escape(value.translate(_ILLEGAL), {"\r": "&#13;"}) if _SPECIAL.search(value) else value


def element(name: str, value: str) -> str:
    """One element with text."""
    return f"<{name}>{text(value)}</{name}>"


def entry(item: Entry, base: str, namespace: str) -> bytes:
    """An entry on its own, `base` being the address of the namespace."""
    return f'<?xml version="1.0" encoding="utf-8"?>{_entry(item, base, namespace, ATOM)}'.encode()


def feed(
    items: Iterable[Entry], *, title: str, base: str, namespace: str, self_link: str, next_link: str | None, now: float
) -> bytes:
    """A page of entries. The client requests another page if and only if there are two links."""
    following = f'<link rel="next" href={quoteattr(next_link)}/>' if next_link else ""
    entries = "".join(_entry(item, base, namespace, "") for item in items)
    return (
        f'<?xml version="1.0" encoding="utf-8"?><feed xmlns="{ATOM}"><title type="text">{text(title)}</title>'
        f"<id>{text(self_link)}</id><updated>{format_time(now)}</updated>"
        f'<link rel="self" href={quoteattr(self_link)}/>{following}{entries}</feed>'
    ).encode()


def error(status: int, detail: str) -> bytes:
    """The body of an error."""
    return f"<Error><Code>{status}</Code><Detail>{text(detail)}</Detail></Error>".encode()


def _entry(item: Entry, base: str, namespace: str, xmlns: str) -> str:
    address = f"{base}/{item.address}"
    opening = f'<entry xmlns="{xmlns}">' if xmlns else "<entry>"
    return (
        f'{opening}<id>{text(address)}</id><title type="text">{text(item.title)}</title>'
        f"<published>{format_time(item.created_at)}</published><updated>{format_time(item.updated_at)}</updated>"
        f"<author><name>{text(namespace)}</name></author>"
        f'<link rel="self" href={quoteattr(address)}/>'
        f'<content type="application/xml">{item.description}</content></entry>'
    )
