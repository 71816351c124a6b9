"""Features, and the releases in which each holds."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache

from .declaration.arguments import check_kind, check_name, items, one_of, shown
from .declaration.errors import DeclarationError
from .expressions import Expression
from .terms.interned import Interned

MIXED = "+"
"""Stands before each part of a protocol that is of a release of its own."""


@dataclass(frozen=True, eq=False)
class FeatureInfo(Interned):
    """A behaviour of releases: from `since` on (None: no release has it), before `until` if given,
    and in the patch releases `backports` of earlier lines. A system has the feature if all its
    `parts` have it.
    """

    name: str
    since: str | None
    until: str | None = None
    sentence: str = ""
    source: str = ""
    parts: tuple[str, ...] = ()
    backports: tuple[str, ...] = ()

    @property
    def first(self) -> str:
        """The first releases that have it, as `4.2.2, 4.3.1, 4.4`, or `none`."""
        return ", ".join((*self.backports, self.since)) if self.since else "none"


def feature(
    name: str,
    since: str | None,
    *,
    until: str | None = None,
    sentence: str = "",
    source: str = "",
    parts: tuple[str, ...] = (),
    backports: tuple[str, ...] = (),
) -> Expression:
    """A feature as a condition for rows and guards. A system's protocol settles it.

    `since=None`: no release has it, and a run can switch it on. `parts` are parts of `Protocols`:
    the releases of these parts decide the feature, and all of them must have it. `backports` are
    patch releases of earlier lines: 4.2.2 and the later ones of 4.2, but not 4.3.
    """
    check_name("a feature", name)
    info = FeatureInfo(name, since, until, sentence, source, parts, backports)
    return Expression("feature", (), info)


def check_feature(where: str, given: object) -> None:
    """Raises DeclarationError if it is not a feature."""
    if not isinstance(given, Expression) or given.op != "feature":
        raise DeclarationError(
            f"{where}: {shown(given)} is not a feature: make one with feature(...)"
        )


@dataclass(frozen=True, eq=False)
class Protocols(Interned):
    """The releases of a protocol in order, and its features. The last published release is the
    default.

    `settled` gives features of shared machines a fixed truth in every release. A run can switch
    those that are in `features` as well. `unreleased` are releases that aren't published.
    `unchanged` are releases that behave as the one before them. `parts`, such as a client, may have
    another release than the rest: in `3.9+client=2.4` the client has release 2.4, and everything
    else has release 3.9.
    """

    releases: tuple[str, ...]
    features: tuple[Expression, ...] = ()
    settled: tuple[tuple[Expression, bool], ...] = ()
    unreleased: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name, kind in (("releases", str), ("features", Expression)):
            given = items(f"protocols, {name}", getattr(self, name), kind, name[:-1])
            object.__setattr__(self, name, given)
        for release in self.unreleased:
            if release not in self.releases:
                raise DeclarationError(f"protocols: no release is called {release}")
        for given, holds in (*((each, True) for each in self.features), *self.settled):
            check_feature("protocols", given)
            check_kind(f"protocols, {given}", holds, bool)
        if not set(self.releases).difference(self.unreleased):
            raise DeclarationError("protocols need one release at least")
        names = [info.name for info in self.infos]
        names += [f.data.name for f, _ in self.settled if f.data not in self.infos]
        for info in self.infos:
            if names.count(info.name) > 1:
                raise DeclarationError(f"there are two features called {info.name}")
            for release in (info.since, info.until, *info.backports):
                if release is not None and release not in self.releases:
                    raise DeclarationError(f"feature {info.name}: no release is called {release}")
            for release in info.backports:
                if info.since is None or not self._is_before(release, info.since):
                    raise DeclarationError(
                        f"feature {info.name}: the backport {release} must come before `since`; "
                        "`since` names the first release from which all have the feature"
                    )

    @property
    def infos(self) -> tuple[FeatureInfo, ...]:
        """The declarations of the features."""
        return tuple(feature.data for feature in self.features)

    def settling(self, truths: Mapping[Expression, bool]) -> Protocols:
        """The same protocols with these features settled."""
        return replace(self, settled=(*self.settled, *truths.items()))

    def assuming(self, assumed: Expression) -> Protocols:
        """The same protocols with a feature of no release that holds unless it is switched off."""
        features = (*self.features, assumed)
        return replace(self, features=features, settled=(*self.settled, (assumed, True)))

    @property
    def every_feature(self) -> tuple[Expression, ...]:
        """The features, with the settled ones."""
        return (*self.features, *(feature for feature, _ in self.settled))

    @property
    def newest(self) -> str:
        """The last published release."""
        return [name for name in self.releases if name not in self.unreleased][-1]

    def of_parts(self, *names: str) -> Protocols:
        """The same protocols for a system in which only these parts may have another release."""
        return replace(self, parts=names)

    def mixed(self, release: str, parts: Mapping[str, str | None]) -> str:
        """The protocol in which everything has `release`, except the parts with another release in
        `parts`.

        Raises DeclarationError for an unknown part.
        """
        for part in parts:
            self._check_part(part)
        others = [f"{part}={own}" for part, own in parts.items() if own not in (None, release)]
        return MIXED.join((release, *others))

    def releases_in(self, protocol: str) -> tuple[str, ...]:
        """The declared releases of a protocol: that of the whole first, then those of parts.

        Raises DeclarationError for an unknown release or part.
        """
        whole, of_parts = self._read(protocol)
        return tuple(dict.fromkeys((whole, *of_parts.values())))

    def one_release(self, text: str) -> str:
        """The declared release that behaves as the given one. The text names no parts.

        Warns of a number that is no release. Raises DeclarationError for any other name.
        """
        if MIXED in text:
            raise DeclarationError(f"{text}: name one release")
        return self.releases_in(self.released(text))[0]

    def features_at(self, protocol: str) -> frozenset[str]:
        """The names of the features that hold in `protocol`. It is a declared release, or a release
        between two of them, which behaves as the one before it. Parts may have other releases, as
        in `3.9+client=2.4`.

        Warns of a number that is no release. Raises DeclarationError for any other name.
        """
        return self._features(self, self.released(protocol))

    def released(self, protocol: str) -> str:
        """The protocol. A number that is no release is replaced by the release before it, with a
        warning.

        Patch releases, such as 3.9.1, are releases. Raises DeclarationError as `features_at` does.
        """
        if protocol in self.releases:
            return protocol
        self._read(protocol)
        whole, *others = protocol.split(MIXED)
        parts = [each.partition("=") for each in others]
        return MIXED.join(
            (self._warned(whole), *(f"{part}={self._warned(own)}" for part, _, own in parts))
        )

    def _warned(self, release: str) -> str:
        """The release. A number that is no release is replaced by the one before it, with a
        warning.
        """
        known = (*self.releases, *self.unchanged)
        if release in known or release.startswith(tuple(f"{name}." for name in known)):
            return release
        taken = self._declared(release)
        warnings.warn(f"{release} isn't a release; taken as {taken}", stacklevel=3)
        return taken

    @staticmethod
    @cache
    def _features(protocols: Protocols, protocol: str) -> frozenset[str]:
        """Cached: each machine and each instance reads them."""
        whole, of_parts = protocols._read(protocol)

        def holds(info: FeatureInfo) -> bool:
            parts = [part for part in info.parts if part in protocols.parts]
            parts = parts or protocols.parts or ("",)
            return all(protocols.has(of_parts.get(part, whole), info) for part in parts)

        settled = frozenset(feature.data.name for feature, holds in protocols.settled if holds)
        return settled | frozenset(info.name for info in protocols.infos if holds(info))

    def has(self, release: str, info: FeatureInfo) -> bool:
        """Whether a declared release has a feature. Settled truths don't count."""
        if info.since is None:
            return False
        if self._is_before(release, info.since):
            return any(
                _line(release) == _line(patch) and not self._is_before(release, patch)
                for patch in info.backports
            )
        return info.until is None or self._is_before(release, info.until)

    def _is_before(self, release: str, other: str) -> bool:
        return self.releases.index(release) < self.releases.index(other)

    def _read(self, protocol: str) -> tuple[str, dict[str, str]]:
        """The release of the whole, and those of parts."""
        whole, *others = protocol.split(MIXED)
        of_parts: dict[str, str] = {}
        for other in others:
            part, equal, release = other.partition("=")
            if not equal:
                raise DeclarationError(f"{protocol}: write RELEASE+PART=RELEASE, not {other}")
            self._check_part(part)
            if part in of_parts:
                raise DeclarationError(f"{protocol} gives {part} two releases")
            of_parts[part] = self._declared(release)
        return self._declared(whole), of_parts

    def _check_part(self, part: str) -> None:
        if part not in self.parts:
            raise DeclarationError(f"no part is called {part} ({one_of(part, self.parts)})")

    def _declared(self, release: str) -> str:
        """The declared release that equals this one or is the last one before it."""
        if release in self.releases:
            return release
        wanted = _number(release)
        numbers = {name: number for name in self.releases if (number := _number(name))}
        before = [name for name, number in numbers.items() if number <= wanted]
        is_later = len(before) == len(numbers) and wanted != numbers[before[-1]]
        if not before or is_later:
            there = one_of(release, self.releases)
            raise DeclarationError(f"unknown protocol {release}: {there}")
        return before[-1]

    @staticmethod
    def holds(condition: Expression, features: frozenset[str]) -> bool:
        """Whether a condition on features holds when exactly `features` are on."""
        match condition.op:
            case "feature":
                return condition.data.name in features
            case "const":
                return bool(condition.data)
            case "not":
                return not Protocols.holds(condition.args[0], features)
            case "and":
                return all(Protocols.holds(part, features) for part in condition.args)
            case "or":
                return any(Protocols.holds(part, features) for part in condition.args)
            case _:
                raise DeclarationError(f"`{condition}` is not made of features alone")


def _line(release: str) -> tuple[int, ...]:
    """The line of a release: 4, 2 for 4.2 and 4.2.2."""
    return _number(release)[:2]


def _number(release: str) -> tuple[int, ...]:
    """The parts of a release number: 3, 9 for 3.9 and for 3.9.0. Empty if it is no number."""
    if not re.fullmatch(r"\d+(\.\d+)*", release, re.ASCII):
        return ()
    return tuple(int(part) for part in re.sub(r"(\.0+)+$", "", release).split("."))


ONE_PROTOCOL = Protocols(("1",))
