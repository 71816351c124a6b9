"""Adds the generated pages and drawings to the site."""

from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from epochfence.tests.generated import generated


def on_config(config: MkDocsConfig) -> None:
    """Lists the machines' pages in the navigation, below `protocol.md`."""
    pages = [name for name in generated() if name.startswith("protocol") and name.endswith(".md")]
    _expand(config.nav, pages)


def _expand(nav: Any, pages: list[str]) -> None:
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
        files.append(File.generated(config, name, content=content))
