"""A search on a cluster of network namespaces: `make cluster`, or `python tests/cluster/run.py`.

A stand-alone master and four workers, each in a network namespace with an address, a user and a
home of its own. The environment arrives by Spark's --archives alone, and the run's folder is on an
S3 server. The run is disturbed: a worker is killed, a namespace is cut off for thirty seconds, a
disk is full, the driver is killed and another namespace resumes. Each run must come to the counts
of a local one. It needs root, Linux, Java 17 and a package index.

`--python FOLDER` takes an environment that an earlier run left in FOLDER (`--keep`). `--short` is
for CI: two workers, one of which is killed, few levels on Spark, and the packages of this
environment, linked. `--large` explores 102 million states of the benchmark protocol, undisturbed,
with all that shards send going through Spark; bench/scale.py has the model of it.
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
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from epochfence.tests.driver import record

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "cluster.md"
S3, MASTER, DRIVER, SECOND = 2, 3, 4, 5  # the last byte of addresses; workers follow from 11 on
CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_EC2_METADATA_DISABLED": "true",
}
CUT_SECONDS = 30
FILES = Path("/etc/netns")  # of a namespace, in place of those of /etc
LIMIT = 900.0  # seconds of a run


@dataclass(frozen=True)
class Form:
    """How much is run: `system`, on so many `workers`, by Spark from the first level of more than
    `hand_over` states on. `early` is the level on Spark at which a run is disturbed."""

    system: tuple[str, ...]
    workers: range
    hand_over: int
    early: int = 0


FULL = Form(  # most of the 36 levels are Spark's
    ("transactions", "--set", "partitions=1", "--set", "transactions=1"), range(11, 15), 50, 12
)
SHORT = Form(("coordinators",), range(11, 13), 20, 3)
_SIZE = ("--set", "I=1", "--set", "K=2", "--set", "E=6", "--set", "S=4")
LARGE = Form((str(ROOT / "bench" / "ktx.py"), *_SIZE), range(11, 15), 200_000)


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

    @property
    def server(self) -> Path:
        """The packages of the S3 server."""
        return self.folder / "server"

    def _python(self) -> Path:
        """This Python, or a copy without packages where others can't read it."""
        base = Path(sys.base_prefix)
        if all(folder.stat().st_mode & 0o005 == 0o005 for folder in (base, *base.parents)):
            return base / "bin" / "python3"
        ignored = shutil.ignore_patterns("site-packages", "test", "__pycache__")
        shutil.copytree(base, self.folder / "python", symlinks=True, ignore=ignored)
        packages = self.folder / "python" / "lib" / f"python3.{sys.version_info[1]}"
        (packages / "site-packages").mkdir(exist_ok=True)
        return self.folder / "python" / "bin" / "python3"

    def _server(self) -> subprocess.Popen[bytes]:
        """Starts to install the S3 server."""
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        return subprocess.Popen(
            [*pip, "--no-compile", "--target", str(self.server), "moto[server,s3]"]
        )

    def link(self) -> None:
        """Makes both from this Python and the packages that are here, by links."""
        server = self._server()
        run(str(self._python()), "-m", "venv", "--without-pip", str(self.bin.parent))
        (packages,) = self.bin.parent.glob("lib/python*/site-packages")
        for file, source in installed("epochfence[check,spark]"):
            (packages / file).parent.mkdir(parents=True, exist_ok=True)
            try:
                (packages / file).hardlink_to(source)
            except OSError:  # another file system
                shutil.copy2(source, packages / file)
        skipped = shutil.ignore_patterns(*SKIPPED, "tests", "docs", "bench")
        shutil.copytree(ROOT, packages / "epochfence", ignore=skipped)
        script = self.bin / "epochfence"
        script.write_text(f"#!{self.bin}/python\nfrom epochfence.cli import main\n\nmain()\n")
        script.chmod(0o755)
        # Not compressed: but of another name, Spark unpacks it without permissions.
        with tarfile.open(self.archive, "w:gz", compresslevel=0) as archive:
            for part in self.bin.parent.iterdir():  # Spark takes no entry of the whole
                archive.add(part, part.name, filter=without_jars)
        server.wait()

    def make(self) -> None:
        """Makes both from this Python and the pinned packages."""
        run(str(self._python()), "-m", "venv", str(self.bin.parent))
        pip = [str(self.bin / "pip"), "install", "--quiet", "--disable-pip-version-check"]
        pins = self.folder / "pins.txt"
        lines = (ROOT / "requirements" / "all.txt").read_text().replace("\\\n", "").splitlines()
        pins.write_text("\n".join(line.split(" --hash")[0] for line in lines if line[:1].isalnum()))
        source = self.folder / "source"
        shutil.copytree(ROOT, source, ignore=shutil.ignore_patterns(*SKIPPED))
        run(*pip, "--constraint", str(pins), f"{source}[check,spark]", "venv-pack")
        self._server().wait()
        run(
            *(str(self.bin / "venv-pack"), "--quiet", "--prefix", str(self.bin.parent)),
            *("--output", str(self.archive), "--compress-level", "1"),
            # Of these, executors have Spark's own copy, or no use.
            *("--exclude", "*/pyspark/jars/*", "--exclude", "*/z3/*"),
        )
        self.archive.chmod(0o644)


