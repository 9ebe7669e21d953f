// Axes and the charts of one workload: percentiles and histogram.
const OUTCOMES = ["ok", "failed", "aborted"];
const charts = JSON.parse($("#charts").textContent);

// ---- axes ----------------------------------------------------------------------------------
function linearTicks(from, to, wanted) {
  const rough = Math.max((to - from) / wanted, 1e-12), power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].find((s) => s * power >= rough * 0.999) * power;
  const ticks = [];
  for (let n = Math.ceil(from / step - 1e-9) + 0; n * step <= to * (1 + 1e-9); n++) ticks.push(n * step);
  return ticks;
}
function logTicks(from, to, wanted) {
  for (const steps of [[1, 2, 5], [1, 3], [1]]) {
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
  axes(f, xs, linearTicks(0, top, 5).map((t) => [y(t), axisTime(t)]), `percentile (logarithmic towards 100${NBSP}%)`, "time");
  const dots = [];
  // Without any queue time both are the same line.
  const same = workload.service.percentiles.every((p, n) => !(p.value_ms < workload.response.percentiles[n]?.value_ms * 0.99));
  for (const [name, data] of [["service", workload.service], ["response", workload.response]]) {
    if (!data.count || (same && name === "service")) continue;
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
  // A run without any trace has no bars to tell apart.
  const none = !traces.rows().length;
  const columns = buckets.map((bucket) => {
    // The bar of a bucket leads to a trace that can be shown, if any of its iterations has one.
    const b = traces.seen(bucket.trace_id) ? bucket : { ...bucket, trace_id: traces.between(charts.workloads.indexOf(workload), bucket.from_ms, bucket.to_ms) ?? bucket.trace_id };
    const left = x(b.from_ms), right = x(b.to_ms), top = Math.min(y(b.count), f.y1 - 2);
    const column = shape("rect", { class: none || traces.seen(b.trace_id) ? "col here" : "col", x: left, y: top, width: Math.max(right - left - 0.7, 1), height: f.y1 - top });
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
    placeTip(tip, host, (left + right) / 2, top, [`${time(bucket.from_ms)} to ${time(bucket.to_ms)}`, `${count(bucket.count)} iteration${bucket.count === 1 ? "" : "s"}`, bucket.trace_id, traces.seen(bucket.trace_id) ? "click opens its trace" : "click for its id"]);
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
  host.onclick = (event) => { pick(nearest(event)); if (columns[on]) viewer.open(columns[on].bucket.trace_id); };
  host.onkeydown = (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (step) { event.preventDefault(); pick(on < 0 ? columns.length - 1 : Math.max(0, Math.min(columns.length - 1, on + step))); }
    else if (event.key === "Enter" && columns[on]) { event.preventDefault(); viewer.open(columns[on].bucket.trace_id); }
  };
  host.replaceChildren(f.svg, tip);
}
