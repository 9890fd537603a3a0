// What scripts add to the pages: live parts, relative times in the reader's zone, dialogs, the theme switch.
(() => {
  "use strict";
  const POLL_MS = 15000, GAP_MS = 300;
  const body = document.body;

  // Live parts fetch themselves on "refresh", which the stream, a timer or the answer to an action triggers.
  let pending = null, isPressed = false, isLeaving = false, gap = GAP_MS, asked = 0, isWhole = false;
  const changed = new Set();
  const ask = () => {
    const from = document.querySelector("[data-only]")?.dataset.only;
    const ids = [...changed].flatMap((name) => [`row-${name}`, `card-${name}`]).filter((id) => document.getElementById(id));
    if (isWhole || !from) body.dispatchEvent(new CustomEvent("refresh"));
    else if (ids.length) htmx.ajax("GET", from + ids, { source: "#live", target: "#live", swap: "none" });
    pending = null;
    isWhole = false;
    changed.clear();
  };
  const askSoon = () => { if (!document.hidden && !pending && !isLeaving) pending = setTimeout(ask, gap); };
  const refresh = () => { isWhole = true; askSoon(); };
  // A page of a large fleet hears of changes all the time: it waits ten times as long as its part took.
  body.addEventListener("htmx:beforeRequest", ({ detail }) => { if (detail.elt.id === "live") asked = performance.now(); });
  body.addEventListener("htmx:afterRequest", ({ detail }) => { if (detail.elt.id === "live") gap = Math.max(GAP_MS, 10 * (performance.now() - asked)); });
  // A swap during a click or a selection would lose it.
  const isBusy = () => isPressed || (String(getSelection()) && document.getElementById("live")?.contains(getSelection().anchorNode));
  addEventListener("pointerdown", () => { isPressed = true; }, true);
  for (const name of ["pointerup", "pointercancel", "dragend"]) addEventListener(name, () => setTimeout(() => { isPressed = false; }), true);
  const showStream = (word, isLive) => {
    document.querySelectorAll("[data-stream]").forEach((place) => {
      place.textContent = word;
      place.closest(".stream").classList.toggle("is-live", isLive);
    });
  };
  body.addEventListener("htmx:sseOpen", () => showStream("live", true));
  body.addEventListener("htmx:sseError", () => showStream("every 15 s", false));
  body.addEventListener("htmx:sseClose", () => showStream("every 15 s", false));
  // Of a table of many pairs only the rows and cards are fetched that have changed; its order and sums follow with the whole.
  body.addEventListener("htmx:sseMessage", ({ detail: { data } }) => {
    if (data === "*") return refresh();
    data.split(" ").forEach((name) => changed.add(name));
    askSoon();
  });
  document.addEventListener("visibilitychange", () => { if (!document.hidden) refresh(); });
  setInterval(refresh, POLL_MS);

  // Signing out goes on to the provider. A live part that is answered meanwhile would reload the page, because the session
  // has ended, and with that stop the way there: the person would stay signed in at the provider.
  addEventListener("submit", ({ target }) => { if ("leaves" in target.dataset) isLeaving = true; });
  addEventListener("pageshow", () => { isLeaving = false; });
  for (const name of ["htmx:beforeRequest", "htmx:beforeOnLoad"]) body.addEventListener(name, (event) => { if (isLeaving) event.preventDefault(); });

  const isWholePage = (xhr) => /<html\b/i.test(xhr.responseText);

  // A refresh must not close what the reader has opened.
  let open = [];
  const chosen = new Set();
  const tick = () => chosen.forEach((id) => { const box = document.getElementById(id); if (box) box.checked = true; });
  body.addEventListener("change", ({ target }) => {
    if (target.matches("input.select")) chosen[target.checked ? "add" : "delete"](target.id);
  });
  // An action ends the selection: otherwise the next action would apply to the same rows again.
  const untick = () => {
    chosen.clear();
    document.querySelectorAll("input.select:checked, .pick input:checked").forEach((box) => { box.checked = false; });
  };
  body.addEventListener("htmx:afterSwap", tick);
  body.addEventListener("htmx:beforeSwap", (event) => {
    const by = event.detail.requestConfig?.triggeringEvent;
    const isRefresh = event.detail.target.id === "live" && (!by || by.type === "refresh");
    if (isRefresh && isBusy()) {
      event.detail.shouldSwap = false;
      refresh();
      return;
    }
    if (event.detail.target.id === "live") open = [...document.querySelectorAll("#live details[open]")].map((each) => each.id);
    // Our own refusals (403) and failures (503) contain a sentence to show; a whole page comes from a proxy.
    if ([403, 503].includes(event.detail.xhr.status) && !isWholePage(event.detail.xhr)) {
      event.detail.shouldSwap = true;
      event.detail.isError = false;
    }
  });
  body.addEventListener("htmx:afterSettle", () => {
    open.forEach((id) => document.getElementById(id)?.setAttribute("open", ""));
    tick();
    updateTimes();
  });

  // Screen readers do not read a refreshed part; new headlines are announced once.
  const news = document.getElementById("news");
  const headlines = () => [...document.querySelectorAll("#live [data-news]")].map((each) => each.textContent.trim().replace(/\s+/g, " "));
  let said = headlines();
  body.addEventListener("htmx:afterSettle", (event) => {
    if (event.detail.target?.id !== "live") return;
    const now = headlines(), fresh = now.filter((each) => !said.includes(each));
    said = now;
    if (fresh.length) news.textContent = fresh.join(". ");
  });

  // Keyboard focus is kept: an action replaces the button that started it.
  let asker = null;
  body.addEventListener("htmx:beforeRequest", ({ detail }) => {
    if (detail.target === dialog) asker = { id: detail.elt.id, place: placeOf(detail.elt) };
  });
  const placeOf = (button) => {
    const row = button.closest("[data-entity]");
    return row ? `tr[data-entity="${CSS.escape(row.dataset.entity)}"]` : "#live";
  };
  const keepPlace = () => {
    if (dialog.open || !asker || document.activeElement !== body) return;
    const next = document.getElementById(asker.id) || document.querySelector(`${asker.place} .acts a`) || document.querySelector(`${asker.place} a`);
    next?.focus();
  };
  body.addEventListener("htmx:afterSettle", (event) => { if (event.detail.target?.id === "live") keepPlace(); });

  // The menu's number of open alerts comes with every part that is fetched anew.
  body.addEventListener("alerts", ({ detail: { word, title, isLoud } }) => {
    const place = document.querySelector("[data-alerts]");
    place.hidden = !word;
    place.title = title;
    place.classList.toggle("loud", isLoud);
    place.firstElementChild.textContent = word;
  });

  // When a worker finishes a job on dead letters, their list is out of date.
  let atWork = document.querySelectorAll("#jobs .job").length;
  body.addEventListener("htmx:afterSettle", () => {
    const now = document.querySelectorAll("#jobs .job").length;
    if (now < atWork) body.dispatchEvent(new CustomEvent("jobs-over"));
    atWork = now;
  });

  // Dialogs: an action asks for confirmation in a dialog; its result is a toast. Successes disappear, other results stay.
  const dialog = document.getElementById("dialog"), toasts = document.getElementById("toasts");
  let fade = null;
  const closeable = (sentence) => {
    const button = document.createElement("button");
    Object.assign(button, { type: "button", className: "plain", textContent: "Close" });
    button.addEventListener("click", () => { sentence.remove(); keepPlace(); });
    sentence.append(" ", button);
  };
  body.addEventListener("htmx:afterSwap", (event) => {
    if (event.detail.target === dialog) {
      if (!dialog.open) dialog.showModal();
      // A refused form comes back into the open dialog: one goes on where something is wrong.
      else (dialog.querySelector("[aria-invalid]") ?? dialog.querySelector("textarea, input:not([type=hidden]), button"))?.focus();
    }
    if (event.detail.target === toasts) {
      dialog.close();
      clearTimeout(fade);
      if (toasts.querySelector(".toast:not(.quiet)")) {
        untick();
        fade = setTimeout(() => toasts.replaceChildren(), 8000);
      } else toasts.querySelectorAll("p").forEach(closeable);
    }
  });

  // A request without an answer of ours: reported beside its button, because the rest of the page is inert while a dialog is open.
  const unanswered = ({ xhr, requestConfig: { verb, triggeringEvent } }) => {
    const what = xhr.status ? `The server answered with error ${xhr.status}` : "The server did not answer";
    if (xhr.status >= 400 && xhr.status < 500) return `${what}: nothing was done. The item may no longer exist; reload the page.`;
    if (verb === "get") return `${what}: nothing was done. Try again in a moment.`;
    const action = triggeringEvent.submitter?.textContent.trim();
    return `${what}: it is not known whether ${action ? `“${action}”` : "the action"} was carried out. Check the state, then click again; repeating an action is safe.`;
  };
  const showError = ({ detail }) => {
    if (!detail.requestConfig.triggeringEvent?.isTrusted) return; // a refresh is repeated soon anyway
    const sentence = document.createElement("p");
    Object.assign(sentence, { className: "alert", textContent: unanswered(detail) });
    sentence.setAttribute("role", "alert");
    dialog.querySelectorAll("[data-trouble]").forEach((before) => before.remove());
    clearTimeout(fade);
    toasts.replaceChildren();
    (dialog.open ? dialog.querySelector("form") ?? dialog : toasts).append(sentence);
    sentence.dataset.trouble = "";
    closeable(sentence);
    sentence.scrollIntoView({ block: "nearest" });
  };
  for (const name of ["htmx:responseError", "htmx:sendError", "htmx:timeout"]) body.addEventListener(name, showError);
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog || event.target.closest("[data-close]")) { event.preventDefault(); dialog.close(); }
  });
  dialog.addEventListener("close", () => { dialog.replaceChildren(); keepPlace(); });

  // What was typed into a form outlives a session that had expired: it is filled in again after the same person's sign-in.
  const TYPED = "typed", who = document.querySelector(".who")?.textContent, at = (form) => new URL(form.getAttribute("action") || location.pathname, location.href).pathname;
  const isLogin = location.pathname.startsWith("/login/");
  const typed = JSON.parse(sessionStorage.getItem(TYPED) || "null");
  if (typed && isLogin) sessionStorage.setItem(TYPED, JSON.stringify({ ...typed, isKept: true }));
  else if (typed && !(typed.isKept && typed.who === who)) sessionStorage.removeItem(TYPED);
  const fields = (form) => [...form.elements].filter((one) => one.name && !["hidden", "password", "file", "submit"].includes(one.type));
  addEventListener("submit", ({ target }) => {
    if (target.method !== "post" || isLogin) return;
    const values = fields(target).map((one) => [one.name, one.value, Boolean(one.checked)]);
    sessionStorage.setItem(TYPED, JSON.stringify({ who, at: at(target), values }));
  });
  const fillIn = () => {
    const kept = JSON.parse(sessionStorage.getItem(TYPED) || "null");
    const form = kept?.isKept && [...document.querySelectorAll("form[method=post]")].find((one) => at(one) === kept.at);
    if (!form) return;
    sessionStorage.removeItem(TYPED);
    fields(form).forEach((one, n) => { if (kept.values[n]?.[0] === one.name) [, one.value, one.checked] = kept.values[n]; });
  };
  if (!isLogin) fillIn();
  body.addEventListener("htmx:afterSwap", ({ detail }) => {
    if (detail.target === dialog) fillIn();
    if (detail.target === toasts) sessionStorage.removeItem(TYPED);
  });

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
  const updateTimes = () => {
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
  updateTimes();
  setInterval(updateTimes, 1000);

  document.querySelectorAll("[data-print]").forEach((button) => {
    button.hidden = false;
    button.addEventListener("click", () => print());
  });

  // Theme: the system's, or a forced one.
  const NEXT = { system: "light", light: "dark", dark: "system" };
  const current = () => document.documentElement.dataset.theme || "system";
  document.querySelectorAll("[data-theme-switch]").forEach((button) => {
    const show = () => {
      button.querySelector("[data-theme-name]").textContent = `Theme: ${current()}`;
      button.title = `Switch to ${NEXT[current()]}`;
    };
    button.hidden = false;
    show();
    button.addEventListener("click", () => {
      const next = NEXT[current()];
      if (next === "system") { delete document.documentElement.dataset.theme; localStorage.removeItem("theme"); }
      else { document.documentElement.dataset.theme = next; localStorage.setItem("theme", next); }
      show();
    });
  });
})();
