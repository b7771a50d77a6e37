"""Hooks of MkDocs for docs/mkdocs.yml."""

from pathlib import Path


def on_config(config):
    """Removes the optional pages that do not exist from the navigation."""
    missing = {page for page in config.extra["optional"] if not (Path(config.docs_dir) / page).exists()}
    for section in config.nav:
        for title, pages in section.items():
            if isinstance(pages, list):
                section[title] = [page for page in pages if not missing & set(page.values())]
    return config
