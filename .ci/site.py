"""Hooks of the site: the pages and files beside docs/ are part of it, and links to them hold."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[1]
# Pages of the repository's root, by their names on the site; README first.
PAGES = {
    "README.md": "index.md",
    "CHANGELOG.md": "changes.md",
    "ARCHITECTURE.md": "architecture.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "CODE_OF_CONDUCT.md": "conduct.md",
}
LINK = re.compile(r"(\]\()((?:\.\./|docs/)?[\w./-]+)((?:#[^)\s]*)?\))")


def _in_the_repository(target: str, page: str) -> str:
    """A link's target from the repository's root."""
    folder = "" if page in PAGES.values() else "docs"
    return str((ROOT / folder / target).resolve().relative_to(ROOT))


def _rewritten(text: str, page: str) -> str:
    """Links as they are on the site, where pages of the root and of docs/ lie side by side."""

    def link(found: re.Match[str]) -> str:
        target = _in_the_repository(found[2], page)
        return found[1] + PAGES.get(target, target.removeprefix("docs/")) + found[3]

    return LINK.sub(link, text)


def on_files(files: Any, *, config: Any) -> Any:
    """Adds the pages of the root, and the files that any page links to."""
    for name, page in PAGES.items():
        files.append(File.generated(config, page, content=(ROOT / name).read_text()))
    for page in list(files.documentation_pages()):
        for _, target, _ in LINK.findall(page.content_string):
            path = _in_the_repository(target, page.src_uri)
            outside = path not in PAGES and not path.startswith("docs/")
            if outside and (ROOT / path).is_file() and files.get_file_from_path(path) is None:
                files.append(File.generated(config, path, abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Rewrites the links of a page."""
    return _rewritten(markdown, page.file.src_uri)
