"""JSON that says one thing only: what Python's reader lets pass in silence is refused here.

Of two values under one name it would keep the last, it knows numbers that JSON doesn't have (NaN,
Infinity, 1e400), and text that can't be written again (half of a surrogate pair). All that others
may have written or changed is read so: histories, traces, and what the checker has kept.
"""

from __future__ import annotations

import json
from collections import Counter
from math import isfinite
from typing import Any, NoReturn


class NotJsonError(ValueError):
    """A text that is no JSON, or doesn't say one thing: what is wrong."""

    def __init__(self, why: str) -> None:
        super().__init__(f"not valid JSON: {why}")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        counts = Counter(name for name, _ in pairs)
        twice = next(name for name, count in counts.items() if count > 1)
        raise NotJsonError(f"{twice[:40]!a} occurs twice")
    return made


def _float(text: str) -> float:
    found = float(text)
    if not isfinite(found):
        raise NotJsonError(f"{text[:20]} is too large a number")
    return found


def _constant(text: str) -> NoReturn:
    raise NotJsonError(f"{text} is not a number")


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_float=_float, parse_constant=_constant)


def read_json(text: bytes) -> Any:
    """The value of a text in UTF-8. Raises NotJsonError."""
    try:
        decoded = text.decode("utf-8-sig")
        found = _DECODER.decode(decoded)
        if "\\u" in decoded:  # a surrogate that isn't escaped is no UTF-8
            json.dumps(found, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        raise NotJsonError(f"column {error.colno}: {error.msg}") from None
    except UnicodeDecodeError as error:
        raise NotJsonError(f"byte {error.start + 1} is not UTF-8") from None
    except UnicodeEncodeError:
        raise NotJsonError("half of a surrogate pair is not a character") from None
    except RecursionError:
        raise NotJsonError("it is nested too deep") from None
    except NotJsonError:
        raise
    except ValueError:  # Python's limit
        raise NotJsonError("a number has thousands of digits") from None
    return found
