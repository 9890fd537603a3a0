"""The course of the demo: starts processes in order, reports when it is ready, supervises, stops in reverse order."""

import contextlib
import json
import os
import secrets
import shutil
import time
import urllib.request
from collections.abc import Callable
from http.client import HTTPException

import redis

from dashboard.demo import programs
from dashboard.demo.configuration import CHANNELS, pair_names, pairs_file, variable
from dashboard.demo.guardian import Guardian
from dashboard.demo.processes import Child, DemoError
from dashboard.demo.stage import (
    HOST,
    PAIR,
    QUEUES,
    USER,
    DemoOptions,
    Stage,
    reserved_port,
)
from dashboard.demo.supervisor import Stopped, Supervisor
from dashboard.site.environment import Environment
from dashboard.site.places import BASE_DIR

START_S = 120.0  # time limit of one step on a busy host
Say = Callable[[str], None]
STARTED = "PAIRED_NAMESPACES_SETUP_STARTED"
"""The variable with the time at which the set-up began (tools/steps.py)."""
_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # local requests bypass proxies


def play(options: DemoOptions, say: Say) -> None:
    """Run the demo until it is stopped or its time is over. Raises DemoError; leaves no process behind."""
    stage = Stage(options)
    with reserved_port(options.port), stage.entered():
        guardian = Guardian(stage.marker)
        supervisor = Supervisor(guardian, stage.logs)
        supervisor.heed_signals()
        try:
            Demo(stage, supervisor, say).run()
        except Stopped:
            say("stopping …")
        finally:
            supervisor.stop()
            guardian.close()
    say("stopped: every process of the demo has ended")


