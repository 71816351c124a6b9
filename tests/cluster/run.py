"""A search on a cluster of network namespaces: `make cluster`, or `python tests/cluster/run.py`.

A stand-alone master and four workers, each in a network namespace with an address, a user and a
home of its own. The environment arrives by Spark's --archives alone, and the run's folder is on an
S3 server. The run is disturbed: a worker is killed, a namespace is cut off for thirty seconds, a
disk is full, the driver is killed and another namespace resumes. Each run must come to the counts
of a local one. It needs root, Linux, Java 17 and a package index.

`--python FOLDER` takes an environment that an earlier run left in FOLDER (`--keep`).
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from epochfence.tests.driver import record

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "cluster.md"
SYSTEM = ["transactions", "--set", "partitions=1", "--set", "transactions=1"]
HAND_OVER = "50"  # states of a level: most levels are Spark's
WORKERS = 4
S3, MASTER, DRIVER, SECOND = 2, 3, 4, 5  # the last byte of addresses; workers follow from 11 on
CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_EC2_METADATA_DISABLED": "true",
}
EARLY = 12  # the level of 36 at which a run is disturbed
CUT_SECONDS = 30
FILES = Path("/etc/netns")  # of a namespace, in place of those of /etc
LIMIT = 900.0  # seconds of a run


def address(host: int) -> str:
    """The address of a namespace."""
    return f"10.77.0.{host}"


def user(host: int) -> int:
    """The user's id of a host."""
    return 61000 + host


def run(*words: str) -> None:
    """Runs a command. Raises CalledProcessError."""
    subprocess.run(words, check=True)


@dataclass
class Network:
    """Namespaces on a bridge, which has a namespace of its own: the machine's own network is left
    as it is."""

    prefix: str
    hosts: Sequence[int]

    def name(self, host: int | str) -> str:
        """The namespace of a host, or of the bridge."""
        return f"{self.prefix}{host}"

    def __enter__(self) -> Network:
        hub = self.name("hub")
        run("ip", "netns", "add", hub)
        run("ip", "-n", hub, "link", "add", "bridge", "type", "bridge")
        run("ip", "-n", hub, "link", "set", "bridge", "up")
        for host in self.hosts:
            of = self.name(host)
            # `ip netns exec` puts this in place of /etc/passwd: Hadoop asks for the user's name.
            users = FILES / of / "passwd"
            users.parent.mkdir(parents=True)
            users.write_text(
                f"root:x:0:0::/root:/bin/sh\nhost{host}:x:{user(host)}:{user(host)}::/:/bin/sh\n"
            )
            run("ip", "netns", "add", of)
            run(
                *("ip", "-n", hub, "link", "add", f"port{host}", "type", "veth"),
                *("peer", "name", "eth0", "netns", of),
            )
            run("ip", "-n", hub, "link", "set", f"port{host}", "master", "bridge", "up")
            run("ip", "-n", of, "address", "add", f"{address(host)}/24", "dev", "eth0")
            run("ip", "-n", of, "link", "set", "eth0", "up")
            run("ip", "-n", of, "link", "set", "lo", "up")
        return self

    def __exit__(self, *_: object) -> None:
        for host in (*self.hosts, "hub"):
            subprocess.run(["ip", "netns", "delete", self.name(host)], check=False)
            shutil.rmtree(FILES / self.name(host), ignore_errors=True)

    def within(self, host: int, words: Sequence[str]) -> list[str]:
        """A command within a host's namespace, as a user of its own."""
        identity = ["setpriv", f"--reuid={user(host)}", f"--regid={user(host)}", "--clear-groups"]
        return ["ip", "netns", "exec", self.name(host), *identity, *words]

    def plug(self, host: int, state: str) -> None:
        """Cuts a host off (`down`), or connects it (`up`)."""
        run("ip", "-n", self.name("hub"), "link", "set", f"port{host}", state)


