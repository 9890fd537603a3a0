// Runs before the page is painted: a chosen theme must not flash.
(() => {
  document.documentElement.classList.add("js");
  const chosen = localStorage.getItem("theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
})();
