"""Links: they lead to the same path, and one that doesn't fit names the difference in a line."""

from __future__ import annotations

from dataclasses import replace

import pytest

from epochfence.checker.named_systems import load_system
from epochfence.diagrams.explorer.explorer import Explorer
from epochfence.diagrams.explorer.link import LONGEST, LinkError, read_link
from epochfence.diagrams.explorer.session import PathError
from epochfence.language import instantiate
from epochfence.tests.diagrams.explorer.test_app import LEASE, lease_at


@pytest.fixture(scope="module")
def explorer() -> Explorer:
    return Explorer(lease_at("1"), ["2"], lease_at)


def test_a_link_holds_everything(explorer: Explorer) -> None:
    link = explorer.link((0, 1, 0), "2")
    assert read_link(str(link)) == link
    assert (link.system, link.release, link.beside, link.path) == ("lease", "1", "2", (0, 1, 0))
    assert link.constants == explorer.session.instance.chosen
    assert explorer.follow(str(link)) == link


@pytest.mark.parametrize("shorter", [1, 2, 9, 30, 80])
def test_a_link_that_is_cut_off_is_refused(explorer: Explorer, shorter: int) -> None:
    with pytest.raises(LinkError, match="cut off or altered"):
        read_link(str(explorer.link((0, 1, 0)))[:-shorter])


def test_a_link_that_is_altered_is_refused(explorer: Explorer) -> None:
    text = str(explorer.link((0, 1, 0)))
    assert "path=0.1.0" in text
    with pytest.raises(LinkError, match="cut off or altered"):
        read_link(text.replace("path=0.1.0", "path=0.1.1"))


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"system": "resend"}, "has the system resend, and this page lease: run epochfence"),
        ({"release": "2"}, "has the release 2, and this page 1: run epochfence explore lease"),
        ({"constants": {"clients": 3}}, "bounds clients=3, and"),
        ({"on": ("x",)}, "features +x, and"),
        ({"off": ("x",)}, "--without x"),
        ({"declaration": "0123456789"}, "another declaration of lease"),
        ({"declaration": "0123456789", "version": "9.0"}, "of Epochfence 9.0"),
        ({"system": '<img src=x onerror="alert(1)">'}, "This version doesn't write such a link"),
        ({"release": "<b>"}, "This version doesn't write such a link"),
        ({"beside": "<b>"}, "This version doesn't write such a link"),
        ({"version": "'"}, "This version doesn't write such a link"),
        ({"constants": {"<i>": 3}}, "This version doesn't write such a link"),
        ({"on": ("<script>",)}, "This version doesn't write such a link"),
    ],
)
def test_a_link_that_does_not_fit_names_the_difference(
    explorer: Explorer, changed: dict[str, object], says: str
) -> None:
    link = replace(explorer.link((0, 1)), **changed)  # type: ignore[arg-type]
    with pytest.raises(LinkError) as refused:
        explorer.follow(str(link))
    told = str(refused.value)
    assert says in told
    assert "\n" not in told
    assert "<" not in told


def test_a_path_that_leads_nowhere_is_refused(explorer: Explorer) -> None:
    with pytest.raises(PathError, match="step 1"):
        explorer.follow(str(explorer.link((0, 99))))


@pytest.mark.parametrize("text", ["", "path=0.1", "&sum=00000000", "x" * (LONGEST + 1), "\0", "é"])
def test_what_is_no_link_is_refused(text: str) -> None:
    with pytest.raises(LinkError, match="cut off or altered"):
        read_link(text)


def test_switched_features_are_in_a_link() -> None:
    instance = instantiate(load_system(LEASE), "2", {"clients": 3}, switch_off=["fencing"])
    link = Explorer(instance, [], lease_at).link((0,))
    assert link.off == ("fencing",)
    assert link.command.startswith("epochfence explore lease --protocol 2 --set clients=3 ")
    assert link.command.endswith(" --without fencing")
