"""A broker of each release that --brokers names, for all tests that need one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from epochfence.model.conformance.kafka.broker import VERSIONS, Broker


def wanted(config: pytest.Config) -> list[str]:
    """The releases that --brokers names."""
    named = str(config.getoption("--brokers")).split()
    return list(VERSIONS) if named == ["all"] else named


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test with a broker is one for each release, and none where --brokers names none."""
    if "broker" in metafunc.fixturenames:
        metafunc.parametrize("broker", wanted(metafunc.config), indirect=True, scope="session")


@pytest.hookimpl(tryfirst=True)  # before samples are drawn
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Without --brokers, `make test` isn't held up by them, and none of them is a skipped test. A
    test marked with `releases` is for these alone."""
    left = [item for item in items if _is_without(item, wanted(config))]
    items[:] = [item for item in items if item not in left]
    config.hook.pytest_deselected(items=left)


def _is_without(item: pytest.Item, releases: list[str]) -> bool:
    """Whether a test needs a broker, and there is none for it."""
    if "broker" not in getattr(item, "fixturenames", ()):
        return False
    marker = item.get_closest_marker("releases")
    if marker is None or not releases:
        return not releases
    given: Any = item
    return given.callspec.params["broker"] not in marker.args


@pytest.fixture(scope="session")
def broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Broker]:
    """A running broker; after a failure its folder, with its logs, stays and is named."""
    folder = tmp_path_factory.mktemp(f"kafka-{request.param}") / "broker"
    failed = request.session.testsfailed
    with Broker(request.param, folder, takes_debugger=True) as running:
        yield running
    if request.session.testsfailed > failed:
        print(f"\nthe broker's logs: {running.log}")
