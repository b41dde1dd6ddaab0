"""docker-compose.yml and the Dockerfile: what must hold for a server that others reach."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml
from cryptography.fernet import Fernet

from observatory.runs.processes import kill_group, spawn
from tests.services.site import wait_for

ROOT = Path(__file__).resolve().parents[1]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = ["web", "bench", "control", "beat", "bench-gpu", "power-gpu", "setup"]


def test_every_part_is_there() -> None:
    assert sorted(SERVICES) == sorted([*OURS, "redis", "postgres"])
    assert SERVICES["bench-gpu"]["profiles"] == ["gpu-host"]
    assert [name for name, service in SERVICES.items() if "profiles" in service] == ["bench-gpu", "power-gpu"]


def test_only_the_web_port_is_published_and_by_default_to_this_host_alone() -> None:
    assert [name for name, service in SERVICES.items() if "ports" in service] == ["web"]
    assert SERVICES["web"]["ports"] == ["${WEB_ADDRESS:-127.0.0.1}:${WEB_PORT:-8000}:8000"]
    assert not [name for name, service in SERVICES.items() if service.get("network_mode") or service.get("privileged")]


def test_database_and_broker_are_on_a_network_without_a_way_out() -> None:
    assert COMPOSE["networks"]["inside"]["internal"] is True
    assert SERVICES["redis"]["networks"] == SERVICES["postgres"]["networks"] == ["inside"]


def test_every_service_that_keeps_running_has_a_health_check_and_restarts() -> None:
    for name, service in SERVICES.items():
        if name != "setup":
            assert service["healthcheck"]["test"][0] in ("CMD", "CMD-SHELL"), name
            assert service["restart"] == "unless-stopped", name
    assert SERVICES["setup"]["restart"] == "no"


def test_all_parts_wait_for_migrations_and_seed() -> None:
    assert SERVICES["setup"]["command"][-1] == "python manage.py migrate --no-input && python manage.py seed"
    for name in set(OURS) - {"setup"}:
        assert SERVICES[name]["depends_on"]["setup"] == {"condition": "service_completed_successfully"}


def test_secrets_come_from_files_only_and_each_is_defined() -> None:
    for name, service in SERVICES.items():
        assert set(service.get("secrets", [])) <= set(COMPOSE["secrets"]), name
        for variable, value in service.get("environment", {}).items():
            if re.search(r"(SECRET_KEY|FIELD_KEYS|DATABASE_URL|PASSWORD)$", variable):
                pytest.fail(f"{name}: {variable} holds a secret; give {variable}_FILE")
            if variable.endswith("_FILE"):
                assert value.removeprefix("/run/secrets/") in service["secrets"], (name, variable)


def test_the_broker_keeps_messages_and_never_evicts_them() -> None:
    command = SERVICES["redis"]["command"]
    assert command[command.index("--maxmemory-policy") + 1] == "noeviction"
    assert command[command.index("--appendonly") + 1] == "yes"


def test_our_containers_have_no_rights_to_lose() -> None:
    for name in OURS:
        service = SERVICES[name]
        assert (service["read_only"], service["cap_drop"], service["init"]) == (True, ["ALL"], True), name
        assert service["security_opt"] == ["no-new-privileges:true"], name


def test_each_queue_that_tasks_go_to_has_a_worker(settings: Any) -> None:
    queues = {route["queue"] for route in settings.CELERY_TASK_ROUTES.values()} | {settings.CELERY_TASK_DEFAULT_QUEUE}
    served = {
        command[command.index("-Q") + 1] for name in OURS if "-Q" in (command := SERVICES[name].get("command", []))
    }
    assert served == queues | {"power.${POWER_HOST:-gpu}"}
    assert SERVICES["bench"]["command"][SERVICES["bench"]["command"].index("-c") + 1] == "1"


@pytest.mark.parametrize("name", ["bench", "control", "beat", "bench-gpu", "power-gpu"])
def test_the_celery_commands_are_known_to_celery(name: str) -> None:
    program, *options = SERVICES[name]["command"]
    known = subprocess.run(
        [Path(sys.executable).with_name(program), *options[:3], "--help"],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=ROOT,
    ).stdout
    for option in options[3:]:
        if option.startswith("-"):
            assert re.search(rf"(^|[\s,/]){option}\b", known), option


def test_volumes_and_networks_are_all_defined() -> None:
    for name, service in SERVICES.items():
        assert {volume.split(":")[0] for volume in service.get("volumes", [])} <= set(COMPOSE["volumes"]), name
        assert set(service["networks"]) <= set(COMPOSE["networks"]), name


def test_variables_passed_through_are_documented() -> None:
    used = set(re.findall(r"\$\{([A-Z0-9_]+)", (ROOT / "docker-compose.yml").read_text()))
    assert used <= set(re.findall(r"`([A-Z0-9_]+)`", (ROOT / "docs/settings.md").read_text()))


def test_the_image_runs_as_a_user_without_rights_and_starts_in_exec_form() -> None:
    lines = (ROOT / "Dockerfile").read_text().replace("\\\n", "").splitlines()
    assert "USER 10001" in lines
    assert next(line for line in lines if line.startswith("CMD")).startswith('CMD ["gunicorn"')
    assert [line for line in lines if "pip" in line and line.startswith("RUN")] == [
        'RUN ["python", "-m", "pip", "install", "--no-deps", "--require-hashes", "-r", "requirements/base.txt"]'
    ]


def test_the_images_command_serves_with_the_secrets_in_files(tmp_path: Path) -> None:
    """The same command, on the database that the set-up service leaves; without a broker it serves and says so."""
    values = {
        "SECRET_KEY": "s" * 60,
        "FIELD_KEYS": Fernet.generate_key().decode(),
        "DATABASE_URL": f"sqlite:///{tmp_path}/db",
    }
    for name, value in values.items():
        (tmp_path / name).write_text(f"{value}\n")
    secret_files = {f"{name}_FILE": str(tmp_path / name) for name in values}
    env = {"PATH": os.environ["PATH"], "VAR_DIR": str(tmp_path), **secret_files}
    for step in ("migrate", "seed"):
        subprocess.run([sys.executable, "manage.py", step, "-v0"], env=env, cwd=ROOT, check=True, timeout=120)
    port = _free_port()
    argv = [word.replace("0.0.0.0:8000", f"127.0.0.1:{port}") for word in _image_command()]
    with (tmp_path / "log").open("wb") as log:
        web = spawn(
            [str(Path(sys.executable).with_name(argv[0])), *argv[1:]],
            env=env,
            cwd=str(ROOT),
            stdout=log,
            stderr=log,
            death_signal=signal.SIGKILL,
        )
    try:
        wait_for(lambda: "Booting worker" in (tmp_path / "log").read_text(), 60)
        answer = requests.get(f"http://127.0.0.1:{port}/healthz", timeout=20)
        assert answer.json() == {"status": "down", "database": "ok", "broker": "down"}
        assert requests.get(f"http://127.0.0.1:{port}/api/v1/sites", timeout=20).json()["code"] == "token_missing"
    finally:
        kill_group(web)


def _image_command() -> list[str]:
    text = (ROOT / "Dockerfile").read_text().replace("\\\n", "")
    return [str(word) for word in json.loads(text[text.rindex("CMD ") + 4 :])]


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def test_what_the_image_copies_is_not_ignored_and_all_else_is() -> None:
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", (ROOT / "Dockerfile").read_text(), re.M)
    ignore = (ROOT / ".dockerignore").read_text().splitlines()
    assert "*" in ignore
    for source in " ".join(copied).split():
        assert {f"!{source}", f"!{source.split('/')[0]}"} & set(ignore), source
        assert (ROOT / source).exists(), source


def against_the_specification(path: Path) -> "subprocess.CompletedProcess[str]":
    """Checked by the JSON schema of the Compose specification, without network."""
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", str(path)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_the_file_follows_the_compose_specification() -> None:
    checked = against_the_specification(ROOT / "docker-compose.yml")
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_a_misspelt_key_is_found(tmp_path: Path) -> None:
    text = (ROOT / "docker-compose.yml").read_text()
    wrong = tmp_path / "docker-compose.yml"
    wrong.write_text(text.replace("stop_grace_period", "stop_grace_time"))
    checked = against_the_specification(wrong)
    assert checked.returncode == 1
    assert "stop_grace_time" in checked.stdout
