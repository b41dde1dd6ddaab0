"""A real PostgreSQL server on a Unix socket, that can be stopped in the middle of things and started again."""

import os
import pwd
import shutil
import subprocess
import tempfile
from pathlib import Path

BIN = Path(os.environ.get("PG_BIN", "/usr/lib/postgresql/15/bin"))


def missing() -> bool:
    return not (BIN / "postgres").exists()


class Postgres:
    """Needs a short path (a socket's has 107 bytes at most) and, as root, the user ``postgres``."""

    def __init__(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="pg-"))
        self._as: dict[str, object] = {}
        if os.getuid() == 0:
            user = pwd.getpwnam("postgres")
            os.chown(self.directory, user.pw_uid, user.pw_gid)
            self._as = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        self._run("initdb", "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync", "--locale=C.UTF-8")

    def _run(self, program: str, *options: str) -> None:
        subprocess.run(
            [str(BIN / program), "-D", str(self.directory / "data"), *options],
            check=True,
            cwd=self.directory,
            timeout=60,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"},
            **self._as,  # type: ignore[call-overload]
        )

    def url(self, database: str) -> str:
        return f"postgres://postgres@/{self.directory}/{database}"

    def start(self) -> None:
        settings = "-c listen_addresses='' -c fsync=off -c shared_buffers=64MB -c max_connections=50"
        log = str(self.directory / "log")
        self._run("pg_ctl", "-w", "-l", log, "-o", f"-k {self.directory} {settings}", "start")

    def stop(self) -> None:
        """As if the power went: connections are cut, nothing is finished."""
        self._run("pg_ctl", "-m", "immediate", "-w", "stop")

    def remove(self) -> None:
        shutil.rmtree(self.directory)