@dataclass
class Environment:
    """A Python that all users can read, and an archive of an environment of it."""

    folder: Path

    @property
    def bin(self) -> Path:
        """The folder of the environment's programs."""
        return self.folder / "environment" / "bin"

    @property
    def archive(self) -> Path:
        """The environment for executors."""
        return self.folder / "environment.tar.gz"

    def make(self) -> None:
        """Makes both from this Python and the pinned packages."""
        base = Path(sys.base_prefix)
        ignored = shutil.ignore_patterns("site-packages", "test", "__pycache__")
        shutil.copytree(base, self.folder / "python", symlinks=True, ignore=ignored)
        packages = self.folder / "python" / "lib" / f"python3.{sys.version_info[1]}"
        (packages / "site-packages").mkdir(exist_ok=True)
        python = self.folder / "python" / "bin" / "python3"
        run(str(python), "-m", "venv", str(self.bin.parent))
        pip = [str(self.bin / "pip"), "install", "--quiet", "--disable-pip-version-check"]
        pins = self.folder / "pins.txt"
        lines = (ROOT / "requirements" / "all.txt").read_text().replace("\\\n", "").splitlines()
        pins.write_text("\n".join(line.split(" --hash")[0] for line in lines if line[:1].isalnum()))
        source = self.folder / "source"
        skipped = shutil.ignore_patterns(".git", ".venv*", "build", "dist", "*.egg-info", "site")
        shutil.copytree(ROOT, source, ignore=skipped)
        run(*pip, "--constraint", str(pins), f"{source}[check,spark]", "venv-pack")
        server = str(self.folder / "server")
        run(str(python), "-m", "venv", server)
        run(f"{server}/bin/pip", "install", "--quiet", "moto[server,s3]")
        run(
            *(str(self.bin / "venv-pack"), "--quiet", "--prefix", str(self.bin.parent)),
            *("--output", str(self.archive), "--compress-level", "1"),
            # Of these, executors have Spark's own copy, or no use.
            *("--exclude", "*/pyspark/jars/*", "--exclude", "*/z3/*"),
        )
        self.archive.chmod(0o644)


