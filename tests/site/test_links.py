"""The links of the built site lead to pages and headings that exist, on this site only."""

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# Where a page may lead; none of them is loaded with a page.
FOREIGN = {"https://zensical.org/", "https://distributed.dask.org/", "http://127.0.0.1:8787"}


class _Page(HTMLParser):
    """The links, the loaded files and the headings of a page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.ids: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.ids.add(given.get("id") or "")
        if tag == "a" and given.get("href"):
            self.links.append(given["href"] or "")
        elif tag == "link" and given.get("rel") not in ("canonical", "next", "prev"):
            self.loaded.append(given.get("href") or "")
        elif given.get("src"):
            self.loaded.append(given["src"] or "")


def _pages(site: Path) -> Iterator[tuple[Path, _Page]]:
    for path in sorted(site.rglob("*.html")):
        if path.name != "404.html":  # its links start at the home of the site
            yield path, _Page(path)


def test_every_link_leads_somewhere(site: Path) -> None:
    pages = dict(_pages(site))
    broken = []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme:
                assert link in FOREIGN, f"{path.name}: {link}"
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            known = pages[target].ids if target in pages else set()
            if not target.is_file() or (parts.fragment and unquote(parts.fragment) not in known):
                broken.append(f"{path.relative_to(site)}: {link}")

    assert len(pages) > 30
    assert not broken


def test_no_page_loads_anything_from_another_host(site: Path) -> None:
    """Scripts, styles, fonts and pictures are files of the site."""
    loaded = {(path, file) for path, page in _pages(site) for file in page.loaded}

    assert loaded
    for path, file in loaded:
        assert not urlsplit(file).netloc, f"{path.name}: {file}"
        assert (path.parent / urlsplit(file).path).is_file(), f"{path.name}: {file}"


def test_the_pages_for_language_models_are_complete(site: Path) -> None:
    """llms.txt lists every page but the start page; llms-full.txt has their texts."""
    listed = (site / "llms.txt").read_text()
    full = (site / "llms-full.txt").read_text()
    pages = [path.relative_to(site) for path, _ in _pages(site) if path.name != "index.html"]

    for page in pages:
        assert f"<{page.with_suffix('.md').as_posix()}>" in listed
        assert (site / page.with_suffix(".md")).read_text().splitlines()[0] in full
    assert "cancel_order(\n    wallet_id: str,\n    order_id: str," in full


def test_signatures_name_the_options(site: Path) -> None:
    hiding = [path.name for path in site.glob("reference/*.html") if "Unpack" in path.read_text()]

    assert not hiding
    pages = {path.stem: path.read_text() for path in site.glob("reference/*.md")}
    assert "\n    deadline: float | None = 600.0,\n" in pages["session"]
    assert (
        "- **`journal`** (`str | PathLike[str] | Ledger | None`, default: `None` )" in pages["bulk"]
    )
    assert not re.findall("~[A-Z]|__post_init__", "".join(pages.values()))
