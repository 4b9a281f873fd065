"""A browser for the command line, and the person before it: CHROMIUM DECISION URL.

It goes to the address, presses the button, and prints what the page that it ends up at says.
"""

import sys

from playwright.sync_api import expect, sync_playwright


def browse(executable: str, decision: str, url: str) -> str:
    """Return the heading of the last page."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        page = browser.new_page()
        page.goto(url)
        page.fill("#account", "grace@example.com")
        page.click(f"#{decision}")
        heading = page.locator(".good h1, .bad h1")
        expect(heading).to_be_visible(timeout=30_000)
        said = heading.inner_text()
        browser.close()
        return said


if __name__ == "__main__":
    sys.stdout.write(f"the browser says: {browse(*sys.argv[1:])}\n")
