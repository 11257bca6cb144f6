"""Hooks of the site: the pages and files beside docs/ are part of it, and links to them hold."""

from __future__ import annotations

import os
import re
import subprocess
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
# A link that is called as its file is.
FILE_NAME = re.compile(r"\[(?:docs/)?[\w-]+\.md(?=\]\(((?:\.\./|docs/)?[\w./-]+\.md))")

# What docstrings become, and what is meant: names, parameters without a description, pages.
SHOWN = {">open_dataset<": ">open<", "path - like": "path-like"}
UNDESCRIBED = re.compile(r' \u2013\s*<div class="doc-md-description">\s*</div>')
PAGE_NAME = re.compile(r"<code>docs/([\w-]+)\.md</code>")

# A row whose first cell is a heading of those below.
HEADING_ROW = re.compile(r"<tr>\n<td>(.*)</td>\n((?:<td></td>\n)+)</tr>")
# What stands in cells of tables and in code, and what no line ends in: names that have hyphens,
# short code, a number before its unit, a word before the mark of a note.
CELL = re.compile(r"(<(td|th|code)(?: [^>]*)?>)(.*?)(</\2>)", re.DOTALL)
NAME = re.compile(r"(?<![\w&#.-])(-{1,2}\w[\w.=-]*|\w[\w.]*(?:-\w[\w.]*)+)(?![^<]*>)")
SHORT_CODE = re.compile(r"<code>(?=[^<\s]{1,32}</code>)")
UNIT = re.compile(r"(?<=\w) (?=[¹²³⁴])|(?<=\d) (?=%|(?:[mnµ]?s|[kMG]i?B|[MB])\b)")


def _version() -> str:
    text = (ROOT / "graphzero" / "__init__.py").read_text()
    return re.findall(r'^__version__ = "(.+)"$', text, re.MULTILINE)[0]


def _repository() -> str:
    """The address of the repository that the site is built from, or "" if it is not on the web."""
    if name := os.environ.get("GITHUB_REPOSITORY"):
        return f"{os.environ.get('GITHUB_SERVER_URL', 'https://github.com')}/{name}"
    command = ["git", "remote", "get-url", "origin"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    pattern = r"(?:https://(?:[^@/]*@)?|git@)([\w.-]+)[/:](.+?)(?:\.git)?\n"
    address = re.fullmatch(pattern, done.stdout)
    return f"https://{address[1]}/{address[2]}" if address else ""


def on_config(config: Any) -> Any:
    """Version and repository are in the header."""
    config.site_name = f"graphzero {_version()}"
    config.repo_url = _repository()
    config.repo_name = "/".join(config.repo_url.split("/")[3:])
    return config


def _title(page: Path) -> str:
    return re.findall("^# (.*)", page.read_text(), re.MULTILINE)[0]


def _in_the_repository(target: str, page: str) -> str:
    """A link's target from the repository's root."""
    folder = "" if page in PAGES.values() else "docs"
    return str((ROOT / folder / target).resolve().relative_to(ROOT))


def _rewritten(text: str, page: str) -> str:
    """Links as they are on the site, where pages of the root and of docs/ lie side by side."""

    def title(file_name: re.Match[str]) -> str:
        return "[" + _title(ROOT / _in_the_repository(file_name[1], page))

    def link(found: re.Match[str]) -> str:
        target = _in_the_repository(found[2], page)
        return found[1] + PAGES.get(target, target.removeprefix("docs/")) + found[3]

    return LINK.sub(link, FILE_NAME.sub(title, text))


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


def on_page_content(html: str, *, page: Any, **_: Any) -> str:
    """Names are those that users write, and no line of a table or of code ends inside one."""
    for shown, written in SHOWN.items():
        html = html.replace(shown, written)

    def wide(row: re.Match[str]) -> str:
        return f'<tr>\n<td colspan="{1 + row[2].count("<td>")}">{row[1]}</td>\n</tr>'

    def link(name: re.Match[str]) -> str:
        return f'<a href="{name[1]}.html">{_title(ROOT / "docs" / f"{name[1]}.md")}</a>'

    def whole(cell: re.Match[str]) -> str:
        text = cell[3] if cell[2] == "code" else UNIT.sub("&nbsp;", cell[3])
        return cell[1] + NAME.sub(r'<span class="name">\1</span>', text) + cell[4]

    html = PAGE_NAME.sub(link, UNDESCRIBED.sub("", HEADING_ROW.sub(wide, html)))
    return CELL.sub(whole, SHORT_CODE.sub('<code class="name">', html))
