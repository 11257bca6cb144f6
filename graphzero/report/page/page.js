
"use strict";
(() => {
  const read = (id) => JSON.parse(document.getElementById(id).textContent);
  const save = (text, type, name) => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type }));
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  };
  const data = document.getElementById("save-data");
  data.hidden = false;
  data.addEventListener("click", () =>
    save(document.getElementById("recording").textContent, "application/json", "recording.json"));

  // Each figure can be saved as it is drawn in a wide window.
  for (const svg of document.querySelectorAll("figure > svg.wide")) {
    const figure = svg.parentElement;
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = "Save SVG";
    button.addEventListener("click", () =>
      save(new XMLSerializer().serializeToString(svg), "image/svg+xml", figure.id + ".svg"));
    figure.append(button);
  }

  // The values at the moment under the pointer.
  const tip = document.getElementById("tip");
  const number = (value) => value.toLocaleString("en", { maximumSignificantDigits: 4 });
  for (const [name, chart] of Object.entries(read("charts"))) {
    const figure = document.getElementById(name);
    const seconds = Number(figure.dataset.seconds);
    const rule = document.createElement("div");
    rule.className = "rule";
    rule.hidden = true;
    figure.append(rule);
    const hide = () => { tip.hidden = rule.hidden = true; };
    const show = (event) => {
      const svg = event.currentTarget;
      const area = svg.querySelector("[id$='plot-area']").getBoundingClientRect();
      const at = seconds * (event.clientX - area.left) / area.width;
      if (at < 0 || at > seconds) { hide(); return; }
      let nearest = 0;
      chart.moments.forEach((moment, i) => {
        if (Math.abs(moment - at) < Math.abs(chart.moments[nearest] - at)) nearest = i;
      });
      const lines = [number(chart.moments[nearest]) + " s"];
      for (const [label, values] of Object.entries(chart.columns)) {
        if (values[nearest] != null) {
          lines.push(label + ": " + number(values[nearest]) + " " + chart.unit);
        }
      }
      tip.textContent = lines.join("\n");
      tip.hidden = rule.hidden = false;
      const frame = figure.getBoundingClientRect();
      const x = area.left + area.width * chart.moments[nearest] / seconds;
      rule.style.left = x - frame.left + "px";
      rule.style.top = area.top - frame.top + "px";
      rule.style.height = area.height + "px";
      const left = Math.min(x + 12, document.documentElement.clientWidth - tip.offsetWidth - 4);
      tip.style.left = Math.max(4, left) + window.scrollX + "px";
      tip.style.top = area.top + window.scrollY + 8 + "px";
    };
    for (const svg of figure.querySelectorAll("svg")) {
      svg.addEventListener("pointermove", show);
      svg.addEventListener("pointerleave", hide);
    }
  }
})();
