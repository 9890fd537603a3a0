// A slider beside a number field. Its scale is logarithmic, because hours, traffic and sizes span decades; the form sends the number.
(() => {
  "use strict";
  document.querySelectorAll("input[data-slides]").forEach((slider) => {
    const field = slider.form.elements[slider.dataset.slides];
    const low = Number(slider.dataset.low), high = Number(slider.dataset.high), span = Math.log(high / low);
    let isSliding = false;
    const describe = () => slider.setAttribute("aria-valuetext", Number(field.value).toLocaleString("en"));
    const follow = () => {
      if (isSliding) return;
      const value = Math.min(high, Math.max(low, Number(field.value)));
      slider.value = Math.round(Math.log(value / low) / span * slider.max);
      describe();
    };
    slider.addEventListener("input", () => {
      isSliding = true;
      field.value = Number((low * Math.exp(span * slider.value / slider.max)).toPrecision(2));
      field.dispatchEvent(new Event("input", { bubbles: true }));
      isSliding = false;
      describe();
    });
    field.addEventListener("input", follow);
    follow();
    slider.hidden = false;
  });
})();
