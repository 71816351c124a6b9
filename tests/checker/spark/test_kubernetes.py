"""The manifest of docs/cluster.md and the executors' image: read by Spark's own Kubernetes client,
and run on a stand-in for Kubernetes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from epochfence.checker.spark.kubernetes import ASKED, MAIN, MEMORY, command
from epochfence.checker.spark.options import SparkError
from epochfence.tests.checker.spark.kubelet import ADDRESS, ROOT, Kubelet, settings

MANIFEST = ROOT / "docs" / "examples" / "cluster" / "kubernetes.yaml"
GIVEN = {
    MEMORY: "2g",
    **{name: name.lower() for name in ASKED.values()},
    **{f"SPARK_JAVA_OPT_{number}": f"-D{number}=a b" for number in (10, 2)},
    "SPARK_CONF_DIR": "/opt/spark/conf",
}

Manifest = list[dict[str, Any]]


def read() -> Manifest:
    return list(yaml.safe_load_all(MANIFEST.read_text()))


# The entry point ----------------------------------------------------------------------------------


def test_an_executor_is_started_as_sparks_own_image_does() -> None:
    words = command(["executor"], GIVEN, Path("/jars"))
    assert words[:6] == [
        "-D2=a b",
        "-D10=a b",
        "-Xms2g",
        "-Xmx2g",
        "-cp",
        "/opt/spark/conf:/jars/*",
    ]
    assert words[6:9] == [MAIN, "--driver-url", "spark_driver_url"]
    assert len(words) == 7 + 2 * len(ASKED)


@pytest.mark.parametrize(
    ("given", "lacking", "says"),
    [
        ([], "", "this image is for Spark's executors"),
        (["driver"], "", "this image is for Spark's executors"),
        (["executor"], "SPARK_EXECUTOR_ID", "it lacks SPARK_EXECUTOR_ID"),
        (["executor"], MEMORY, f"it lacks {MEMORY}"),
    ],
)
def test_what_spark_has_not_started_is_refused(given: list[str], lacking: str, says: str) -> None:
    here = {name: value for name, value in GIVEN.items() if name != lacking}
    with pytest.raises(SparkError, match=says):
        command(given, here, Path("/jars"))


def test_the_image_without_spark_ends_in_a_line() -> None:
    module = "epochfence.checker.spark.kubernetes"
    done = subprocess.run([sys.executable, "-m", module], capture_output=True, text=True, cwd=ROOT)
    assert (done.returncode, done.stderr.count("\n"), done.stdout) == (2, 1, "")


# The manifest -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def java() -> Iterator[Any]:
    """The classes of Spark's jars."""
    from pyspark.java_gateway import launch_gateway

    gateway: Any = launch_gateway()
    yield gateway.jvm
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()


def unknown(bean: Any, told: Any, at: str) -> Iterator[str]:
    """The fields of a part of a manifest that an object of Kubernetes doesn't have."""
    from py4j.protocol import Py4JError

    if isinstance(told, list):
        for number, each in enumerate(told):
            yield from unknown(bean[number], each, f"{at}[{number}]")
    elif isinstance(told, dict) and "fabric8" in str(bean.getClass().getName()):
        for name, each in told.items():
            try:
                below = getattr(bean, f"get{name[0].upper()}{name[1:]}")()
            except Py4JError:
                yield f"{at}.{name}"
            else:
                yield from unknown(below, each, f"{at}.{name}")


def parsed(java: Any, manifest: Manifest) -> list[str]:
    """The unknown fields of a manifest. A value of another type is an error of Java's."""
    serialization = java.io.fabric8.kubernetes.client.utils.Serialization
    found: list[str] = []
    for each in manifest:
        bean = serialization.unmarshal(json.dumps(each))
        found += unknown(bean, each, each["kind"])
    return found


