// Load over the same time as the scatter chart: what was asked for, what ended, what failed, and who waited.
const rateText = (value) => (value >= 99.5 ? count(value) : String(+value.toPrecision(2)));

// The strips of the chart: each has a title, its unit and, for each workload, bars, areas and lines over intervals.
function loadStrips() {
  const times = { title: "in ms", unit: "ms", layers: [] }, rates = { title: "a second", layers: [] }, users = { title: "users", first: true, layers: [] };
  // Many more iterations can wait than there are users, so they have an axis of their own.
  const queue = { title: "iterations", first: true, layers: [] }, several = charts.workloads.length > 1;
  charts.workloads.forEach((w, number) => {
    const grid = w.series, all = w.offered?.series, colour = `var(--w${number % 6})`;
    const name = (what) => (several ? `${shorten(w.name, 24)}: ${what}` : what);
    if (grid && grid.completed.length) {
      times.layers.push({ kind: "line", solid: true, colour, name: name("p99"), grid, values: grid.p99_ms });
      times.layers.push({ kind: "line", colour, name: name("p50"), grid, values: grid.p50_ms });
      const each = (values) => values.map((n) => n / grid.step_s);
      rates.layers.push({ kind: "bars", colour, name: name("completed"), grid, values: each(grid.completed) });
      if (grid.failed.some((n) => n > 0)) rates.layers.push({ kind: "bars", colour: "var(--failed)", name: name("failed"), grid, values: each(grid.failed), key: "fail" });
    }
    if (!all) return;
    const line = (values) => ({ kind: "line", colour: "var(--fg)", name: name("planned"), grid: all, values });
    if (all.planned_per_s?.length) rates.layers.push(line(all.planned_per_s));
    // How many users there are says something where it changes, or where iterations wait for one.
    const varies = all.planned_users?.some((n) => n !== all.planned_users[0]), waits = all.queued?.some((n) => n > 0);
    if (!varies && !waits) return;
    if (all.planned_users?.length) users.layers.push(line(all.planned_users));
    if (waits) queue.layers.push({ kind: "bars", colour: "var(--doubt)", name: name("waiting"), grid: all, values: all.queued });
    if (all.busy?.some((n) => n > 0)) users.layers.push({ kind: "line", colour, name: name("busy"), grid: all, values: all.busy, solid: true });
  });
  return [times, rates, users, queue].filter((strip) => strip.layers.length);
}

// What the load generator's process held, and how late iterations began where arrivals are planned.
function processStrips() {
  const held = charts.process, strips = [];
  if (!held) return strips;
  const strip = (title, name, grid, values, first) => strips.push({ title, first, layers: [{ kind: "line", solid: true, colour: "var(--w0)", name, grid, values }] });
  strip("of memory", "MB", held, held.memory_bytes.map((bytes) => bytes / 1e6));
  if (held.descriptors.some((n) => n > 0)) strip("descriptors", "open", held, held.descriptors);
  strip("threads", "", held, held.threads);
  for (const w of charts.workloads) {
    const all = w.offered?.series;
    if (w.offered?.asked_per_s && all.queue_time_mean_ms?.length) strip("mean queue time", `${charts.workloads.length > 1 ? `${shorten(w.name, 24)}: ` : ""}ms`, all, all.queue_time_mean_ms);
  }
  return strips;
}
function processChart(host) {
  const held = charts.process, chart = loadChart(host, processStrips());
  return () => chart(held.start_s * 1e6, (held.start_s + held.step_s * held.threads.length) * 1e6, { x0: 66, x1: host.clientWidth - 10 });
}

