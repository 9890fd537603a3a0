"""The processes of the demo, and the order in which they are stopped: applications first, Redis last."""

from dashboard.demo.configuration import FAILOVER_INTERVAL_S, PING_INTERVAL_S, created_entities, pair_names
from dashboard.demo.history.scenery import BACKLOG_QUEUES, secondary_of
from dashboard.demo.processes import Program
from dashboard.demo.stage import HOST, PRIMARY, QUEUES, Stage, python
from dashboard.site.places import EXAMPLES

APPLICATIONS, WORKERS, WEB, SERVERS = range(4)
APPLICATION_OPTIONS = ("--primary-namespace", PRIMARY, "--backlog-queues", str(BACKLOG_QUEUES))
RATE = 2
FIRST_MESSAGES = 3
SDK = "@azure/service-bus@^7.9.5"


def redis(stage: Stage, server: str, configuration: str) -> Program:
    return Program("redis", (server, configuration), stage.environment(), essential=True, stop_order=SERVERS)


def namespaces(stage: Stage, key_file: str) -> Program:
    names = [name for pair in pair_names(stage.options.has_history) for name in (pair, secondary_of(pair))]
    spaces = [word for name in names for word in ("--namespace", f"{name}:0")]
    entities = [word for entity in created_entities(stage.options.has_history) for word in ("--entity", entity)]
    argv = python("-m", "emulator", "--host", HOST, *spaces, *entities, "--key-file", key_file)
    return Program("namespaces", argv, stage.environment(), essential=True, stop_order=SERVERS)


def database(stage: Stage) -> Program:
    environment = stage.environment() | {"DEMO_PASSWORD": stage.options.password}
    return Program("database", python("-m", "dashboard.demo.prepare"), environment)


def worker(stage: Stage, number: int) -> Program:
    argv = python("-m", "celery", "-A", "workers", "worker", "--hostname", f"worker-{number}@%h", "--loglevel", "INFO")
    return Program(f"worker-{number}", argv, stage.environment(), restart=True, stop_order=WORKERS)


def beat(stage: Stage) -> Program:
    argv = python("-m", "celery", "-A", "workers", "beat", "--loglevel", "WARNING")
    return Program("beat", argv, stage.environment(), restart=True, stop_order=WORKERS)


def web(stage: Stage) -> Program:
    argv = python(
        *("-m", "uvicorn", "dashboard.asgi:application", "--host", HOST, "--port", str(stage.options.port)),
        *("--timeout-graceful-shutdown", "2", "--no-proxy-headers"),
    )
    return Program("web", argv, stage.environment(), essential=True, stop_order=WEB)


def first_messages(stage: Stage) -> Program:
    """A few messages to each queue: a test of namespaces and keys, and the first usage records for the cost page."""
    return _sender(stage, "first-messages", "--count", str(FIRST_MESSAGES), "--rate", "20", restart=False)


def sender(stage: Stage, number: int) -> Program:
    return _sender(stage, f"sender-{number}", "--rate", str(RATE), restart=True)


def _sender(stage: Stage, name: str, *more: str, restart: bool) -> Program:
    intervals = ("--failover-interval", str(FAILOVER_INTERVAL_S), "--ping-interval", str(PING_INTERVAL_S))
    argv = python(str(EXAMPLES / "sender.py"), *QUEUES, *APPLICATION_OPTIONS, *intervals, *more)
    return Program(name, argv, stage.environment(), restart=restart, stop_order=APPLICATIONS)


def receiver(stage: Stage, number: int) -> Program:
    argv = python(str(EXAMPLES / "receiver.py"), *QUEUES, *APPLICATION_OPTIONS)
    return Program(f"receiver-{number}", argv, stage.environment(), restart=True, stop_order=APPLICATIONS)


def gateway(stage: Stage, port: int, key_file: str) -> Program:
    argv = python(
        *("-m", "gateway.command", "--pair", PRIMARY, "--pairs-file", str(stage.state / "pairs.toml")),
        *("--listen", f"{HOST}:{port}", "--key-file", key_file, "--health", f"{HOST}:0"),
    )
    environment = stage.environment() | {"GATEWAY_COORDINATION": stage.own_environment()["REDIS_URL"]}
    return Program("gateway", argv, environment, restart=True, stop_order=WORKERS)


def packages(stage: Stage) -> Program:
    argv = ("npm", "install", "--no-audit", "--no-fund", "--no-save", "--prefix", str(stage.packages), SDK)
    return Program("packages", argv, stage.environment())


def javascript(stage: Stage, connection_string: str) -> Program:
    own = {"SERVICEBUS_CONNECTION_STRING": connection_string, "CLIENT_PACKAGES": str(stage.packages)}
    argv = ("node", str(EXAMPLES / "sender.mjs"), *QUEUES)
    return Program("javascript", argv, stage.environment() | own, restart=True, stop_order=APPLICATIONS)


def charges(stage: Stage) -> Program:
    return Program("charges", python("-m", "dashboard.demo.charge"), stage.environment(), stop_order=APPLICATIONS)
