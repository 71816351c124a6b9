"""An executor that differs from the driver is named before the run."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from pyspark import cloudpickle

from epochfence.checker.spark import executors
from epochfence.checker.spark.executors import REMEDY, check_executors, looking, python
from epochfence.checker.spark.options import SparkError
from epochfence.checker.spark.session import reason
from epochfence.tests.checker.spark.in_process import InProcess

LOST = (
    "Job aborted due to stage failure: Task 0 in stage 0.0 failed 4 times, most recent failure: "
    "Lost task 0.3 in stage 0.0 (TID 3) (10.0.0.2 executor 1): java.io.IOException: Cannot run "
    'program "environment/bin/python": error=2, No such file or directory'
)


def answering(monkeypatch: pytest.MonkeyPatch, **changed: str | None) -> None:
    """Has executors answer as the driver would, but for some versions; none: there is none."""

    def made(names: tuple[str, ...]) -> Callable[[Any], Any]:
        def answer(some: Any) -> Any:
            ((host, found),) = looking(names)(some)
            for name, version in changed.items():
                found.pop(name)
                if version is not None:
                    found[name] = version
            yield host, found

        return answer

    monkeypatch.setattr(executors, "looking", made)


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"epochfence": None}, "has no package epochfence; "),
        ({"numba": "0.1"}, "has numba 0.1, and the driver has "),
        ({"Python": "3.9"}, f"has Python 3.9, and the driver has {python()}; "),
    ],
)
def test_an_executor_that_differs_is_named_with_the_remedy(
    monkeypatch: pytest.MonkeyPatch, changed: dict[str, str | None], told: str
) -> None:
    check_executors(InProcess(), reason)
    answering(monkeypatch, **changed)
    with pytest.raises(SparkError, match=r"^the executor on [^ ]+ ") as error:
        check_executors(InProcess(), reason)
    assert told in str(error.value)
    assert str(error.value).endswith(REMEDY)
    assert "\n" not in str(error.value)


def test_an_executor_that_cannot_run_python_is_named() -> None:
    class Failing(InProcess):
        def parallelize(self, items: Any, count: int) -> Any:
            raise RuntimeError(LOST)

    with pytest.raises(SparkError, match=r"^executor 1 on 10\.0\.0\.2 can't run Python: ") as error:
        check_executors(Failing(), reason)
    assert "No such file" in str(error.value)
    assert str(error.value).endswith(REMEDY)


def test_an_executor_needs_no_package_to_answer() -> None:
    sent = cloudpickle.dumps(looking(("epochfence", "pyarrow")))
    code = (
        "import sys, pickle; sys.modules['epochfence'] = None; "
        f"((_, found),) = pickle.loads({sent!r})([]); print(sorted(found))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "['Python', 'pyarrow']\n"
