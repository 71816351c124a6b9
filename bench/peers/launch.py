"""Runs one command and writes its resource use: `python -I -S launch.py REPORT COMMAND...`.

REPORT becomes a JSON object of exit_code, seconds (wall), cpu_seconds (user and system) and
peak_rss_bytes. The command inherits standard output and standard error.

On Linux the peak RSS of a child starts at that of its parent (the peak survives fork and exec). A
benchmark that holds gigabytes would add them to every peer. This launcher holds about 11 MB, the
least peak that it can report.
"""

import json
import os
import sys
import time
from pathlib import Path


def main() -> None:
    """Runs the command that the arguments name."""
    report, *command = sys.argv[1:]
    start = time.perf_counter()
    child = os.posix_spawnp(command[0], command, os.environ)
    _, status, used = os.wait4(child, 0)
    seconds = time.perf_counter() - start
    usage = {
        "exit_code": os.waitstatus_to_exitcode(status),
        "seconds": seconds,
        "cpu_seconds": used.ru_utime + used.ru_stime,
        "peak_rss_bytes": used.ru_maxrss * 1024,
    }
    Path(report).write_text(json.dumps(usage), encoding="utf-8")


if __name__ == "__main__":
    main()
