"""Where usage is: a folder, or one URL for collector, compaction and Spark. The only place that translates it.

Collector and compaction pass the URL of USAGE_DIR to PyArrow. Spark reads through Hadoop, which names some stores
differently, takes keys and endpoints as settings, and needs JARs that it does not come with. A key in the URL becomes
a setting: it is never part of an address, of a job's arguments, or of a message.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from pipeline.errors import InputError

VARIABLE = "USAGE_URL"
"""The variable with the URL whose address a job is given: processes of other users can read arguments."""
HADOOP = "3.5.0"
"""The version of Hadoop in PySpark 4.3, if its JARs do not say which they have."""
AZURE = re.compile(r"(?P<account>[a-z0-9]+)\.(?P<service>blob|dfs)\.(?P<domain>core\.[a-z.]+)")
WRITE_AZURE = "Write it as abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/FOLDER."
Settings = Mapping[str, str]


class AddressError(InputError, ValueError):
    """Spark cannot be given this URL."""


@dataclass(frozen=True, slots=True)
class Place:
    """An address that Hadoop understands, and the settings that Hadoop needs for it: keys are among them."""

    address: str
    settings: Settings = field(default_factory=dict, repr=False)


def place_of(usage: str, environment: Mapping[str, str] = os.environ) -> Place:
    """The folder or URL as Spark reads it. A URL without keys gets those of the URL in the environment that has the
    same address. Raises AddressError.
    """
    if "://" not in usage and not usage.startswith("file:/"):
        return Place(usage)
    with_keys = environment.get(VARIABLE, "")
    parts = urlsplit(with_keys if with_keys and without_keys(with_keys) == usage else usage)
    translate = _TRANSLATIONS.get(parts.scheme)
    return translate(parts) if translate else Place(usage)


def without_keys(url: str) -> str:
    """The URL without keys and options: what may be stored, shown and logged."""
    parts = urlsplit(url)
    user, _, host = parts.netloc.rpartition("@")
    container = user.partition(":")[0] if parts.scheme.startswith("abfs") else ""
    return f"{parts.scheme}://{container + '@' if container else ''}{host}{parts.path}"


def connector_of(address: str) -> str:
    """The Maven coordinates of the JARs that Spark needs for this address; empty if it needs none."""
    return _CONNECTORS.get(urlsplit(address).scheme, "").format(hadoop=_hadoop_version())


def missing_connector(usage: str, environment: Mapping[str, str] = os.environ) -> str:
    """The connector that Spark needs for this folder or URL and was not given, as far as can be seen without Spark;
    empty if it has it, or needs none. Raises AddressError.
    """
    connector = connector_of(place_of(usage, environment).address)
    if not connector:
        return ""
    name = connector.split(":")[1]
    given = [environment.get(variable, "") for variable in ("SPARK_JARS", "SPARK_JARS_PACKAGES")]
    if folder := environment.get("SPARK_CONF_DIR"):
        given += [file.read_text(errors="replace") for file in Path(folder).glob("spark-defaults.conf")]
    has_it = any(name in text for text in given) or any(_has(folder, name) for folder in _jars())
    return "" if has_it else connector


def remedy_for(connector: str) -> str:
    """What to do about a connector that Spark does not have."""
    return f"Set SPARK_JARS_PACKAGES={connector}, with which Spark downloads it, or name its JARs in SPARK_JARS."


def _s3(parts: SplitResult) -> Place:
    user, _, bucket = parts.netloc.rpartition("@")
    options = dict(parse_qsl(parts.query))
    key, _, secret = user.partition(":")
    scheme, endpoint = options.get("scheme", "https"), options.get("endpoint_override", "")
    settings = {
        "fs.s3a.access.key": unquote(key),
        "fs.s3a.secret.key": unquote(secret),
        "fs.s3a.endpoint.region": options.get("region", ""),
        "fs.s3a.endpoint": endpoint if "://" in endpoint or not endpoint else f"{scheme}://{endpoint}",
        "fs.s3a.path.style.access": "true" if endpoint else "",
        "fs.s3a.connection.ssl.enabled": "false" if scheme == "http" else "",
    }
    return Place(f"s3a://{bucket}{parts.path}", _given(settings))


def _gs(parts: SplitResult) -> Place:
    user, _, bucket = parts.netloc.rpartition("@")
    options = dict(parse_qsl(parts.query))
    endpoint = options.get("endpoint_override", "")
    settings = {
        "fs.gs.auth.type": "UNAUTHENTICATED" if user == "anonymous" else "",
        "fs.gs.storage.root.url": f"{options.get('scheme', 'https')}://{endpoint}" if endpoint else "",
    }
    return Place(f"gs://{bucket}{parts.path}", _given(settings))


def _azure(parts: SplitResult) -> Place:
    """PyArrow takes the container from the user, the host or the path; Hadoop from the user only."""
    user, _, host = parts.netloc.rpartition("@")
    name, _, key = user.partition(":")
    known = AZURE.fullmatch(host)
    path = parts.path
    if known and known["service"] == "dfs":
        account, container, domain = known["account"], name, known["domain"]
    elif known:
        container, _, rest = path.removeprefix("/").partition("/")
        account, domain, path = known["account"], known["domain"], f"/{rest}" if rest else ""
    elif "." not in host and ":" not in host:
        account, container, domain = name, host, "core.windows.net"
    else:
        raise AddressError(f"Spark cannot read {without_keys(parts.geturl())}. {WRITE_AZURE}")
    if not account or not container:
        raise AddressError(f"{without_keys(parts.geturl())} lacks an account or a container. {WRITE_AZURE}")
    endpoint = f"{account}.dfs.{domain}"
    settings = {f"fs.azure.account.key.{endpoint}": unquote(key)}
    return Place(f"{parts.scheme}://{container}@{endpoint}{path}", _given(settings))


def _file(parts: SplitResult) -> Place:
    return Place(f"file://{unquote(parts.path)}")


def _given(settings: Settings) -> Settings:
    return {name: value for name, value in settings.items() if value}


_TRANSLATIONS: Mapping[str, Callable[[SplitResult], Place]] = {
    "s3": _s3,
    "gs": _gs,
    "gcs": _gs,
    "abfs": _azure,
    "abfss": _azure,
    "file": _file,
}
_CONNECTORS = {
    "s3a": "org.apache.hadoop:hadoop-aws:{hadoop}",
    "abfs": "org.apache.hadoop:hadoop-azure:{hadoop}",
    "abfss": "org.apache.hadoop:hadoop-azure:{hadoop}",
    "gs": "com.google.cloud.bigdataoss:gcs-connector:3.1.7",
}


def _jars() -> list[Path]:
    """The folders of the JARs that Spark comes with."""
    homes = [os.environ.get("SPARK_HOME", ""), _home_of_pyspark()]
    return [Path(home, "jars") for home in homes if home]


def _home_of_pyspark() -> str:
    found = find_spec("pyspark")
    return os.path.dirname(found.origin) if found and found.origin else ""


def _has(folder: Path, name: str) -> bool:
    return next(folder.glob(f"{name}-*.jar"), None) is not None


def _hadoop_version() -> str:
    names = (file.name for folder in _jars() for file in folder.glob("hadoop-client-api-*.jar"))
    return next((name.removeprefix("hadoop-client-api-").removesuffix(".jar") for name in names), HADOOP)