@dataclass
class Cluster:
    """The processes in the namespaces."""

    network: Network
    environment: Environment
    folder: Path
    processes: dict[int, subprocess.Popen[bytes]] = field(
        default_factory=dict[int, subprocess.Popen[bytes]]
    )
    drivers: list[subprocess.Popen[bytes]] = field(default_factory=list[subprocess.Popen[bytes]])

    def start(self, host: int, words: Sequence[str], **more: str) -> subprocess.Popen[bytes]:
        """Starts a program in a host's namespace, with a user and a home of its own."""
        home = self.folder / f"home-{host}"
        home.mkdir(exist_ok=True)
        os.chown(home, user(host), user(host))
        settings = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "JAVA_HOME": os.environ.get("JAVA_HOME", ""),
            "SPARK_LOCAL_IP": address(host),
            "SPARK_LOCAL_DIRS": str(home / "local"),
            # For a Python whose library is where only its owner can read it.
            "LD_LIBRARY_PATH": str(self.environment.folder / "python" / "lib"),
            **CREDENTIALS,
            **more,
        }
        with (self.folder / f"log-{host}").open("ab") as log:
            return subprocess.Popen(
                self.network.within(host, words),
                cwd=home,
                env={key: value for key, value in settings.items() if value},
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def spark(self, host: int, *words: str) -> None:
        """Starts a master or a worker."""
        packages = next((self.environment.bin.parent / "lib").glob("python*")) / "site-packages"
        spark = packages / "pyspark"
        self.processes[host] = self.start(
            host, [str(spark / "bin" / "spark-class"), *words], SPARK_HOME=str(spark)
        )

    def worker(self, host: int) -> None:
        """Starts a worker."""
        self.spark(
            host,
            "org.apache.spark.deploy.worker.Worker",
            *("--host", address(host), "--cores", "1", "--memory", "1200M"),
            *("--work-dir", str(self.folder / f"home-{host}" / "work")),
            f"spark://{address(MASTER)}:7077",
        )

    def begin(self) -> None:
        """Starts the storage, the master and the workers."""
        server = str(self.environment.folder / "server" / "bin" / "moto_server")
        self.processes[S3] = self.start(S3, [server, "--host", address(S3), "--port", "5000"])
        self.spark(
            *(MASTER, "org.apache.spark.deploy.master.Master", "--host", address(MASTER)),
            *("--port", "7077", "--webui-port", "8080"),
        )
        wait(lambda: self.asked("PUT", f"http://{address(S3)}:5000/runs") is not None, 60)
        wait(lambda: self.alive() is not None, 60)
        for host in workers():
            self.worker(host)
        wait(lambda: self.alive() == WORKERS, 120)

    def alive(self) -> int | None:
        """How many workers the master knows; none if it doesn't answer."""
        told = self.asked("GET", f"http://{address(MASTER)}:8080/json/")
        return None if told is None else int(json.loads(told)["aliveworkers"])

    def level(self, name: str) -> int:
        """The last level of a run that Spark has finished; 0 before the first one."""
        told = self.asked("GET", f"http://{address(S3)}:5000/runs?list-type=2&prefix={name}/") or ""
        levels = re.findall(rf"<Key>{name}/manifest-(\d+)", told)
        return max(map(int, levels), default=0)

    def asked(self, method: str, url: str) -> str | None:
        """The answer to an HTTP request from the first driver's namespace."""
        text = (
            "import sys; from urllib.request import Request, urlopen; "
            "print(urlopen(Request(sys.argv[2], method=sys.argv[1]), timeout=10).read().decode())"
        )
        words = [str(self.environment.bin / "python"), "-c", text, method, url]
        done = subprocess.run(self.network.within(DRIVER, words), capture_output=True, text=True)
        return done.stdout if done.returncode == 0 else None

    def driver(self, host: int, name: str, *more: str) -> subprocess.Popen[bytes]:
        """Starts `epochfence check` on the cluster. Its result goes to NAME.json in its home."""
        storage = f"s3://runs/{name}?endpoint_override={address(S3)}:5000&scheme=http"
        where = ["--resume", storage] if "--resume" in more else ["--storage", storage]
        process = self.start(
            host,
            [
                *(str(self.environment.bin / "epochfence"), "check", *SYSTEM, "--engine", "spark"),
                *("--master", f"spark://{address(MASTER)}:7077", *where, "--shards", "8"),
                *("--hand-over", HAND_OVER, "--json", f"{name}.json"),
            ],
            PYSPARK_PYTHON="./environment/bin/python",
            PYSPARK_SUBMIT_ARGS=f"--archives {self.environment.archive}#environment pyspark-shell",
        )
        self.drivers.append(process)
        return process

    def result(self, host: int, name: str) -> dict[str, object]:
        """The figures of a run, or an empty dictionary."""
        path = self.folder / f"home-{host}" / f"{name}.json"
        return figures(json.loads(path.read_text())) if path.exists() else {}

    def end(self) -> None:
        """Ends all processes."""
        for process in (*self.drivers, *self.processes.values()):
            stop(process)
        for host in (DRIVER, SECOND, *workers()):  # what has left its group: Spark's JVMs
            subprocess.run(["pkill", "-9", "-U", str(user(host))], check=False)

    def clear(self) -> None:
        """Deletes the copies of the environment that executors unpacked."""
        for host in workers():
            shutil.rmtree(self.folder / f"home-{host}" / "work", ignore_errors=True)


def workers() -> range:
    """The hosts of the workers."""
    return range(11, 11 + WORKERS)


def stop(process: subprocess.Popen[bytes]) -> None:
    """Kills a process and its children."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def wait(until: Callable[[], bool], seconds: float) -> None:
    """Waits for a condition. Raises TimeoutError."""
    end = time.monotonic() + seconds
    while not until():
        if time.monotonic() > end:
            raise TimeoutError("the cluster didn't come to the expected state")
        time.sleep(0.5)


def figures(result: Mapping[str, object]) -> dict[str, object]:
    """What each run must come to."""
    return {key: result[key] for key in ("verdict", "states", "transitions", "depth")}


def undisturbed(cluster: Cluster) -> dict[str, object]:
    """A run on the cluster."""
    process = cluster.driver(DRIVER, "undisturbed")
    process.wait(LIMIT)
    return cluster.result(DRIVER, "undisturbed")


def worker_killed(cluster: Cluster) -> dict[str, object]:
    """A worker and its executor are killed in mid-run, and the worker is started again."""
    process = cluster.driver(DRIVER, "worker")
    wait(lambda: cluster.level("worker") >= EARLY, LIMIT)
    host = workers()[0]
    stop(cluster.processes[host])
    subprocess.run(["pkill", "-9", "-U", str(user(host))], check=False)
    cluster.worker(host)
    process.wait(LIMIT)
    return cluster.result(DRIVER, "worker")


def cut_off(cluster: Cluster) -> dict[str, object]:
    """A worker can't be reached for thirty seconds."""
    process = cluster.driver(DRIVER, "cut")
    wait(lambda: cluster.level("cut") >= EARLY, LIMIT)
    cluster.network.plug(workers()[1], "down")
    time.sleep(CUT_SECONDS)
    cluster.network.plug(workers()[1], "up")
    process.wait(LIMIT)
    return cluster.result(DRIVER, "cut")


def disk_full(cluster: Cluster) -> dict[str, object]:
    """The disk of a worker's visited sets is full in mid-run. The run goes on elsewhere, or ends
    and is resumed once there is room."""
    host = workers()[2]
    local = cluster.folder / f"home-{host}" / "local"
    process = cluster.driver(DRIVER, "disk")
    wait(lambda: cluster.level("disk") >= EARLY, LIMIT)
    filler = local / "filler"
    with suppress(OSError), filler.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(1 << 16))
    code = process.wait(LIMIT)
    filler.unlink()
    if code:
        cluster.driver(DRIVER, "disk", "--resume").wait(LIMIT)
    return cluster.result(DRIVER, "disk")


