"""The entry point of an executor's container: `python -m epochfence.checker.spark.kubernetes`.

Spark passes the argument `executor` to a pod's container, and the rest in the environment
(BasicExecutorFeatureStep). Spark's images have a script for that; the package pyspark has none.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

from .options import SparkError
from .session import find_java

MAIN = "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"
ASKED = {
    "--driver-url": "SPARK_DRIVER_URL",
    "--executor-id": "SPARK_EXECUTOR_ID",
    "--cores": "SPARK_EXECUTOR_CORES",
    "--app-id": "SPARK_APPLICATION_ID",
    "--hostname": "SPARK_EXECUTOR_POD_IP",
    "--resourceProfileId": "SPARK_RESOURCE_PROFILE_ID",
    "--podName": "SPARK_EXECUTOR_POD_NAME",
}
"""The arguments of MAIN, by the variables that have their values."""
MEMORY = "SPARK_EXECUTOR_MEMORY"


def command(given: Sequence[str], environment: Mapping[str, str], jars: Path) -> list[str]:
    """The arguments of Java for an executor. Raises SparkError if Spark didn't start this
    container.
    """
    if list(given) != ["executor"]:
        raise SparkError(
            "this image is for Spark's executors: name it in spark.kubernetes.container.image"
        )
    lacking = [name for name in (MEMORY, *ASKED.values()) if name not in environment]
    if lacking:
        raise SparkError(f"Spark hasn't started this container: it lacks {', '.join(lacking)}")
    options = [name for name in environment if re.fullmatch(r"SPARK_JAVA_OPT_\d+", name)]
    options.sort(key=lambda name: int(name.rpartition("_")[2]))
    places = ("SPARK_CONF_DIR", "HADOOP_CONF_DIR", "SPARK_CLASSPATH")
    path = [*(environment.get(name, "") for name in places), f"{jars}/*"]
    memory = environment[MEMORY]
    words = [environment[name] for name in options]
    words += [f"-Xms{memory}", f"-Xmx{memory}", "-cp", ":".join(filter(None, path)), MAIN]
    for argument, name in ASKED.items():
        words += [argument, environment[name]]
    return words


def main() -> NoReturn:
    """Replaces this process by the executor; on failure prints a line and ends with exit code 2."""
    try:
        spark = find_spec("pyspark")
        if spark is None or spark.origin is None:
            raise SparkError("this image has no pyspark")
        words = command(sys.argv[1:], os.environ, Path(spark.origin).parent / "jars")
        java = find_java()
    except SparkError as error:
        print(f"epochfence: {error}", file=sys.stderr)
        sys.exit(2)
    os.execv(java, [java, *words])


if __name__ == "__main__":
    main()
