"""Container files and manifests: what schemas, linters and the server's own command line say."""

from __future__ import annotations

import re
import shutil
import subprocess
from typing import Any

import pytest
import tyro

from env_servers.cli.serve import Serve
from env_servers.sdk import environment_names
from tests.deploy.manifests import DEPLOY, FLEETS, KUBERNETES, Object, files, only, read, rendered

CONTAINERFILE = DEPLOY / "containers" / "Dockerfile"
FOREIGN = {
    "cert-manager.io/v1": {"Certificate", "Issuer"},
    "monitoring.coreos.com/v1": {"PodMonitor", "PrometheusRule"},
}
"""Kinds of others' operators: no schema of Kubernetes has them."""


FIELDS = {
    "Certificate": {
        *("commonName", "dnsNames", "duration", "isCA", "issuerRef", "privateKey"),
        *("renewBefore", "secretName", "usages"),
    },
    "Issuer": {"ca", "selfSigned"},
    "PodMonitor": {"namespaceSelector", "podMetricsEndpoints", "selector"},
    "PrometheusRule": {"groups"},
}
"""What of their `spec` is used here, by those operators' documentation: a field that they do not
know they leave out without a word."""


def container(deployment: Object) -> dict[str, Any]:
    (found,) = deployment["spec"]["template"]["spec"]["containers"]
    return found


def validate(objects: list[Object]) -> None:
    schemas = pytest.importorskip("kubernetes_validate", reason="the extra `deploy` is missing")
    for each in objects:
        if each["kind"] not in FOREIGN.get(each["apiVersion"], ()):
            schemas.validate(each, schemas.latest_version(), strict=True)


@pytest.mark.slow
def test_every_file_of_objects_is_one_by_kubernetes_schema() -> None:
    for path in files():
        validate(read(path))


def test_objects_of_others_operators_have_fields_that_those_know() -> None:
    found = [it for path in files() for it in read(path) if it["kind"] in FIELDS]
    assert {it["kind"] for it in found} == set(FIELDS)
    for each in found:
        assert each["kind"] in FOREIGN[each["apiVersion"]]
        assert each["spec"].keys() <= FIELDS[each["kind"]]


@pytest.mark.slow
@pytest.mark.parametrize("folder", ["namespace", *FLEETS])
def test_what_kustomize_makes_is_valid_by_kubernetes_schema(folder: str) -> None:
    validate(rendered(KUBERNETES / folder))


@pytest.mark.parametrize("folder", ["namespace", *FLEETS])
def test_what_kustomize_makes_is_in_the_namespace(folder: str) -> None:
    objects = rendered(KUBERNETES / folder)
    named = [it for it in objects if it["kind"] != "Namespace"]
    assert {it["metadata"]["namespace"] for it in named} == {"agentgym"}


def test_the_monitoring_is_made_by_kustomize_with_its_dashboard() -> None:
    objects = rendered(DEPLOY / "monitoring")
    dashboard = only(objects, "ConfigMap")
    text = (DEPLOY / "monitoring" / "dashboard.json").read_text()
    assert dashboard["data"] == {"agentgym.json": text}


@pytest.mark.parametrize("fleet", FLEETS)
def test_a_fleets_arguments_are_the_servers_and_its_numbers_fit_together(fleet: str) -> None:
    objects = rendered(KUBERNETES / fleet)
    deployment, scaler = only(objects, "Deployment"), only(objects, "HorizontalPodAutoscaler")
    pod, server = deployment["spec"]["template"]["spec"], container(deployment)
    flags = tyro.cli(Serve, args=server["args"])
    assert set(flags.environments) <= set(environment_names())
    assert server["image"].startswith(f"agentgym/{fleet}:")
    ports = {it["name"]: it["containerPort"] for it in server["ports"]}
    assert flags.bind == (f"0.0.0.0:{ports['grpc']}",)
    assert (flags.metrics_host, flags.metrics_port) == ("0.0.0.0", ports["metrics"])
    mounted = {it["mountPath"] for it in server["volumeMounts"]}
    tls = {path.parent for path in (flags.tls_cert, flags.tls_key, flags.client_ca) if path}
    assert {str(path) for path in tls} | {"/tmp"} == mounted
    for probe in ("startupProbe", "readinessProbe"):
        assert server[probe]["httpGet"] == {"path": "/ready", "port": "metrics"}
    assert server["livenessProbe"]["httpGet"] == {"path": "/live", "port": "metrics"}
    before = int(server["lifecycle"]["preStop"]["exec"]["command"][1])
    assert before + flags.drain + 10 <= pod["terminationGracePeriodSeconds"]
    (metric,) = scaler["spec"]["metrics"]
    assert int(metric["pods"]["target"]["averageValue"]) < flags.max_episodes
    assert scaler["spec"]["scaleTargetRef"]["name"] == deployment["metadata"]["name"]
    assert "replicas" not in deployment["spec"], "the autoscaler's number would be undone"


