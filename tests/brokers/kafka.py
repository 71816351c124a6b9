"""Downloads the jars of the releases that are named, or of all, which then need no Maven again.

`--lock` writes their checksums to checksums.txt.
"""

from __future__ import annotations

import sys

from epochfence.model.conformance.classes.host import UnavailableError
from epochfence.model.conformance.kafka.broker import CHECKSUMS, VERSIONS, WITH_BUGS, bring, sums


def main() -> None:
    """Prints the folder of each version."""
    named = [name for name in sys.argv[1:] if name != "--lock"] or [*VERSIONS, *WITH_BUGS]
    lines: list[str] = []
    try:
        for release in named:
            version = (VERSIONS | WITH_BUGS)[release]
            folder = bring(version, checks="--lock" not in sys.argv)
            lines += [f"{digest}  {version}/{jar}" for jar, digest in sums(folder).items()]
            print(f"Kafka {version}: {folder}")
    except UnavailableError as error:
        sys.exit(str(error))
    if "--lock" in sys.argv:
        CHECKSUMS.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
