"""A browser, and the person before the page of Django OAuth Toolkit: CHROMIUM DECISION URL."""

import sys

from playwright.sync_api import Page, expect, sync_playwright


def decide(page: Page, decision: str) -> str:
    if decision == "read":  # less than was asked for
        page.evaluate("document.querySelector('input[name=scope]').value = 'read'")
    if decision != "look":
        page.click("input[name=allow]" if decision != "deny" else "input:not([name])")
        heading = page.locator(".good h1, .bad h1")
        expect(heading).to_be_visible(timeout=30_000)
        return heading.inner_text()
    return page.inner_text("body").replace("\n", " ")


if __name__ == "__main__":
    with sync_playwright() as playwright:
        executable, decision, url = sys.argv[1:]
        browser = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        page = browser.new_page()
        page.goto(url)
        page.wait_for_url(lambda place: place != url)  # the start's page leads on
        sys.stdout.write(f"the browser says: {decide(page, decision)}\n")
        browser.close()
