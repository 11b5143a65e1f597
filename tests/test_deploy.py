"""What stands in deploy/ is read by its own tools, as far as they go without containers."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

DEPLOY = Path(__file__).resolve().parents[1] / "deploy"
# The sections of KubeRay's chart ray-cluster (values.yaml of August 2026).
_CHART = {
    "image": {"repository", "tag", "pullPolicy"},
    "common": {"containerEnv"},
    "head": {"rayStartParams", "containerEnv", "resources", "volumes", "volumeMounts"},
    "worker": {"groupName", "replicas", "minReplicas", "maxReplicas", "rayStartParams"}
    | {"containerEnv", "resources", "volumes", "volumeMounts"},
}


def read(name: str) -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load((DEPLOY / name).read_text(encoding="utf-8"))
    return content


def test_ray_takes_its_cluster_file() -> None:
    util = pytest.importorskip("ray.autoscaler._private.util")
    config = util.prepare_config(read("ray-cluster.yaml"))
    util.validate_config(config)
    started = " ".join(config["head_start_ray_commands"] + config["worker_start_ray_commands"])
    assert started.count("RAY_AUTH_MODE=token") == 2


def test_compose_takes_its_file() -> None:
    program = shutil.which("docker-compose")
    if program is None:
        pytest.skip("docker-compose is not installed")
    words = [program, "-f", str(DEPLOY / "compose.yaml"), "config"]
    secrets = {"MINIO_USER": "x", "MINIO_PASSWORD": "y", "PATH": "/usr/bin:/bin"}
    done = subprocess.run(words, env=secrets, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_ports_of_compose_are_of_this_machine_alone() -> None:
    for service in read("compose.yaml")["services"].values():
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ()))


def test_values_are_those_of_the_chart() -> None:
    values = read("kuberay-values.yaml")
    assert values.keys() == _CHART.keys()
    for section, keys in values.items():
        assert keys.keys() <= _CHART[section], section


def test_containers_run_without_root_and_tell_whether_they_are_well() -> None:
    lines = (DEPLOY / "Dockerfile").read_text(encoding="utf-8").splitlines()
    assert lines.count("USER 10001:10001") == 2 and any(
        one.startswith("HEALTHCHECK") for one in lines
    )
    program = shutil.which("hadolint", path=str(Path(sys.executable).parent))
    if program is None:
        pytest.skip("hadolint is not installed")
    done = subprocess.run([program, str(DEPLOY / "Dockerfile")], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_workflows_do_what_the_makefile_and_the_scripts_offer() -> None:
    root = DEPLOY.parent
    commands = []
    for file in (root / ".github" / "workflows").glob("*.yml"):
        jobs = yaml.safe_load(file.read_text(encoding="utf-8"))["jobs"].values()
        commands += [step["run"] for job in jobs for step in job["steps"] if "run" in step]
    targets = re.findall(r"^([a-z-]+):", (root / "Makefile").read_text(encoding="utf-8"), re.M)
    made = {one.split()[1] for one in commands if one.startswith("make ")}
    assert {"check", "test", "demo", "docs", "test-all"} == made <= {*targets}
    for script in re.findall(r"scripts/\w+", "\n".join(commands)):
        assert (root / script).is_file(), script
