// A slider beside a number field. It moves by ratio, as hours, traffic and sizes span decades; the number is what is sent.
(() => {
  "use strict";
  document.querySelectorAll("input[data-slides]").forEach((slider) => {
    const field = slider.form.elements[slider.dataset.slides];
    const low = Number(slider.dataset.low), high = Number(slider.dataset.high), span = Math.log(high / low);
    let isSliding = false;
    const tell = () => slider.setAttribute("aria-valuetext", Number(field.value).toLocaleString("en"));
    const follow = () => {
      if (isSliding) return;
      const value = Math.min(high, Math.max(low, Number(field.value)));
      slider.value = Math.round(Math.log(value / low) / span * slider.max);
      tell();
    };
    slider.addEventListener("input", () => {
      isSliding = true;
      field.value = Number((low * Math.exp(span * slider.value / slider.max)).toPrecision(2));
      field.dispatchEvent(new Event("input", { bubbles: true }));
      isSliding = false;
      tell();
    });
    field.addEventListener("input", follow);
    follow();
    slider.hidden = false;
  });
})();
