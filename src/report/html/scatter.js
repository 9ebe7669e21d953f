// Every iteration as a point: zoom, hover, keyboard, and the marks of what the search found.
// The order of the columns, and their planes of bytes: see packed.rs.
function readColumns(buffer) {
  const bytes = new Uint8Array(buffer), head = new DataView(buffer), rows = bytes.length >= 8 ? head.getUint32(0, true) : 0, unit = rows ? head.getUint32(4, true) : 1;
  let at = 8;
  const words = (width) => {
    const out = new Uint32Array(rows);
    for (let place = 0; place < width; place++, at += rows) for (let n = 0; n < rows; n++) out[n] |= bytes[at + n] << (8 * place);
    return out;
  };
  const start = new Float64Array(rows), steps = words(4);
  for (let n = 0, sum = 0; n < rows; n++) start[n] = (sum += steps[n]) * unit;
  const service = new Float32Array(words(4).buffer), waited = new Float32Array(words(4).buffer), response = service.map((ms, n) => ms + waited[n]);
  return {
    rows, start, service, waited, response,
    workload: words(2),
    outcome: bytes.subarray(at, at + rows),
    ids: bytes.subarray(at + rows, at + 17 * rows),
    id(n) {
      let hex = "";
      for (let b = 16 * n; b < 16 * n + 16; b++) hex += this.ids[b].toString(16).padStart(2, "0");
      return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
    },
    // The rows whose ids begin so, at most 2000 of them, and how many there are.
    search(wanted) {
      const nibbles = [...wanted].map((d) => parseInt(d, 16)), { ids } = this, found = [];
      let matches = 0;
      rows: for (let n = 0; nibbles.length && n < rows; n++) {
        for (let k = 0; k < nibbles.length; k++) {
          const byte = ids[16 * n + (k >> 1)];
          if ((k & 1 ? byte & 15 : byte >> 4) !== nibbles[k]) continue rows;
        }
        if (++matches <= 2000) found.push(n);
      }
      return { rows: found, matches };
    },
    // The rows of some ids, in one pass.
    rowsOf(wanted) {
      const heads = new Map(), { ids } = this, found = [];
      for (const id of wanted) { const head = parseInt(id.slice(0, 8), 16); heads.set(head, [...(heads.get(head) ?? []), id]); }
      for (let n = 0; heads.size && n < rows; n++) {
        const at = 16 * n, head = ((ids[at] << 24) | (ids[at + 1] << 16) | (ids[at + 2] << 8) | ids[at + 3]) >>> 0;
        if (heads.get(head)?.includes(this.id(n))) found.push(n);
      }
      return found;
    },
    find(id) { return this.search(id.replaceAll("-", "")).rows[0] ?? -1; },
    // The last fact is the queue time, where there was any to speak of.
    facts(n) {
      const facts = [time(this.response[n]), `${charts.workloads[this.workload[n]]?.name ?? "?"}, ${OUTCOMES[this.outcome[n]]}`, `started at ${time(this.start[n] / 1e3)}`];
      return this.waited[n] > this.response[n] / 100 ? [...facts, `${time(this.waited[n])} queue time before it`] : facts;
    },
  };
}

