// The live page: what comes as events is drawn; when the load is over, the report takes this page's place.
const ms = (ns) => ns / 1e6, orNone = (ns) => (ns === null ? "–" : time(ms(ns)));
const STANDINGS = { unmeasured: ["no data yet", "plain"], holding: ["holds so far", "good"], unclear: ["not clear yet", "doubt"], breaking: ["broken so far", "bad"], broken: ["is broken", "bad"], later: ["after the load", "plain"] };
const LINES = [["p99", "p99_ns", "var(--c0)"], ["p95", "p95_ns", "var(--c1)"], ["p50", "p50_ns", "var(--w0)"]];
const clock = (ns) => { const s = Math.floor(ns / 1e9); return `${Math.floor(s / 60)}:${String(s % 60).padStart(2, "0")}`; };
const share = (load) => (load.times ? (load.ended + load.dropped) / load.times : load.duration_ns ? load.elapsed_ns / load.duration_ns : null);
// The shortest duration of a row of the heat map, as in counts.rs.
function rowFrom(row) {
  const bucket = row * 4, shift = Math.max(Math.floor(bucket / 16) - 1, 0);
  return (bucket < 16 ? bucket : 16 + bucket % 16) * 2 ** shift;
}
const areaOf = (host) => ({ x0: 66, x1: host.clientWidth - 10 });
const endOf = (series) => Math.max(series.columns.length, 1) * series.column_ns / 1e9;
const timeTicks = (f, x, series) => linearTicks(0, endOf(series), Math.max(2, f.width / 110)).map((s) => [x(s), axisTime(s * 1e3)]);

function rates(series) {
  const grid = { start_s: 0, step_s: series.column_ns / 1e9 }, of = (key) => series.columns.map((column) => column[key] ?? 0);
  const layers = [{ kind: "bars", colour: "var(--w0)", name: "served", grid, values: of("served_per_s") }];
  if (of("failed_per_s").some((n) => n > 0)) layers.push({ kind: "bars", colour: "var(--failed)", name: "failed", grid, values: of("failed_per_s"), key: "fail" });
  if (series.columns.some((column) => column.asked_per_s !== null)) layers.push({ kind: "line", colour: "var(--fg)", name: "asked for", grid, values: of("asked_per_s") });
  const strips = [{ title: "a second", layers }];
  if (of("queued").some((n) => n > 0)) strips.push({ title: "iterations", first: true, layers: [{ kind: "bars", colour: "var(--doubt)", name: "waiting", grid, values: of("queued") }] });
  return strips;
}

function drawPercentiles(host, series) {
  const values = series.columns.flatMap((column) => LINES.map(([, key]) => column[key])).filter((ns) => ns > 0);
  if (!values.length) return nothing(host, "Nothing has ended yet.");
  const f = frame(host), low = Math.log(Math.min(...values)), high = Math.max(Math.log(Math.max(...values)), low + 0.35);
  const x = (s) => f.x0 + s / endOf(series) * (f.x1 - f.x0), y = (ns) => f.y1 - (Math.log(ns) - low) / (high - low) * (f.y1 - f.y0);
  axes(f, timeTicks(f, x, series), logTicks(Math.exp(low) / 1e6, Math.exp(high) / 1e6, 6).map((t) => [y(t * 1e6), axisTime(t)]), "time since the start", "response time");
  let right = f.x0;
  for (const [name, key, colour] of LINES) {
    let d = "", pen = false;
    series.columns.forEach((column, n) => {
      if (!(column[key] > 0)) { pen = false; return; }
      d += `${pen ? "L" : "M"}${x(n * series.column_ns / 1e9).toFixed(1)} ${y(column[key]).toFixed(1)}H${x((n + 1) * series.column_ns / 1e9).toFixed(1)}`;
      pen = true;
    });
    const line = shape("path", { class: "strip-line", d }), mark = shape("path", { class: "strip-line", d: `M${right} 6h18` });
    for (const path of [line, mark]) path.style.setProperty("stroke", colour);
    f.svg.append(line, mark, shape("text", { x: right + 22, y: 10 }, name));
    right += 64;
  }
  host.replaceChildren(f.svg);
}

