"""A broker of each release that --brokers names, for all tests that need one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from epochfence.tests.brokers.kafka import VERSIONS, Broker


def wanted(config: pytest.Config) -> list[str]:
    """The releases that --brokers names."""
    named = str(config.getoption("--brokers")).split()
    return list(VERSIONS) if named == ["all"] else named


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test with a broker is one for each release, and none where --brokers names none."""
    if "broker" in metafunc.fixturenames:
        metafunc.parametrize("broker", wanted(metafunc.config), indirect=True, scope="session")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Without --brokers, `make test` isn't held up by them, and none of them is a skipped test."""
    if not wanted(config):
        needing = [item for item in items if "broker" in getattr(item, "fixturenames", ())]
        items[:] = [item for item in items if item not in needing]
        config.hook.pytest_deselected(items=needing)


@pytest.fixture(scope="session")
def broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Broker]:
    """A running broker; after a failure its folder, with its logs, stays and is named."""
    folder = tmp_path_factory.mktemp(f"kafka-{request.param}") / "broker"
    failed = request.session.testsfailed
    with Broker(request.param, folder) as running:
        yield running
    if request.session.testsfailed > failed:
        print(f"\nthe broker's logs: {running.log}")
