"""A run's folder of another version."""

import json
from pathlib import Path
from typing import Any

import pytest

from epochfence.checker.native.search.checkpoint import CheckpointError
from epochfence.checker.spark.storage.files import Storage
from epochfence.checker.spark.storage.manifest import FORMAT, Level, Manifest
from epochfence.checksums import seal


@pytest.mark.parametrize("level", [{}, {"written_bytes": None}, {"another": 1}])
def test_a_manifest_of_another_format_is_refused_by_both_formats(
    tmp_path: Path, level: dict[str, Any]
) -> None:
    first = Level([1, 0], [], [], 0.0)
    Manifest(Storage(str(tmp_path)), {"system": "s"}, 2, {}, levels=[first]).begin()
    (file,) = tmp_path.glob("manifest-*.json")
    data = json.loads(file.read_bytes())
    data.pop("checksum")
    fields = data["levels"][0] | level
    data["levels"] = [{name: value for name, value in fields.items() if value is not None}]
    file.write_text(json.dumps(seal(data | {"format": "spark 4"})))
    with pytest.raises(CheckpointError) as refused:
        Manifest(Storage(str(tmp_path)), {"system": "s"}, 2, {}).read(None)
    assert f"its format is 'spark 4', and this version reads '{FORMAT}'" in str(refused.value)
