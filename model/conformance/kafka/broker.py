"""Kafka's own brokers, with jars from Maven, that run on loopback."""

from __future__ import annotations

import base64
import ctypes
import hashlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final

from platformdirs import user_cache_path

from ...wire.connection import BrokerError, Connection, Security
from ..classes.host import UnavailableError

VERSIONS: Final = {
    "2.5": "2.5.1",
    "3.6": "3.6.2",
    "3.9": "3.9.2",
    "4.0.1": "4.0.1",
    "4.3": "4.3.1",
    "4.4": "4.4.0",
}
"""For each release: the version of Kafka that is tested."""
WITH_BUGS: Final = {"2.4": "2.4.1", "4.0.0": "4.0.0"}
"""Other versions, with bugs that those don't have."""
HERE = Path(__file__).parent
CHECKSUMS = HERE / "checksums.txt"
SLOWEST_START_S: Final = 120
SLOWEST_END_S: Final = 20
SESSION_S: Final = 2
"""The time in s after which ZooKeeper notices that a broker has gone."""
KRAFT_SESSION_S: Final = 3
"""The time in s after which a controller lets a killed broker register again; Kafka's default is 9
s."""
_JAVA = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
_FORMATTED = "formatted"
_LIBC = ctypes.CDLL(None)
_PR_SET_PDEATHSIG = 1


def needed(program: str, package: str) -> str:
    """The path of a program. Raises UnavailableError."""
    found = shutil.which(program)
    if found is None:
        raise UnavailableError(
            f"brokers need {program}: install it (Debian and Ubuntu: apt install {package})"
        )
    return found


def java() -> str:
    """The Java that brokers run on. Raises UnavailableError."""
    home = os.environ.get("JAVA_HOME")
    return f"{home}/bin/java" if home else needed("java", "openjdk-17-jre-headless")


def folder_of(version: str) -> Path:
    """The cache folder of a version: its jars, and for KRaft a formatted folder."""
    return user_cache_path("epochfence") / "kafka" / version


def bring(version: str, *, checks: bool = True) -> Path:
    """The folder with the jars of a version. Maven downloads missing jars.

    Raises UnavailableError without Maven, and if a jar differs from checksums.txt.
    """
    folder = folder_of(version)
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as made:
            jars = Path(made) / "jars"
            command = (
                needed("mvn", "maven"), "--quiet", "--batch-mode", "--strict-checksums",
                "--file", HERE / "pom.xml", "--activate-profiles", f"line-{version[0]}",
                f"-Dkafka.version={version}", f"-DoutputDirectory={jars}",
                "dependency:copy-dependencies",
            )  # fmt: skip
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                said = [line for line in done.stdout.splitlines() if "ERROR" in line]
                raise UnavailableError(
                    f"Maven can't download Kafka {version}: {(said or ['it failed'])[0]}"
                )
            if checks:
                _check(version, jars)
            if version[0] != "2":
                _format(jars)
            _put(jars, folder)
    return folder


def _put(jars: Path, folder: Path) -> None:
    """Moves the jars of a version to their folder, unless another process has done so."""
    try:
        jars.replace(folder)
    except OSError:
        if not folder.exists():
            raise


def sums(jars: Path) -> dict[str, str]:
    """The SHA-256 of each jar, by the jar's name."""
    return {
        jar.name: hashlib.sha256(jar.read_bytes()).hexdigest() for jar in sorted(jars.glob("*.jar"))
    }


def _check(version: str, jars: Path) -> None:
    wanted: dict[str, str] = {}
    for line in CHECKSUMS.read_text().splitlines():
        digest, _, name = line.partition("  ")
        of, _, jar = name.partition("/")
        if of == version:
            wanted[jar] = digest
    found = sums(jars)
    for jar in sorted(wanted.keys() | found.keys()):
        if wanted.get(jar) != found.get(jar):
            raise UnavailableError(f"{jar} of Kafka {version} isn't the one of {CHECKSUMS.name}")


def _format(jars: Path) -> None:
    """Formats a folder for KRaft. Each broker starts with a copy of it."""
    settings = jars / "format.properties"
    settings.write_text(_properties(9092, 9093, jars / _FORMATTED))
    command = (
        java(), *_JAVA, "-cp", f"{jars}/*", "kafka.tools.StorageTool", "format",
        "--cluster-id", "ZXBvY2hmZW5jZS10ZXN0cw", "--config", settings,
    )  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise UnavailableError(
            f"Kafka can't format the folder: {(done.stderr or done.stdout).strip()[-300:]}"
        )
    settings.unlink()


