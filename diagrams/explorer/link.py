"""Links to a path of a system. Another explorer can show the path, or refuse it, from the link
alone."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import version
from urllib.parse import parse_qsl, urlencode

from ...language import Instance
from .session import Path, PathError, as_text, read_path

LONGEST = 16_384  # characters of a link
_SUM = re.compile(r"(?P<text>.*)&sum=(?P<sum>[0-9a-f]{8})", re.DOTALL)
_NAME = r"[^,=&<>\x00-\x1f]{1,80}"
_FORMS = {
    "system": _NAME,
    "release": r"[\w.+=-]{1,80}",
    "set": rf"({_NAME}=-?\d{{1,9}}(,(?=.)|$))*",
    "with": rf"({_NAME}(,(?=.)|$))*",
    "without": rf"({_NAME}(,(?=.)|$))*",
    "path": r"[\d.]*",
    "beside": r"[\w.+=-]{0,80}",
    "version": r"[\w.+-]{1,40}",
    "declaration": r"[0-9a-f]{10}",
}


class LinkError(ValueError):
    """A link that can't be followed. The message is one line with the reason."""


@dataclass(frozen=True)
class Link:
    """A path of a system at a release, with its constants and its switched features. `declaration`
    is the fingerprint of its rows, and `version` the package's."""

    system: str
    release: str
    constants: Mapping[str, int]
    on: tuple[str, ...]
    off: tuple[str, ...]
    path: Path
    declaration: str
    beside: str = ""
    version: str = field(default_factory=partial(version, "epochfence"))

    def __str__(self) -> str:
        values = {
            "system": self.system,
            "release": self.release,
            "set": ",".join(f"{name}={value}" for name, value in self.constants.items()),
            "with": ",".join(self.on),
            "without": ",".join(self.off),
            "beside": self.beside,
            "path": as_text(self.path),
            "version": self.version,
            "declaration": self.declaration,
        }
        text = urlencode([(name, value) for name, value in values.items() if value], safe=",=")
        return f"{text}&sum={_sum(text)}"

    @property
    def command(self) -> str:
        """The command that opens the explorer with these settings."""
        words = [
            *(f"--set {name}={value}" for name, value in self.constants.items()),
            *(f"--with {name}" for name in self.on),
            *(f"--without {name}" for name in self.off),
        ]
        return " ".join(["epochfence explore", self.system, "--protocol", self.release, *words])


def link_to(instance: Instance, declaration: str, path: Path, beside: str = "") -> Link:
    """The link to a path of an instance."""
    usual = instance.system.protocols.features_at(instance.protocol)
    return Link(
        instance.system.name,
        instance.protocol,
        instance.chosen,
        tuple(sorted(instance.features - usual)),
        tuple(sorted(usual - instance.features)),
        path,
        declaration,
        beside,
    )


def read_link(text: str) -> Link:
    """The link of this text, the part of an address after #. Raises LinkError."""
    found = _SUM.fullmatch(text) if len(text) <= LONGEST else None
    if found is None or _sum(found["text"]) != found["sum"]:
        raise LinkError("The link is cut off or altered, so the page ignores it.")
    values = dict(parse_qsl(found["text"], keep_blank_values=True))
    wrong = [name for name in values if name not in _FORMS]
    wrong += [name for name, form in _FORMS.items() if not _fits(form, values.get(name, ""))]
    if wrong:
        raise LinkError("This version doesn't write such a link, so the page ignores it.")
    try:
        path = read_path(values.get("path", ""))
    except PathError as error:
        raise LinkError(f"The link's path can't be read: {error}.") from None
    constants = (each.split("=") for each in values.get("set", "").split(",") if each)
    return Link(
        values["system"],
        values["release"],
        {name: int(value) for name, value in constants},
        _names(values, "with"),
        _names(values, "without"),
        path,
        values["declaration"],
        values.get("beside", ""),
        values["version"],
    )


def difference(link: Link, here: Link) -> str:
    """The first difference between a link and the explorer that opens it, as a line; empty if they
    agree."""
    named = (
        ("system", link.system, here.system),
        ("release", link.release, here.release),
        ("bounds", _constants(link), _constants(here)),
        ("features", _features(link), _features(here)),
    )
    for what, theirs, ours in named:
        if theirs != ours:
            return f"The link has the {what} {theirs}, and this page {ours}: run {link.command}"
    if link.declaration == here.declaration:
        return ""
    if link.version != here.version:
        return (
            f"The link is of Epochfence {link.version}, which declares {link.system} in another "
            f"way than {here.version}, which is here: open it with that version."
        )
    return f"The link is of another declaration of {link.system}: its path isn't taken."


def _fits(form: str, value: str) -> bool:
    return re.fullmatch(form, value, re.ASCII) is not None


def _names(values: Mapping[str, str], of: str) -> tuple[str, ...]:
    return tuple(name for name in values.get(of, "").split(",") if name)


def _constants(link: Link) -> str:
    return ", ".join(f"{name}={value}" for name, value in link.constants.items()) or "none"


def _features(link: Link) -> str:
    named = [*(f"+{name}" for name in link.on), *(f"-{name}" for name in link.off)]
    return " ".join(named) or "of its release"


def _sum(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]