class Demo:
    """The steps, each a method; after each step all processes started so far are supervised."""

    def __init__(self, stage: Stage, supervisor: Supervisor, say: Say) -> None:
        self.stage = stage
        self.supervisor = supervisor
        self.say = say
        self.started = float(os.environ.get(STARTED, time.time()))
        self.counters: redis.Redis

    def run(self) -> None:
        """From the first process to the ready line, and until the seconds are over."""
        self.start_redis()
        self.start_namespaces()
        self.make_database()
        self.start_control_plane()
        self.start_applications()
        self.await_dashboard()
        self.await_traffic()
        self.tell("Spark computes the charges meanwhile; the cost page shows the progress")
        self.say(f"ready {self.stage.url} user={USER} password={self.stage.options.password}")
        self.look_after(self.start_charges())

    def tell(self, step: str) -> None:
        """A line of progress, with the seconds since the command was started."""
        self.say(f"{time.time() - self.started:5.1f} s  {step}")

    def start_redis(self) -> None:
        """On a private port, with a password, in a folder of its own."""
        server = shutil.which("redis-server")
        if server is None:
            raise DemoError("No redis-server was found: install it (apt install redis-server), or use `make demo`.")
        password = secrets.token_urlsafe(24)
        with reserved_port() as port:
            lines = [f"port {port}", f"bind {HOST}", f"requirepass {password}", f"dir {self.stage.state}"]
            configuration = self.stage.write("redis.conf", "\n".join([*lines, 'save ""', "appendonly no"]) + "\n")
            self.stage.export(REDIS_URL=f"redis://:{password}@{HOST}:{port}/0")
            self.counters = redis.Redis(host=HOST, port=port, password=password, socket_timeout=5)
            self.supervisor.start(programs.redis(self.stage, server, str(configuration)))
            self.supervisor.wait_until(self._redis_answers, START_S, f"Redis does not answer; see {self.stage.logs}.")
        self.tell(f"redis answers on port {port}")

    def _redis_answers(self) -> bool:
        try:
            return bool(self.counters.ping())
        except redis.RedisError:
            return False

    def start_namespaces(self) -> None:
        """Start the local namespaces, and read their connection strings from their output."""
        key_file = self.stage.write("namespaces.key", secrets.token_urlsafe(32))
        child = self.supervisor.start(programs.namespaces(self.stage, str(key_file)), capture=True)
        lines = Lines(child)
        failure = f"The local namespaces did not start; see {child.log}."
        count = 2 * len(pair_names(self.stage.options.has_history))
        self.supervisor.wait_until(lambda: len(lines.so_far()) >= count, START_S, failure)
        for _, name, connection_string in (line.strip().split(" ", 2) for line in lines.so_far()):
            self.stage.export(**{variable(name): connection_string})
            self.tell(f"namespace {name} answers on port {connection_string.split(';')[0].rpartition(':')[2]}")
        self.stage.write("pairs.toml", pairs_file(self.stage.options.has_history))
        self.stage.write_prices()
        self._give_a_channel()
        self.stage.write("environment.json", json.dumps(self.stage.own_environment(), indent=2))

    def _give_a_channel(self) -> None:
        """Without configured channels: add one whose mails are written to the demo's folder."""
        if Environment().text("CHANNELS_FILE", "") or (BASE_DIR / "channels.toml").exists():
            return
        channels = self.stage.write("channels.toml", CHANNELS)
        self.stage.export(CHANNELS_FILE=str(channels), EMAIL_URL=f"filemail:///{self.stage.state / 'mail'}")

    def make_database(self) -> None:
        """Create tables, the pair, and the users. Meanwhile some first messages test the namespaces."""
        first = self.supervisor.start(programs.first_messages(self.stage))
        self.supervisor.run(programs.database(self.stage), START_S)
        self.tell(f"the database is created in {self.stage.state}, logs beside it, for {PAIR} and {USER}")
        self.tell("viewer and operator-only have the same password")
        self.supervisor.finish(first, START_S)
        self.tell("the first messages were accepted")

    def start_control_plane(self) -> None:
        """Start web, two workers and beat; they start up while the applications start."""
        for program in (
            programs.web(self.stage),
            programs.worker(self.stage, 1),
            programs.worker(self.stage, 2),
            programs.beat(self.stage),
        ):
            self.supervisor.start(program)

    def start_applications(self) -> None:
        """Start two senders and two receivers."""
        for number in (1, 2):
            self.supervisor.start(programs.receiver(self.stage, number))
            self.supervisor.start(programs.sender(self.stage, number))
        if self.stage.options.has_gateway:
            self.start_gateway()

    def start_gateway(self) -> None:
        """Start a gateway, and an application in JavaScript that sends through it."""
        if shutil.which("npm") is None:
            raise DemoError("DEMO_GATEWAY=1 needs Node.js: install node and npm, or leave it out.")
        if not (self.stage.packages / "node_modules" / ".package-lock.json").exists():  # npm writes it last
            self.supervisor.run(programs.packages(self.stage), 3 * START_S)
        key = secrets.token_urlsafe(24)
        key_file = self.stage.write("gateway.key", key)
        with reserved_port() as port:
            child = self.supervisor.start(programs.gateway(self.stage, port, str(key_file)))
            failure = f"The gateway did not start; see {child.log}."
            self.supervisor.wait_until(lambda: "ready " in child.log.read_text(), START_S, failure)
        own = (
            f"Endpoint=sb://{HOST}:{port};SharedAccessKeyName=gateway;SharedAccessKey={key};UseDevelopmentEmulator=true"
        )
        self.supervisor.start(programs.javascript(self.stage, own))
        self.tell(f"a gateway answers on port {port}; an application in JavaScript sends through it")

    def start_charges(self) -> Child:
        """Start the computation of the charges; it waits for the first usage records itself."""
        return self.supervisor.start(programs.charges(self.stage))

    def await_dashboard(self) -> None:
        """Wait until the dashboard has workers and shows a page."""
        failure = f"The dashboard is not ready; {self._see_logs()}"
        self.supervisor.wait_until(
            lambda: all(map(answers, (f"{self.stage.url}readyz", self.stage.url))), START_S, failure
        )
        self.tell("the dashboard answers, the workers are alive")

    def await_traffic(self) -> None:
        """Wait until a message was received from every queue."""
        failure = f"Messages do not arrive; {self._see_logs()}"
        self.supervisor.wait_until(self._traffic_flows, START_S, failure)
        self.tell("messages arrive in every queue")

    def _traffic_flows(self) -> bool:
        return all(self.counters.bitcount(f"demo:{{{queue}}}:received") for queue in QUEUES)

    def _see_logs(self) -> str:
        return f"see the logs in {self.stage.logs}."

    def look_after(self, charges: Child) -> None:
        """Supervise until the seconds are over, the demo is stopped, or an essential process ends."""
        seconds = self.stage.options.seconds
        end = None if seconds is None else time.monotonic() + seconds
        computing: Child | None = charges
        while end is None or time.monotonic() < end:
            self.supervisor.check()
            if computing is not None and (code := computing.ended()) is not None:
                self.tell(f"warning: {computing.last_line()}" if code else computing.last_line())
                computing = None
            self.supervisor.pause(0.2)


class Lines:
    """The lines that a captured child has printed so far, without waiting."""

    def __init__(self, child: Child) -> None:
        self._descriptor = child.stdout.fileno()
        self._text = b""
        os.set_blocking(self._descriptor, False)

    def so_far(self) -> list[str]:
        """The complete lines."""
        with contextlib.suppress(BlockingIOError):
            self._text += os.read(self._descriptor, 65536)
        return [line.decode() for line in self._text.splitlines(keepends=True) if line.endswith(b"\n")]


def answers(url: str) -> bool:
    """Whether a GET of the address succeeds."""
    try:
        with _direct.open(url, timeout=5) as answer:
            return bool(answer.status == 200)
    except (HTTPException, OSError):
        return False
