"""Instruments that draw ``WATTS`` all the time, behind their real protocols: HTTP servers, /sys trees, a program."""

import json
import os
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

WATTS = 250.0
_T0_S = time.monotonic()


def joules() -> float:
    """What has been drawn so far; far from 0, as real counters are."""
    return 5_000.0 + WATTS * (time.monotonic() - _T0_S)


class Asked:
    """A request as the server saw it."""

    def __init__(self, handler: BaseHTTPRequestHandler) -> None:
        self.method, self.path = handler.command, handler.path
        self.headers = {name.lower(): value for name, value in handler.headers.items()}
        self.body = handler.rfile.read(int(self.headers.get("content-length", 0)))

    @property
    def arguments(self) -> dict[str, str]:
        return {name: values[0] for name, values in parse_qs(urlsplit(self.path).query).items()}


#: (status, headers, body); a body that is not text goes out as JSON.
Reply = tuple[int, dict[str, str], object]
Script = Callable[[Asked], Reply]


class WebServer:
    def __init__(self, script: Script, certificate: Path | None = None) -> None:
        self.script, self.asked = script, list[Asked]()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def answer(self) -> None:
                asked = Asked(self)
                outer.asked.append(asked)
                status, headers, body = outer.script(asked)
                data = (body if isinstance(body, str) else json.dumps(body)).encode()
                self.send_response(status)
                for name, value in {**headers, "Content-Length": str(len(data))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST = do_DELETE = answer

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.url = f"{'https' if certificate else 'http'}://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@contextmanager
def serving(script: Script, certificate: Path | None = None) -> Iterator[WebServer]:
    server = WebServer(script, certificate)
    try:
        yield server
    finally:
        server.close()


def page(text: str, status: int = 200) -> Reply:
    return status, {"Content-Type": "text/plain"}, text


def dcgm_page(_: Asked) -> Reply:
    labels = 'gpu="0",UUID="GPU-aaaa",device="nvidia0",modelName="NVIDIA H200",Hostname="gpu-1"'
    return page(
        "# HELP DCGM_FI_DEV_POWER_USAGE Power draw (in W).\n"
        f"DCGM_FI_DEV_POWER_USAGE{{{labels}}} {WATTS}\n"
        f"DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{{{labels}}} {int(joules() * 1e3)}\n"
        f"DCGM_FI_DEV_GPU_TEMP{{{labels}}} 51\n"
    )


def amd_page(_: Asked) -> Reply:
    labels = 'gpu_id="0",card_model="Instinct MI300X",serial_number="SN-0",hostname="gpu-2",gpu_partition_id="0"'
    return page(
        f"gpu_package_power{{{labels}}} {WATTS}\n"
        f"gpu_energy_consumed{{{labels}}} {joules() * 1e6:.0f}\n"
        f"gpu_gfx_activity{{{labels}}} 88\n"
    )


def shelly(_: Asked) -> Reply:
    return 200, {}, {"id": 0, "output": True, "apower": WATTS, "voltage": 230.1, "aenergy": {"total": joules() / 3600}}


class Prometheus:
    """Answers range queries of power: one series, scraped every ``scrape_s``, over all time but ``gaps``."""

    def __init__(self, scrape_s: float = 0.1, watts: float = WATTS, gaps: tuple[tuple[float, float], ...] = ()) -> None:
        self.scrape_s, self.watts, self.gaps = scrape_s, watts, gaps
        self.labels = {"__name__": "DCGM_FI_DEV_POWER_USAGE", "UUID": "GPU-bbbb", "modelName": "NVIDIA H100"}

    def __call__(self, asked: Asked) -> Reply:
        told = asked.arguments
        start, end, step = (float(told[name]) for name in ("start", "end", "step"))
        if (end - start) / step > 11_000:
            error = {
                "status": "error",
                "errorType": "bad_data",
                "error": "exceeded maximum resolution of 11,000 points",
            }
            return 400, {}, error
        stamped = told["query"].startswith("timestamp(")
        values = []
        for number in range(int((end - start) / step) + 1):
            t_s = start + number * step
            scraped_s = t_s // self.scrape_s * self.scrape_s
            if t_s <= time.time() and not any(first <= t_s < last for first, last in self.gaps):
                values.append([t_s, str(scraped_s if stamped else self.value(scraped_s))])
        labels = {name: value for name, value in self.labels.items() if not (stamped and name == "__name__")}
        result = [{"metric": labels, "values": values}] if values else []
        return 200, {}, {"status": "success", "data": {"resultType": "matrix", "result": result}}

    def value(self, t_s: float) -> float:
        return self.watts


def redfish(environment: bool = True, chassis: str = "1U") -> Script:
    """A controller of one chassis, in the newer form or the older one."""
    root = f"/redfish/v1/Chassis/{chassis}"

    def script(asked: Asked) -> Reply:
        kind = "EnvironmentMetrics" if environment else "Power"
        pages: dict[str, object] = {
            "/redfish/v1/Chassis": {"Members": [{"@odata.id": root}]},
            root: {"Id": chassis, "Manufacturer": "Contoso", "Model": "3500", kind: {"@odata.id": f"{root}/{kind}"}},
            f"{root}/EnvironmentMetrics": {"PowerWatts": {"Reading": WATTS}, "TemperatureCelsius": {"Reading": 39}},
            f"{root}/Power": {
                "PowerControl": [
                    {"MemberId": "1", "PhysicalContext": "CPU", "PowerConsumedWatts": 120},
                    {"MemberId": "0", "PhysicalContext": "Chassis", "PowerConsumedWatts": WATTS},
                ]
            },
        }
        return (200, {}, pages[asked.path]) if asked.path in pages else (404, {}, {"error": {}})

    return script


class Tree:
    """A /sys tree whose counters run; ``counters``: file -> factor from joules. Files are replaced whole."""

    def __init__(self, root: Path, files: dict[str, str], counters: dict[str, float] | None = None) -> None:
        self.root, self._counters = root, counters or {}
        for name, text in files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(f"{text}\n")
        self._stop = threading.Event()
        self._tick()
        threading.Thread(target=self._run, daemon=True).start()

    def close(self) -> None:
        self._stop.set()

    def _run(self) -> None:
        while not self._stop.wait(0.02):
            self._tick()

    def _tick(self) -> None:
        for name, factor in self._counters.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            draft = path.with_suffix(".new")
            draft.write_text(f"{int(joules() * factor)}\n")
            os.replace(draft, path)


def powercap(root: Path) -> Tree:
    files = {"intel-rapl:0/name": "package-0", "intel-rapl:0/max_energy_range_uj": "262143328850"}
    return Tree(root, files, {"intel-rapl:0/energy_uj": 1e6})


def intel_gpu(root: Path) -> Tree:
    return Tree(root, {"hwmon3/name": "i915", "hwmon3/power1_max": "600000000"}, {"hwmon3/energy1_input": 1e6})


def grace(root: Path) -> Tree:
    """Four meters of one socket, as on Grace; the CPU side whole draws ``WATTS``."""
    files: dict[str, str] = {}
    for number, (label, watts) in enumerate(
        (("Module", 600.0), ("Grace", WATTS), ("CPU", WATTS / 2), ("SysIO", 6.0)), start=1
    ):
        folder = f"hwmon{number}"
        files[f"{folder}/name"] = "power_meter"
        files[f"{folder}/device/power1_average"] = str(int(watts * 1e6))
        files[f"{folder}/device/power1_oem_info"] = f"{label} Power Socket 0"
        files[f"{folder}/device/power1_average_interval"] = "50"
    return Tree(root, files)


def ipmitool(folder: Path, words: str = "", status: int = 0) -> None:
    """Puts a program of that name into a folder, which says what the real one says."""
    said = words or (
        f"\n    Instantaneous power reading:              {WATTS:5.0f} Watts\n"
        "    Minimum during sampling period:              8 Watts\n"
        "    Average power reading over sample period:  240 Watts\n"
        "    IPMI timestamp:                           Sun Nov 29 20:35:22 2026\n"
        "    Sampling period:                          00000001 Seconds.\n"
        "    Power reading state is:                   activated\n"
    )
    (folder / "said").write_text(said)
    tool = folder / "ipmitool"
    tool.write_text(f'#!/bin/sh\n[ "$*" = "dcmi power reading" ] || exit 9\ncat "{folder}/said"\nexit {status}\n')
    tool.chmod(0o755)


def smi_log(path: Path, seconds: float, unit: bool = True, head: str = "", end_s: float | None = None) -> None:
    """What nvidia-smi -lms 100 writes for one GPU until ``end_s`` (since 1970; now by default), in UTC."""
    end_s = time.time() if end_s is None else end_s
    lines = [head or "timestamp, uuid, name, power.draw [W], temperature.gpu"]
    for number in range(int(seconds * 10)):
        t_s = end_s - seconds + number / 10
        told = time.strftime("%Y/%m/%d %H:%M:%S", time.gmtime(t_s)) + f".{int(t_s % 1 * 1000):03d}"
        lines.append(f"{told}, GPU-cccc, NVIDIA A100-SXM4-80GB, {WATTS:.2f}{' W' if unit else ''}, 45")
    path.write_text("\n".join(lines) + "\n")