@dataclass(frozen=True)
class Listener:
    """A second listener of a KRaft broker: its protocol, the port in the metadata if it differs,
    its settings, and whether brokers use it among themselves."""

    name: str
    protocol: str = "PLAINTEXT"
    advertised: int | None = None
    settings: Sequence[str] = ()
    of_brokers: bool = False


def free_port() -> int:
    """A port on loopback that nothing listens on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def _properties(
    port: int, other: int, data: Path, also: Listener | None = None, also_port: int = 0,
    *, node: int = 1,
) -> str:  # fmt: skip
    """A broker's settings; `other` is the port of the controller, which is the first broker."""
    listens = advertised = protocol = settings = ""
    if also is not None:
        settings = "".join(f"{line}\n" for line in also.settings)
        listens = f"{also.name}://127.0.0.1:{also_port},"
        advertised = f",{also.name}://127.0.0.1:{also.advertised or also_port}"
        protocol = f"{also.name}:{also.protocol},"
    of_brokers = also.name if also is not None and also.of_brokers else "PLAINTEXT"
    roles, controller = "broker", ""
    if node == 1:
        roles, controller = "broker,controller", f",CONTROLLER://127.0.0.1:{other}"
    return f"""\
process.roles={roles}
node.id={node}
controller.quorum.voters=1@127.0.0.1:{other}
listeners={listens}PLAINTEXT://127.0.0.1:{port}{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}{advertised}
controller.listener.names=CONTROLLER
listener.security.protocol.map={protocol}PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name={of_brokers}
broker.session.timeout.ms={KRAFT_SESSION_S * 1000}
broker.heartbeat.interval.ms=500
{settings}{_common(data)}"""


def _zookeeper_properties(port: int, other: int, data: Path) -> str:
    """A broker's settings; `other` is ZooKeeper's port."""
    return f"""\
broker.id=1
zookeeper.connect=127.0.0.1:{other}
zookeeper.session.timeout.ms={SESSION_S * 1000}
zookeeper.connection.timeout.ms={SLOWEST_START_S * 1000}
listeners=PLAINTEXT://127.0.0.1:{port}
{_common(data)}"""


def _common(data: Path) -> str:
    return f"""\
log.dirs={data}
offsets.topic.replication.factor=1
offsets.topic.num.partitions=5
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=5
group.initial.rebalance.delay.ms=0
transaction.abort.timed.out.transaction.cleanup.interval.ms=200
producer.id.expiration.check.interval.ms=200
auto.create.topics.enable=false
"""


def _identify(meta: Path, node: int) -> None:
    """Gives a formatted folder the id of a broker, and an id of its own."""
    own = {"node.id": str(node)}
    own["directory.id"] = base64.urlsafe_b64encode(secrets.token_bytes(16)).decode().rstrip("=")
    lines = meta.read_text().splitlines()
    named = ((line, line.partition("=")[0]) for line in lines)
    meta.write_text("".join(f"{n}={own[n]}\n" if n in own else f"{line}\n" for line, n in named))


_LOG4J = """\
log4j.rootLogger=INFO, C
log4j.appender.C=org.apache.log4j.ConsoleAppender
log4j.appender.C.layout=org.apache.log4j.PatternLayout
log4j.appender.C.layout.ConversionPattern=%d %p %m (%c)%n
"""
_LOG4J_2 = """\
appender.c.type=Console
appender.c.name=C
appender.c.layout.type=PatternLayout
appender.c.layout.pattern=%d %p %m (%c)%n
rootLogger.level=INFO
rootLogger.appenderRef.c.ref=C
"""


def _end_with_parent() -> None:
    """Makes Linux end this process when its parent ends."""
    if sys.platform == "linux":
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


