"""Starts Spark sessions, and reports the faults of a machine that prevent it."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager, suppress
from importlib.metadata import version
from typing import Any
from urllib.parse import urlsplit

from .executors import check_executors
from .options import (
    LOCAL_FOLDERS,
    SparkError,
    SparkOptions,
    check_master,
    is_local,
    local_folder,
)

LEAST_JAVA = 17
JAVA_REMEDY = (
    "install one (Debian and Ubuntu: apt install openjdk-17-jre-headless) or name it in JAVA_HOME"
)
LOOPBACK, LISTEN_ON = "127.0.0.1", "SPARK_LOCAL_IP"
MASTER_WITHIN = 5.0  # seconds for a connection to a master
LITTLE_EFFORT = "-XX:TieredStopAtLevel=1"  # without Java's optimizing compiler


def find_java() -> str:
    """The Java for Spark. Raises SparkError if it is missing or too old."""
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
    need = f"Spark needs Java {LEAST_JAVA} or newer"
    if java is None or not os.access(java, os.X_OK):
        where = f"{java} isn't a program" if home else "none is in PATH"
        raise SparkError(f"{need}, and {where}: {JAVA_REMEDY}")
    try:
        printed = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    except OSError as error:
        raise SparkError(f"{need}, and {java} can't be run: {error.strerror}") from None
    found = re.search(r'version "(?:1\.)?(\d+)', printed.stderr + printed.stdout)
    if found is None:
        raise SparkError(f"{need}, and {java} doesn't print its version: {JAVA_REMEDY}")
    if int(found[1]) < LEAST_JAVA:
        raise SparkError(f"{need}, and {java} is version {found[1]}: {JAVA_REMEDY}")
    return java


def _own_address(master: str) -> str | None:
    """The address on which Spark must listen: loopback if Spark runs only on this machine; with a
    stand-alone master, the address that connects to it; otherwise None.

    Raises SparkError if a stand-alone master doesn't answer.
    """
    if master.startswith("local"):
        return LOOPBACK
    if not master.startswith("spark://"):
        return None
    why = "no address"
    for address in master.removeprefix("spark://").split(","):
        try:
            where = urlsplit(f"//{address}")
            if not where.hostname or not where.port:
                raise SparkError(f"--master {master}: write spark://HOST:PORT")
            with socket.create_connection((where.hostname, where.port), MASTER_WITHIN) as faced:
                return str(faced.getsockname()[0])
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
    raise SparkError(f"can't reach the master {master}: {why}")


def check_local_folder() -> None:
    """Raises SparkError if the user's folder for executors' files is unusable."""
    if LOCAL_FOLDERS in os.environ:
        folder = local_folder()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                pass
        except OSError as error:
            why = error.strerror
            raise SparkError(f"{LOCAL_FOLDERS}: can't write to {folder}: {why}") from None


@contextmanager
def _listening_on(address: str | None) -> Generator[None]:
    """A driver that starts inside listens only on this address, unless the user has set one.
    Spark's own settings (`spark.driver.host` and others) take precedence.
    """
    if address is None or LISTEN_ON in os.environ:
        yield
        return
    os.environ[LISTEN_ON] = address
    try:
        yield
    finally:
        del os.environ[LISTEN_ON]


def settings(master: str, ui: bool = False, *, carrying: bool = False) -> dict[str, str]:
    """The settings of our Spark sessions. `carrying`: Java only transports Python's results, and
    its optimizing compiler would cost more time than it saves.
    """
    options = {
        "spark.ui.enabled": str(ui).lower(),
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        # a reused worker has its code loaded
        "spark.python.worker.reuse": "true",
        # over TCP, small messages wait for acknowledgements
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        # a task waits for the executor with its shard's cache: another one would read the whole
        # shard
        "spark.shuffle.reduceLocality.enabled": "false",
        "spark.locality.wait": "10s",
        # candidates are written once; for few shards, Spark would first write a file for each
        "spark.shuffle.sort.bypassMergeThreshold": "0",
        "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
        "spark.kryoserializer.buffer.max": "2047m",  # the largest results, as without Kryo
        "spark.executorEnv.PYTHONPATH": os.environ.get("PYTHONPATH", ""),
    }
    if carrying:
        # a user's options come after these
        options["spark.driver.defaultJavaOptions"] = LITTLE_EFFORT
        options["spark.executor.defaultJavaOptions"] = LITTLE_EFFORT
    if master.startswith("local"):  # no network
        options["spark.shuffle.compress"] = "false"
    if is_local(master):  # Spark generates the secret; a cluster needs a shared one
        options["spark.authenticate"] = "true"
    return options


def start(master: str, name: str, *, ui: bool = False, carrying: bool = False) -> Any:
    """The present Spark session, or a new one. `ui` serves Spark's web pages; `carrying` is that of
    `settings`. Raises SparkError.
    """
    check_master(master)
    find_java()
    address = _own_address(master)
    check_local_folder()
    from pyspark.sql import SparkSession

    # executors run the same Python as the driver
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder: Any = SparkSession.builder
    try:
        builder = builder.master(master).appName(name)
        for key, value in settings(master, ui, carrying=carrying).items():
            builder = builder.config(key, value)
        own = not is_running()
        with _listening_on(address):
            found = builder.getOrCreate()
        _quiet_once_java_is_gone(found.sparkContext._accumulatorServer)
    except Exception as error:  # various types, from Java and from Python
        why = reason(error)
        if "stopped SparkContext" in why and master.startswith("spark://"):
            why = f"no master of Spark {version('pyspark')} accepts the application there"
        raise SparkError(f"Spark doesn't start with --master {master}: {why}") from None
    if own and not is_local(master):
        try:
            check_executors(found, reason)
        except SparkError:
            stop(found)
            raise
    return found


def _quiet_once_java_is_gone(server: Any) -> None:
    """Suppresses the traceback of a Spark server when Java ends. Functions that need Java report
    that in one line.
    """
    tell = server.handle_error

    def handle_error(request: Any, address: Any) -> None:
        if not isinstance(sys.exception(), (EOFError, OSError)):
            tell(request, address)

    server.handle_error = handle_error


def _is_of_a_dead_java(error: Exception) -> bool:
    from py4j.protocol import Py4JNetworkError

    return isinstance(error, (ConnectionError, Py4JNetworkError))


def is_running() -> bool:
    """Whether this process has a Spark session already."""
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession() is not None


@contextmanager
def session(options: SparkOptions, name: str, *, carrying: bool = False) -> Generator[Any]:
    """A session for a block, by `start`. A new session ends with the block. Raises SparkError."""
    own = not is_running()
    found = start(options.master_url, f"epochfence {name}", ui=options.ui, carrying=carrying)
    try:
        yield found
    finally:
        if own:
            stop(found)


def stop(running: Any) -> None:
    """Ends a session. If its Java is gone, it has already ended."""
    with _java_may_be_gone():
        running.stop()


def give_back(broadcast: Any) -> None:
    """Frees the executors' copies of a broadcast. If Java is gone, it does nothing."""
    with _java_may_be_gone():
        broadcast.destroy()


