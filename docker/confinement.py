"""Look from inside and from outside whether the running services are as closed as compose.yaml says.

Every function raises ContainerError where something is open that should not be, and returns what it saw.
"""

import json
import math
import re
from pathlib import Path

import httpx

from docker.containers import ContainerError, Project
from docker.secret_files import UI_USER
from tasks.cli.keys import DASK_FILES

KNOCK = Path(__file__).parents[1] / "tests" / "other_account.py"
DASK_MANNERS = {"plain", "no certificate", "a certificate of its own"}

# Read with a shell alone, which PostgreSQL's image has, too. The kernel's files for limits are those of cgroups 1 or 2.
LOOK = r"""
grep -E '^(Uid|CapEff|CapBnd|NoNewPrivs):' /proc/self/status
cd /sys/fs/cgroup
echo "memory: $(cat memory.max 2>/dev/null || cat memory/memory.limit_in_bytes)"
echo "pids: $(cat pids.max 2>/dev/null || cat pids/pids.max)"
echo "cpu: $(cat cpu.max 2>/dev/null || echo $(cat cpu/cpu.cfs_quota_us cpu/cpu.cfs_period_us))"
echo "root: $(grep -E '^[^ ]+ / ' /proc/mounts | cut -d ' ' -f 4 | cut -d , -f 1)"
(: > /written) 2>/dev/null && echo 'written: yes' || echo 'written: no'
"""


def look_inside(project: Project, service: str) -> dict[str, str]:
    """Return user, capabilities, limits and file system of each container of a service, as the kernel applies them."""
    limits = project.topology.services[service].limits
    for container in project.containers(service):
        seen = read_look(project.engine.text("exec", container, "sh", "-c", LOOK))
        quota, period = (float(number) for number in seen["cpu"].split())
        found = {
            "user": int(seen["Uid"].split()[1]) == limits.user != 0,
            "capabilities": int(seen["CapEff"], 16) == int(seen["CapBnd"], 16) == 0,
            "new privileges": seen["NoNewPrivs"] == "1",
            "memory": seen["memory"] == str(limits.memory_bytes),
            "processes": seen["pids"] == str(limits.processes),
            "processors": math.isclose(quota / period, limits.cpus),
            "root file system": (seen["root"], seen["written"]) == ("ro", "no") and limits.read_only,
        }
        wrong = [name for name, right in found.items() if not right]
        if wrong:
            raise ContainerError(
                f"{container} is not as compose.yaml says: {', '.join(wrong)}",
                where=str(seen),
                remedy="see above",
            )
    return seen


def read_look(text: str) -> dict[str, str]:
    """Return the lines `name: value` that the shell printed."""
    return dict(re.findall(r"^(\w+):\s*(.*?)\s*$", text, re.MULTILINE))


def ask_the_ui(url: str, passwords: Path) -> dict[str, int]:
    """Return Airflow's answers to nobody, to a wrong and to the right password; only the last may be let in."""
    password = json.loads(passwords.read_text())[UI_USER]
    with httpx.Client(base_url=url, trust_env=False, timeout=60) as http:

        def log_in(word: str) -> httpx.Response:
            return http.post("/auth/token", json={"username": UI_USER, "password": word})

        answers = {
            "DAGs without login": http.get("/api/v2/dags").status_code,
            "a run without login": http.post("/api/v2/dags/release_series/dagRuns", json={}).status_code,
            "a token without password": http.get("/auth/token").status_code,
            "the password 'admin'": log_in("admin").status_code,
        }
        token = log_in(password)
        answers["the right password"] = token.status_code
        if token.is_success:
            header = {"Authorization": f"Bearer {token.json()['access_token']}"}
            answers["DAGs with it"] = http.get("/api/v2/dags", headers=header).status_code
    refused = [
        code in (401, 403) for what, code in answers.items() if "right" not in what and "with it" not in what
    ]
    if not all(refused) or (answers["the right password"], answers.get("DAGs with it")) != (201, 200):
        raise ContainerError(
            f"Airflow's answers are wrong: {answers}", where=url, remedy="look at its accounts"
        )
    return answers


def knock_at_dask(project: Project, image: str, secrets: Path) -> dict[str, dict[str, str]]:
    """Connect to scheduler and workers from a container in their network, in four manners; one is the right one."""
    addresses = ["tls://dask-scheduler:8786"]
    addresses += [f"tls://{container}:8787" for container in project.containers("dask-worker")]
    owner = [(secrets / name).read_text() for name in DASK_FILES.values()]
    question = {"addresses": addresses, "owner": owner, "uid": None, "postgres": None}
    mounted = f"--volume={KNOCK}:/tests/other_account.py:ro"
    program = ("--user=10001:10001", mounted, "--", "python", "/tests/other_account.py")
    answer = project.run(image, "backend", *program, stdin=json.dumps(question).encode())
    found = json.loads(answer)
    right = dict.fromkeys(DASK_MANNERS, "refused") | {"the owner's certificate": "accepted"}
    if found != dict.fromkeys(addresses, right):
        raise ContainerError(
            f"Dask's answers are wrong: {found}", where="backend", remedy="look at the certificates"
        )
    return found


def find_secrets_in_logs(project: Project, secrets: Path) -> int:
    """Search what all containers printed and Airflow's logs for every secret; return how many bytes were searched."""
    words = [file.read_bytes() for file in secrets.iterdir() if file.name not in ("dask_certificate",)]
    words += [
        str(word).encode() for word in json.loads((secrets / "airflow_passwords.json").read_text()).values()
    ]
    scheduler = project.containers("scheduler")[0]
    texts = {
        "Airflow's logs": project.engine.call(
            "exec", scheduler, "sh", "-c", "cat $(find /logs -type f)"
        ).stdout
    }
    for service in project.topology.services:
        texts |= {container: project.log(container) for container in project.containers(service)}
    for place, text in texts.items():
        if any(word in text for word in words):
            raise ContainerError("a secret is in a log", where=place, remedy="find the line that prints it")
    return sum(map(len, texts.values()))
