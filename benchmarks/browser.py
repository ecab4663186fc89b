"""Find the Chromium that opens the pages of this package, for the benchmarks, the pictures of the documentation and the tests."""

from __future__ import annotations

import os
import shutil

NO_CHROMIUM = "There is no chromium: apt-get install chromium, or name one in the environment variable CHROMIUM."


def find_chromium() -> str | None:
    """Return the path of Chromium: `$CHROMIUM`, else the one that is installed, or None if there is none."""
    return os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
