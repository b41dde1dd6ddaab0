"""Raw results in a bucket instead of local files: a real S3 client against an S3 service in memory."""

import os
import signal
from collections.abc import Callable, Iterator
from io import BytesIO
from typing import Any

import boto3
import pyarrow.parquet as pq
import pytest
from django.contrib.auth.models import User
from django.test import Client
from moto.server import ThreadedMotoServer

from observatory.benchmarks.models import Benchmark
from observatory.runs import dispatch, states
from observatory.runs.models import Run
from tests.services.site import Site, wait_for

Make = Callable[..., Benchmark]
BUCKET = "results"
KEYS = {"AWS_ACCESS_KEY_ID": "AKIA", "AWS_SECRET_ACCESS_KEY": "s3cret", "AWS_DEFAULT_REGION": "us-east-1"}


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def bucket(address: str, site: Site, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Where this process and the site's workers keep their files."""
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    found = boto3.resource("s3", endpoint_url=address).create_bucket(Bucket=BUCKET)
    site.variables |= {**KEYS, "S3_BUCKET": BUCKET, "S3_ENDPOINT_URL": address}
    options = {"bucket_name": BUCKET, "endpoint_url": address}
    settings.STORAGES = {
        **settings.STORAGES,
        "default": {"BACKEND": "storages.backends.s3.S3Storage", "OPTIONS": options},
    }
    yield found
    found.objects.delete()
    found.delete()


def start(asked: Benchmark) -> Run:
    run = states.queue(asked, Run.Trigger.PAGE)
    assert dispatch.publish(run)
    return run


def keys(bucket: Any) -> list[str]:
    return [found.key for found in bucket.objects.all()]


def until(run: Run, wanted: str) -> None:
    def reached() -> bool:
        run.refresh_from_db()
        return run.status == wanted

    wait_for(reached, 40, f"for {wanted}")


def test_a_finished_run_has_its_rows_in_the_bucket_and_gives_them_back(
    site: Site, benchmark: Make, bucket: Any
) -> None:
    site.worker("bench")
    run = start(benchmark(requests=20))
    until(run, "finished")
    wait_for(lambda: keys(bucket) == [run.requests_file.name], 20, "for the parts to go")
    assert not (site.directory / "media").exists()
    client = Client()
    client.force_login(User.objects.get(username="ada"))
    given = b"".join(client.get(f"/runs/{run.pk}/requests.parquet"))
    assert pq.read_table(BytesIO(given)).num_rows == 20


def test_kill_9_of_the_worker_leaves_the_rows_that_reached_the_bucket(site: Site, benchmark: Make, bucket: Any) -> None:
    worker = site.worker("bench")
    site.worker("control")
    site.beat()
    run = start(benchmark(requests=2000))
    wait_for(lambda: len(site.sent()) > 60)
    os.killpg(worker.pid, signal.SIGKILL)
    worker.wait(10)
    until(run, "lost")
    with run.requests_file.open() as file:
        assert len(site.sent()) * 0.5 < pq.read_table(file).num_rows <= len(site.sent())
    wait_for(lambda: keys(bucket) == [run.requests_file.name], 20, "for the parts to go")
