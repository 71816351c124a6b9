"""The error of malformed bytes."""

from __future__ import annotations


class RecordError(Exception):
    """Bytes that can't be read, or values that can't be written.

    `at` is the offset of the first wrong byte from the start of the input (None: a value is wrong),
    `field` the name of the field there.
    """

    def __init__(self, field: str, reason: str, at: int | None = None) -> None:
        self.field, self.reason, self.at = field, reason, at
        where = "" if at is None else f"byte {at}, "
        super().__init__(f"{where}{field}: {reason}")

    def within(self, start: int, path: str = "") -> RecordError:
        """The error in a larger input that has these bytes from `start` on."""
        at = None if self.at is None else start + self.at
        return RecordError(f"{path}{self.field}", self.reason, at)
