// A trace in a dialog, and the search for it. The traces are unpacked when the first one is opened.

const traces = {
  mode: charts.traces.mode,
  states: new Map(charts.traces.ids),
  // The cause that explains a trace, as an index of charts.marks.
  marks: new Map(charts.traces.ids.filter(([, , mark]) => mark !== null).map(([id, , mark]) => [id, mark])),
  leftOut: new Set(charts.traces.left_out),
  loading: null,
  // The rows of the iterations whose traces can be shown.
  rows() { return (this.known ??= viewer.columns.rowsOf([...this.states.keys()].filter((id) => this.seen(id)))); },
  // The slowest of them in an interval of response times.
  between(workload, from, to) {
    const { workload: of, response } = viewer.columns;
    let best = -1;
    for (const n of this.rows()) if (of[n] === workload && response[n] >= from && response[n] < to && !(response[n] <= response[best])) best = n;
    return best < 0 ? null : viewer.columns.id(best);
  },
  // True if its waterfall or page can be opened.
  seen(id) { return this.mode !== "text" && this.states.has(id) && this.states.get(id) !== "absent" && !this.leftOut.has(id); },
  page(id) { return this.mode === "pages" && this.seen(id) ? `${charts.traces.before}${id}.html` : null; },
  async get(id) {
    this.loading ??= unpack("traces").then((bytes) => new Map(JSON.parse(new TextDecoder().decode(bytes)).map((trace) => [trace.id, trace])));
    return (await this.loading).get(id);
  },
};

// The text for a trace that is not in the file, with the command that shows it.
function elsewhere(id) {
  const page = traces.page(id);
  if (page) return [make("p", {}, "Its trace is on a separate page."), make("p", {}, make("a", { href: page, class: "go" }, "Open its page"))];
  if (!charts.profiled) return [make("p", {}, "Profiling was off: the iteration has an id but no trace.")];
  const command = traces.states.has(id) ? `bench trace show . ${id}` : `bench trace show ${id} ${charts.source}`;
  const why = traces.states.get(id) === "absent" ? "The collector had no point of it when the run ended. To ask again:"
    : traces.states.has(id) ? `Its trace is stored beside this report${traces.leftOut.size ? `, which holds only ${count(traces.states.size - traces.leftOut.size)} of ${count(traces.states.size)}` : ""}. In this report's directory:`
    : `Its trace was not fetched: only slow, failed and some typical ones are${charts.some_unprofiled ? " (and some iterations were left unprofiled for comparison)" : ""}. ${/demo-traces\.db/.test(charts.source) ? "A long run of the demo keeps no others; of a short one:" : "To ask the collector for it:"}`;
  const button = make("button", { type: "button", "data-copy": command }, "Copy the command");
  return [make("p", {}, why), make("pre", {}, command), make("p", {}, button)];
}

const viewer = {
  box: $("#viewer"),
  columns: null,
  onclose: () => {},
  async open(id) {
    const { box } = this, row = this.columns ? this.columns.find(id) : -1;
    $("#viewer-title").textContent = "Trace";
    const acts = [make("button", { type: "button", class: "id", "data-copy": id, title: "Copy the id" }, id)];
    if (row >= 0) acts.push(...this.columns.facts(row).map((fact) => make("span", {}, fact)));
    $("#viewer-acts").replaceChildren(...acts);
    const body = $("#viewer-body");
    body.replaceChildren();
    if (!box.open) box.showModal();
    $("#viewer-close").focus();
    history.replaceState(null, "", `#trace=${id}`);
    if (traces.mode !== "embed" || !traces.seen(id)) return body.replaceChildren(...elsewhere(id));
    body.replaceChildren(make("p", { class: "hint" }, "Unpacking…"));
    const trace = await traces.get(id);
    body.replaceChildren(trace ? waterfall(trace) : make("p", { class: "hint" }, "The trace could not be read."));
    const list = $("ol", body);
    if (list) list.addEventListener("keydown", arrows);
    showCause(body);
  },
};
viewer.box.addEventListener("close", () => {
  $("#viewer-body").replaceChildren();
  if (location.hash.startsWith("#trace=")) history.replaceState(null, "", location.pathname + location.search);
  viewer.onclose();
});
viewer.box.addEventListener("click", (event) => { if (event.target === viewer.box) viewer.box.close(); });
$("#viewer-close").onclick = () => viewer.box.close();
function openFromHash() {
  const id = /^#trace=([0-9a-f-]{36})$/.exec(location.hash)?.[1];
  if (id) viewer.open(id);
}

