"""The page in a real browser: figures are drawn, labels appear, nothing is loaded, and everybody can read it."""

import importlib.resources
import json
import shutil

import pytest

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1200,900",
)
PATIENCE = 60  # seconds until the page must be drawn, on a machine that is busy otherwise


def program(*names):
    """The path of the first of these programs that is installed, or a reason to skip."""
    found = next(filter(None, map(shutil.which, names)), None)
    if found is None:
        pytest.skip(f"{names[0]} is not installed: apt-get install chromium chromium-driver")
    return found


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium drives the browser: pip install selenium")
    options = webdriver.ChromeOptions()
    options.binary_location = program("chromium", "chromium-browser", "google-chrome")
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(program("chromedriver")))
    driver.set_script_timeout(PATIENCE)
    yield driver
    driver.quit()


@pytest.fixture
def opened(browser, page):
    """The browser with the page, drawn in light colours."""
    show(browser, "light")
    browser.get("about:blank")
    for kind in ("browser", "performance"):
        browser.get_log(kind)  # what was there before does not count
    browser.get(page.as_uri())
    wait_until(browser, "return document.documentElement.dataset.drawn === 'light'")
    return browser


def show(browser, theme):
    """Prefer light or dark colours."""
    features = [{"name": "prefers-color-scheme", "value": theme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})


def wait_until(browser, condition):
    from selenium.webdriver.support.ui import WebDriverWait

    return WebDriverWait(browser, PATIENCE).until(lambda driver: driver.execute_script(condition))


def requests(browser, page):
    """What the page asked for; other pages of the browser do not count."""
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    sent = [event["params"] for event in events if event["method"] == "Network.requestWillBeSent"]
    return [each["request"]["url"] for each in sent if each["documentURL"].startswith(page.as_uri())]


SIZES = """return [...document.querySelectorAll(".chart")].map(chart => {
  const box = chart.querySelector("svg").getBoundingClientRect();
  return [chart.id, box.width, box.height, chart.querySelectorAll("svg path").length];
})"""


def test_figures_are_drawn_in_both_themes_and_nothing_is_loaded(opened, page):
    sizes = opened.execute_script(SIZES)
    assert len(sizes) == 8
    for name, width, height, marks in sizes:
        assert width > 300 and height > 200 and marks >= 4, name
    light = opened.execute_script("return getComputedStyle(document.body).backgroundColor")
    show(opened, "dark")
    wait_until(opened, "return document.documentElement.dataset.drawn === 'dark'")
    assert opened.execute_script("return getComputedStyle(document.body).backgroundColor") != light
    assert len(opened.execute_script(SIZES)) == 8
    assert requests(opened, page) == [page.as_uri()]
    assert opened.get_log("browser") == []  # no message, and so no violation of the page's policy
    assert opened.title == "A <title> & more"  # the nasty name would have changed it


def test_hover_shows_a_label(opened, nasty):
    from selenium.webdriver import ActionChains
    from selenium.webdriver.common.by import By

    bars = opened.find_elements(By.CSS_SELECTOR, "#loadings-1 svg [aria-roledescription='bar']")
    opened.execute_script("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", bars[0])
    ActionChains(opened).move_to_element(bars[0]).perform()
    wait_until(opened, "return !!document.querySelector('#vg-tooltip-element.visible')")
    label = opened.find_element(By.ID, "vg-tooltip-element")
    assert "loading" in label.text and nasty in label.text  # the largest loading of the first component, as text
    assert opened.title == "A <title> & more"


def test_tables_open_by_keyboard(opened):
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    body = opened.find_element(By.TAG_NAME, "body")
    body.send_keys(Keys.TAB)
    assert opened.switch_to.active_element.get_attribute("class") == "skip"
    summary = opened.find_element(By.CSS_SELECTOR, "#variance summary")
    opened.execute_script("arguments[0].focus()", summary)
    summary.send_keys(Keys.ENTER)
    wait_until(opened, "return document.querySelector('#variance details').open")
    summary.send_keys(Keys.TAB)
    focused = opened.switch_to.active_element
    assert focused.get_attribute("role") == "region" and "cumulative" in focused.text
    assert opened.execute_script("return getComputedStyle(arguments[0]).outlineStyle", focused) == "solid"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_serious(opened, theme):
    pytest.importorskip("axe_core_python", reason="axe-core is not installed: pip install axe-core-python")
    show(opened, theme)
    wait_until(opened, f"return document.documentElement.dataset.drawn === '{theme}'")
    opened.execute_script("for (const each of document.querySelectorAll('details')) each.open = true")
    opened.execute_script(importlib.resources.files("axe_core_python").joinpath("axe.min.js").read_text("utf-8"))
    found = opened.execute_async_script("axe.run().then(arguments[0])")
    serious = [
        f"{each['id']}: {each['help']}" for each in found["violations"] if each["impact"] in ("serious", "critical")
    ]
    assert serious == [] and len(found["passes"]) > 20