@pytest.mark.slow
@pytest.mark.long
def test_the_manifest_has_kubernetes_fields(java: Any) -> None:
    from py4j.protocol import Py4JError

    manifest = read()
    assert parsed(java, manifest) == []
    kinds = [each["kind"] for each in manifest]
    assert kinds == ["Namespace", "ServiceAccount", "Role", "RoleBinding", "Service", "Job"]
    wrong = read()
    wrong[-1]["spec"]["template"]["spec"]["containers"][0]["argz"] = []
    assert parsed(java, wrong) == ["Job.spec.template.spec.containers[0].argz"]
    wrong = read()
    wrong[-1]["spec"]["backoffLimit"] = "none"
    with pytest.raises(Py4JError):
        parsed(java, wrong)


def test_the_parts_of_the_manifest_name_each_other() -> None:
    space, account, role, binding, service, job = read()
    pod = job["spec"]["template"]
    assert {each["metadata"]["namespace"] for each in read()[1:]} == {space["metadata"]["name"]}
    assert pod["spec"]["serviceAccountName"] == account["metadata"]["name"]
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert binding["subjects"][0]["name"] == account["metadata"]["name"]
    assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
    (container,) = pod["spec"]["containers"]
    (found,) = (each["value"] for each in container["env"] if "value" in each)
    asked = settings(found)
    ports = {str(each["port"]) for each in service["spec"]["ports"]}
    assert ports == {asked["spark.driver.port"], asked["spark.driver.blockManager.port"]}
    names = f"{service['metadata']['name']}.{space['metadata']['name']}.svc"
    assert asked["spark.driver.host"] == names
    assert asked["spark.kubernetes.namespace"] == space["metadata"]["name"]
    images = {asked["spark.kubernetes.container.image"], container["image"]}
    assert {image.partition(":")[2] for image in images} == {"java", "executor"}


@pytest.mark.slow(30)
@pytest.mark.long
def test_a_search_runs_as_the_manifest_has_it(tmp_path: Path) -> None:
    """With the manifest's arguments and settings, but for addresses and sizes."""
    (container,) = read()[-1]["spec"]["template"]["spec"]["containers"]
    (found,) = (each["value"] for each in container["env"] if "value" in each)
    here = {
        "spark.driver.host": ADDRESS,
        "spark.driver.bindAddress": ADDRESS,
        "spark.driver.port": "0",
        "spark.driver.blockManager.port": "0",
        "spark.executor.instances": "2",
        "spark.executor.cores": "1",
        "spark.executor.memory": "512m",
    }
    asked = settings(found.replace("$(POD_NAME)", "driver"))
    assert here.keys() <= asked.keys()
    conf = " ".join(f"--conf {name}={value}" for name, value in (asked | here).items())
    result = tmp_path / "result.json"
    with Kubelet() as kubelet:
        kubelet.add({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "driver"}, "spec": {}})
        replaced = {
            "transactions": "docs/examples/lease.py",
            "--storage": tmp_path / "run",
            "--master": f"k8s://{kubelet.url}",
        }
        words = [
            str(replaced.get(name, word)) if name == word else f"{name}={replaced.get(name)}"
            for word in container["args"]
            for name in (word.partition("=")[0],)
            if name != "--engine"
        ]
        done = subprocess.run(
            [sys.executable, "-m", "epochfence.cli", *words, "--engine=spark", "--hand-over=0",
             "--shards=2", f"--json={result}"],
            cwd=ROOT,
            env=os.environ | {"PYSPARK_SUBMIT_ARGS": f"{conf} pyspark-shell"},
            capture_output=True,
            text=True,
            timeout=600,
        )  # fmt: skip
        said = done.stdout + done.stderr + kubelet.logs()
        created = [path for method, path in kubelet.asked if method == "POST" and "pods" in path]
        left = list(kubelet.processes)
    assert done.returncode == 0, said
    found = json.loads(result.read_text())
    assert (found["verdict"], found["engine"]["levels_on_spark"] > 1) == ("holds", True)
    assert len(created) == 2
    assert left == []