// Up and down move from point to point, left and right fold.
function arrows(event) {
  if (event.target.className !== "open") return;
  const item = event.target.closest("li"), fold = $(".fold", item);
  if (event.key === "ArrowLeft" || event.key === "ArrowRight") {
    if (fold && (fold.getAttribute("aria-expanded") === "true") === (event.key === "ArrowLeft")) { fold.click(); event.preventDefault(); }
    return;
  }
  if (!["ArrowDown", "ArrowUp"].includes(event.key)) return;
  event.preventDefault();
  const key = event.key === "ArrowDown" ? "nextElementSibling" : "previousElementSibling";
  let next = item[key];
  while (next?.hidden) next = next[key];
  if (next) $(".open", next)?.focus();
}

// ---- search --------------------------------------------------------------------------------
const LISTED_MAX = 8;
function search(columns, show) {
  const field = $("#find"), list = $("#matches"), told = $("#found");
  let on = -1;
  const items = () => [...list.children];
  const pick = (index) => {
    on = index;
    items().forEach((item, n) => item.setAttribute("aria-selected", n === on));
    if (items()[on]) field.setAttribute("aria-activedescendant", items()[on].id); else field.removeAttribute("aria-activedescendant");
  };
  const shut = () => { list.hidden = true; field.setAttribute("aria-expanded", "false"); pick(-1); };
  const take = (id) => { shut(); viewer.open(id); };
  const look = () => {
    const wanted = field.value.toLowerCase().replace(/[^0-9a-f]/g, "");
    const { rows, matches } = columns.search(wanted);
    // Stored traces whose iterations are not in the sample.
    const others = wanted ? [...traces.states.keys()].filter((id) => id.replaceAll("-", "").startsWith(wanted) && columns.find(id) < 0) : [];
    const all = matches + others.length;
    told.textContent = !field.value.trim() ? "" : all ? `${count(all)} found` : !wanted ? "not an id" : charts.total > columns.rows ? "not in this sample" : "none";
    const ids = [...rows.slice(0, LISTED_MAX).map((n) => columns.id(n)), ...others].slice(0, LISTED_MAX);
    list.replaceChildren(...ids.map((id, n) => {
      const row = columns.find(id), item = make("li", { role: "option", id: `match${n}`, "aria-selected": "false" });
      item.append(make("span", { class: traces.seen(id) ? "id here" : "id" }, id), make("span", {}, row < 0 ? "" : columns.facts(row)[0]));
      item.onmousedown = (event) => { event.preventDefault(); take(id); };
      return item;
    }));
    list.hidden = !ids.length;
    field.setAttribute("aria-expanded", String(ids.length > 0));
    pick(-1);
    show(rows);
  };
  field.oninput = look;
  field.onfocus = () => { if (field.value && list.children.length) { list.hidden = false; field.setAttribute("aria-expanded", "true"); } };
  field.onblur = shut;
  field.onkeydown = (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key], listed = items();
    if (step && listed.length) { event.preventDefault(); list.hidden = false; pick((on + step + listed.length + (on < 0 && step < 0 ? 1 : 0)) % listed.length); }
    else if (event.key === "Enter") { event.preventDefault(); const item = listed[Math.max(on, 0)]; if (item) take($(".id", item).textContent); }
    else if (event.key === "Escape") { event.preventDefault(); if (!field.value) field.blur(); field.value = ""; look(); }
  };
  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || viewer.box.open || event.ctrlKey || event.metaKey || event.target.closest?.("input, textarea")) return;
    event.preventDefault();
    field.focus();
  });
}
