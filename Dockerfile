# One image for every part: web, workers, beat and the one-shot set-up differ by command only.
FROM gcc:14-bookworm AS load
WORKDIR /built
COPY runners/load/receiver.c runners/load/repeats.c runners/load/timing_server.c ./
RUN ["gcc", "-O2", "-std=gnu11", "-fPIC", "-shared", "-o", "/built/libload.so", "receiver.c", "repeats.c"]
RUN ["gcc", "-O2", "-std=gnu11", "-o", "/built/timing_server", "timing_server.c"]

FROM python:3.11-slim-bookworm

ENV PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    PIP_NO_CACHE_DIR=1 \
    PIP_DISABLE_PIP_VERSION_CHECK=1

WORKDIR /app
COPY requirements/base.txt requirements/base.txt
RUN ["python", "-m", "pip", "install", "--no-deps", "--require-hashes", "-r", "requirements/base.txt"]

# The media folder exists in the image, so that a fresh volume on it belongs to the same user.
RUN useradd --system --uid 10001 --create-home --home-dir /var/lib/observatory observatory \
    && install -d -o observatory -g observatory /var/lib/observatory/media

COPY manage.py pyproject.toml CHANGELOG.md ./
COPY runners runners
COPY --from=load /built/libload.so /built/timing_server runners/load/
COPY observatory observatory
COPY templates templates

ENV VAR_DIR=/var/lib/observatory
USER 10001
EXPOSE 8000
CMD ["gunicorn", "observatory.wsgi", "--bind", "0.0.0.0:8000", "--workers", "2", "--threads", "4", "--timeout", "120", \
     "--worker-tmp-dir", "/dev/shm", "--no-control-socket", "--access-logfile", "-"]
