// Reads values from charts by pointer, touch and keyboard. Without it, the lines' names have the last values, the marks
// their times, and a table has numbers. What is read is in the page: the stops of a plot, and the values of each name.
(() => {
  "use strict";
  const SVG = "http://www.w3.org/2000/svg";
  const NEAR = 0.02;
  const numbers = (text) => text.split(" ").map((each) => (each === "-" ? null : Number(each)));

  const parsed = new WeakMap();
  const chartOf = (plot) => {
    if (!parsed.has(plot)) parsed.set(plot, read(plot));
    return parsed.get(plot);
  };
  const read = (plot) => {
    const figure = plot.closest("figure"), data = plot.dataset;
    return {
      start: Number(data.start), length: Number(data.length), peak: Number(data.peak), unit: data.unit,
      top: Number(data.top), height: Number(data.height), isBars: "bars" in data,
      stops: numbers(data.stops), labels: data.labels?.split("|"),
      lines: [...figure.querySelectorAll("[data-values]")].map((each) => ({
        name: each.dataset.name, tone: each.className,
        values: data.labels ? each.dataset.values.split(" ") : numbers(each.dataset.values),
      })),
      marks: [...figure.querySelectorAll("[data-at]")].map((each) => ({
        at: Number(each.dataset.at), tone: each.className, words: each.querySelector("span").textContent.trim(),
      })),
    };
  };

  const timeOf = (chart, stop) => {
    if (chart.labels) return chart.labels[stop];
    const text = new Date((chart.start + chart.stops[stop]) * 1000).toISOString();
    return chart.length > 90000 ? `${text.slice(0, 16).replace("T", " ")} UTC` : `${text.slice(11, 19)} UTC`;
  };
  const marksAt = (chart, stop) => chart.marks.filter(({ at }) => Math.abs(at - chart.stops[stop]) < NEAR * chart.length);
  const valuesAt = (chart, stop) => chart.lines.map(({ name, tone, values }) => ({ name, tone, value: values[stop] }))
    .filter(({ value }) => value !== null);
  const written = (value) => (typeof value === "number" ? value.toLocaleString("en") : value);
  const spoken = (chart, stop) => {
    const values = valuesAt(chart, stop).map(({ name, value }) => `${name} ${written(value)}`);
    const happened = marksAt(chart, stop).map(({ words }) => words);
    return [`${timeOf(chart, stop)}: ${values.join(", ")} ${chart.unit}`, ...happened].join("; ");
  };

  const drawn = (kind, attributes, parent) => {
    const node = document.createElementNS(SVG, kind);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    parent.append(node);
    return node;
  };
  const said = (kind, className, text, parent) => {
    const node = document.createElement(kind);
    node.className = className;
    node.textContent = text;
    parent.append(node);
    return node;
  };

  // One chart is read at a time. `moment` is kept in seconds since 1970, so that it stays where it was in a fresh drawing.
  let reading = null;
  const hide = (plot) => {
    plot.querySelectorAll(".cursor, .tip").forEach((each) => each.remove());
    if (reading?.id === plot.id) reading = null;
  };
  const show = (plot, stop) => {
    document.querySelectorAll("[data-plot]:has(.cursor)").forEach(hide);
    const chart = chartOf(plot), x = 100 * chart.stops[stop] / chart.length;
    const isLast = stop === chart.stops.length - 1;
    reading = { id: plot.id, moment: chart.start + chart.stops[stop], stop, isLast };
    const cursor = drawn("g", { class: "cursor" }, plot.querySelector("svg.chart"));
    drawn("line", { x1: `${x}%`, x2: `${x}%`, y1: chart.top, y2: chart.top + chart.height }, cursor);
    if (!chart.isBars) for (const { tone, value } of valuesAt(chart, stop)) {
      drawn("circle", { class: tone, cx: `${x}%`, cy: chart.top + chart.height * (1 - value / chart.peak), r: 4 }, cursor);
    }
    const tip = said("div", "tip", "", plot.querySelector(".canvas"));
    tip.setAttribute("aria-hidden", "true"); // the slider says the same
    said("b", "", timeOf(chart, stop), tip);
    for (const { name, tone, value } of valuesAt(chart, stop)) {
      const line = said("p", tone, "", tip);
      said("i", "swatch", "", line);
      said("span", "", name, line);
      said("b", "", `${written(value)} ${chart.unit}`, line);
    }
    for (const { tone, words } of marksAt(chart, stop)) said("p", `happened ${tone}`, words, tip);
    tip.style[x > 55 ? "right" : "left"] = `calc(${x > 55 ? 100 - x : x}% + 12px)`;
    plot.setAttribute("aria-valuenow", stop);
    plot.setAttribute("aria-valuetext", spoken(chart, stop));
  };

  const nearest = (stops, offset) => stops.reduce((best, each, place) => (
    Math.abs(each - offset) < Math.abs(stops[best] - offset) ? place : best), 0);
  const pointed = (plot, { clientX }) => {
    const { left, width } = plot.querySelector("svg.chart").getBoundingClientRect(), { stops, length } = chartOf(plot);
    return nearest(stops, length * (clientX - left) / width);
  };
  const STEPS = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1, PageUp: 10, PageDown: -10, Home: -Infinity, End: Infinity };

  const enhance = (plot) => {
    const last = chartOf(plot).stops.length - 1;
    plot.tabIndex = 0;
    plot.setAttribute("role", "slider");
    plot.setAttribute("aria-valuemin", 0);
    plot.setAttribute("aria-valuemax", last);
    plot.setAttribute("aria-valuenow", last);
    plot.setAttribute("aria-valuetext", spoken(chartOf(plot), last));
    plot.addEventListener("pointermove", (event) => show(plot, pointed(plot, event)));
    plot.addEventListener("pointerdown", (event) => show(plot, pointed(plot, event)));
    plot.addEventListener("pointerleave", ({ pointerType }) => { if (pointerType === "mouse" && document.activeElement !== plot) hide(plot); });
    plot.addEventListener("focus", () => { if (reading?.id !== plot.id) show(plot, last); });
    plot.addEventListener("blur", () => hide(plot));
    plot.addEventListener("keydown", (event) => {
      if (event.key === "Escape") hide(plot);
      if (!(event.key in STEPS) || event.ctrlKey || event.altKey || event.metaKey) return;
      event.preventDefault();
      const from = reading?.id === plot.id ? reading.stop : last;
      show(plot, Math.max(0, Math.min(last, from + STEPS[event.key])));
    });
  };
  const enhanceAll = () => document.querySelectorAll("[data-plot]:not([role=slider])").forEach(enhance);

  // A live part is fetched anew: what was being read stays, at its time, or at the present if that was read.
  let before = null;
  document.body.addEventListener("htmx:beforeSwap", () => {
    before = reading && { ...reading, isFocused: document.activeElement?.id === reading.id };
  });
  document.body.addEventListener("htmx:afterSwap", () => {
    enhanceAll();
    const plot = before && document.getElementById(before.id);
    if (!plot || plot.querySelector(".cursor")) return;
    const { stops, start } = chartOf(plot);
    show(plot, before.isLast ? stops.length - 1 : nearest(stops, before.moment - start));
    if (before.isFocused) plot.focus({ preventScroll: true });
  });
  enhanceAll();
})();