@pytest.mark.parametrize("fleet", FLEETS)
def test_all_that_selects_servers_selects_those_of_its_fleet(fleet: str) -> None:
    objects = rendered(KUBERNETES / fleet)
    labels = only(objects, "Deployment")["spec"]["template"]["metadata"]["labels"]
    assert labels == {"app.kubernetes.io/name": fleet, "app.kubernetes.io/part-of": "agentgym"}
    assert only(objects, "Service")["spec"]["selector"] == labels
    assert only(objects, "Service")["spec"]["clusterIP"] == "None"
    assert only(objects, "PodDisruptionBudget")["spec"]["selector"]["matchLabels"] == labels
    assert only(objects, "NetworkPolicy")["spec"]["podSelector"]["matchLabels"] == labels


def test_certificates_have_an_issuer_and_servers_mount_what_holds_theirs() -> None:
    objects = read(KUBERNETES / "namespace" / "certificates.yaml")
    issuers = {it["metadata"]["name"]: it["spec"] for it in objects if it["kind"] == "Issuer"}
    issued = {it["metadata"]["name"]: it["spec"] for it in objects if it["kind"] == "Certificate"}
    assert {it["issuerRef"]["name"] for it in issued.values()} == set(issuers)
    assert issuers["authority"]["ca"]["secretName"] == issued["authority"]["secretName"]
    deployment = read(KUBERNETES / "base" / "deployment.yaml")[0]
    volumes = {it["name"]: it for it in deployment["spec"]["template"]["spec"]["volumes"]}
    assert volumes["tls"]["secret"]["secretName"] == issued["server"]["secretName"]
    assert (issued["server"]["usages"], issued["client"]["usages"]) == (
        ["server auth"],
        ["client auth"],
    )


@pytest.mark.parametrize("fleet", FLEETS)
def test_the_name_that_runs_look_up_is_one_of_the_servers_certificate(fleet: str) -> None:
    service = only(rendered(KUBERNETES / fleet), "Service")["metadata"]
    name = f"{service['name']}.{service['namespace']}.svc.cluster.local"
    (served,) = (
        it["spec"]["dnsNames"]
        for it in read(KUBERNETES / "namespace" / "certificates.yaml")
        if it["metadata"]["name"] == "server" and it["kind"] == "Certificate"
    )
    # A wildcard stands for one label alone.
    assert f"*.{name.partition('.')[2]}" in served


def test_ports_are_asked_for_by_names_that_servers_have() -> None:
    server = container(read(KUBERNETES / "base" / "deployment.yaml")[0])
    policy = read(KUBERNETES / "base" / "networkpolicy.yaml")[0]["spec"]
    (service,) = read(KUBERNETES / "base" / "service.yaml")[0]["spec"]["ports"]
    (endpoint,) = read(DEPLOY / "monitoring" / "podmonitor.yaml")[0]["spec"]["podMetricsEndpoints"]
    let_in = {port["port"] for rule in policy["ingress"] for port in rule["ports"]}
    assert let_in == {it["name"] for it in server["ports"]}
    assert {service["targetPort"], endpoint["port"]} <= let_in


def test_servers_run_as_nobody_on_a_root_that_they_cannot_write() -> None:
    deployment = read(KUBERNETES / "base" / "deployment.yaml")[0]
    pod, server = deployment["spec"]["template"]["spec"], container(deployment)
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["automountServiceAccountToken"] is False
    assert server["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    user = pod["securityContext"]["runAsUser"]
    stages = CONTAINERFILE.read_text().split("\nFROM ")
    for stage in stages:
        users = re.findall(r"^USER (\S+)$", stage, re.MULTILINE)
        assert not users or users[-1] == f"{user}:{user}"


def test_each_fleet_has_an_image_whose_environments_it_serves() -> None:
    text = CONTAINERFILE.read_text()
    for fleet in FLEETS:
        stage = text.split(f"\nFROM server AS {fleet}\n")[1].split("\nFROM ")[0]
        command = re.search(r"^CMD \[(.*?)\]", stage, re.MULTILINE | re.DOTALL)
        assert command is not None
        served = tyro.cli(Serve, args=re.findall(r'"([^"]+)"', command[1])).environments
        patches = read(KUBERNETES / fleet / "kustomization.yaml")[0]["patches"]
        added = re.findall(r"args/-\n\s*value: (\w+)$", patches[0]["patch"], re.MULTILINE)
        assert tuple(added) == served


def test_the_context_of_a_build_has_what_the_wheel_is_made_of() -> None:
    ignored = CONTAINERFILE.with_name("Dockerfile.dockerignore").read_text().split()
    kept = {line[1:] for line in ignored if line.startswith("!")}
    root = DEPLOY.parent
    assert all((root / name).exists() for name in kept)
    project = (root / "pyproject.toml").read_text()
    wheel = project.split("[tool.hatch.build.targets.wheel]")[1].split("]")[0]
    packages = {name.split("/")[0] for name in re.findall(r'"([^"]+)"', wheel)}
    assert packages <= kept


def test_hadolint_has_nothing_to_say() -> None:
    if not shutil.which("hadolint"):
        pytest.skip("hadolint is not installed (the extra `deploy`)")
    done = subprocess.run(["hadolint", CONTAINERFILE], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")
