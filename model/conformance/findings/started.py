"""Starts brokers with jars from Maven for one reproduction, and ends them after it."""

from __future__ import annotations

import secrets
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from ...wire.connection import Security
from ..classes.host import UnavailableError
from ..kafka.broker import KRAFT_SESSION_S, VERSIONS, WITH_BUGS, Broker, Listener
from .brokers import Brokers
from .reproductions import Reproduction

RELEASES: Final = tuple(sorted(VERSIONS | WITH_BUGS))
"""The releases of these brokers."""
_PLAIN: Final = "org.apache.kafka.common.security.plain.PlainLoginModule required"
_ADMIN, _READER = "admin", "reader"


def _secured(passwords: dict[str, str]) -> Listener:
    """A listener with SASL. Users other than the admin have no permissions."""
    users = " ".join(f'user_{name}="{password}"' for name, password in passwords.items())
    return Listener(
        "SECURED",
        "SASL_PLAINTEXT",
        settings=(
            "listener.name.secured.sasl.enabled.mechanisms=PLAIN",
            f"listener.name.secured.plain.sasl.jaas.config={_PLAIN} {users};",
            "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            f"super.users=User:ANONYMOUS;User:{_ADMIN}",
        ),
    )


@contextmanager
def started(
    reproduction: Reproduction,
    release: str,
    say: Callable[[str], object],
    class_path: Callable[[], str] | None = None,
) -> Generator[Brokers]:
    """Starts brokers of a release that meet a reproduction's requirements. The client has the
    brokers' version, unless `class_path` returns another one. Raises UnavailableError without Java,
    Maven or the jars."""
    if reproduction.is_for_kraft and release.startswith("2."):
        raise UnavailableError(f"--broker {release}: this finding takes brokers with KRaft")
    passwords = {name: secrets.token_hex(16) for name in (_ADMIN, _READER)}
    how, user = (
        Security(username=name, password=password) if reproduction.denies else None
        for name, password in passwords.items()
    )
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="epochfence-")))
        first = stack.enter_context(
            Broker(
                release,
                folder / "1",
                _secured(passwords) if reproduction.denies else None,
                settings=reproduction.settings,
                takes_debugger=reproduction.holds,
            )
        )
        restart = first.restart
        if reproduction.brokers > 1:
            second = Broker(release, folder / "2", settings=reproduction.settings, beside=first)
            stack.enter_context(second)

            def restart() -> None:
                """Kills the second broker, and starts it once the controller has noticed."""
                second.kill()
                time.sleep(2 * KRAFT_SESSION_S)
                second.start()

        yield Brokers(
            f"127.0.0.1:{first.also_port}" if reproduction.denies else first.bootstrap,
            how or Security(),
            class_path or (lambda: f"{first.jars}/*"),
            restart,
            say,
            first.debugger,
            user,
        )
