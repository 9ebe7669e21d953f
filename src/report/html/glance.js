// Load and latency over time on the first screen: small multiples with one scale of time.
const GLANCE_MAX = 4;
function glance(host) {
  const shown = charts.workloads.filter((w) => w.series && w.series.completed.length > 1).slice(0, GLANCE_MAX);
  if (!shown.length) return;
  const several = charts.workloads.length > 1;
  const from = Math.min(...shown.map((w) => w.series.start_s));
  const to = Math.max(...shown.map((w) => w.series.start_s + w.series.completed.length * w.series.step_s));
  host.replaceChildren(...shown.map((workload) => {
    const row = make("div", { class: "glance-row" }), { series } = workload;
    if (several) row.append(make("span", { class: "glance-name" }, workload.name));
    const rates = series.completed.map((n) => n / series.step_s), failed = series.failed.map((n) => n / series.step_s);
    row.append(
      small(series, from, to, "Completed a second", rateText, [["area", rates], ["failures", failed]], (n) => [`${rateText(rates[n])} a second`, ...(failed[n] ? [`${rateText(failed[n])} failed`] : [])]),
      small(series, from, to, "Response time, p99 and p50", time, [["p99", series.p99_ms], ["p50", series.p50_ms]], (n) => (series.p50_ms[n] ? [`p99 ${time(series.p99_ms[n])}`, `p50 ${time(series.p50_ms[n])}`] : ["none ended"])),
    );
    return row;
  }));
}
function small(series, from, to, title, words, lines, told) {
  const most = Math.max(...lines[0][1], 1e-9), figure = make("figure", { class: "small" });
  const plot = make("div", { class: "small-plot", role: "img", "aria-label": `${title}: at most ${words(most)}. The numbers are in the tables below.` });
  figure.append(make("figcaption", {}, title, make("span", { class: "most" }, `at most ${words(most)}`)), plot);
  const W = 1000, H = 60, svg = shape("svg", { viewBox: `0 0 ${W} ${H}`, preserveAspectRatio: "none", "aria-hidden": "true" });
  const x = (n) => (series.start_s + (n + 0.5) * series.step_s - from) / (to - from) * W, y = (value) => H - value / most * (H - 3);
  for (const [name, values] of lines) {
    let d = "", pen = false;
    const bars = name === "area" || name === "failures", width = series.step_s / (to - from) * W;
    values.forEach((value, n) => {
      if (bars) { if (value > 0) d += `M${(x(n) - width / 2).toFixed(1)} ${H}V${Math.min(y(value), H - 1).toFixed(1)}h${(width * 0.94).toFixed(2)}V${H}z`; return; }
      if (!(value > 0)) { pen = false; return; }
      d += `${pen ? "L" : "M"}${x(n).toFixed(1)} ${y(value).toFixed(1)}`;
      pen = true;
    });
    svg.append(shape("path", { class: name, d }));
  }
  const now = make("div", { class: "now", hidden: "" }), tip = make("div", { class: "tip", hidden: "" });
  plot.append(svg, now, tip);
  plot.onpointermove = (event) => {
    const box = plot.getBoundingClientRect(), at = from + (event.clientX - box.left) / box.width * (to - from);
    const n = Math.floor((at - series.start_s) / series.step_s);
    tip.hidden = now.hidden = !(n >= 0 && n < series.completed.length);
    if (tip.hidden) return;
    const px = x(n) / W * box.width;
    now.style.left = `${px}px`;
    placeTip(tip, plot, px, box.height / 2, [...told(n), `at ${time((series.start_s + n * series.step_s) * 1e3)}`]);
  };
  plot.onpointerleave = () => { tip.hidden = now.hidden = true; };
  return figure;
}
