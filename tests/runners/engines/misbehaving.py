"""An engine for tests: ``misbehaving.py PORT HOW`` serves, or fails to, with a child that outlives it if it can."""

import subprocess
import sys
import time
from http.server import BaseHTTPRequestHandler, HTTPServer


class Server(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        found = {"/v1/models": b'{"data": [{"id": "one"}]}', "/version": b'{"version": "1.2.3"}'}.get(self.path)
        self.send_response(200 if found else 404)
        self.send_header("Content-Length", str(len(found or b"")))
        self.end_headers()
        self.wfile.write(found or b"")


def main(port: int, how: str) -> None:
    # In a session of its own, as the workers of some engines are.
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", f"child-of-{port}"], start_new_session=True)
    if how == "ends":
        print("no memory left on device 0", flush=True)
        sys.exit(7)
    if how == "buries":
        print("(worker pid=7) ERROR 11-30 [core.py:9] ValueError: longest prompt does not fit: 480", flush=True)
        print("\n".join(f"  File {line}" for line in range(50)), "RuntimeError: see above", sep="\n", flush=True)
        sys.exit(1)
    if how == "hangs":
        print("loading shard 1 of 9", flush=True)
        time.sleep(600)
    if how == "deaf":
        import signal

        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    HTTPServer(("127.0.0.1", port), Server).serve_forever()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
