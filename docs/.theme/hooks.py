"""Adds the generated pages and drawings to the site."""

import re
import sys
from collections.abc import Iterable
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from epochfence.diagrams.playground.pyodide import FetchError
from epochfence.diagrams.playground.site import site
from epochfence.diagrams.reference import bug_pages, finding_pages, sections
from epochfence.tests.generated import generated

LONG = (
    "brokers.md",
    "bugs.md",
    "clients.md",
    "configuration.md",
    "conformance.md",
    "examples.md",
    "findings.md",
    "judge.md",
    "language.md",
    "model.md",
    "modules.md",
    "performance.md",
    "proofs.md",
    "protocol.md",
    "rules.md",
    "semantics.md",
    "systems.md",
    "tour.md",
    "zh/tour.md",
    *(
        f"protocol/{machine}.md"
        for machine in (
            "authorizer", "group", "partition", "producer", "replica", "rpc_manager", "store",
            "transaction",
        )
    ),
)  # fmt: skip
"""Pages of more than twelve screens, whose sections have pages of their own."""


MACHINES = {
    "transaction": "Transaction coordinator",
    "producer": "Transactional producer",
    "producer_id_manager": "Producer ids, as the coordinator sees them",
    "partition": "Partition leader",
    "rpc_manager": "RPCProducerIdManager",
    "callers": "Callers of producer ids",
    "zk_manager": "ZkProducerIdManager",
    "zookeeper": "ZooKeeper",
    "coordinator": "Brokers as coordinators",
    "cluster": "__transaction_state",
    "clients": "Producers and consumers",
    "registration": "Partition registration",
    "group": "Group coordinator",
    "consumer": "Consumer of a group",
    "reader": "Consumer",
    "store": "Partition",
    "fetcher": "read_committed consumer",
    "offsets": "__consumer_offsets",
    "acl_table": "ACLs",
}
"""Machines by the names that Kafka has for them, where their own is another one."""

NOTE = re.compile(r"\A<!--.*?-->\s*", re.DOTALL)
"""What a generated page begins with: without it, the page's title is its heading."""

EMPTY_SITEMAP = '<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"></urlset>\n'


def on_config(config: MkDocsConfig) -> None:
    """Lists the machines' pages in the navigation, below `protocol.md`."""
    pages = [name for name in generated() if name.startswith("protocol") and name.endswith(".md")]
    _expand(config.nav, [*map(_titled, pages)])


def _titled(page: str) -> str | dict[str, str]:
    """A page's entry in the navigation."""
    title = MACHINES.get(page.removeprefix("protocol/").removesuffix(".md"))
    return {title: page} if title else page


def _expand(nav: Any, pages: list[str | dict[str, str]]) -> None:
    for entry in nav:
        for title, inside in entry.items() if isinstance(entry, dict) else ():
            if inside == "protocol.md":
                entry[title] = pages
            elif isinstance(inside, list):
                _expand(inside, pages)


def on_files(files: Files, *, config: MkDocsConfig) -> None:
    """Adds what is generated, in place of a file of that name."""
    for name, content in generated().items():
        if (old := files.get_file_from_path(name)) is not None:
            files.remove(old)
        text = NOTE.sub("", content.decode()) if name.endswith(".md") else content
        files.append(File.generated(config, name, content=text))
    texts = {each.src_uri: each.content_string for each in files.documentation_pages()}
    cut = sections.cut(texts, LONG)
    for name, text in (cut | finding_pages.decorated(cut) | bug_pages.added(cut)).items():
        if (old := files.get_file_from_path(name)) is not None:
            files.remove(old)
        files.append(File.generated(config, name, content=text))
    # the switch of language asks for it
    files.append(File.generated(config, "zh/sitemap.xml", content=EMPTY_SITEMAP))
    for name, content in _playground() if config.extra.get("playground", True) else ():
        files.append(File.generated(config, f"play/{name}", content=content))


def _playground() -> Iterable[tuple[str, bytes]]:
    """The files of the playground; without them, a line says why."""
    try:
        return site().items()
    except FetchError as problem:
        print(f"The site has no playground: {problem}", file=sys.stderr)
        return ()