SKIPPED = (".*", "build", "dist", "*.egg-info", "site", "__pycache__")
"""What a copy of the project leaves out."""


def installed(name: str) -> Iterator[tuple[str, Path]]:
    """The files of a package and of all that it needs, but its own: each by its name and place."""
    waiting, seen = [Requirement(name)], set[tuple[str, str]]()
    while waiting:
        asked = waiting.pop()
        for extra in ("", *asked.extras):
            key = canonicalize_name(asked.name), extra
            if key in seen:
                continue
            is_new = not any(each == key[0] for each, _ in seen)
            seen.add(key)
            there = distribution(asked.name)
            for line in there.requires or ():
                found = Requirement(line)
                if found.marker is None or found.marker.evaluate({"extra": extra}):
                    waiting.append(found)
            for file, source in files_of(there) if is_new else ():
                is_own = file.name.startswith("__editable__") or ".." in file.parts
                is_needed = file.suffix != ".pyc" and "tests" not in file.parts
                if is_needed and not is_own and source.is_file():
                    yield str(file), source


def files_of(package: Distribution) -> Iterator[tuple[Path, Path]]:
    """The files of a package: each by its name and place. One that setup.py has installed, as pip
    does without `wheel`, has no list of them: all of its folders then."""
    if package.read_text("RECORD") is not None:
        for file in package.files or ():
            yield Path(file), Path(str(file.locate()))
        return
    packages = Path(str(package.locate_file("")))
    tops = (package.read_text("top_level.txt") or "").split()
    for top in (*tops, *(each.name for each in packages.glob(f"{package.name}-*.egg-info"))):
        for source in (packages / top).rglob("*"):
            yield source.relative_to(packages), source


def without_jars(file: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Of these, executors have Spark's own copy, or no use."""
    return None if re.search(r"/(pyspark/jars|z3)/", file.name) else file


@dataclass
class Cluster:
    """The processes in the namespaces."""

    network: Network
    environment: Environment
    folder: Path
    form: Form
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
        self.processes[S3] = self.start(
            S3,
            [
                *(str(self.environment.bin / "python"), "-m", "moto.server"),
                *("--host", address(S3), "--port", "5000"),
            ],
            PYTHONPATH=str(self.environment.server),
        )
        self.spark(
            *(MASTER, "org.apache.spark.deploy.master.Master", "--host", address(MASTER)),
            *("--port", "7077", "--webui-port", "8080"),
        )
        wait(lambda: self.asked("PUT", f"http://{address(S3)}:5000/runs") is not None, LIMIT)
        wait(lambda: self.alive() is not None, LIMIT)
        for host in self.form.workers:
            self.worker(host)
        wait(lambda: self.alive() == len(self.form.workers), LIMIT)

    def alive(self) -> int | None:
        """How many workers the master knows; none if it doesn't answer."""
        told = self.asked("GET", f"http://{address(MASTER)}:8080/json/")
        return None if told is None else int(json.loads(told)["aliveworkers"])

    def level(self, name: str) -> int:
        """The last level of a run that Spark has finished; 0 before the first one."""
        told = self.asked("GET", f"http://{address(S3)}:5000/runs?list-type=2&prefix={name}/") or ""
        levels = re.findall(rf"<Key>{name}/manifest-(\d+)", told)
        return max(map(int, levels), default=0)

    def comes_to(self, name: str, driver: subprocess.Popen[bytes]) -> None:
        """Waits until a run is in its middle. Raises TimeoutError, also where it has ended."""
        early = self.form.early
        wait(lambda: self.level(name) >= early or driver.poll() is not None, LIMIT)
        if driver.poll() is not None:
            raise TimeoutError(f"the run ended before level {early}, with {driver.returncode}")

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
                *(str(self.environment.bin / "epochfence"), "check", *self.form.system),
                *("--engine", "spark"),
                *("--master", f"spark://{address(MASTER)}:7077", *where, "--shards", "8"),
                *("--hand-over", str(self.form.hand_over), "--json", f"{name}.json"),
            ],
            EPOCHFENCE_SPARK_FILES="off" if self.form is LARGE else "",
            PYSPARK_PYTHON="./environment/bin/python",
            PYSPARK_SUBMIT_ARGS=f"--archives {self.environment.archive}#environment pyspark-shell",
        )
        self.drivers.append(process)
        return process

    def result(self, host: int, name: str) -> dict[str, object]:
        """The figures of a run, or an empty dictionary."""
        path = self.folder / f"home-{host}" / f"{name}.json"
        if not path.exists():
            return {}
        result = json.loads(path.read_text())
        if self.form is LARGE:
            print(json.dumps({"seconds": result["seconds"], **result["engine"]}), flush=True)
        return figures(result)

    def end(self) -> None:
        """Ends all processes."""
        for process in (*self.drivers, *self.processes.values()):
            stop(process)
        for host in (DRIVER, SECOND, *self.form.workers):  # what has left its group: Spark's JVMs
            subprocess.run(["pkill", "-9", "-U", str(user(host))], check=False)

    def clear(self) -> None:
        """Deletes the copies of the environment that executors unpacked."""
        for host in self.form.workers:
            shutil.rmtree(self.folder / f"home-{host}" / "work", ignore_errors=True)


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
    cluster.comes_to("worker", process)
    host = cluster.form.workers[0]
    stop(cluster.processes[host])
    subprocess.run(["pkill", "-9", "-U", str(user(host))], check=False)
    cluster.worker(host)
    process.wait(LIMIT)
    return cluster.result(DRIVER, "worker")


