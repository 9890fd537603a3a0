"""The manifests in deploy/kubernetes, held to the product and to each other: there is no cluster here."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml
from opentelemetry.exporter.otlp.proto.http.trace_exporter import DEFAULT_ENDPOINT

from dashboard.fleet.pairs.pairs_file import load_pairs
from tests.deployment import product
from tests.deployment.systemd import assignments

FOLDER = product.DEPLOY / "kubernetes"
BASE, EXAMPLE = FOLDER / "base", FOLDER / "example"
KUBECTL, VALIDATE = shutil.which("kubectl"), shutil.which("kubernetes-validate")
Manifest = dict[str, Any]


def manifests(folder: Path) -> list[Manifest]:
    """The resources that the kustomization of a folder lists, without those of another folder."""
    listed = product.documents(folder / "kustomization.yaml")[0]["resources"]
    files = {path.name for path in folder.glob("*.yaml")} - {"kustomization.yaml"}
    assert {name for name in listed if not name.startswith("..")} == files
    return [one for name in sorted(files) for one in product.documents(folder / name)]


RESOURCES = manifests(BASE)


def of_kind(*kinds: str) -> list[Manifest]:
    return [one for one in RESOURCES if one["kind"] in kinds]


PODS = {one["metadata"]["name"]: one["spec"]["template"] for one in of_kind("Deployment", "Job")}
SETTINGS = {folder: assignments((folder / "settings.env").read_text(encoding="utf-8")) for folder in (BASE, EXAMPLE)}
SECRETS = "/run/secrets/paired-namespaces/"


def containers(pod: Manifest) -> Iterator[Manifest]:
    yield from pod["spec"].get("initContainers", [])
    yield from pod["spec"]["containers"]


def test_the_processes_are_those_of_the_product() -> None:
    product.assert_processes([container["args"] for pod in PODS.values() for container in containers(pod)])


@pytest.mark.parametrize("name", PODS)
def test_a_pod_has_no_rights_and_writes_to_its_volumes_only(name: str) -> None:
    spec = PODS[name]["spec"]
    volumes = {volume["name"] for volume in spec["volumes"]}

    assert spec["automountServiceAccountToken"] is False
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["runAsUser"] > 0
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in containers(PODS[name]):
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert {mount["name"] for mount in container["volumeMounts"]} <= volumes
        assert {"cpu", "memory"} <= container["resources"]["requests"].keys()
        assert "memory" in container["resources"]["limits"]


@pytest.mark.parametrize("name", PODS)
def test_settings_come_from_the_map_and_secrets_from_files(name: str) -> None:
    for container in containers(PODS[name]):
        mounted = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
        assert "env" not in container
        assert container["envFrom"] == [{"configMapRef": {"name": "paired-namespaces-settings"}}]
        assert mounted["secrets"] + "/" == SECRETS
        assert "/tmp" in mounted.values()
    assert not of_kind("Secret")


@pytest.mark.parametrize("folder", SETTINGS, ids=lambda folder: folder.name)
def test_settings_are_known_and_no_secret_is_among_them(folder: Path) -> None:
    named = SETTINGS[folder]

    assert named
    assert not product.unknown_variables(set(named))
    assert not product.inline_secrets(set(named))
    files = {name: value for name, value in named.items() if name.endswith("_FILE")}
    assert files == {name: SECRETS + name.removesuffix("_FILE").lower() for name in files}


def test_each_connection_string_of_the_example_has_a_file() -> None:
    pairs = load_pairs(EXAMPLE / "pairs.toml", dict.fromkeys(product.PAIR, "Endpoint=sb://contoso.example.com/"))
    ends = [end for pair in pairs.values() for end in (pair.primary, pair.secondary)]

    assert {f"{end.connection_string_env}_FILE" for end in ends} <= SETTINGS[EXAMPLE].keys()


def test_whoever_needs_usage_files_has_the_same_folder() -> None:
    for pod in PODS.values():
        for container in containers(pod):
            mounted = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
            needs = container["args"][0] == "worker" and bool(
                {"collectors", "pipeline"} & product.queues(container["args"])
            )
            assert mounted.get("usage") == (SETTINGS[BASE]["USAGE_DIR"] if needs else None)


def test_the_web_process_is_asked_at_a_page_that_does_not_depend_on_others() -> None:
    (web,) = PODS["paired-namespaces-web"]["spec"]["containers"]
    (port,) = web["ports"]
    (service,) = of_kind("Service")

    assert str(port["containerPort"]) == web["args"][web["args"].index("--port") + 1]
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        asked = web[probe]["httpGet"]
        assert asked["port"] == port["name"]
        assert asked["path"] == "/healthz"
        assert product.is_page(asked["path"])
    assert [one["targetPort"] for one in service["spec"]["ports"]] == [port["name"]]
    assert service["spec"]["selector"].items() <= PODS["paired-namespaces-web"]["metadata"]["labels"].items()


def test_pods_of_a_new_version_wait_for_the_migrations() -> None:
    for name, pod in PODS.items():
        before = [container["args"] for container in pod["spec"]["initContainers"]]
        assert before == ([["migrate", "--no-input"]] if name.endswith("migrate") else [["migrate", "--check"]])


def test_what_runs_more_than_once_keeps_a_pod_when_nodes_are_drained() -> None:
    several = [one for one in of_kind("Deployment") if one["spec"]["replicas"] > 1]
    kept = [one["spec"]["selector"] for one in of_kind("PodDisruptionBudget")]

    assert len(several) >= 4
    assert [one["spec"]["selector"] for one in several] == kept
    for one in of_kind("Deployment"):
        assert one["spec"]["selector"]["matchLabels"] == one["spec"]["template"]["metadata"]["labels"]


def test_nothing_reaches_a_pod_that_no_policy_names_and_pods_reach_what_the_defaults_name() -> None:
    nothing, *others = of_kind("NetworkPolicy")

    assert nothing["spec"]["podSelector"] == {"matchLabels": {"app.kubernetes.io/name": "paired-namespaces"}}
    assert set(nothing["spec"]["policyTypes"]) == {"Ingress", "Egress"}
    assert not {"ingress", "egress"} & nothing["spec"].keys()
    (web,) = [one["spec"] for one in others if "ingress" in one["spec"]]
    assert web["podSelector"]["matchLabels"].items() <= PODS["paired-namespaces-web"]["metadata"]["labels"].items()
    assert [port["port"] for rule in web["ingress"] for port in rule["ports"]] == [8000]
    assert all(rule["from"] for rule in web["ingress"])
    (outgoing,) = [one["spec"] for one in others if "egress" in one["spec"]]
    settings = (product.ROOT / "dashboard" / "settings.py").read_text(encoding="utf-8")
    mail = re.search(r'"EMAIL_URL", "([^"]+)"', settings)
    assert mail
    defaults = {urlsplit(address).port for address in (mail[1], DEFAULT_ENDPOINT)}
    assert defaults | {53, 443, 5432, 5671, 6379} <= {
        port["port"] for rule in outgoing["egress"] for port in rule["ports"]
    }


@pytest.mark.skipif(KUBECTL is None, reason="there is no kubectl here: the example is not built")
def test_the_example_is_built_and_selects_its_own_pods(tmp_path: Path) -> None:
    assert KUBECTL
    built = subprocess.run([KUBECTL, "kustomize", EXAMPLE], capture_output=True, text=True, check=False, timeout=300)
    assert built.returncode == 0, built.stderr
    resources = list(yaml.safe_load_all(built.stdout))
    maps = {one["metadata"]["name"]: one["data"] for one in resources if one["kind"] == "ConfigMap"}
    pods = [one["spec"]["template"] for one in resources if one["kind"] in ("Deployment", "Job")]

    assert len(pods) == len(PODS)
    for container in (container for pod in pods for container in containers(pod)):
        settings = maps[container["envFrom"][0]["configMapRef"]["name"]]
        assert settings == SETTINGS[BASE] | SETTINGS[EXAMPLE]
        assert container["image"].startswith("images.example.com/")
    assert "pairs.toml" in maps["paired-namespaces-pairs"]
    for one in resources:
        if one["kind"] in ("PodDisruptionBudget", "Service"):
            selector = one["spec"]["selector"].get("matchLabels", one["spec"]["selector"])
            assert sum(selector.items() <= pod["metadata"]["labels"].items() for pod in pods) == 1
    if VALIDATE:
        (tmp_path / "built.yaml").write_text(built.stdout, encoding="utf-8")
        command = [VALIDATE, "--strict", "-k", "1.33", tmp_path / "built.yaml", *BASE.parent.glob("gateway/*.yaml")]
        validated = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
        assert validated.returncode == 0, validated.stdout + validated.stderr