function loadChart(host, strips) {
  if (!strips.length) { host.hidden = true; return () => {}; }
  // A strip's height, and that of its titles above it. A phone has less room.
  const strip = () => (host.clientWidth < 500 ? 50 : 74), TITLES = 22;
  host.style.height = `${strips.length * (strip() + TITLES)}px`;
  const tip = make("div", { class: "tip", hidden: "" }), now = make("div", { class: "now", hidden: "" });
  let shown = null;
  const at = (layer, seconds) => Math.floor((seconds - layer.grid.start_s) / layer.grid.step_s);
  host.onpointermove = (event) => {
    if (!shown) return;
    const x = event.clientX - host.getBoundingClientRect().left, { x0, x1, area } = shown;
    const seconds = x0 + (x - area.x0) / (area.x1 - area.x0) * (x1 - x0);
    const lines = strips.flatMap((strip) => strip.layers.map((layer) => [layer.values[at(layer, seconds)], layer.name, strip.unit ?? strip.title]))
      .filter(([value]) => value !== undefined).map(([value, name, unit]) => `${name}: ${rateText(value)} ${unit}`);
    tip.hidden = now.hidden = !lines.length || x < area.x0 || x > area.x1;
    if (tip.hidden) return;
    now.style.left = `${x}px`;
    placeTip(tip, host, x, strip() / 2, [`at ${time(seconds * 1e3)}`, ...lines]);
  };
  host.onpointerleave = () => { tip.hidden = now.hidden = true; };
  return (fromUs, toUs, area) => {
    const x0 = fromUs / 1e6, x1 = toUs / 1e6, width = host.clientWidth, tall = strip(), all = strips.length * (tall + TITLES);
    host.style.height = `${all}px`;
    shown = { x0, x1, area };
    const svg = shape("svg", { viewBox: `0 0 ${width} ${all}`, "aria-hidden": "true" });
    const x = (seconds) => Math.max(area.x0, Math.min(area.x1, area.x0 + (seconds - x0) / (x1 - x0) * (area.x1 - area.x0)));
    strips.forEach((strip, place) => {
      const top = place * (tall + TITLES) + 20, bottom = top + tall - 4;
      const most = Math.max(...strip.layers.flatMap((layer) => layer.values), 1e-9);
      // The axis ends at a round number at or above everything.
      const step = roundStep(most, 2), high = Math.ceil(most / step - 1e-9) * step;
      const y = (value) => bottom - value / high * (bottom - top);
      for (let tick = 0; tick <= high * 1.001; tick += step) svg.append(shape("line", { class: "grid", x1: area.x0, x2: area.x1, y1: y(tick), y2: y(tick) }), shape("text", { x: area.x0 - 6, y: y(tick) + 4, "text-anchor": "end" }, rateText(tick)));
      let right = area.x0;
      for (const layer of strip.layers) {
        const { grid, values } = layer;
        let d = "", pen = false;
        values.forEach((value, n) => {
          const from = x(grid.start_s + n * grid.step_s), to = x(grid.start_s + (n + 1) * grid.step_s);
          if (to - from <= 0) { pen = false; return; }
          if (layer.kind === "bars") { if (value > 0) d += `M${from.toFixed(1)} ${bottom}V${Math.min(y(value), bottom - 1).toFixed(1)}H${Math.max(to - (to - from > 3 ? 0.7 : 0), from + 0.5).toFixed(1)}V${bottom}z`; return; }
          d += `${pen ? "L" : "M"}${from.toFixed(1)} ${y(value).toFixed(1)}H${to.toFixed(1)}`;
          pen = true;
        });
        const path = shape("path", { class: layer.kind === "bars" ? (layer.key ? "strip-bars failing" : "strip-bars") : layer.solid ? "strip-line" : "strip-line dashed", d });
        path.style.setProperty(layer.kind === "bars" ? "fill" : "stroke", layer.colour);
        const bars = layer.kind === "bars", text = strip.first ? `${strip.title} ${layer.name}` : `${layer.name} ${strip.title}`;
        const mark = shape("path", { class: path.getAttribute("class"), d: bars ? `M${right} ${top - 13}h10v8h-10z` : `M${right} ${top - 9}h18` });
        mark.style.setProperty(bars ? "fill" : "stroke", layer.colour);
        const before = bars ? 14 : 22;
        svg.append(path, mark, shape("text", { x: right + before, y: top - 5 }, text));
        right += before + textWidth(text) + 16;
      }
    });
    host.replaceChildren(svg, now, tip);
  };
}
