"""The pages of 300 pairs, and of an installation that has nothing yet, in a real browser and on the contact sheet."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect
from redis import Redis

from dashboard.site.redis import CHANGED
from tests.dashboard.fitting import unfit
from tests.dashboard.served import environment_of, namespaces, serve
from tests.dashboard.site.test_browser import sign_in
from tests.dashboard.site.test_browser_outage import LOOKS
from tests.dashboard.site.test_size import PAGES
from tests.pace import eventually
from tests.pictures import TALLEST, keep_for_sheet, sheet_folder, write_sheet
from tests.ports import free_port
from tests.selection import nightly

pytestmark = [pytest.mark.browser, pytest.mark.timeout(900)]

FILL = "from django.utils import timezone; from tests.dashboard.large_fleet import fill; fill(timezone.now(), {})"
STATES = {
    "fleet": FILL.format("range(300), 33, 20"),
    "empty": "from dashboard.models import Pair; Pair.objects.all().delete()",
}
PATHS = [path for path in PAGES if not path.startswith(("/api", "/metrics"))]


@pytest.mark.parametrize("state", nightly(*STATES))
def test_no_page_is_taller_than_a_few_windows_or_cut_off(
    browser: Browser, tmp_path: Path, redis_url: str, state: str
) -> None:
    folder, wrong = sheet_folder(tmp_path), []
    with (
        namespaces() as strings,
        serve(tmp_path, environment_of(tmp_path, strings, redis_url), free_port(), STATES[state]) as address,
        browser.new_context(base_url=address) as context,
    ):
        page = sign_in(context, address, "administrator")
        for path in PATHS:
            if page.goto(path).status == 404:
                continue  # of a pair, where there is none
            name = path.strip("/").translate(str.maketrans("/?", "-_")) or "overview"
            keep_for_sheet(page, folder, f"{name}--{state}", LOOKS)
            for width in (1440, 1024, 390):
                page.set_viewport_size({"width": width, "height": 900})
                wrong += [f"{what} on {path} at {width}" for what in unfit(page)]
                tall = page.evaluate("document.documentElement.scrollHeight")
                wrong += [f"{path} is {tall} high at {width}"] if tall > TALLEST else []
        if state == "fleet":
            only_the_row_that_changed_is_fetched(page, redis_url)
    write_sheet(folder, LOOKS)
    assert wrong == []


def only_the_row_that_changed_is_fetched(page: Page, redis_url: str) -> None:
    """Without the timer, and once what is announced as the stream begins is shown."""
    asked: list[str] = []
    page.on("response", lambda answer: asked.append(answer.url) if "only=row-pair-109" in answer.url else None)
    page.add_init_script("setInterval = () => 0")
    page.goto("/")
    row, live = page.locator("#row-pair-109"), page.locator("#live")
    with Redis.from_url(redis_url) as client:
        eventually(lambda: client.publish(CHANGED, "pair-109") and page.title() and asked)
        for part in (row, live):
            part.evaluate("each => { each.dataset.isOld = 'yes'; }")
        client.publish(CHANGED, "pair-109")
        expect(row).not_to_have_attribute("data-is-old", "yes")
    expect(live).to_have_attribute("data-is-old", "yes")