def forget(rdd: Any) -> None:
    """Frees the executors' data of a persisted RDD. If Java is gone, it does nothing."""
    with _java_may_be_gone():
        rdd.unpersist()


def drop_shuffle(rdd: Any) -> None:
    """Deletes the shuffle files of an RDD. Spark would keep them on disk until a garbage
    collection.
    """
    with _java_may_be_gone():
        rdd._jrdd.rdd().cleanShuffleDependencies(False)


@contextmanager
def _java_may_be_gone() -> Generator[None]:
    from py4j.protocol import Py4JError

    with suppress(OSError, Py4JError):
        yield


@contextmanager
def java_needed() -> Generator[None]:
    """Raises SparkError if Java ends during the block."""
    from py4j.protocol import Py4JError

    try:
        yield
    except (Py4JError, ConnectionError) as error:
        raise SparkError(reason(error)) from error


def reason(error: Exception) -> str:
    """An error of Spark's in a line."""
    if _is_of_a_dead_java(error):
        return "Spark's Java has ended"
    java = getattr(error, "java_exception", None)
    text = str(java.toString() if java is not None else error)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    # the last line of a Python traceback has the message
    messages = [line for line in lines if re.match(r"[\w.]+(Error|Exception)\b.*: ", line)]
    return (messages or lines or [type(error).__name__])[-1 if messages else 0][:300]


@contextmanager
def stage(session: Any, name: str) -> Generator[None]:
    """Gives the stages of the block this name in Spark."""
    from pyspark.traceback_utils import SCCallSiteSync

    context = session.sparkContext
    # PySpark names a stage by its line, unless it is inside another such block
    with SCCallSiteSync(context):
        context.setLocalProperty("callSite.short", name)
        context.setLocalProperty("callSite.long", name)
        yield
