"""A stand-in for Kubernetes: the part of its API that Spark asks for, and executors as processes of
this machine, by the entry point of their image."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
from base64 import b64encode
from contextlib import suppress
from hashlib import sha1
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from epochfence.checker.native.cache import object_cache

ROOT = Path(__file__).parents[3]
ADDRESS = "127.0.0.1"


def entry_point(stage: str) -> list[str]:
    """The entry point of an image in the Dockerfile, by this environment's programs."""
    text = (ROOT / "Dockerfile").read_text()
    (words,) = re.findall(rf"^FROM \S+ AS {stage}\n(?:(?!FROM ).*\n)*?ENTRYPOINT (.*)$", text, re.M)
    program, *rest = json.loads(words)
    return [str(Path(sys.executable).parent / program), *rest]


class Kubelet:
    """The API server on loopback, at `url`. A pod that is created becomes a process."""

    def __init__(self) -> None:
        self.pods: dict[str, Any] = {}
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.folder = Path(tempfile.mkdtemp())
        self.asked: list[tuple[str, str]] = []
        self._server = ThreadingHTTPServer((ADDRESS, 0), self._handler())
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        """The address that a driver gets."""
        return f"http://{ADDRESS}:{self._server.server_address[1]}"

    def __enter__(self) -> Kubelet:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        for name in list(self.pods):
            self.delete(name)
        shutil.rmtree(self.folder)

    def add(self, pod: Any) -> Any:
        """A pod as the API has it."""
        name = pod["metadata"]["name"]
        pod["metadata"] |= {
            "uid": f"uid-of-{name}",
            "resourceVersion": str(len(self.pods) + 1),
            "creationTimestamp": "2026-01-01T00:00:00Z",
        }
        pod["status"] = {"phase": "Running", "podIP": ADDRESS}
        self.pods[name] = pod
        return pod

    def run(self, pod: Any) -> None:
        """Starts the container of an executor's pod."""
        name = pod["metadata"]["name"]
        (container,) = pod["spec"]["containers"]
        place = self.folder / name
        place.mkdir()
        fields = {"status.podIP": ADDRESS, "metadata.name": name}
        own = {
            each["name"]: each.get("value")
            or fields.get(each.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath"), "")
            for each in container["env"]
        }
        own["SPARK_LOCAL_DIRS"] = str(place)  # in place of an empty volume
        names = ("PATH", "JAVA_HOME", object_cache.VARIABLE)
        kept = {name: os.environ[name] for name in names if name in os.environ}
        with (place / "log").open("wb") as log:
            self.processes[name] = subprocess.Popen(
                [*entry_point("executor"), *container["args"]],
                cwd=place,
                env={**kept, "HOME": str(place), **own},
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def delete(self, name: str) -> None:
        """Ends a pod."""
        self.pods.pop(name, None)
        process = self.processes.pop(name, None)
        if process is not None:
            process.kill()
            process.wait()

    def logs(self) -> str:
        """All that executors have said."""
        return "\n".join(path.read_text() for path in self.folder.glob("*/log"))

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        return type("_Handler", (_Handler,), {"kubelet": self})


class _Handler(BaseHTTPRequestHandler):
    kubelet: Kubelet
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        pass

    def _answer(self, code: int, content: Any) -> None:
        data = json.dumps(content).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _body(self) -> Any:
        return json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")

    @property
    def _name(self) -> str:
        """The name of the pod that is asked for; empty for all of them."""
        found = re.fullmatch(
            r"/api/v1/namespaces/[^/]+/pods(?:/([^/]+))?", urlsplit(self.path).path
        )
        return (found[1] or "") if found else ""

    def do_GET(self) -> None:
        kubelet = self.kubelet
        kubelet.asked.append(("GET", self.path))
        query = parse_qs(urlsplit(self.path).query)
        if "watch" in query:
            return self._watch()
        if self._name:
            found = kubelet.pods.get(self._name)
            return self._answer(200, found) if found else self._answer(404, _status("Failure", 404))
        kind = "PodList" if "/pods" in self.path else "List"
        items = list(kubelet.pods.values()) if kind == "PodList" else []
        about = {"resourceVersion": str(len(kubelet.pods))}
        return self._answer(
            200, {"apiVersion": "v1", "kind": kind, "metadata": about, "items": items}
        )

    def _watch(self) -> None:
        """A web socket on which nothing comes: Spark also asks for the list from time to time."""
        key = self.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        self.send_response(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        accepted = b64encode(sha1(key.encode(), usedforsecurity=False).digest())
        self.send_header("Sec-WebSocket-Accept", accepted.decode())
        self.end_headers()
        self.close_connection = True
        with suppress(OSError):
            while self.rfile.read(1):
                pass

    def do_POST(self) -> None:
        self.kubelet.asked.append(("POST", self.path))
        made = self._body()
        made["metadata"].setdefault("uid", "uid")
        if made["kind"] == "Pod":
            self.kubelet.add(made)
            self.kubelet.run(made)
        self._answer(201, made)

    def do_PATCH(self) -> None:
        self.kubelet.asked.append(("PATCH", self.path))
        self._body()
        found = self.kubelet.pods.get(self._name)
        self._answer(200, found or _status("Success", 200))

    def do_DELETE(self) -> None:
        self.kubelet.asked.append(("DELETE", self.path))
        self._body()
        named = [self._name] if self._name else list(self.kubelet.processes)
        if "/pods" in self.path:
            for name in named:
                self.kubelet.delete(name)
        self._answer(200, _status("Success", 200))


def _status(status: str, code: int) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Status", "status": status, "code": code}


def settings(text: str) -> dict[str, str]:
    """The settings in PYSPARK_SUBMIT_ARGS."""
    words = shlex.split(text)
    assert words[-1] == "pyspark-shell"
    assert set(words[:-1:2]) == {"--conf"}
    return dict(word.split("=", 1) for word in words[1:-1:2])