def driver_killed(cluster: Cluster) -> dict[str, object]:
    """The driver is killed in mid-run, and another namespace resumes the run."""
    process = cluster.driver(DRIVER, "driver")
    wait(lambda: cluster.level("driver") >= EARLY, LIMIT)
    stop(process)
    cluster.driver(SECOND, "driver", "--resume").wait(LIMIT)
    return cluster.result(SECOND, "driver")


DISTURBANCES = {
    "none": ("none", undisturbed),
    "worker": ("a worker is killed", worker_killed),
    "cut": (f"a worker's namespace is cut off for {CUT_SECONDS} s", cut_off),
    "disk": ("the disk of a worker is full", disk_full),
    "driver": ("the driver is killed, another namespace resumes", driver_killed),
}


@contextmanager
def cluster_of(environment: Environment, folder: Path) -> Iterator[Cluster]:
    """A running cluster."""
    hosts = [S3, MASTER, DRIVER, SECOND, *workers()]
    with ExitStack() as stack:
        network = stack.enter_context(Network(f"epf{os.getpid()}-", hosts))
        local = folder / f"home-{workers()[2]}" / "local"  # a small disk
        local.mkdir(parents=True)
        run("mount", "-t", "tmpfs", "-o", "size=700M,mode=0777", "tmpfs", str(local))
        stack.callback(run, "umount", "-l", str(local))
        cluster = Cluster(network, environment, folder)
        stack.callback(cluster.end)
        cluster.begin()
        yield cluster


def missing() -> str:
    """What this machine lacks, in one line, or an empty text."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    lacking = [
        name for name in ("ip", "setpriv", "mount", "pkill", "java") if not shutil.which(name)
    ]
    return f"there is no {', no '.join(lacking)} here" if lacking else ""


def main() -> None:
    """Runs the disturbances, and ends with 1 if one has other counts."""
    parser = argparse.ArgumentParser(description="A search on a cluster of network namespaces.")
    parser.add_argument("--python", type=Path, help="an environment of an earlier run")
    parser.add_argument("--keep", action="store_true", help="leave the environment")
    parser.add_argument("--run", action="append", choices=DISTURBANCES, help="these alone")
    parser.add_argument("--record", action="store_true", help="renew the table of docs/cluster.md")
    chosen = parser.parse_args()
    if lacks := missing():
        sys.exit(f"make cluster: {lacks}")
    place = chosen.python or Path(tempfile.mkdtemp(prefix="epochfence-cluster-", dir="/var/tmp"))
    place.chmod(0o755)
    environment = Environment(place)
    if not environment.archive.exists():
        environment.make()
    local = place / "local.json"
    words = [str(environment.bin / "epochfence"), "check", *SYSTEM, "--json", str(local)]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    expected = figures(json.loads(local.read_text()))
    lines, wrong = ["| disturbance | states | transitions | seconds |", "|---|---|---|---|"], 0
    keys = chosen.run or list(DISTURBANCES)
    runs = Path(tempfile.mkdtemp(prefix="runs-", dir=place))
    runs.chmod(0o755)
    with cluster_of(environment, runs) as cluster:
        for name, disturbed in map(DISTURBANCES.__getitem__, keys):
            began = time.monotonic()
            try:
                found = disturbed(cluster)
            except (TimeoutError, subprocess.TimeoutExpired) as problem:
                found = {"problem": str(problem)}
            seconds = time.monotonic() - began
            cluster.clear()
            print(f"{name}: {found or 'no result'}, {seconds:.0f} s", flush=True)
            wrong += found != expected
            lines.append(
                f"| {name} | {found.get('states')} | {found.get('transitions')} | {seconds:.0f} |"
            )
    if wrong:
        sys.exit(f"{wrong} of {len(keys)} runs don't come to {expected}; logs: {runs}")
    if chosen.record:
        record(PAGE, "cluster", "\n".join(lines))
    shutil.rmtree(runs)
    if not (chosen.keep or chosen.python):
        shutil.rmtree(place)


if __name__ == "__main__":
    main()
