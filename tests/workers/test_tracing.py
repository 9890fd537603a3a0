"""The workers' traces reach the collector that OpenTelemetry's variables name; without them nothing is set up."""

import os
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from tests import forked
from tests.pace import Stopwatch

PROGRAM = """
import sys
import workers.worker
from celery.signals import worker_init, worker_shutdown
from tests.pace import Stopwatch
worker_init.send(sender=None)
if "opentelemetry.exporter.otlp.proto.http.trace_exporter" not in sys.modules:
    sys.exit("not imported")
from opentelemetry import trace
trace.get_tracer("test").start_span("forward orders").end()
with Stopwatch() as watch:
    worker_shutdown.send(sender=None)
print(watch.took)
"""


class Collector(HTTPServer):
    """Takes what is exported; a mute one never answers."""

    daemon_threads = True

    def __init__(self, *, mute: bool = False) -> None:
        super().__init__(("127.0.0.1", 0), Taker)
        self.taken: list[tuple[str, bytes]] = []
        self.over = threading.Event()
        self.mute = mute

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Taker(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        assert isinstance(self.server, Collector)
        if self.server.mute:
            self.server.over.wait(60)
        self.server.taken.append((self.path, self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


def run(**variables: str) -> subprocess.CompletedProcess[str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith("OTEL_")}
    return forked.run(("-c", PROGRAM), kept | variables)


@pytest.fixture(params=[False, True], ids=["answers", "mute"])
def collector(request):
    with Collector(mute=request.param) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        yield server
        server.over.set()
        server.shutdown()
        serving.join(60)


def test_spans_are_sent_before_a_worker_leaves_and_a_mute_collector_does_not_hold_it_up(collector):
    with Stopwatch() as watch:
        done = run(OTEL_EXPORTER_OTLP_ENDPOINT=collector.url, OTEL_SERVICE_NAME="night-shift")
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < 3.5
    assert watch.took < 60
    if not collector.mute:
        [(path, body)] = collector.taken
        assert path == "/v1/traces"
        assert b"forward orders" in body
        assert b"night-shift" in body


def test_without_an_endpoint_nothing_is_imported():
    done = run()
    assert (done.returncode, done.stderr.strip()) == (1, "not imported")