function drawHeat(host, series) {
  const rows = series.columns.flatMap((column) => column.rows.map(([row]) => row));
  if (!rows.length) return nothing(host, "Nothing has ended yet.");
  const f = frame(host), low = Math.min(...rows), high = Math.max(...rows) + 1;
  const most = Math.log1p(Math.max(...series.columns.flatMap((column) => column.rows.map(([, n]) => n))));
  const x = (s) => f.x0 + s / endOf(series) * (f.x1 - f.x0), y = (row) => f.y1 - (row - low) / (high - low) * (f.y1 - f.y0);
  const step = Math.max(1, Math.ceil((high - low) / 6)), labels = [];
  for (let row = low; row <= high; row += step) labels.push([y(row), axisTime(rowFrom(row) / 1e6)]);
  series.columns.forEach((column, n) => {
    const from = x(n * series.column_ns / 1e9), to = x((n + 1) * series.column_ns / 1e9);
    for (const [row, many] of column.rows) {
      const cell = shape("rect", { class: "heat-cell", x: from, y: y(row + 1), width: Math.max(to - from, 0.8), height: y(row) - y(row + 1) });
      cell.style.setProperty("fill", "var(--w0)");
      cell.style.setProperty("opacity", (0.15 + 0.85 * Math.log1p(many) / most).toFixed(2));
      f.svg.append(cell);
    }
  });
  // Labels with fractions leave no room for a title beside them.
  axes(f, timeTicks(f, x, series), labels, "time since the start", "");
  host.replaceChildren(f.svg);
}

const cell = (label, value, kind = "n") => make("td", { class: kind, "data-l": label }, value);
function table(heads, rows, none) {
  if (!rows.length) return make("p", { class: "hint" }, none);
  const head = make("tr", {}, ...heads.map((text, n) => make("th", n ? { class: "n" } : {}, text)));
  return make("div", { class: "scroll" }, make("table", { class: "stack" }, make("thead", {}, head), make("tbody", {}, ...rows)));
}
function steps(load) {
  const all = { ...load, name: "iteration", count: load.ended - load.warm_up };
  return table(["", "count", "failed", "p50", "p95", "p99", "max"], [all, ...load.steps].map((step) => make("tr", {}, make("th", { scope: "row" }, step.name), cell("count", count(step.count)), cell("failed", count(step.failed)), ...LINES.toReversed().map(([name, key]) => cell(name, orNone(step[key]))), cell("max", step.max_ns ? time(ms(step.max_ns)) : "–"))), "");
}
const errors = (load) => table(["class", "count", "example", "trace"], load.errors.map((error) => make("tr", {}, make("th", { scope: "row" }, error.class), cell("count", count(error.count)), cell("example", error.example, "wide"), make("td", { class: "ids wide", "data-l": "trace" }, idButton(error.trace_id)))), "None so far.");
function criteria(load) {
  return table(["criterion", "how it stands", "so far"], load.criteria.map((one) => {
    const [words, tone] = STANDINGS[one.state] ?? [one.state, "plain"];
    const clear = one.clear_in_s === null ? "" : `${one.observed ? "; " : ""}clear in about ${Math.ceil(one.clear_in_s)} s`;
    return make("tr", {}, make("th", { scope: "row" }, make("code", {}, one.condition)), make("td", { class: "n", "data-l": "how it stands" }, make("span", { class: `badge ${tone}` }, words)), cell("so far", `${one.observed}${clear}`));
  }), "The scenario has none.");
}
function slowest(load) {
  return table(["response", "at", "longest step", "spans", "trace"], load.slowest.slice(0, 10).map((slow) => make("tr", {}, make("th", { scope: "row" }, time(ms(slow.response_ns))), cell("at", time(ms(slow.at_ns))), cell("longest step", slow.longest_step ? `${slow.longest_step[0]} ${time(ms(slow.longest_step[1]))}` : "–"), cell("spans", slow.spans === null ? "–" : count(slow.spans)), make("td", { class: "ids wide", "data-l": "trace" }, idButton(slow.trace_id)))), "Nothing has ended yet.");
}

