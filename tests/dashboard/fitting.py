"""What of an open page does not fit: the page into its window, buttons into their boxes, words into their lines."""

from playwright.sync_api import Page

CLIPPED = """() => [...document.querySelectorAll("main :is(a.button, button, input, select, summary)")]
  .filter((each) => each.checkVisibility() && !each.closest(".hidden"))
  .filter((each) => {
    const { left, right } = each.getBoundingClientRect();
    for (let box = each.parentElement; box; box = box.parentElement) {
      if (getComputedStyle(box).overflowX === "visible") continue;
      const edge = box.getBoundingClientRect();
      if (right > edge.right + 1 || left < edge.left - 1) return true;
    }
    return right > document.documentElement.clientWidth + 1;
  })
  .map((each) => each.getAttribute("aria-label") || each.textContent.trim())"""
"""What can be pressed and is cut off, by the window or by a box that scrolls."""
BROKEN = """() => {
  const found = [], words = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
  while (words.nextNode()) {
    const text = words.currentNode, range = document.createRange();
    if (!text.parentElement.checkVisibility() || text.parentElement.closest(".hidden, thead, svg")) continue;
    for (const word of text.data.matchAll(/(?<=^|\\s)[a-z]{3,12}(?=[\\s.,;:]|$)/gi)) {
      range.setStart(text, word.index);
      range.setEnd(text, word.index + word[0].length);
      const lines = [...range.getClientRects()].filter((box) => box.width).map((box) => Math.round(box.top));
      if (new Set(lines).size > 1) found.push(word[0]);
    }
  }
  return found;
}"""
"""Short words that are broken into lines, because their box is narrower than they are."""
COVERED = """() => [...document.querySelectorAll(".bar.beside :is(form, .stream)")].flatMap((tool) => {
  const box = tool.getBoundingClientRect(), below = document.querySelectorAll("#live > .banner, #live h1");
  return [...below].filter((each) => {
    const { left, right, top, bottom } = each.getBoundingClientRect();
    return left < box.right && box.left < right && top < box.bottom && box.top < bottom;
  }).map((each) => `${each.textContent.trim()} is covered`);
})"""
"""What the search lies upon."""
TOO_WIDE = "document.documentElement.scrollWidth > document.documentElement.clientWidth"


def unfit(page: Page) -> list[str]:
    """What does not fit into the window: the page, what can be pressed, words."""
    wide = ["the page"] if page.evaluate(TOO_WIDE) else []
    return wide + page.evaluate(CLIPPED) + page.evaluate(BROKEN) + page.evaluate(COVERED)
