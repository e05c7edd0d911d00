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


@contextmanager
def of_width(driver: webdriver.Chrome, width: int) -> Iterator[None]:
    """Let the browser's window be so many CSS pixels wide, as a telephone's (390) or a desk's (1280)."""
    size = {"width": width, "height": 1100, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        yield
    finally:
        driver.switch_to.default_content()  # a test may have gone into a frame
        driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def complaints(driver: webdriver.Chrome) -> list[str]:
    """List what the browser calls severe since it was last asked: errors of scripts, what a policy forbids."""
    return [entry["message"] for entry in driver.get_log("browser") if entry["level"] == "SEVERE"]
