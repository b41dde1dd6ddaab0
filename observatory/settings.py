"""All settings, from the environment. With nothing set, a checkout runs on SQLite, an embedded Valkey and local files.

A secret may come as NAME or as NAME_FILE, the path of a file that holds it. docs/settings.md lists every variable.
"""

import os
import secrets
import shlex
import sys
from base64 import urlsafe_b64encode
from collections.abc import Callable
from pathlib import Path

import environ

BASE_DIR = Path(__file__).resolve().parent.parent
env = environ.FileAwareEnv()

VAR_DIR = Path(env.str("VAR_DIR", default=str(BASE_DIR / "var")))
VAR_DIR.mkdir(parents=True, exist_ok=True)


def _kept_secret(name: str, make: Callable[[], str]) -> str:
    """The secret from the environment, else one made at the first start and kept in VAR_DIR, readable by its owner."""
    given = env.str(name, default="")
    if given:
        return str(given)
    path = VAR_DIR / name.lower()
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return path.read_text().strip()
    with os.fdopen(descriptor, "w") as file:
        file.write(make())
    return path.read_text().strip()


DEBUG = env.bool("DEBUG", default=False)
SECRET_KEY = _kept_secret("SECRET_KEY", lambda: secrets.token_urlsafe(60))
SECRET_KEY_FALLBACKS = env.list("SECRET_KEY_FALLBACKS", default=[])
#: Fernet keys for fields encrypted at rest, newest first, comma-separated.
FIELD_KEYS = _kept_secret("FIELD_KEYS", lambda: urlsafe_b64encode(secrets.token_bytes(32)).decode()).split(",")
ALLOWED_HOSTS = env.list("ALLOWED_HOSTS", default=["localhost", "127.0.0.1", "[::1]"])
CSRF_TRUSTED_ORIGINS = env.list("CSRF_TRUSTED_ORIGINS", default=[])

INSTALLED_APPS = [
    "observatory.catalog",
    "observatory.benchmarks",
    "observatory.runs",
    "observatory.studies",
    "observatory.quality",
    "observatory.schedules",
    "observatory.api",
    "observatory.pages",
    "observatory.demo",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "whitenoise.runserver_nostatic",
    "django.contrib.staticfiles",
    "django_htmx",
    "django_tables2",
    "django_filters",
    "ninja",
    "csp",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "csp.middleware.CSPMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
]

ROOT_URLCONF = "observatory.urls"
WSGI_APPLICATION = "observatory.wsgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]

# Database: SQLite takes its write lock at once (IMMEDIATE), so that two writers wait instead of failing.
DATABASES = {"default": env.db("DATABASE_URL", default=f"sqlite:///{VAR_DIR / 'observatory.sqlite3'}")}
if DATABASES["default"]["ENGINE"] == "django.db.backends.sqlite3":
    DATABASES["default"]["OPTIONS"] = {
        "transaction_mode": "IMMEDIATE",
        "timeout": 20,
        "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA busy_timeout=20000",
    }
else:
    DATABASES["default"]["CONN_MAX_AGE"] = 60
    DATABASES["default"]["CONN_HEALTH_CHECKS"] = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# Endpoints that charge by the token: most that a run and a month may cost, and what must be confirmed by typing it.
MONEY_RUN_USD = env.float("MONEY_RUN_USD", default=10.0)
MONEY_MONTH_USD = env.float("MONEY_MONTH_USD", default=100.0)
MONEY_CONFIRM_USD = env.float("MONEY_CONFIRM_USD", default=1.0)

