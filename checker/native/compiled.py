"""Functions that Numba compiles, and where it keeps their code.

Numba keeps a function's code as long as the function's own file stays as it is, though functions of
other files are compiled into it: a caller would go on with what they were. So here code is kept
under what all sources of this folder are.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportAttributeAccessIssue=false

from __future__ import annotations

from functools import cache, partial
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

from numba import config, njit


def compiled(function: Any = None, *, inline: Literal["never", "always"] = "never") -> Any:
    """The function as Numba compiles it where it is called first, or takes it from a former run;
    without the interpreter's lock."""
    if function is None:
        return partial(compiled, inline=inline)
    others, config.CACHE_DIR = config.CACHE_DIR, str(_folder())
    try:
        return njit(nogil=True, cache=True, inline=inline)(function)
    finally:
        config.CACHE_DIR = others


@cache
def _folder() -> Path:
    """Where code is kept: in `NUMBA_CACHE_DIR`, or beside Python's own."""
    here = Path(__file__).parent
    digest = sha256()
    for path in sorted(here.glob("*.py")):
        digest.update(path.read_bytes())
    return Path(config.CACHE_DIR or here / "__pycache__") / f"numba-{digest.hexdigest()[:16]}"
