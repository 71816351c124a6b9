"""One process at a time: a lock on an open file, which ends with the process that holds it."""

from __future__ import annotations

import fcntl


def lock(descriptor: int) -> bool:
    """Whether the file is this process's now; False where another one has it.

    A file system without locks gives it to everyone: checksums still tell what two processes have
    mixed up.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        pass
    return True