# Files: raw results. Local by default, S3 with S3_BUCKET.
MEDIA_ROOT = Path(env.str("MEDIA_ROOT", default=str(VAR_DIR / "media")))
#: Uploaded workload files: the most that one, and all together, may have.
WORKLOAD_FILE_MB = env.float("WORKLOAD_FILE_MB", default=100.0)
WORKLOAD_FILES_MB = env.float("WORKLOAD_FILES_MB", default=2000.0)
#: Model files that the quantization lab may read; uploads go there too.
MODELS_DIR = Path(env.str("MODELS_DIR", default=str(VAR_DIR / "models")))
S3_BUCKET = env.str("S3_BUCKET", default="")
STORAGES = {
    "default": {
        "BACKEND": "storages.backends.s3.S3Storage",
        "OPTIONS": {
            "bucket_name": S3_BUCKET,
            "endpoint_url": env.str("S3_ENDPOINT_URL", default="") or None,
            "access_key": env.str("AWS_ACCESS_KEY_ID", default="").strip() or None,
            "secret_key": env.str("AWS_SECRET_ACCESS_KEY", default="").strip() or None,
        },
    }
    if S3_BUCKET
    else {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
}

STATIC_URL = "static/"
STATICFILES_DIRS = [BASE_DIR / "observatory" / "static"]
WHITENOISE_USE_FINDERS = True

# Broker: a message only wakes a worker; the database is the truth. Hence early acknowledgement and no result backend.
BROKER_SOCKET = VAR_DIR / "valkey.sock"
CELERY_BROKER_URL = env.str("REDIS_URL", default=f"redis+socket://{BROKER_SOCKET}")
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_CONNECTION_MAX_RETRIES = None
CELERY_BROKER_TRANSPORT_OPTIONS = {
    "visibility_timeout": 3600,
    "socket_keepalive": True,
    "socket_connect_timeout": 3,
    "socket_timeout": 5,
    "health_check_interval": 25,
    "global_keyprefix": env.str("REDIS_PREFIX", default="observatory:"),
}
CELERY_TASK_PUBLISH_RETRY_POLICY = {"max_retries": 1, "interval_start": 0, "interval_step": 0.2}
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_ACKS_LATE = False
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_DISABLE_PREFETCH = True
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_TASK_SERIALIZER = "json"
CELERY_ACCEPT_CONTENT = ["json"]
CELERY_TASK_DEFAULT_QUEUE = "control"
CELERY_TASK_ROUTES = {
    "observatory.tasks.run_benchmark": {"queue": "bench"},
    "observatory.tasks.run_shard": {"queue": "bench"},
}
#: How often lost runs are looked for, waiting runs woken and schedules read.
TICK_S = env.float("TICK_S", default=15.0)
CELERY_BEAT_SCHEDULE = {"tick": {"task": "observatory.tasks.tick", "schedule": TICK_S, "options": {"expires": TICK_S}}}
CELERY_BEAT_SCHEDULER = "celery.beat:Scheduler"  # it only ticks: nothing to remember
CELERY_BEAT_MAX_LOOP_INTERVAL = TICK_S
CELERY_TIMEZONE = "UTC"

# Runs. The lease is renewed each second; a worker that could not for RUN_LEASE_S stops sending, and its run is declared
# lost. Partial rows are copied to storage each RUN_HEARTBEAT_S.
RUN_HEARTBEAT_S = env.float("RUN_HEARTBEAT_S", default=10.0)
RUN_LEASE_S = env.float("RUN_LEASE_S", default=60.0)
#: An instrument that says nothing for so long is taken for hung.
RUN_SILENCE_S = env.float("RUN_SILENCE_S", default=120.0)
#: How long a cancelled instrument may take to put its partial results down.
RUN_STOP_GRACE_S = env.float("RUN_STOP_GRACE_S", default=20.0)
#: How long a run of several load hosts waits for the others.
RUN_GATHER_S = env.float("RUN_GATHER_S", default=300.0)
#: How long a run waits for the power workers of the machines that serve; then it goes on without its energy.
RUN_POWER_WAIT_S = env.float("RUN_POWER_WAIT_S", default=30.0)
#: How the instrument is started, such as ``taskset -c 2,3 python -m runners bench`` to pin it.
RUN_COMMAND = shlex.split(env.str("RUN_COMMAND", default="")) or [sys.executable, "-m", "runners", "bench"]
#: Whether staff may write commands that workers run to start an engine.
ENGINE_COMMANDS = env.bool("ENGINE_COMMANDS", default=False)
QUALITY_COMMAND = shlex.split(env.str("QUALITY_COMMAND", default="")) or [sys.executable, "-m", "runners", "quality"]

# After LOGIN_TRIES failed logins of a user name from one address, the next one waits; each failure doubles the wait.
LOGIN_TRIES = env.int("LOGIN_TRIES", default=5)
LOGIN_WAIT_S = env.float("LOGIN_WAIT_S", default=30.0)
LOGIN_WINDOW_S = env.float("LOGIN_WINDOW_S", default=900.0)
LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "overview"
LOGOUT_REDIRECT_URL = "login"
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 10}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]

LANGUAGE_CODE = "en-gb"
TIME_ZONE = "UTC"
USE_TZ = True

# HTTPS=1 behind a TLS proxy: secure cookies, HSTS, redirect.
HTTPS = env.bool("HTTPS", default=False)
SECURE_SSL_REDIRECT = HTTPS
SESSION_COOKIE_SECURE = HTTPS
CSRF_COOKIE_SECURE = HTTPS
SECURE_HSTS_SECONDS = 31_536_000 if HTTPS else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = HTTPS
SECURE_HSTS_PRELOAD = HTTPS
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if HTTPS else None
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": ["'self'"],
        "script-src": ["'self'"],
        "style-src": ["'self'"],
        "img-src": ["'self'", "data:", "blob:"],
        "connect-src": ["'self'"],
        "object-src": ["'none'"],
        "base-uri": ["'none'"],
        "frame-ancestors": ["'none'"],
        "form-action": ["'self'"],
    }
}
