"""What the demo needs in the database: tables, catalog, a login, and a benchmark of the embedded engine."""

import os
import secrets
from decimal import Decimal
from importlib.metadata import version
from pathlib import Path

from django.conf import settings
from django.contrib.auth.models import User
from django.core.management import call_command

from observatory.benchmarks.models import Benchmark
from observatory.catalog.models import Deployment, Endpoint
from runners.engines.packaged import MODEL_NAME

NAME = "demo"
ADMIN = "admin"


def prepare() -> User:
    """Tables, catalog and the administrator. May be called as often as one likes."""
    call_command("migrate", verbosity=0)
    call_command("seed", stdout=open(os.devnull, "w"))  # noqa: SIM115
    return _administrator()


def _password_file() -> Path:
    return Path(settings.VAR_DIR) / "admin_password"


def _administrator() -> User:
    """The user admin; a new one gets a password of its own, kept in a file that only its owner can read."""
    user = User.objects.filter(username=ADMIN).first()
    if user is None:
        password = secrets.token_urlsafe(12)
        descriptor = os.open(_password_file(), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(password)
        user = User.objects.create_superuser(ADMIN, password=password)
    return user


def login_words(user: User) -> str:
    """How to log in: the generated password while it is still in use."""
    path = _password_file()
    password = path.read_text().strip() if path.exists() else ""
    known = bool(password) and user.check_password(password)
    return f"user {ADMIN}, password {password}" if known else f"user {ADMIN}, with the password that you gave it"


def benchmark(engine_url: str, user: User) -> Benchmark:
    """The demo benchmark of the embedded engine; what people changed in it stays changed.

    The engine may have another port at each start: its endpoint follows it.
    """
    endpoint, _ = Endpoint.objects.update_or_create(
        name=NAME,
        defaults={"url": engine_url},
        create_defaults={"url": engine_url, "model": MODEL_NAME, "created_by": user},
    )
    deployment, _ = Deployment.objects.get_or_create(
        name=NAME,
        defaults={
            "endpoint": endpoint,
            "engine": "llama.cpp",
            "engine_version": f"xllamacpp {version('xllamacpp')}",
            "precision": "q4_1",
            "runs_on_cpu": True,
            "accelerator_group": "this machine",
            "usd_per_hour": Decimal("0.0850"),
        },
    )
    found, _ = Benchmark.objects.get_or_create(
        name=NAME,
        defaults={
            "deployment": deployment,
            "workload": {"input_tokens": 32, "output_tokens": 24},
            "load": {"levels": [1, 2, 4, 8], "duration_s": 15, "warmup_s": 2},
            "created_by": user,
        },
    )
    return found
