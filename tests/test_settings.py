import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
#: Read by compose itself, by the S3 client or by the instruments, not by settings.py.
ELSEWHERE = {
    "POWER_HOST",
    "WEB_ADDRESS",
    "WEB_PORT",
    "VLLM_PYTHON",
}

S3 = "settings.STORAGES['default']['OPTIONS']"


def variables_read() -> set[str]:
    """The first argument of each env.something(...) and _kept_secret(...) in settings.py."""
    names = set()
    for node in ast.walk(ast.parse((ROOT / "observatory/settings.py").read_text())):
        if not isinstance(node, ast.Call) or not node.args or not isinstance(node.args[0], ast.Constant):
            continue
        called = ast.unparse(node.func)
        if called.startswith(("env.", "os.environ")) or called == "_kept_secret":
            names.add(str(node.args[0].value))
    return names


def load(directory: Path, expression: str, **variables: str) -> str:
    """``expression`` over the settings, read by a Python of its own."""
    run = subprocess.run(
        [sys.executable, "-c", f"from observatory import settings; print({expression})"],
        env={"PATH": os.environ["PATH"], "VAR_DIR": str(directory), **variables},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return run.stdout.strip()


def test_every_setting_is_documented_and_nothing_else() -> None:
    documented = set(re.findall(r"^\| (.*?) \|", (ROOT / "docs/settings.md").read_text(), re.M))
    names = {name for cell in documented for name in re.findall(r"`([A-Z0-9_]+)`", cell)}
    assert len(variables_read()) >= 15
    assert names == variables_read() | ELSEWHERE


def test_the_example_file_has_every_setting_and_sets_none() -> None:
    lines = (ROOT / ".env.example").read_text().splitlines()
    assert {
        line[2:].split("=")[0] for line in lines if re.match(r"# [A-Z0-9_]+=", line)
    } == variables_read() | ELSEWHERE
    assert not [line for line in lines if line and not line.startswith("#")]


def test_the_web_application_starts_without_a_warning(tmp_path: Path) -> None:
    start = "import observatory.wsgi"
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", start],
        env={"PATH": os.environ["PATH"], "VAR_DIR": str(tmp_path), "DJANGO_SETTINGS_MODULE": "observatory.settings"},
        cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (run.returncode, run.stderr) == (0, "")


@pytest.mark.parametrize(
    ("name", "value", "expression", "read"),
    [
        ("SECRET_KEY", "s3cret", "settings.SECRET_KEY.strip()", "s3cret"),
        ("FIELD_KEYS", "a,b", "[key.strip() for key in settings.FIELD_KEYS]", "['a', 'b']"),
        ("DATABASE_URL", "postgres://u:p%40ss@h:5/n", "settings.DATABASES['default']['PASSWORD']", "p@ss"),
        ("AWS_ACCESS_KEY_ID", "AKIA", f"{S3}['access_key']", "AKIA"),
        ("AWS_SECRET_ACCESS_KEY", "s3cret", f"{S3}['secret_key']", "s3cret"),
        ("REDIS_URL", "redis://h:6379/0", "settings.CELERY_BROKER_URL", "redis://h:6379/0"),
    ],
)
def test_a_secret_may_come_from_a_file_that_ends_in_a_line_break(
    tmp_path: Path, name: str, value: str, expression: str, read: str
) -> None:
    (tmp_path / "secret").write_text(f"{value}\n")
    given = {f"{name}_FILE": str(tmp_path / "secret"), "S3_BUCKET": "results"}
    assert load(tmp_path, expression, **given) == read


def test_a_bucket_in_the_settings_keeps_raw_results_in_s3(tmp_path: Path) -> None:
    given = {"S3_BUCKET": "results", "S3_ENDPOINT_URL": "http://127.0.0.1:9000"}
    assert load(tmp_path, "settings.STORAGES['default']['BACKEND']", **given) == "storages.backends.s3.S3Storage"
    options = load(tmp_path, S3, **given)
    assert ast.literal_eval(options) == {
        "bucket_name": "results",
        "endpoint_url": "http://127.0.0.1:9000",
        "access_key": None,  # a role of the host, or what else the S3 client finds
        "secret_key": None,
    }
    assert "endpoint_url': None" in load(tmp_path, S3, S3_BUCKET="results")
    assert "FileSystemStorage" in load(tmp_path, "settings.STORAGES['default']['BACKEND']")


def test_a_run_whose_worker_vanished_is_lost_within_two_minutes(tmp_path: Path) -> None:
    """Its lease ends; a tick sees that and gives it one heartbeat more; the tick after that takes it for lost."""
    longest = "settings.RUN_LEASE_S + settings.RUN_HEARTBEAT_S + 2 * settings.TICK_S"
    assert 0 < float(load(tmp_path, longest)) <= 120


def test_secrets_that_are_not_given_are_made_once_and_readable_by_their_owner_alone(tmp_path: Path) -> None:
    first = load(tmp_path, "settings.SECRET_KEY, settings.FIELD_KEYS")
    assert load(tmp_path, "settings.SECRET_KEY, settings.FIELD_KEYS") == first
    assert {(tmp_path / name).stat().st_mode & 0o777 for name in ("secret_key", "field_keys")} == {0o600}


def test_nothing_set_means_sqlite_and_a_socket_in_the_state_folder(tmp_path: Path) -> None:
    assert load(tmp_path, "settings.DATABASES['default']['NAME']") == str(tmp_path / "observatory.sqlite3")
    assert load(tmp_path, "settings.CELERY_BROKER_URL") == f"redis+socket://{tmp_path}/valkey.sock"