class Broker:
    """A context manager that runs a broker of a release on its own port of loopback. Its log is
    `folder`/broker.log. It may have a second listener (at `also_port`), `settings`, and a debug
    port (`debugger`). With `beside` it joins that broker's cluster, which needs KRaft. The first
    broker's `id` is 1.

    Raises UnavailableError without Java, Maven or the jars.
    """

    def __init__(
        self, release: str, folder: Path, also: Listener | None = None, *,
        settings: Sequence[str] = (), takes_debugger: bool = False, beside: Broker | None = None,
    ) -> None:  # fmt: skip
        self.release, self.folder, self._also = release, folder, also
        self.id = 1 if beside is None else beside.id + 1
        self._settings = settings
        self.debugger = f"127.0.0.1:{free_port()}" if takes_debugger else None
        self.version = (VERSIONS | WITH_BUGS)[release]
        self.jars = bring(self.version)
        self.port, self.also_port = free_port(), free_port()
        self._other = free_port() if beside is None else beside._other
        self.has_zookeeper = self.version[0] == "2"
        assert also is None or not self.has_zookeeper
        self._running: list[subprocess.Popen[bytes]] = []

    @property
    def bootstrap(self) -> str:
        """The value of a client's bootstrap.servers."""
        return f"127.0.0.1:{self.port}"

    @property
    def log(self) -> Path:
        """The broker's log file."""
        return self.folder / "broker.log"

    def __enter__(self) -> Broker:
        self.folder.mkdir(parents=True, exist_ok=True)
        data, settings = self.folder / "data", self.folder / "server.properties"
        if self.has_zookeeper:
            settings.write_text(_zookeeper_properties(self.port, self._other, data))
        else:
            listeners = self._also, self.also_port
            settings.write_text(_properties(self.port, self._other, data, *listeners, node=self.id))
            shutil.copytree(self.jars / _FORMATTED, data)
            if self.id != 1:
                _identify(data / "meta.properties", self.id)
        with settings.open("a") as file:
            file.writelines(f"{line}\n" for line in self._settings)
        try:
            if self.has_zookeeper:
                self._start_zookeeper()
            self.start()
        except BaseException:
            self.end()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.end()

    def _start_zookeeper(self) -> None:
        settings = self.folder / "zookeeper.properties"
        settings.write_text(
            f"dataDir={self.folder / 'zookeeper'}\nclientPort={self._other}\n"
            "clientPortAddress=127.0.0.1\nadmin.enableServer=false\ntickTime=500\n"
        )
        main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        self._java("zookeeper.log", (main, str(settings)), "-Xmx128m")

    def start(self) -> None:
        """Starts the broker, and waits until it answers. Raises UnavailableError if it doesn't."""
        jdwp = "-agentlib:jdwp=transport=dt_socket,server=y,suspend=n,address="
        more = () if self.debugger is None else (jdwp + self.debugger,)
        main = ("kafka.Kafka", str(self.folder / "server.properties"))
        running = self._java("broker.log", main, *more)
        until = time.monotonic() + SLOWEST_START_S
        while not self._answers():
            if running.poll() is not None or time.monotonic() > until:
                last = self.log.read_text(errors="replace").strip().splitlines()[-1:]
                raise UnavailableError(
                    f"Kafka {self.version} doesn't start: {last} (all in {self.log})"
                )
            time.sleep(0.1)

    def _java(self, log: str, main: Sequence[str], *more: str) -> subprocess.Popen[bytes]:
        line = int(self.version[0])
        logging = self.folder / "logging.properties"
        logging.write_text(_LOG4J_2 if line >= 4 else _LOG4J)
        names = "log4j2.configurationFile=" if line >= 4 else "log4j.configuration=file:"
        command = (
            java(), *_JAVA, *more, f"-D{names}{logging}", "-Dzookeeper.admin.enableServer=false",
            "-cp", f"{self.jars}/*", *main,
        )  # fmt: skip
        with (self.folder / log).open("ab") as out:
            running = subprocess.Popen(
                command, stdout=out, stderr=out, start_new_session=True, preexec_fn=_end_with_parent
            )
        self._running.append(running)
        return running

    def _answers(self) -> bool:
        """Whether the broker answers InitProducerId with a producer id."""
        try:
            connection = Connection("127.0.0.1", self.port, Security(), timeout_s=5)
            body = {"transactional_id": None, "transaction_timeout": 60_000}
            answer = connection.ask("InitProducerId", 0, body)
            connection.close()
        except BrokerError:
            return False
        return answer["error_code"] == "NONE"

    def kill(self) -> None:
        """Ends the broker as if the machine had failed."""
        running = self._running.pop()
        running.kill()
        running.wait()
        if self.has_zookeeper:  # ZooKeeper must first forget the broker, or it can't register again
            time.sleep(SESSION_S)

    def restart(self) -> None:
        """Ends the broker, and starts it again."""
        self.end()
        self.start()

    def end(self) -> None:
        """Ends all started processes."""
        for running in reversed(self._running):
            running.send_signal(signal.SIGTERM)
            try:
                running.wait(SLOWEST_END_S)
            except subprocess.TimeoutExpired:
                running.kill()
                running.wait()
        self._running.clear()
