"""A Chromium without a window, for the tests that look at pages as a reader sees them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.chrome.service import Service


def is_installed() -> bool:
    return bool(shutil.which("chromium") and shutil.which("chromedriver"))


@contextmanager
def headless_browser(profile: Path, *options: str) -> Iterator[webdriver.Chrome]:
    """Start the browser and end it. profile : an empty folder for its own data. options : further ones of Chromium."""
    chosen = webdriver.ChromeOptions()
    chosen.binary_location = str(shutil.which("chromium"))
    for option in ("--headless=new", "--no-sandbox", "--disable-gpu", *options, f"--user-data-dir={profile}"):
        chosen.add_argument(option)
    driver = webdriver.Chrome(options=chosen, service=Service(shutil.which("chromedriver")))
    yield driver
    driver.quit()
