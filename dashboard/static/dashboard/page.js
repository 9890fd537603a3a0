// What the pages gain with scripts: live parts, relative times in the reader's zone, dialogs, the theme switch.
(() => {
  "use strict";
  const POLL_MS = 15000, GAP_MS = 300;
  const body = document.body;

  // Live parts fetch themselves on "refresh": told by the stream, by the clock, or by an action's answer.
  let pending = null, isPressed = false;
  const refresh = () => {
    if (document.hidden || pending) return;
    pending = setTimeout(() => { pending = null; body.dispatchEvent(new CustomEvent("refresh")); }, GAP_MS);
  };
  // A swap in the middle of a click would lose it, and one in the middle of a selection would lose that.
  const isBusy = () => isPressed || (String(getSelection()) && document.getElementById("live")?.contains(getSelection().anchorNode));
  addEventListener("pointerdown", () => { isPressed = true; }, true);
  for (const name of ["pointerup", "pointercancel", "dragend"]) addEventListener(name, () => setTimeout(() => { isPressed = false; }), true);
  const tellStream = (word, isLive) => {
    document.querySelectorAll("[data-stream]").forEach((place) => {
      place.textContent = word;
      place.closest(".stream").classList.toggle("is-live", isLive);
    });
  };
  body.addEventListener("htmx:sseOpen", () => tellStream("live", true));
  body.addEventListener("htmx:sseError", () => tellStream("every 15 s", false));
  body.addEventListener("htmx:sseClose", () => tellStream("every 15 s", false));
  body.addEventListener("htmx:sseMessage", refresh);
  document.addEventListener("visibilitychange", () => { if (!document.hidden) refresh(); });
  setInterval(refresh, POLL_MS);

  // A refresh must not close what the reader has opened.
  let open = [];
  const chosen = new Set();
  const tick = () => chosen.forEach((id) => { const box = document.getElementById(id); if (box) box.checked = true; });
  body.addEventListener("change", ({ target }) => {
    if (target.matches("input.select")) chosen[target.checked ? "add" : "delete"](target.id);
  });
  body.addEventListener("htmx:afterSwap", tick);
  body.addEventListener("htmx:beforeSwap", (event) => {
    const isRefresh = event.detail.target.id === "live" && event.detail.requestConfig?.triggeringEvent?.type === "refresh";
    if (isRefresh && isBusy()) {
      event.detail.shouldSwap = false;
      refresh();
      return;
    }
    if (event.detail.target.id === "live") open = [...document.querySelectorAll("#live details[open]")].map((each) => each.id);
    // Refusals (403) and failures (503) come with a sentence to show.
    if ([403, 503].includes(event.detail.xhr.status)) {
      event.detail.shouldSwap = true;
      event.detail.isError = false;
    }
  });
  body.addEventListener("htmx:afterSettle", () => {
    open.forEach((id) => document.getElementById(id)?.setAttribute("open", ""));
    tick();
    tellTimes();
  });

  // Dialogs: an action's question opens over the page; its answer is a toast.
  const dialog = document.getElementById("dialog"), toasts = document.getElementById("toasts");
  let fade = null;
  body.addEventListener("htmx:afterSwap", (event) => {
    if (event.detail.target === dialog && !dialog.open) dialog.showModal();
    if (event.detail.target === toasts) {
      dialog.close();
      clearTimeout(fade);
      fade = setTimeout(() => toasts.replaceChildren(), 8000);
    }
  });
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog || event.target.closest("[data-close]")) { event.preventDefault(); dialog.close(); }
  });
  dialog.addEventListener("close", () => dialog.replaceChildren());

  // Times: relative by the reader's clock, exact in the reader's zone beside UTC.
  const UNITS = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const relative = (at, now) => {
    const gap = (now - at) / 1000, size = Math.abs(gap);
    if (size < 1) return "now";
    if (size >= 7 * 86400) return at.toISOString().slice(0, 10);
    const [unit, name] = UNITS.find(([seconds]) => size >= seconds);
    const amount = `${Math.floor(size / unit)} ${name}`;
    return gap > 0 ? `${amount} ago` : `in ${amount}`;
  };
  const tellTimes = () => {
    const now = new Date();
    document.querySelectorAll("time[datetime]").forEach((place) => {
      const at = new Date(place.dateTime);
      if ("relative" in place.dataset) {
        const text = relative(at, now);
        if (place.textContent !== text) place.textContent = text;
      }
      if (!place.dataset.zoned) {
        place.dataset.zoned = "1";
        place.title = `${place.title}\n${at.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "long" })}`;
      }
    });
  };
  tellTimes();
  setInterval(tellTimes, 1000);

  document.querySelectorAll("[data-print]").forEach((button) => {
    button.hidden = false;
    button.addEventListener("click", () => print());
  });

  // Theme: the system's, or a forced one.
  const NEXT = { system: "light", light: "dark", dark: "system" };
  const current = () => document.documentElement.dataset.theme || "system";
  document.querySelectorAll("[data-theme-switch]").forEach((button) => {
    const tell = () => {
      button.querySelector("[data-theme-name]").textContent = `Theme: ${current()}`;
      button.title = `Switch to ${NEXT[current()]}`;
    };
    button.hidden = false;
    tell();
    button.addEventListener("click", () => {
      const next = NEXT[current()];
      if (next === "system") { delete document.documentElement.dataset.theme; localStorage.removeItem("theme"); }
      else { document.documentElement.dataset.theme = next; localStorage.setItem("theme", next); }
      tell();
    });
  });
})();
