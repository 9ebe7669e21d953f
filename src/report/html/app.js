// Draws the report's charts and waterfalls.
const OUTCOMES = ["ok", "failed", "aborted"];
const charts = JSON.parse($("#charts").textContent);
let traces = new Map();

// ---- slowest iterations --------------------------------------------------------------------
function toggleRow(button) {
  const detail = document.getElementById(button.getAttribute("aria-controls"));
  const open = detail.hidden;
  detail.hidden = !open;
  button.setAttribute("aria-expanded", open);
  const slot = $(".slot", detail);
  if (open && slot && !slot.hasChildNodes()) {
    const trace = traces.get(slot.dataset.trace);
    slot.append(trace ? waterfall(trace) : make("p", { class: "hint" }, "The trace could not be read."));
  }
}

// ---- axes ----------------------------------------------------------------------------------
function linearTicks(from, to, wanted) {
  const rough = Math.max((to - from) / wanted, 1e-12), power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].find((s) => s * power >= rough * 0.999) * power;
  const ticks = [];
  for (let n = Math.ceil(from / step - 1e-9) + 0; n * step <= to * (1 + 1e-9); n++) ticks.push(n * step);
  return ticks;
}
function logTicks(from, to, wanted) {
  for (const steps of [[1, 2, 3, 5, 7], [1, 2, 5], [1, 3], [1]]) {
    const ticks = [];
    for (let e = Math.floor(Math.log10(from)); e <= Math.log10(to); e++)
      for (const s of steps) { const t = s * 10 ** e; if (t >= from * 0.999 && t <= to * 1.001) ticks.push(t); }
    if (ticks.length <= wanted && (ticks.length > 1 || steps.length === 1)) return ticks.length > 1 ? ticks : linearTicks(from, to, wanted);
  }
  const ticks = [], step = Math.ceil(Math.log10(to / from) / wanted);
  for (let e = Math.ceil(Math.log10(from)); e <= Math.log10(to); e += step) ticks.push(10 ** e);
  return ticks;
}
function frame(host, left = 66) {
  const width = host.clientWidth, height = host.clientHeight;
  const svg = shape("svg", { viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" });
  return { svg, x0: left, x1: width - 10, y0: 10, y1: height - 34, width, height };
}
function axes(f, xs, ys, xTitle, yTitle) {
  for (const [y, label] of ys) {
    f.svg.append(shape("line", { class: "grid", x1: f.x0, x2: f.x1, y1: y, y2: y }), shape("text", { x: f.x0 - 6, y: y + 4, "text-anchor": "end" }, label));
  }
  for (const [x, label] of xs) {
    f.svg.append(shape("line", { class: "grid", x1: x, x2: x, y1: f.y1, y2: f.y1 + 4 }), shape("text", { x, y: f.y1 + 15, "text-anchor": "middle" }, label));
  }
  f.svg.append(shape("text", { x: (f.x0 + f.x1) / 2, y: f.height - 3, "text-anchor": "middle" }, xTitle));
  f.svg.append(shape("text", { transform: `translate(11 ${(f.y0 + f.y1) / 2}) rotate(-90)`, "text-anchor": "middle" }, yTitle));
}
function placeTip(tip, host, x, y, lines) {
  tip.replaceChildren(...lines.map((line) => make("div", {}, line)));
  tip.hidden = false;
  const right = x + 14 + tip.offsetWidth > host.clientWidth;
  tip.style.left = `${Math.max(0, right ? x - 14 - tip.offsetWidth : x + 14)}px`;
  tip.style.top = `${Math.max(0, Math.min(y - tip.offsetHeight / 2, host.clientHeight - tip.offsetHeight))}px`;
}
const nothing = (host, text = "No samples.") => host.replaceChildren(make("p", { class: "empty" }, text));

// ---- percentile curve ----------------------------------------------------------------------
// Through the exact percentiles; between them the buckets give the shape, never outside of them.
function curvePoints(shapeOf) {
  const exact = shapeOf.percentiles.filter((p) => p.percentile < 100).map((p) => [p.percentile / 100, p.value_ms]);
  exact.push([1, shapeOf.max_ms]);
  const points = exact.map((p) => [...p, true]);
  let seen = 0;
  for (const bucket of shapeOf.buckets) {
    seen += bucket.count;
    const q = seen / shapeOf.count, above = exact.find((p) => p[0] >= q);
    const below = exact.findLast((p) => p[0] <= q);
    if (q < 1 && above) points.push([q, Math.max(below ? below[1] : 0, Math.min(bucket.to_ms, above[1])), false]);
  }
  return points.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
}
function drawCurve(host, workload) {
  if (!workload.response.count) return nothing(host);
  const f = frame(host), last = Math.max(2, Math.log10(workload.response.count));
  const x = (q) => f.x0 + Math.min(-Math.log10(Math.max(1 - q, 1e-12)), last) / last * (f.x1 - f.x0);
  const top = Math.max(workload.response.max_ms, workload.service.max_ms) * 1.04 || 1;
  const y = (ms) => f.y1 - ms / top * (f.y1 - f.y0);
  const xs = [0, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999, 0.999999].filter((q) => -Math.log10(1 - q) <= last).map((q) => [x(q), q ? `p${+(q * 100).toFixed(6)}` : "0"]);
  axes(f, xs, linearTicks(0, top, 5).map((t) => [y(t), axisTime(t)]), "percentile (logarithmic towards 100 %)", "time");
  const dots = [];
  for (const [name, data] of [["service", workload.service], ["response", workload.response]]) {
    if (!data.count) continue;
    const points = curvePoints(data);
    f.svg.append(shape("path", { class: `curve ${name}`, d: points.map((p, n) => `${n ? "L" : "M"}${x(p[0]).toFixed(1)} ${y(p[1]).toFixed(1)}`).join("") }));
    if (name === "response") for (const p of points.filter((p) => p[2])) dots.push({ x: x(p[0]), y: y(p[1]), q: p[0], ms: p[1] });
  }
  for (const d of dots) f.svg.append(shape("circle", { class: "dot", cx: d.x, cy: d.y, r: 3.5 }));
  const tip = make("div", { class: "tip", hidden: "" });
  host.replaceChildren(f.svg, tip);
  host.onpointermove = (event) => {
    const at = event.clientX - host.getBoundingClientRect().left;
    const d = dots.reduce((best, one) => (Math.abs(one.x - at) < Math.abs(best.x - at) ? one : best));
    const service = workload.service.percentiles.find((p) => Math.abs(p.percentile / 100 - d.q) < 1e-9);
    placeTip(tip, host, d.x, d.y, [d.q === 1 ? "maximum" : `p${+(d.q * 100).toFixed(6)}`, `response ${time(d.ms)}`, ...(service ? [`service ${time(service.value_ms)}`] : [])]);
  };
  host.onpointerleave = () => { tip.hidden = true; };
}

// ---- histogram -----------------------------------------------------------------------------
function drawHistogram(host, workload) {
  const buckets = workload.response.buckets;
  if (!buckets.length) return nothing(host);
  const f = frame(host);
  const low = Math.log(Math.max(buckets[0].from_ms, 1e-6)), high = Math.log(Math.max(buckets.at(-1).to_ms, 2e-6));
  const x = (ms) => f.x0 + (Math.log(Math.max(ms, 1e-6)) - low) / (high - low || 1) * (f.x1 - f.x0);
  const most = Math.max(...buckets.map((b) => b.count));
  const y = (n) => f.y1 - n / (most * 1.04) * (f.y1 - f.y0);
  axes(f, logTicks(Math.exp(low), Math.exp(high), f.width / 62).map((t) => [x(t), axisTime(t)]), linearTicks(0, most * 1.04, 6).filter((t) => Number.isInteger(t)).map((t) => [y(t), count(t)]), "response time (logarithmic)", "iterations");
  const columns = buckets.map((b) => {
    const left = x(b.from_ms), right = x(b.to_ms), top = Math.min(y(b.count), f.y1 - 2);
    const column = shape("rect", { class: "col", x: left, y: top, width: Math.max(right - left - 0.7, 1), height: f.y1 - top });
    f.svg.append(column);
    return { column, left, right, top, bucket: b };
  });
  const tip = make("div", { class: "tip", hidden: "", "aria-live": "polite" });
  let on = -1;
  const pick = (index) => {
    if (columns[on]) columns[on].column.classList.remove("on");
    on = index;
    if (!columns[on]) { tip.hidden = true; return; }
    const { column, left, right, top, bucket } = columns[on];
    column.classList.add("on");
    placeTip(tip, host, (left + right) / 2, top, [`${time(bucket.from_ms)} to ${time(bucket.to_ms)}`, `${count(bucket.count)} iteration${bucket.count === 1 ? "" : "s"}`, bucket.trace_id, "click copies the id"]);
  };
  const nearest = (event) => {
    const at = event.clientX - host.getBoundingClientRect().left;
    const far = (c) => (at < c.left ? c.left - at : at > c.right ? at - c.right : 0);
    let best = 0;
    columns.forEach((c, n) => { if (far(c) < far(columns[best])) best = n; });
    return far(columns[best]) < 24 ? best : -1;
  };
  host.onpointermove = (event) => pick(nearest(event));
  host.onpointerleave = () => pick(-1);
  host.onblur = () => pick(-1);
  host.onclick = (event) => { pick(nearest(event)); if (columns[on]) copy(columns[on].bucket.trace_id); };
  host.onkeydown = (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (step) { event.preventDefault(); pick(on < 0 ? columns.length - 1 : Math.max(0, Math.min(columns.length - 1, on + step))); }
    else if (event.key === "Enter" && columns[on]) { const kept = on; copy(columns[kept].bucket.trace_id).then(() => pick(kept)); }
  };
  host.replaceChildren(f.svg, tip);
}

// ---- throughput ----------------------------------------------------------------------------
function drawThroughput(host, workload, index, columns) {
  const ends = [], failed = [];
  for (let n = 0; n < columns.rows; n++) {
    if (columns.workload[n] !== index || columns.outcome[n] === 2) continue;
    ends.push(columns.start[n] / 1e6 + columns.duration[n] / 1e3);
    failed.push(columns.outcome[n] === 1);
  }
  if (!ends.length || !(workload.duration_s > 0)) return nothing(host);
  const f = frame(host), from = workload.start_s, span = workload.duration_s;
  const bins = Math.max(4, Math.min(120, Math.floor(ends.length / 8)));
  // A sample stands for more iterations than it has.
  let mine = 0;
  for (let n = 0; n < columns.rows; n++) if (columns.workload[n] === index) mine++;
  const weight = workload.total / mine / (span / bins);
  const all = new Float64Array(bins), bad = new Float64Array(bins);
  ends.forEach((end, n) => {
    const bin = Math.max(0, Math.min(bins - 1, Math.floor((end - from) / span * bins)));
    all[bin] += weight;
    if (failed[n]) bad[bin] += weight;
  });
  const top = Math.max(...all) * 1.06;
  const x = (s) => f.x0 + (s - from) / span * (f.x1 - f.x0), y = (rate) => f.y1 - rate / top * (f.y1 - f.y0);
  axes(f, linearTicks(from, from + span, f.width / 90).map((t) => [x(t), axisTime(t * 1e3)]), linearTicks(0, top, 4).map((t) => [y(t), t >= 1000 ? count(t) : String(+t.toPrecision(3))]), "time since the run's start", "per second");
  const width = (f.x1 - f.x0) / bins;
  for (const [values, name] of [[all, "col"], [bad, "fail-col"]]) {
    let d = "";
    values.forEach((value, n) => { if (value) d += `M${(f.x0 + n * width).toFixed(1)} ${f.y1}V${Math.min(y(value), f.y1 - 1).toFixed(1)}h${Math.max(width - 0.6, 0.8).toFixed(2)}V${f.y1}z`; });
    f.svg.append(shape("path", { class: name, d }));
  }
  const tip = make("div", { class: "tip", hidden: "" });
  host.onpointermove = (event) => {
    const bin = Math.floor((event.clientX - host.getBoundingClientRect().left - f.x0) / width);
    if (!(bin >= 0 && bin < bins)) { tip.hidden = true; return; }
    const at = (n) => time((from + span * n / bins) * 1e3), rate = (value) => (value >= 100 ? count(value) : value.toPrecision(3));
    placeTip(tip, host, f.x0 + (bin + 0.5) * width, y(all[bin]), [`${rate(all[bin])} a second`, ...(bad[bin] ? [`${rate(bad[bin])} failed`] : []), `${at(bin)} to ${at(bin + 1)}`]);
  };
  host.onpointerleave = () => { tip.hidden = true; };
  host.replaceChildren(f.svg, tip);
}

// ---- scatter -------------------------------------------------------------------------------
function readColumns(buffer) {
  const rows = Math.floor(buffer.byteLength / 31);
  return {
    rows,
    start: new Float64Array(buffer, 0, rows),
    duration: new Float32Array(buffer, 8 * rows, rows),
    workload: new Uint16Array(buffer, 12 * rows, rows),
    outcome: new Uint8Array(buffer, 14 * rows, rows),
    ids: new Uint8Array(buffer, 15 * rows, 16 * rows),
    id(n) {
      let hex = "";
      for (let b = 16 * n; b < 16 * n + 16; b++) hex += this.ids[b].toString(16).padStart(2, "0");
      return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
    },
  };
}

function scatter(host, c) {
  const base = make("canvas"), over = make("canvas"), tip = make("div", { class: "tip", hidden: "" });
  host.append(base, over, tip);
  let end = 1, low = Infinity, high = 0;
  for (let n = 0; n < c.rows; n++) {
    end = Math.max(end, c.start[n]);
    if (c.duration[n] > 0) low = Math.min(low, c.duration[n]);
    high = Math.max(high, c.duration[n]);
  }
  if (!(low < high)) { low = (high || 1) / 2; high = (high || 1) * 2; }
  let log = true, view = null, found = [], pinned = -1, drag = null;
  const hidden = new Set();
  const groups = [];
  for (let w = 0; w < charts.workloads.length; w++) groups.push({ w, outcome: 0, rows: [] });
  for (const outcome of [2, 1]) groups.push({ w: -1, outcome, rows: [] });
  for (let n = 0; n < c.rows; n++) groups[c.outcome[n] ? groups.length - (c.outcome[n] === 1 ? 1 : 2) : Math.min(c.workload[n], groups.length - 3)]?.rows.push(n);
  const full = () => (log ? { x0: 0, x1: end * 1.005, y0: low / 1.15, y1: high * 1.15 } : { x0: 0, x1: end * 1.005, y0: 0, y1: high * 1.04 });
  view = full();

  let area = {}, colours = [], next, head, cells = 0;
  const CELL = 10;
  const px = (us) => area.x0 + (us - view.x0) / (view.x1 - view.x0) * (area.x1 - area.x0);
  const py = (ms) => (log ? area.y1 - Math.log(Math.max(ms, view.y0 * 0.5, 1e-9) / view.y0) / Math.log(view.y1 / view.y0) * (area.y1 - area.y0) : area.y1 - (ms - view.y0) / (view.y1 - view.y0) * (area.y1 - area.y0));
  const atX = (x) => view.x0 + (x - area.x0) / (area.x1 - area.x0) * (view.x1 - view.x0);
  const atY = (y) => { const part = (area.y1 - y) / (area.y1 - area.y0); return log ? view.y0 * (view.y1 / view.y0) ** part : view.y0 + part * (view.y1 - view.y0); };
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  function context(canvas) {
    const ratio = devicePixelRatio || 1;
    canvas.width = host.clientWidth * ratio;
    canvas.height = host.clientHeight * ratio;
    const g = canvas.getContext("2d");
    g.scale(ratio, ratio);
    g.font = `11px ${getComputedStyle(document.body).fontFamily}`;
    return g;
  }
  function drawAxes(g) {
    g.strokeStyle = colour("--line");
    g.fillStyle = colour("--soft");
    g.textAlign = "right";
    g.textBaseline = "middle";
    const ys = log ? logTicks(view.y0, view.y1, 10) : linearTicks(view.y0, view.y1, 7);
    g.beginPath();
    for (const t of ys) { const y = Math.round(py(t)) + 0.5; g.moveTo(area.x0, y); g.lineTo(area.x1, y); g.fillText(axisTime(t), area.x0 - 6, y); }
    g.textAlign = "center";
    for (const t of linearTicks(view.x0 / 1e6, view.x1 / 1e6, area.x1 / 90)) { const x = Math.round(px(t * 1e6)) + 0.5; g.moveTo(x, area.y1); g.lineTo(x, area.y1 + 4); g.fillText(axisTime(t * 1e3), x, area.y1 + 12); }
    g.stroke();
    g.fillText("start, since the run's start", (area.x0 + area.x1) / 2, area.y1 + 27);
    g.save();
    g.translate(8, (area.y0 + area.y1) / 2);
    g.rotate(-Math.PI / 2);
    g.fillText("service time", 0, 0);
    g.restore();
  }
  function draw() {
    if (!host.clientWidth) return;
    area = { x0: 70, x1: host.clientWidth - 10, y0: 8, y1: host.clientHeight - 36 };
    const g = context(base);
    drawAxes(g);
    colours = [0, 1, 2, 3, 4, 5].map((w) => colour(`--w${w}`));
    cells = Math.ceil(area.x1 / CELL) + 1;
    head = new Int32Array(cells * (Math.ceil(area.y1 / CELL) + 1)).fill(-1);
    next ??= new Int32Array(c.rows);
    g.save();
    g.beginPath();
    g.rect(area.x0 - 2, area.y0 - 4, area.x1 - area.x0 + 6, area.y1 - area.y0 + 6);
    g.clip();
    for (const group of groups) drawGroup(g, group);
    drawLonely(g);
    g.restore();
    mark(-1);
    $("#reset").disabled = JSON.stringify(view) === JSON.stringify(full());
  }
  function drawGroup(g, group) {
    g.fillStyle = group.outcome === 1 ? colour("--failed") : group.outcome === 2 ? colour("--soft") : colours[group.w % 6];
    g.strokeStyle = g.fillStyle;
    g.lineWidth = 1.3;
    const shown = c.rows * Math.min(1, (view.x1 - view.x0) / end);
    g.globalAlpha = group.outcome ? 0.9 : 0.55;
    const size = shown > 30000 ? 2 : shown > 5000 ? 2.5 : 3.5;
    g.beginPath();
    for (const n of group.rows) {
      if (hidden.has(c.outcome[n] ? OUTCOMES[c.outcome[n]] : c.workload[n]) || hidden.has(c.workload[n])) continue;
      const x = px(c.start[n]), y = py(c.duration[n]);
      if (x < area.x0 - 3 || x > area.x1 + 3 || y < area.y0 - 3 || y > area.y1 + 3) continue;
      if (group.outcome === 1) { g.moveTo(x - 3, y - 3); g.lineTo(x + 3, y + 3); g.moveTo(x + 3, y - 3); g.lineTo(x - 3, y + 3); }
      else if (group.outcome === 2) g.rect(x - 2.5, y - 2.5, 5, 5);
      else g.fillRect(x - size / 2, y - size / 2, size, size);
      const cell = Math.max(0, Math.floor(y / CELL)) * cells + Math.floor(x / CELL);
      next[n] = head[cell] ?? -1;
      head[cell] = n;
    }
    if (group.outcome) g.stroke();
    g.globalAlpha = 1;
  }
  // Points by themselves are the ones to look at: they must not be the faintest.
  function drawLonely(g) {
    for (const first of head) {
      const few = [];
      for (let n = first; n >= 0 && few.length < 4; n = next[n]) few.push(n);
      for (const n of few.length < 4 ? few : []) {
        if (c.outcome[n]) continue;
        g.fillStyle = colours[c.workload[n] % 6];
        g.fillRect(px(c.start[n]) - 1.5, py(c.duration[n]) - 1.5, 3, 3);
      }
    }
  }
  function nearest(x, y) {
    let best = -1, distance = 14 * 14;
    const cx = Math.floor(x / CELL), cy = Math.floor(y / CELL);
    for (let row = Math.max(0, cy - 1); row <= cy + 1; row++)
      for (let column = Math.max(0, cx - 1); column <= cx + 1; column++)
        for (let n = head[row * cells + column] ?? -1; n >= 0; n = next[n]) {
          const d = (px(c.start[n]) - x) ** 2 + (py(c.duration[n]) - y) ** 2;
          if (d < distance) { distance = d; best = n; }
        }
    return best;
  }
  function mark(hover) {
    const g = context(over);
    g.strokeStyle = colour("--mark");
    const ring = (n, radius, width) => { g.lineWidth = width; g.beginPath(); g.arc(px(c.start[n]), py(c.duration[n]), radius, 0, 7); g.stroke(); };
    for (const n of found) ring(n, 6, 1.5);
    if (pinned >= 0) ring(pinned, 8, 2.5);
    if (hover >= 0) ring(hover, 6, 1.5);
    if (drag?.moved) {
      g.fillStyle = colour("--soft");
      g.globalAlpha = 0.2;
      g.fillRect(drag.x, drag.y, drag.toX - drag.x, drag.toY - drag.y);
    }
  }
  const facts = (n) => [time(c.duration[n]), `${charts.workloads[c.workload[n]]?.name ?? "?"}, ${OUTCOMES[c.outcome[n]]}`, `started at ${time(c.start[n] / 1e3)}`];
  function pin(n) {
    pinned = n;
    mark(-1);
    const box = $("#pinned"), id = c.id(n), trace = traces.get(id);
    const close = make("button", { type: "button" }, "Close");
    close.onclick = () => { pinned = -1; box.replaceChildren(); mark(-1); };
    box.replaceChildren(make("div", { class: "acts-bar" }, idButton(id), ...facts(n).map((fact) => make("span", {}, fact)), make("span", { class: "none" }, trace ? "" : "no trace in this report"), close));
    if (trace) box.append(waterfall(trace));
  }
  const at = (event) => { const r = over.getBoundingClientRect(); return [event.clientX - r.left, event.clientY - r.top]; };
  over.onpointerdown = (event) => {
    if (event.button) return;
    const [x, y] = at(event);
    drag = { x, y, toX: x, toY: y, moved: false };
    over.setPointerCapture(event.pointerId);
  };
  over.onpointermove = (event) => {
    const [x, y] = at(event);
    if (drag) {
      Object.assign(drag, { toX: x, toY: y, moved: drag.moved || Math.hypot(x - drag.x, y - drag.y) > 6 });
      tip.hidden = true;
      return mark(-1);
    }
    const n = nearest(x, y);
    mark(n);
    if (n < 0) tip.hidden = true;
    else placeTip(tip, host, px(c.start[n]), py(c.duration[n]), [...facts(n), c.id(n)]);
  };
  over.onpointerup = () => {
    const done = drag;
    drag = null;
    if (done?.moved) {
      const clamp = (value, a, b) => Math.max(a, Math.min(b, value));
      const [xa, xb] = [done.x, done.toX].map((x) => clamp(x, area.x0, area.x1)).sort((a, b) => a - b);
      const [ya, yb] = [done.y, done.toY].map((y) => clamp(y, area.y0, area.y1)).sort((a, b) => a - b);
      if (xb - xa > 5 && yb - ya > 5) { view = { x0: atX(xa), x1: atX(xb), y0: atY(yb), y1: atY(ya) }; draw(); } else mark(-1);
    } else if (done) {
      const n = nearest(done.x, done.y);
      if (n >= 0) { pin(n); copy(c.id(n)); }
    }
  };
  over.onpointercancel = () => { drag = null; mark(-1); };
  over.onpointerleave = () => { tip.hidden = true; if (!drag) mark(-1); };
  const reset = () => { view = full(); draw(); };
  over.ondblclick = reset;
  $("#reset").onclick = reset;
  for (const [id, value] of [["#log", true], ["#linear", false]]) $(id).onclick = () => {
    const zoomed = !$("#reset").disabled, { x0, x1, y0, y1 } = view;
    log = value;
    view = zoomed ? { x0, x1, y0: log ? Math.max(y0, low / 1.15) : y0, y1 } : full();
    $("#log").setAttribute("aria-pressed", log);
    $("#linear").setAttribute("aria-pressed", !log);
    draw();
  };
  $("#find").oninput = (event) => {
    const wanted = event.target.value.toLowerCase().replace(/[^0-9a-f]/g, "");
    found = [];
    let matches = 0;
    const nibbles = [...wanted].map((d) => parseInt(d, 16));
    for (let n = 0; wanted && n < c.rows; n++) {
      if (!nibbles.every((d, k) => (k & 1 ? c.ids[16 * n + (k >> 1)] & 15 : c.ids[16 * n + (k >> 1)] >> 4) === d)) continue;
      if (++matches <= 2000) found.push(n);
    }
    $("#found").textContent = wanted ? (matches ? `${count(matches)} found` : charts.total > c.rows ? "not in this sample" : "none") : "";
    if (found.some((n) => c.start[n] < view.x0 || c.start[n] > view.x1 || c.duration[n] < view.y0 || c.duration[n] > view.y1)) { view = full(); draw(); }
    if (matches === 1) pin(found[0]); else mark(-1);
  };
  const legend = $("#scatter-legend");
  const key = (name, text, fill, path) => {
    const button = make("button", { type: "button", "aria-pressed": "true", title: "Show or hide" });
    const icon = shape("svg", { width: 10, height: 10, "aria-hidden": "true" }), drawn = shape("path", { d: path });
    drawn.style.cssText = fill;
    icon.append(drawn);
    button.append(icon, make("span", {}, text));
    button.onclick = () => { if (!hidden.delete(name)) hidden.add(name); button.setAttribute("aria-pressed", !hidden.has(name)); draw(); };
    legend.append(button);
  };
  charts.workloads.forEach((w, n) => key(n, w.name, `fill:var(--w${n % 6})`, "M1 1h8v8h-8z"));
  if (groups.at(-1).rows.length) key("failed", "failed", "fill:none;stroke:var(--failed);stroke-width:1.6", "M1 1l8 8m0-8l-8 8");
  if (groups.at(-2).rows.length) key("aborted", "aborted", "fill:none;stroke:var(--soft);stroke-width:1.6", "M2 2h6v6h-6z");
  return draw;
}

// ---- start ---------------------------------------------------------------------------------
document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-copy]");
  if (button) return void copy(button.dataset.copy, button);
  const toggle = event.target.closest(".toggle") ?? (event.target.closest("button, a") ? null : event.target.closest(".row")?.querySelector(".toggle"));
  if (toggle && (event.target === toggle || getSelection().isCollapsed)) toggleRow(toggle);
});
async function start() {
  const [columns, stored] = await Promise.all([unpack("iterations").then(readColumns), unpack("traces")]);
  traces = new Map(JSON.parse(new TextDecoder().decode(stored)).map((trace) => [trace.id, trace]));
  const host = $("#scatter"), drawScatter = host ? scatter(host, columns) : () => {};
  const draw = () => {
    drawScatter();
    for (const plot of $$("[data-chart]")) {
      const index = Number(plot.dataset.w), workload = charts.workloads[index];
      if (plot.dataset.chart === "curve") drawCurve(plot, workload);
      else if (plot.dataset.chart === "histogram") drawHistogram(plot, workload);
      else drawThroughput(plot, workload, index, columns);
    }
  };
  draw();
  let width = document.body.clientWidth, waiting;
  new ResizeObserver(() => {
    if (document.body.clientWidth === width) return;
    width = document.body.clientWidth;
    clearTimeout(waiting);
    waiting = setTimeout(draw, 80);
  }).observe(document.body);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  document.documentElement.dataset.drawn = "yes";
}
start().catch((fault) => {
  for (const plot of $$(".plot")) nothing(plot, "This chart could not be drawn; browsers since mid-2023 can.");
  console.error(fault);
});
