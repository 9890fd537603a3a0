"""What stands between an application and Azure, on this machine: a proxy, WebSockets, TLS, and tokens of an identity.

Host names that exist nowhere lead, through an HTTP proxy that wants a password, to a front with a certificate of the
tests' own. It bridges WebSockets to the AMQP of local namespaces, forwards their administration, and issues tokens as
Microsoft Entra does; it takes no other.
"""

import asyncio
import base64
import contextlib
import ssl
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import aiohttp
import trustme
from aiohttp import web
from yarl import URL

from amqp10 import sas

USER, PASSWORD = "proxy-user", "proxy-password"
CLIENT_ID, CLIENT_SECRET, TENANT = "application", "client-secret", "tenant"
_WEBSOCKET = "/$servicebus/websocket"


class Gateway:
    """A thread with its own loop; ``hosts`` names the local namespace behind each host name, by its port."""

    def __init__(self, hosts: Mapping[str, int], key: str, directory: Path) -> None:
        self.hosts, self._key = dict(hosts), key
        self.refused: set[str] = set()
        """Hosts that cannot be reached now."""
        self.tunnels: list[str] = []
        """Where the proxy was asked to lead."""
        self.websockets: list[str] = []
        """The hosts to which WebSockets were opened."""
        self.issued: set[str] = set()
        self.scopes: set[str] = set()
        """What tokens were asked for."""
        self.administered_with: set[str] = set()
        """The kinds of authorization that the administration was asked with."""
        self._open: set[asyncio.StreamWriter] = set()
        self.authority = authority = trustme.CA()
        self.certificates = str(directory / "authorities.pem")
        authority.cert_pem.write_to_path(self.certificates)
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("localhost", *hosts).configure_cert(self._tls)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._call(self._start())

    def _call(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    async def _start(self) -> None:
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", self._serve)
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=self._tls)
        await site.start()
        self.port = self._runner.addresses[0][1]
        self._proxy = await asyncio.start_server(self._tunnel, "127.0.0.1", 0)
        self.proxy_port = self._proxy.sockets[0].getsockname()[1]
        self._session = aiohttp.ClientSession(auto_decompress=False)

    def stop(self) -> None:
        """End everything."""
        self._call(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(60)
        self._loop.close()

    async def _stop(self) -> None:
        self._proxy.close()
        self._break(lambda host: True)
        await self._session.close()
        await self._runner.cleanup()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()

    def refuse(self, host: str) -> None:
        """The host is out of reach from now on, also for those who had reached it."""
        self.refused.add(host)
        self._loop.call_soon_threadsafe(self._break, lambda name: name == host)

    def _break(self, concerns: Any) -> None:
        for writer in list(self._open):
            if concerns(getattr(writer, "host", "")):
                writer.transport.abort()

    @property
    def proxy(self) -> dict[str, Any]:
        """The SDK's ``http_proxy`` setting."""
        return {"proxy_hostname": "127.0.0.1", "proxy_port": self.proxy_port, "username": USER, "password": PASSWORD}

    # The proxy -----------------------------------------------------------------------------------------------------

    async def _tunnel(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, EOFError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            method, target, *_ = head.split()
            host = target.rsplit(":", 1)[0]
            login = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
            if method != "CONNECT" or login not in head:
                writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic\r\n\r\n")
            elif host not in (*self.hosts, "localhost") or host in self.refused:
                writer.write(b"HTTP/1.1 502 Bad Gateway\r\n\r\n")
            else:
                self.tunnels.append(target)
                await self._lead(host, reader, writer)
        writer.close()

    async def _lead(self, host: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self.port)
        for end in (writer, far_writer):
            end.host = host  # type: ignore[attr-defined]
            self._open.add(end)
        try:
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            await asyncio.gather(_pour(reader, far_writer), _pour(far_reader, writer))
        finally:
            self._open -= {writer, far_writer}
            far_writer.close()

    # The front -----------------------------------------------------------------------------------------------------

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        host = request.host.split(":")[0]
        if request.path.startswith(_WEBSOCKET):
            return await self._bridge(request, host)
        if host == "localhost":
            return await self._identify(request)
        return await self._administer(request, host)

    async def _identify(self, request: web.Request) -> web.Response:
        here = f"https://localhost:{self.port}/{TENANT}"
        if request.path.endswith("/openid-configuration"):
            return web.json_response(
                {
                    "issuer": f"{here}/v2.0",
                    "authorization_endpoint": f"{here}/oauth2/v2.0/authorize",
                    "token_endpoint": f"{here}/oauth2/v2.0/token",
                }
            )
        asked = await request.post()
        if asked.get("client_secret") != CLIENT_SECRET:
            return web.json_response({"error": "invalid_client"}, status=401)
        self.scopes.add(str(asked.get("scope")))
        token = self.issue()
        return web.json_response({"access_token": token, "token_type": "Bearer", "expires_in": 3599})

    def issue(self) -> str:
        """A token for every namespace here."""
        token = sas.sign("RootManageSharedAccessKey", self._key, "sb://anywhere/", int(time.time()) + 3600)
        self.issued.add(token)
        return token

    async def _bridge(self, request: web.Request, host: str) -> web.WebSocketResponse:
        self.websockets.append(host)
        socket = web.WebSocketResponse(protocols=("AMQPWSB10",), autoping=True)
        await socket.prepare(request)
        reader, writer = await self._reach(host, socket)
        back = asyncio.ensure_future(_pour_messages(reader, socket))
        try:
            async for message in socket:
                if message.type == aiohttp.WSMsgType.BINARY:
                    writer.write(message.data)
                    await writer.drain()
        finally:
            back.cancel()
            writer.close()
        return socket

    async def _reach(
        self, host: str, socket: web.WebSocketResponse
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """The namespace of this name; behind a custom endpoint the name stands inside, in what follows the greeting."""
        if host in self.hosts:
            return await asyncio.open_connection("127.0.0.1", self.hosts[host])
        header = await socket.receive_bytes()
        _, writer, greeting = await self._greeted(min(self.hosts.values()), header)
        writer.close()
        await socket.send_bytes(greeting)
        said = await socket.receive_bytes()
        [name] = [name for name in self.hosts if name.encode() in said]
        reader, writer, _ = await self._greeted(self.hosts[name], header)
        self.websockets.append(name)
        writer.write(said)
        return reader, writer

    async def _greeted(self, port: int, header: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter, bytes]:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(header)
        reported = await reader.readexactly(8 + 4)
        return reader, writer, reported + await reader.readexactly(int.from_bytes(reported[8:]) - 4)

    async def _administer(self, request: web.Request, host: str) -> web.Response:
        kind, _, token = request.headers.get("Authorization", "").partition(" ")
        self.administered_with.add(kind)
        if kind == "Bearer" and token not in self.issued:
            return web.Response(status=401)
        authorization = token if kind == "Bearer" else f"{kind} {token}"
        headers = {name: request.headers[name] for name in ("Content-Type", "If-Match") if name in request.headers}
        url = URL(f"http://127.0.0.1:{self.hosts[host]}{request.raw_path}", encoded=True)
        async with self._session.request(
            request.method, url, headers=headers | {"Authorization": authorization}, data=await request.read()
        ) as answer:
            kept = {"Content-Type": answer.headers.get("Content-Type", "application/atom+xml")}
            return web.Response(status=answer.status, body=await answer.read(), headers=kept)


async def _pour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    writer.close()


async def _pour_messages(reader: asyncio.StreamReader, socket: web.WebSocketResponse) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65_536):
            await socket.send_bytes(data)
    await socket.close()
