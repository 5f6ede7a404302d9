"""Hooks of mkdocs: pages that lie outside docs/ become part of the site, and links to them lead there.

Links in the pages are relative to the repository, so that they work where the files are read as they are.
"""

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parent.parent
PREFIX = "repository/"  # where pages from outside docs/ lie in the site
OUTSIDE = [
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "SECURITY.md",
    "LICENSE",
    "experiments/README.md",
    *(str(path.relative_to(ROOT)) for path in sorted((ROOT / "src").rglob("*.md"))),
]
LINK = re.compile(r"(\]\()([^)\s]+)(\))")


def on_files(files: Files, config: Any) -> Files:
    """Add the pages from outside docs/, the licence as text."""
    for name in OUTSIDE:
        files.append(File.generated(config, PREFIX + name, content=(ROOT / name).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Rewrite links between docs/ and the rest of the repository to the pages of the site."""
    uri = page.file.src_uri
    place = uri.removeprefix(PREFIX) if uri.startswith(PREFIX) else f"docs/{uri}"  # in the repository
    return LINK.sub(lambda match: match[1] + _target(match[2], place, uri) + match[3], markdown)


def _target(link: str, place: str, uri: str) -> str:
    """Return the site's link for a link of the repository; a file that is no page loses its link target."""
    path, separator, anchor = link.partition("#")
    if not path or "://" in link:
        return link
    named = posixpath.normpath(posixpath.join(posixpath.dirname(place), path))
    if named.startswith("docs/"):
        wanted = named.removeprefix("docs/")
    elif named in OUTSIDE:
        wanted = PREFIX + named
    else:
        return f"{posixpath.relpath(PREFIX + 'README.md', posixpath.dirname(uri) or '.')}#documentation"
    return posixpath.relpath(wanted, posixpath.dirname(uri) or ".") + separator + anchor