// `onview` is told the time between which the chart is drawn, and where its area begins and ends.
function scatter(host, c, onview) {
  const base = make("canvas"), over = make("canvas"), tip = make("div", { class: "tip", hidden: "" });
  host.append(base, over, tip);
  // What the chart plots: response times, or service times.
  let which = "response", values = c.response, end = 1, low, high, begin = Infinity;
  for (const { series } of charts.workloads) if (series) end = Math.max(end, (series.start_s + series.completed.length * series.step_s) * 1e6);
  const range = () => {
    low = Infinity;
    high = 0;
    for (let n = 0; n < c.rows; n++) {
      end = Math.max(end, c.start[n]);
      begin = Math.min(begin, c.start[n]);
      if (values[n] > 0) low = Math.min(low, values[n]);
      high = Math.max(high, values[n]);
    }
    if (!(low < high)) { low = (high || 1) / 2; high = (high || 1) * 2; }
  };
  range();
  // What comes before the load, such as the setup and the probe, is no empty space.
  if (!(begin > end * 0.02)) begin = 0;
  let log = true, view = null, found = [], current = -1, drag = null, order = null;
  // Which iterations have a trace to show: computed once, for the rings.
  const seen = traces.rows().map((n) => [n, traces.marks.get(c.id(n)) ?? -1]);
  const explained = charts.marks.map((_, mark) => seen.filter(([, of]) => of === mark).length);
  const hidden = new Set();
  const groups = [];
  for (let w = 0; w < charts.workloads.length; w++) groups.push({ w, outcome: 0, rows: [] });
  for (const outcome of [2, 1]) groups.push({ w: -1, outcome, rows: [] });
  for (let n = 0; n < c.rows; n++) groups[c.outcome[n] ? groups.length - (c.outcome[n] === 1 ? 1 : 2) : Math.min(c.workload[n], groups.length - 3)]?.rows.push(n);
  const full = () => ({ x0: begin - (end - begin) * 0.01 * (begin > 0), x1: end + (end - begin) * 0.005, ...(log ? { y0: low / 1.15, y1: high * 1.15 } : { y0: 0, y1: high * 1.04 }) });
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
  }
  // p50, p99 and the limits, where one workload is shown: lines of several would not be told apart.
  function drawLines(g) {
    const shown = charts.workloads.filter((_, w) => !hidden.has(w));
    if (shown.length !== 1) return;
    const [w] = shown, all = w[which].of_all ?? w[which];
    const at = (p) => all.percentiles.find((one) => one.percentile === p)?.value_ms ?? undefined;
    const lines = [["p50", at(50), "--soft"], ["p99", all.count >= 100 ? at(99) : undefined, "--soft"]];
    if (which === "response") lines.push(...w.limits.map(([condition, ms]) => [shorten(condition, 40), ms, "--bad"]));
    const taken = [];
    // How many places with points a label would cover.
    const covered = (x, y, width) => {
      let places = 0;
      for (let row = Math.max(0, Math.floor(y / CELL)); row <= Math.floor((y + 14) / CELL); row++)
        for (let column = Math.floor(x / CELL); column <= Math.floor((x + width) / CELL); column++) if (head[row * cells + column] >= 0) places++;
      return places;
    };
    g.textAlign = "right";
    g.textBaseline = "bottom";
    for (const [name, ms, tone] of lines) {
      const y = py(ms);
      if (!(y >= area.y0 - 1 && y <= area.y1 + 1)) continue;
      g.strokeStyle = g.fillStyle = colour(tone);
      g.lineWidth = tone === "--bad" ? 1.5 : 1;
      g.setLineDash(tone === "--bad" ? [] : [5, 4]);
      g.beginPath();
      g.moveTo(area.x0, y);
      g.lineTo(area.x1, y);
      g.stroke();
      g.setLineDash([]);
      // Labels do not cover each other, and the ground below them keeps them readable.
      const text = tone === "--bad" ? name : `${name} ${time(ms)}`, width = g.measureText(text).width + 6;
      const lift = taken.some((other) => Math.abs(other - y) < 15) ? width + 60 : 0, top = y - 15 < area.y0 ? y + 1 : y - 15;
      taken.push(y);
      // At the right, unless that hides points and the left does not.
      const sides = [area.x1 - lift - width, area.x0 + lift].map((x) => [covered(x, top, width), x]), at = sides[1][0] < sides[0][0] ? sides[1][1] : sides[0][1];
      g.save();
      g.globalAlpha = 0.85;
      g.fillStyle = colour("--bg");
      g.fillRect(at, top, width, 14);
      g.restore();
      g.fillText(text, at + width - 3, top + 13);
    }
  }
  function draw() {
    if (!host.clientWidth) return;
    area = { x0: 62, x1: host.clientWidth - 26, y0: 8, y1: host.clientHeight - 26 };
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
    drawSeen(g);
    g.restore();
    drawLines(g);
    mark(-1);
    onview(view.x0, view.x1, area);
    $("#reset").disabled = JSON.stringify(view) === JSON.stringify(full());
  }
  const isHidden = (n) => hidden.has(c.outcome[n] ? OUTCOMES[c.outcome[n]] : c.workload[n]) || hidden.has(c.workload[n]);
  function drawGroup(g, group) {
    g.fillStyle = group.outcome === 1 ? colour("--failed") : group.outcome === 2 ? colour("--soft") : colours[group.w % 6];
    g.strokeStyle = g.fillStyle;
    g.lineWidth = 1.3;
    const shown = c.rows * Math.min(1, (view.x1 - view.x0) / (end - begin || 1));
    const some = hidden.size > 0;
    g.globalAlpha = group.outcome ? 0.9 : 0.55;
    const size = shown > 30000 ? 2 : shown > 5000 ? 2.5 : 3.5;
    g.beginPath();
    // The same as px and py, with what is the same for all points taken out: there may be a hundred thousand.
    const { start } = c, duration = values, kx = (area.x1 - area.x0) / (view.x1 - view.x0), tall = area.y1 - area.y0;
    const floor = Math.max(view.y0 * 0.5, 1e-9), base = Math.log(view.y0), ky = tall / (log ? Math.log(view.y1 / view.y0) : view.y1 - view.y0);
    for (const n of group.rows) {
      if (some && isHidden(n)) continue;
      const x = area.x0 + (start[n] - view.x0) * kx;
      const y = log ? area.y1 - (Math.log(duration[n] > floor ? duration[n] : floor) - base) * ky : area.y1 - (duration[n] - view.y0) * ky;
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
  // Isolated points are the interesting ones: they must not be the faintest.
  function drawLonely(g) {
    for (const first of head) {
      const few = [];
      for (let n = first; n >= 0 && few.length < 4; n = next[n]) few.push(n);
      for (const n of few.length < 4 ? few : []) {
        if (c.outcome[n]) continue;
        g.fillStyle = colours[c.workload[n] % 6];
        g.fillRect(px(c.start[n]) - 1.5, py(values[n]) - 1.5, 3, 3);
      }
    }
  }
  // Traces that can be shown have a ring; those that a cause explains are filled with its colour.
  function drawSeen(g) {
    const background = colour("--bg"), ring = colour("--mark"), fills = charts.marks.map((_, of) => colour(`--c${of}`));
    const circles = seen.map(([n, of]) => [px(c.start[n]), py(values[n]), of, n])
      .filter(([x, , of, n]) => !isHidden(n) && !hidden.has(`mark${of}`) && x >= area.x0 && x <= area.x1);
    const circle = (x, y, radius) => { g.beginPath(); g.arc(x, y, radius, 0, 7); };
    g.lineWidth = 1;
    g.strokeStyle = ring;
    g.globalAlpha = 0.6;
    for (const [x, y, of] of circles) if (of < 0) { circle(x, y, 4); g.stroke(); }
    g.globalAlpha = 1;
    // The edges of all come first: otherwise neighbours would cover each other.
    g.fillStyle = background;
    for (const [x, y, of] of circles) if (of >= 0) { circle(x, y, 5.5); g.fill(); }
    for (const [x, y, of] of circles) if (of >= 0) { g.fillStyle = fills[of]; circle(x, y, 4.5); g.fill(); }
    g.globalAlpha = 1;
  }
  function nearest(x, y) {
    let best = -1, distance = 14 * 14;
    const cx = Math.floor(x / CELL), cy = Math.floor(y / CELL);
    for (let row = Math.max(0, cy - 1); row <= cy + 1; row++)
      for (let column = Math.max(0, cx - 1); column <= cx + 1; column++)
        for (let n = head[row * cells + column] ?? -1; n >= 0; n = next[n]) {
          const d = (px(c.start[n]) - x) ** 2 + (py(values[n]) - y) ** 2;
          if (d < distance) { distance = d; best = n; }
        }
    return best;
  }
  function mark(hover) {
    const g = context(over);
    g.strokeStyle = colour("--mark");
    const ring = (n, radius, width) => { g.lineWidth = width; g.beginPath(); g.arc(px(c.start[n]), py(values[n]), radius, 0, 7); g.stroke(); };
    for (const n of found) ring(n, 6, 1.5);
    if (current >= 0) ring(current, 8, 2.5);
    if (hover >= 0) ring(hover, 6, 1.5);
    if (drag?.moved) {
      g.fillStyle = colour("--soft");
      g.globalAlpha = 0.2;
      g.fillRect(drag.x, drag.y, drag.toX - drag.x, drag.toY - drag.y);
    }
  }
  const lines = (n) => { const id = c.id(n); return [...c.facts(n), id, traces.seen(id) ? "click opens its trace" : "click: how to get its trace"]; };
  const tell = (n) => placeTip(tip, host, px(c.start[n]), py(values[n]), lines(n));
  // The point chosen with the keyboard; screen readers get its description.
  function go(n) {
    if (!(n >= 0)) return;
    current = n;
    if (c.start[n] < view.x0 || c.start[n] > view.x1 || values[n] < view.y0 || values[n] > view.y1) { view = full(); draw(); }
    mark(-1);
    tell(n);
    $("#scatter-said").textContent = lines(n).slice(0, 4).join(", ");
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
    else tell(n);
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
      if (n >= 0) { current = n; mark(-1); viewer.open(c.id(n)); }
    }
  };
  over.onpointercancel = () => { drag = null; mark(-1); };
  over.onpointerleave = () => { tip.hidden = true; if (!drag) mark(-1); };
  const zoomBy = (factor) => {
    const whole = full(), middle = current >= 0 ? c.start[current] : (view.x0 + view.x1) / 2, half = Math.min((view.x1 - view.x0) * factor, whole.x1 - whole.x0) / 2;
    const x0 = Math.max(whole.x0, middle - half);
    view = factor > 1 && half * 2 >= whole.x1 - whole.x0 ? whole : { ...view, x0, x1: x0 + 2 * half };
    draw();
    if (current >= 0) tell(current);
  };
  // By start, and each one's place in it; by duration likewise. Made when first asked for.
  const ranks = () => (order ??= [c.start, values].map((keys) => {
    const rows = Uint32Array.from({ length: c.rows }, (_, n) => n).sort((a, b) => keys[a] - keys[b]), places = new Uint32Array(c.rows);
    rows.forEach((n, place) => { places[n] = place; });
    return { rows, places };
  }));
  const move = (which, by) => {
    const { rows, places } = ranks()[which];
    let place = current < 0 ? (by < 0 ? rows.length - 1 : which ? rows.length - 1 : 0) : places[current] + by;
    while (rows[place] !== undefined && isHidden(rows[place])) place += Math.sign(by);
    go(rows[Math.max(0, Math.min(rows.length - 1, place))]);
  };
  host.onkeydown = (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !c.rows) return;
    const jump = event.shiftKey ? Math.max(1, Math.floor(c.rows / 50)) : 1;
    const does = {
      ArrowLeft: () => move(0, -jump), ArrowRight: () => move(0, jump), ArrowUp: () => move(1, jump), ArrowDown: () => move(1, -jump),
      Home: () => go(ranks()[0].rows[0]), End: () => go(ranks()[0].rows[c.rows - 1]),
      Enter: () => { if (current >= 0) viewer.open(c.id(current)); },
      "+": () => zoomBy(0.5), "=": () => zoomBy(0.5), "-": () => zoomBy(2),
      Escape: () => { current = -1; tip.hidden = true; reset(); },
    }[event.key];
    if (does) { event.preventDefault(); does(); }
  };
  host.onblur = () => { tip.hidden = true; };
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
  for (const id of ["response", "service"]) $(`#${id}`).onclick = () => {
    which = id;
    values = c[id];
    order = null;
    range();
    view = { ...full(), x0: view.x0, x1: view.x1 };
    for (const other of ["response", "service"]) $(`#${other}`).setAttribute("aria-pressed", other === id);
    draw();
  };
  // Without any queue time both are the same.
  if (!c.waited.some((ms, n) => ms > c.response[n] / 100)) $("#response").parentElement.hidden = true;
  // Rings around the search results.
  const show = (rows) => {
    found = rows;
    if (found.some((n) => c.start[n] < view.x0 || c.start[n] > view.x1 || values[n] < view.y0 || values[n] > view.y1)) { view = full(); draw(); }
    mark(-1);
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
  charts.workloads.forEach((w, n) => groups[n].rows.length && key(n, w.name, `fill:var(--w${n % 6})`, "M1 1h8v8h-8z"));
  if (groups.at(-1).rows.length) key("failed", "failed", "fill:none;stroke:var(--failed);stroke-width:1.6", "M1 1l8 8m0-8l-8 8");
  if (groups.at(-2).rows.length) key("aborted", "aborted", "fill:none;stroke:var(--soft);stroke-width:1.6", "M2 2h6v6h-6z");
  const circle = "M5 1a4 4 0 1 0 0.01 0z";
  charts.marks.forEach(({ name }, of) => explained[of] && key(`mark${of}`, `${name} (${count(explained[of])})`, `fill:var(--c${of})`, circle));
  const others = seen.length - explained.reduce((sum, n) => sum + n, 0);
  if (others) key("mark-1", charts.marks.length ? `other traces (${count(others)})` : `with a trace (${count(others)})`, "fill:none;stroke:var(--mark)", circle);
  return { draw, show };
}

