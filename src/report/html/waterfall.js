// ---- waterfall -----------------------------------------------------------------------------

// keystone/public: a service's name says little without its project.
const reporter = ({ project, service }) => [...new Set([project, service])].filter(Boolean).join("/");
// The kinds of points that make the difference; a page without a comparison has none.
const marks = () => (typeof charts === "undefined" ? [] : charts.marks);
// A button for a text that is shown only in part.
function rest(text) {
  if (text.length <= TEXT_MAX) return [];
  const button = make("button", { type: "button" }, `Copy all ${count(text.length)} characters`);
  button.onclick = () => copy(text, button);
  return [button];
}
function pointMore({ point, kind, count: of }) {
  const list = make("dl");
  const add = (name, value) => value !== "" && value !== null && list.append(make("dt", {}, name), make("dd", {}, value, ...rest(value)));
  add("Point", `${point.name} ${point.detail}`);
  if (of > 1) add("Which", `the ${kind === "nested" ? "outermost" : "longest"} of ${count(of)}`);
  add("Error", point.error);
  add("Reported by", [reporter(point), point.host].filter(Boolean).join(" on "));
  add("Time", point.duration_us === null ? "not known: its start or its stop is missing, or it ends before it starts"
    : `${time(point.duration_us / 1e3)}, ${time(point.self_us / 1e3)} own time`);
  if (marks()[point.mark]) add("Typically", marks()[point.mark].typical_us > 0 ? `${time(marks()[point.mark].typical_us / 1e3)} a call` : "not called");
  add("Starts", `${point.start_us < 0 ? "−" : "+"}${time(Math.abs(point.start_us) / 1e3)}`);
  add("Id", point.id);
  const more = make("div", { class: "more" }, list);
  const told = (info) => info !== null && (typeof info !== "object" || Object.keys(info).length);
  const pretty = (info) => { const text = JSON.stringify(info, null, 2); return [make("pre", {}, text), ...rest(text)]; };
  if (told(point.info)) more.append(...pretty(point.info));
  if (told(point.stop_info)) more.append(make("h4", {}, "At its end"), ...pretty(point.stop_info));
  return more;
}
// The parts of a point that no child covers, as a path in units of 1/1000 of the trace.
function selfPath(point, children, from, scale) {
  const end = point.start_us + point.duration_us;
  let at = point.start_us, path = "";
  const part = (a, b) => { if ((b - a) * scale > 0.02) path += `M${((a - from) * scale).toFixed(2)} 3h${((b - a) * scale).toFixed(2)}v8H${((a - from) * scale).toFixed(2)}z`; };
  for (const child of children) {
    if (child.start_us > at) part(at, Math.min(child.start_us, end));
    at = Math.max(at, child.start_us + (child.duration_us ?? 0));
    if (at >= end) return path;
  }
  part(at, end);
  return path;
}
function bar(row, from, scale, length, cut) {
  const { point, typical } = row, children = row.children.toSorted((a, b) => a.start_us - b.start_us);
  const svg = shape("svg", { viewBox: "0 0 1000 14", preserveAspectRatio: "none", "aria-hidden": "true" });
  const x = (point.start_us - from) * scale;
  const whole = point.duration_us ?? from + length - point.start_us;
  const thin = whole * scale < 1.5 && point.self_us * 2 > point.duration_us && point.duration_us !== null;
  svg.append(shape("rect", { class: thin ? "self" : "span", x: Math.min(x, 998.5), y: 3, width: Math.max(whole * scale, 1.5), height: 8 }));
  // If points were left out, gaps are not the parent's own time: only its length is known.
  if (point.duration_us !== null) svg.append(shape("path", { class: "self", d: cut || row.partial ? `M${x.toFixed(2)} 3h${(Math.min(point.self_us, whole) * scale).toFixed(2)}v8H${x.toFixed(2)}z` : selfPath(point, children, from, scale) }));
  // The ghost: as long as a typical call.
  if (typical > 0) svg.append(shape("rect", { class: "ghost", x: Math.min(x, 998.5).toFixed(2), y: 0.5, width: Math.max(typical * scale, 1.5).toFixed(2), height: 13 }));
  return svg;
}
// The rows of a trace: those that it has, or one for each point.
function rowsOf(trace, all) {
  const { points } = trace, open = [], rows = [];
  const add = (row) => {
    while (open.length && open.at(-1).level >= row.level) open.pop();
    const above = open.at(-1), points = row.members ?? [row.point];
    above?.children.push(...points);
    // Not all of its points are in the file.
    if (above && row.count > points.length) above.partial = true;
    rows.push(row);
    open.push(row);
  };
  if (trace.rows.length && !all) for (const row of trace.rows) add({ ...row, point: points[row.point], began: points[row.began], poll: points[row.poll], members: row.members.map((n) => points[n]), level: row.depth, children: [] });
  // Depths begin anew where points that are above were left out.
  else for (const point of points) add({ kind: "point", point, level: point.depth, children: [] });
  return rows;
}
// The points of a folded row, each with what is below it; nested ones one below the other.
function unfoldedRows(row, points) {
  const inside = (point, level, children = []) => ({ kind: "point", point, level, children, inside: true });
  if (row.kind === "nested") return row.members.map((point, n) => inside(point, row.level + 1 + n, row.members.slice(n + 1, n + 2)));
  const rows = [];
  for (const member of row.members) {
    const first = points.indexOf(member), open = [];
    for (let n = first; rows.length < ROWS_AT_ONCE && n < points.length && (n === first || points[n].depth > member.depth); n++) {
      while (open.length && open.at(-1).point.depth >= points[n].depth) open.pop();
      open.at(-1)?.children.push(points[n]);
      open.push(inside(points[n], row.level + 1 + points[n].depth - member.depth));
      rows.push(open.at(-1));
    }
  }
  return rows;
}
const ROWS_AT_ONCE = 400;
function waterfall(trace, all = false) {
  const points = trace.points, rows = rowsOf(trace, all);
  const box = make("div", { class: rows.length > 400 ? "wf big" : "wf" });
  if (!points.length) return make("p", { class: "hint" }, "The trace has no points.");
  let from = Infinity, to = -Infinity;
  for (const p of points) { from = Math.min(from, p.start_us); to = Math.max(to, p.start_us + (p.duration_us ?? 0)); }
  const length = Math.max(to - from, 1), scale = 1000 / length, cut = trace.total > points.length;
  const about = make("div", { class: "about" });
  about.append(make("span", {}, `Trace ${trace.state.replace("_", " ")}, ${count(trace.total)} points over ${time(length / 1e3)}`));
  if (trace.rows.length) {
    const other = make("button", { type: "button", class: "to-all" }, all ? "Fold alike points" : `in ${count(rows.length)} rows; show ${cut ? `the ${count(points.length)} longest` : "all points"}`);
    other.onclick = () => { const again = waterfall(trace, !all); box.replaceWith(again); box.redrawn?.(again); again.redrawn = box.redrawn; showCause(again); };
    about.append(other);
  } else if (cut) about.append(make("span", {}, `${count(trace.total - points.length)} shorter points are left out`));
  const swatch = (name, text) => { const s = shape("svg", { width: 14, height: 10, viewBox: "0 0 14 10" }); s.append(shape("rect", { class: name, y: 1, width: 14, height: 8 })); s.style.cssText = "width:14px;height:10px"; return make("span", { class: "key" }, s, text); };
  about.append(swatch("self", cut ? "own time (length only)" : "own time"), swatch("span", "in its children"));
  // What explains this trace, or else the longest point of a kind that explains others.
  const { cause } = trace, marked = (best, p, n) => (p.mark !== undefined && !(p.duration_us <= points[best]?.duration_us) ? n : best);
  const found = cause ? points.findIndex((p) => p.id === cause.id) : -1, worst = points[found >= 0 ? found : points.reduce(marked, -1)];
  if (worst) {
    const known = found >= 0 ? cause : marks()[worst.mark], to = make("button", { type: "button", class: "to-cause", "aria-label": `Show ${known.name}` }, "show");
    to.onclick = () => showCause(box);
    about.append(make("span", { class: "cause-told" }, swatch("hot", ""), cause && !cause.explains ? "Largest part: " : "", make("strong", {}, `${known.name} ${time(worst.duration_us / 1e3)}`),
      known.typical_us == null ? "" : known.typical_us > 0 ? `, typically ${time(known.typical_us / 1e3)}` : ", which typical iterations do not call", " ", to));
  }
  // Services have colours in the order in which they appear.
  const services = [...new Set(points.map(reporter))].filter((name) => name && name !== "bench"), shade = new Map(services.map((name, n) => [name, n % 6]));
  if (services.length > 1) about.append(...services.slice(0, 8).map((name) => swatch(`s${shade.get(name)}`, name)));
  const list = make("ol");
  const head = make("div", { class: "line head" }, make("span", {}, "Point"), make("span", { class: "ticks" }), make("span", { class: "time" }, "Duration"), make("span", { class: "time own" }, "Own"));
  const step = roundStep(length / 1e3, 4);
  for (let at = 0; at <= length / 1e3 * 1.0001; at += step) {
    const tick = make("span", {}, axisTime(at)), part = at / (length / 1e3);
    tick.style.left = `${part * 100}%`;
    tick.style.transform = `translateX(${at ? (part > 0.94 ? -100 : -50) : 0}%)`;
    $(".ticks", head).append(tick);
  }
  list.append(make("li", { class: "head-row" }, head));
  const item = (row) => {
    row.shade = shade.get(reporter(row.point));
    row.worst = row.point === worst && !list.querySelector(".worst");
    // Points of the kind that explains this trace; what explains others is not said of this one.
    row.hot = row.point === worst || (worst?.mark !== undefined && row.point.mark === worst.mark);
    row.typical = !row.hot ? 0 : found >= 0 ? cause.typical_us : marks()[worst.mark].typical_us;
    return pointRow(row, from, scale, length, cut);
  };
  let later = "";
  for (const row of rows) {
    const waiter = row.afterwards ? (row.poll ? `“${shorten(row.poll.detail, 60)}”` : "nothing") : "";
    if (waiter && waiter !== later) list.append(make("li", { class: "later" }, `After the answer: ${waiter} waited for these`));
    later = waiter;
    list.append(item(row));
  }
  list.addEventListener("click", (event) => pointClick(event, (row) => unfoldedRows(row, points).slice(0, ROWS_AT_ONCE).map(item)));
  box.append(about, list);
  return box;
}
// Brings the point that makes the difference into view.
function showCause(root) {
  const item = $(".worst", root);
  if (!item) return;
  item.hidden = false;
  for (let level = item.row.level, above = item.previousElementSibling; above?.row && level > 0; above = above.previousElementSibling) {
    if (above.row.level < level) { level = above.row.level; above.hidden = false; }
  }
  item.scrollIntoView({ block: "center" });
}
// A row is one line: no screen shows more of it.
const ROW_TEXT_MAX = 300;
// What a row that stands for several points says before its name, and behind it: the words of the terminal.
function foldedWords({ kind, count: of, below, kinds, point, began }) {
  const small = kind === "small", many = small ? count(of) : of > 1 ? `${count(of)}×` : "as above";
  const tail = [];
  if (kind === "alike" && point.duration_us !== null) tail.push(`longest ${time(point.duration_us / 1e3)}`);
  if (below) tail.push(`+${count(below)} ${kind === "repeated" ? "as above" : "below"}`);
  if (began) tail.push(`begun by ${shorten(`${began.name} ${began.detail}`.trim(), 40)}`);
  return {
    chip: kind === "nested" ? `${count(of)} deep` : of > 1 || kind === "repeated" ? many : "",
    title: kind === "nested" ? `Nested ${count(of)} deep: show them` : `Show them${below ? `, with ${count(below)} points below` : ""}`,
    name: small ? `points of ${kinds} kinds, each kind below 1${NBSP}%` : kind === "nested" ? `${point.name} nested` : point.name,
    tail: tail.length ? ` (${tail.join(", ")})` : "",
  };
}
function pointRow(row, from, scale, length, cut) {
  const { point, children, level, shade } = row, item = make("li"), several = row.kind !== "point";
  item.row = row;
  if (point.error !== null) item.className = "broken";
  else if (point.duration_us === null) item.className = "cut";
  if (shade !== undefined) item.classList.add(`of${shade}`);
  if (row.hot) item.classList.add("cause-point");
  if (row.worst) item.classList.add("worst");
  if (several) item.classList.add("several");
  if (row.inside) item.classList.add("inside");
  const label = make("div", { class: "label" });
  label.style.paddingLeft = `min(${level * 12}px, 45%)`;
  // What a folded row stands for is shown when asked, what is below a point from the start.
  const folds = children.length > 0;
  label.append(folds ? make("button", { type: "button", class: "fold", "aria-expanded": "true", "aria-label": `Children of ${shorten(point.name, ROW_TEXT_MAX)}` }) : make("span", { class: "leaf" }));
  const words = foldedWords(row), small = row.kind === "small";
  if (words.chip) label.append(make("button", { type: "button", class: "unfold", "aria-expanded": "false", title: words.title }, words.chip));
  // Small points are of several kinds: no name stands for them.
  const own = small ? [["span", { class: "many" }, words.name]] : [["b", {}, words.name], ["span", { class: "svc" }, ` ${reporter(point)}`], ["span", { class: "dtl" }, point.detail]];
  const parts = [...own, ["span", { class: "tail" }, words.tail]];
  const name = make("button", { type: "button", class: "open", "aria-expanded": "false" }, ...parts.filter(([, , text]) => text).map(([tag, attributes, text]) => make(tag, attributes, shorten(text, ROW_TEXT_MAX))));
  name.title = shorten(`${small ? words.name : point.detail}${words.tail}`.trim());
  label.append(name);
  if (point.error !== null) label.append(make("span", { class: "badge bad" }, "error"));
  if (point.info && point.info.link) label.append(make("span", { class: "badge plain" }, "linked"));
  if (point.duration_us === null) label.append(make("span", { class: "badge doubt" }, "incomplete"));
  const sum = several ? row.sum_us ?? null : point.duration_us, itself = several ? row.own_us : point.self_us;
  item.append(make("div", { class: "line" }, label, make("div", { class: "bar" }, several && row.kind !== "nested" ? severalBar(row, from, scale) : bar(row, from, scale, length, cut)),
    make("div", { class: "time" }, sum === null ? "–" : time(sum / 1e3)),
    make("div", { class: "time own" }, sum === null ? "" : time(itself / 1e3))));
  return item;
}
// From the first to the last of several points, each where it was.
function severalBar(row, from, scale) {
  const svg = shape("svg", { viewBox: "0 0 1000 14", preserveAspectRatio: "none", "aria-hidden": "true" });
  svg.append(shape("rect", { class: "between-points", x: ((row.start_us - from) * scale).toFixed(2), y: 6, width: Math.max((row.end_us - row.start_us) * scale, 1.5).toFixed(2), height: 2 }));
  let d = "";
  for (const { start_us, duration_us } of row.members) d += `M${((start_us - from) * scale).toFixed(2)} 3h${Math.max((duration_us ?? 0) * scale, 0.7).toFixed(2)}v8h-${Math.max((duration_us ?? 0) * scale, 0.7).toFixed(2)}z`;
  svg.append(shape("path", { class: "self", d }));
  return svg;
}
function pointClick(event, unfold) {
  const button = event.target.closest("button"), item = button?.closest("li");
  if (!item?.row || button.dataset.copy) return;
  const expanded = button.getAttribute("aria-expanded") !== "true", { level } = item.row;
  if (button.className === "open") {
    button.setAttribute("aria-expanded", expanded);
    if (expanded) item.append(pointMore(item.row));
    else item.lastElementChild.remove();
  } else if (button.className === "unfold") {
    button.setAttribute("aria-expanded", expanded);
    if (expanded) item.after(...unfold(item.row));
    else while (item.nextElementSibling?.row?.inside) item.nextElementSibling.remove();
  } else if (button.className === "fold") {
    button.setAttribute("aria-expanded", expanded);
    for (let next = item.nextElementSibling; next?.row && next.row.level > level; next = next.nextElementSibling) {
      next.hidden = !expanded;
      $(".fold", next)?.setAttribute("aria-expanded", "true");
    }
  }
}
