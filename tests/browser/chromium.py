"""The Chromium of this machine, and the arguments that it is started with."""

import shutil

# A container's root cannot have Chromium's sandbox.
ARGUMENTS = ("--no-sandbox",)
EVIL = "evil.test"


def find_chromium() -> str | None:
    """Return the path of the first Chromium that is found; None if there is none."""
    names = ("chromium", "chromium-browser", "google-chrome")
    return next(filter(None, map(shutil.which, names)), None)
