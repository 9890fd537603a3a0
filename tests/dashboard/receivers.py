"""Real servers that alerts are sent to: over HTTP (with TLS where asked) and by SMTP."""

import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import EmailMessage
from email.parser import BytesParser
from email.policy import default
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult

from tests.ports import free_port


@dataclass
class Receiver:
    """What came in, and what is answered: the next of `answers`, else 204."""

    url: str = ""
    requests: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)
    answers: list[tuple[int, dict[str, str]]] = field(default_factory=list)
    hold: threading.Event | None = None

    @property
    def bodies(self) -> list[bytes]:
        return [body for _, _, body in self.requests]


@contextmanager
def http_server(context: ssl.SSLContext | None = None) -> Iterator[Receiver]:
    """A server on a port of its own."""
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            receiver.requests.append((self.path, {k.lower(): v for k, v in self.headers.items()}, body))
            if receiver.hold is not None:
                receiver.hold.wait(60)
            status, headers = receiver.answers.pop(0) if receiver.answers else (204, {})
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    receiver.url = f"{'https' if context else 'http'}://127.0.0.1:{server.server_address[1]}/hook?key=SECRET"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        if receiver.hold is not None:
            receiver.hold.set()
        server.shutdown()
        server.server_close()
        thread.join(60)


@dataclass
class Mailbox:
    """What came in by mail, and what the next recipients are answered instead of 250."""

    host: str = "127.0.0.1"
    port: int = 0
    mails: list[EmailMessage] = field(default_factory=list)
    recipients: list[str] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    login: tuple[str, str] | None = None
    """Where it is set, nothing is taken before a sign-in with this name and password."""

    def authenticate(self, server: Any, session: Any, envelope: Any, mechanism: str, given: Any) -> AuthResult:
        return AuthResult(success=(given.login.decode(), given.password.decode()) == self.login, handled=False)

    async def handle_MAIL(self, server: Any, session: Any, envelope: Any, address: str, options: Any) -> str:
        if self.login and not session.authenticated:
            return "530 sign in first"
        envelope.mail_from = address
        return "250 OK"

    async def handle_RCPT(self, server: Any, session: Any, envelope: Any, address: str, options: Any) -> str:
        if self.refusals:
            return self.refusals.pop(0)
        envelope.rcpt_tos.append(address)
        self.recipients.append(address)
        return "250 OK"

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        self.mails.append(BytesParser(policy=default).parsebytes(envelope.content))
        return "250 taken"


@contextmanager
def smtp_server(login: tuple[str, str] | None = None) -> Iterator[Mailbox]:
    """A mail server on a port of its own."""
    mailbox = Mailbox(port=free_port(), login=login)
    controller = Controller(
        mailbox,
        hostname=mailbox.host,
        port=mailbox.port,
        authenticator=mailbox.authenticate,
        auth_require_tls=False,
        ready_timeout=120,
    )
    controller.start()
    try:
        yield mailbox
    finally:
        controller.stop()