// What stays of a workload between events, so that a selection or a scroll position is not lost for nothing.
function place(name, several) {
  const plot = (label) => make("div", { class: "plot", role: "img", "aria-label": label });
  const parts = { rates: plot("Rates over time"), percentiles: plot("Percentiles over time"), heat: plot("Heat map of response times"), steps: make("div"), errors: make("div"), criteria: make("div"), slowest: make("div") };
  const part = (title, node) => [make("h3", {}, title), node];
  const section = make("section", {}, make("h2", {}, several ? name : "Over time"), parts.rates, ...part("Percentiles over time", parts.percentiles), ...part("Heat map", parts.heat), ...part("Steps", parts.steps), ...part("Errors", parts.errors), ...part("Criteria", parts.criteria), ...part("Slowest iterations", parts.slowest));
  return { section, parts };
}
const places = new Map();
function show(snapshot) {
  const several = snapshot.loads.length > 1, running = snapshot.loads.find((load) => load.state === "running") ?? snapshot.loads.at(-1);
  if (!running) return;
  const done = share(running), bar = $("#progress");
  $("#position").textContent = running.times ? `${clock(running.elapsed_ns)}, ${count(running.ended + running.dropped)} of ${count(running.times)}` : running.duration_ns ? `${clock(Math.min(running.elapsed_ns, running.duration_ns))} of ${clock(Math.ceil(running.duration_ns / 1e9) * 1e9)}` : clock(running.elapsed_ns);
  bar.hidden = done === null;
  bar.value = Math.min(done ?? 0, 1);
  $("#summary").textContent = [...(snapshot.part ? [snapshot.part] : []), `${rateText(running.served_per_s)}/s`, `${running.under_way} in flight`, ...(running.queued ? [`${count(running.queued)} waiting`] : []), ...(running.dropped ? [`${count(running.dropped)} dropped`] : []), `${count(running.failed)} failed`, ...LINES.toReversed().map(([name, key]) => `${name} ${orNone(running[key])}`)].join(" · ");
  const cause = snapshot.cause, why = $("#cause");
  why.hidden = !cause;
  if (cause) why.replaceChildren(...(cause.is_named ? [make("strong", {}, `So far: ${cause.headline}`), ` ${cause.sentence}`] : [`So far, no cause is certain. ${cause.sentence}`]), ` (${count(cause.iterations)} iterations, ${count(cause.traces)} traces)`);
  snapshot.loads.forEach((load, number) => {
    if (load.state === "waiting" && !places.has(number)) return;
    if (!places.has(number)) {
      places.set(number, place(load.name, several));
      $("#loads").append(places.get(number).section);
    }
    const { parts } = places.get(number), { series } = load;
    parts.rates.chart = loadChart(parts.rates, rates(series));
    parts.rates.chart(0, endOf(series) * 1e6, areaOf(parts.rates));
    drawPercentiles(parts.percentiles, series);
    drawHeat(parts.heat, series);
    for (const [name, draw] of Object.entries({ steps, errors, criteria, slowest })) parts[name].replaceChildren(draw(load));
  });
}

document.addEventListener("click", (event) => {
  const id = event.target.closest("[data-copy]")?.dataset.copy;
  if (id) copy(id, event.target.closest("[data-copy]"));
});
const events = new EventSource("events");
events.addEventListener("snapshot", (event) => { $("#lost").hidden = true; show(JSON.parse(event.data)); });
events.addEventListener("over", () => { $("#state").textContent = "writing the report"; });
events.addEventListener("report", () => { events.close(); location.replace("report"); });
events.addEventListener("error", () => { $("#lost").hidden = false; });
