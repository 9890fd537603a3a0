"""The operations of the API as subcommands, built from the OpenAPI document.

An operation is called in this process, without HTTP, with the rights of a person of the pages.
"""

import getpass
import json
from argparse import ArgumentParser
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from django.contrib.auth.models import AnonymousUser, User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.core.management.base import CommandError
from django.http import HttpRequest, QueryDict
from django.urls import resolve

from dashboard.api.authentication import Shell
from dashboard.api.site import document

PREFIX = "/api/v1/"
INVALID = 422
TYPES: Mapping[str, Callable[[str], Any]] = {"integer": int, "number": float, "object": json.loads}
Options = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Value:
    """A value that an operation takes. `place`: path, query, header, body or file."""

    name: str
    place: str
    schema: Mapping[str, Any]
    is_required: bool

    @property
    def is_positional(self) -> bool:
        """Whether it stands without a name. A reason, and a value that can be null, have one."""
        return self.is_required and self.name != "reason" and not any(one["type"] == "null" for one in self._types)

    @property
    def _types(self) -> list[Mapping[str, Any]]:
        return [one for one in self.schema.get("anyOf", [self.schema]) if "type" in one]

    def add_to(self, parser: ArgumentParser) -> None:
        """Add the argument, or the option."""
        kind: Mapping[str, Any] = next((one for one in self._types if one["type"] != "null"), {"type": "object"})
        more: dict[str, Any] = {"help": self.schema.get("description", "")}
        if kind["type"] == "array":
            kind, more["nargs"] = kind["items"], "+"
        if "enum" in kind:
            more["choices"] = [each for each in kind["enum"] if each]
        if self.is_positional:
            parser.add_argument(self.name, metavar=self.name.upper(), type=TYPES.get(kind["type"], str), **more)
            return
        flag = f"--{self.name.lower().replace('_', '-')}"
        if kind["type"] == "boolean":
            more["action"] = "store_true"
        else:
            more |= {"type": TYPES.get(kind["type"], str), "required": self.name == "reason"}
        parser.add_argument(flag, dest=self.name, default=None, **more)


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation of the API."""

    method: str
    path: str
    id: str
    description: str
    values: tuple[Value, ...]

    @property
    def name(self) -> str:
        """The subcommand."""
        return self.id.replace("_", "-")

    def call(self, options: Options) -> Any:
        """The document that it answers. Raises CommandError with the problem."""
        request = HttpRequest()
        request.method, request.path = self.method, PREFIX + self.path.format(**options)
        request.META = {"CONTENT_TYPE": "application/json", **self._headers(options)}
        request.GET = QueryDict(urlencode(self._given("query", options)))
        request._body = json.dumps(self._given("body", options)).encode()
        for name, path in self._given("file", options).items():
            request.FILES[name] = SimpleUploadedFile(path, _content(path))
        Shell.sign_in(request, _person(options["user"], is_needed=self.method != "GET"))
        found = resolve(request.path)
        answer = found.func(request, *found.args, **found.kwargs)
        if answer.status_code >= 400:
            status = 2 if answer.status_code == INVALID else 1
            raise CommandError(_sentence(json.loads(answer.content)), returncode=status)
        return json.loads(answer.content)

    def _given(self, place: str, options: Options) -> dict[str, Any]:
        """The values for this place; one that is required and was left out is null."""
        here = [value for value in self.values if value.place == place]
        return {one.name: options[one.name] for one in here if one.is_required or options[one.name] is not None}

    def _headers(self, options: Options) -> dict[str, str]:
        return {f"HTTP_{name.upper().replace('-', '_')}": text for name, text in self._given("header", options).items()}


def operations() -> list[Operation]:
    """All operations, in the order of the document."""
    whole = document(PREFIX)
    return [
        Operation(
            method=method.upper(),
            path=path.removeprefix(PREFIX),
            id=one["operationId"],
            description=str(one.get("description", "")),
            values=(*_parameters(one), *_body(one, whole["components"]["schemas"])),
        )
        for path, methods in whole["paths"].items()
        for method, one in methods.items()
    ]


def _parameters(operation: Mapping[str, Any]) -> list[Value]:
    return [Value(one["name"], one["in"], one["schema"], one["required"]) for one in operation.get("parameters", ())]


def _body(operation: Mapping[str, Any], schemas: Mapping[str, Any]) -> list[Value]:
    content = operation.get("requestBody", {}).get("content", {})
    found = []
    for kind, place in (("application/json", "body"), ("multipart/form-data", "file")):
        schema = content.get(kind, {}).get("schema", {})
        schema = schemas[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
        required = schema.get("required", ())
        found += [Value(name, place, one, name in required) for name, one in schema.get("properties", {}).items()]
    return found


def _person(name: str | None, *, is_needed: bool) -> User | AnonymousUser:
    """The person with that name, by default that of the login. Reading needs none."""
    wanted = name or getpass.getuser()
    person = User.objects.filter(username=wanted).first()
    if person is None and (name or is_needed):
        raise CommandError(f"There is no user {wanted}: name a user of the pages with --user.")
    return person or AnonymousUser()


def _content(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise CommandError(f"{path} cannot be read: {error.strerror}.") from None


def _sentence(problem: Mapping[str, Any]) -> str:
    faults: Sequence[Mapping[str, Any]] = problem.get("errors", ())
    return " ".join([problem["detail"], *(f"{one['place'][-1]}: {one['fault']}." for one in faults)])