def cut_off(cluster: Cluster) -> dict[str, object]:
    """A worker can't be reached for thirty seconds."""
    process = cluster.driver(DRIVER, "cut")
    cluster.comes_to("cut", process)
    cluster.network.plug(cluster.form.workers[1], "down")
    time.sleep(CUT_SECONDS)
    cluster.network.plug(cluster.form.workers[1], "up")
    process.wait(LIMIT)
    return cluster.result(DRIVER, "cut")


def disk_full(cluster: Cluster) -> dict[str, object]:
    """The disk of a worker's visited sets is full in mid-run. The run goes on elsewhere, or ends
    and is resumed once there is room."""
    host = cluster.form.workers[2]
    local = cluster.folder / f"home-{host}" / "local"
    process = cluster.driver(DRIVER, "disk")
    cluster.comes_to("disk", process)
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
    cluster.comes_to("driver", process)
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
def cluster_of(environment: Environment, folder: Path, form: Form) -> Iterator[Cluster]:
    """A running cluster."""
    hosts = [S3, MASTER, DRIVER, SECOND, *form.workers]
    with ExitStack() as stack:
        network = stack.enter_context(Network(f"epf{os.getpid()}-", hosts))
        if form is FULL:
            local = folder / f"home-{form.workers[2]}" / "local"  # a small disk
            local.mkdir(parents=True)
            run("mount", "-t", "tmpfs", "-o", "size=700M,mode=0777", "tmpfs", str(local))
            stack.callback(run, "umount", "-l", str(local))
        cluster = Cluster(network, environment, folder, form)
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
    parser.add_argument("--short", action="store_true", help="a short form: a worker is killed")
    parser.add_argument("--large", action="store_true", help="102 million states, undisturbed")
    parser.add_argument("--record", action="store_true", help="renew the table of docs/cluster.md")
    chosen = parser.parse_args()
    if lacks := missing():
        sys.exit(f"make cluster: {lacks}")
    place = chosen.python or Path(tempfile.mkdtemp(prefix="epochfence-cluster-", dir="/var/tmp"))
    place.chmod(0o755)
    environment = Environment(place)
    form = SHORT if chosen.short else LARGE if chosen.large else FULL
    if not environment.archive.exists():
        (environment.make if form is FULL else environment.link)()
    local = place / "local.json"
    words = [str(environment.bin / "epochfence"), "check", *form.system, "--json", str(local)]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    expected = figures(json.loads(local.read_text()))
    lines, wrong = ["| disturbance | states | transitions | seconds |", "|---|---|---|---|"], 0
    of_form = {SHORT: ["worker"], LARGE: ["none"], FULL: list(DISTURBANCES)}
    keys = chosen.run or of_form[form]
    runs = Path(tempfile.mkdtemp(prefix="runs-", dir=place))
    runs.chmod(0o755)
    with cluster_of(environment, runs, form) as cluster:
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
