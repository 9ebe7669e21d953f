// Startup of the page, and handlers for the whole page.

// ---- slowest iterations --------------------------------------------------------------------
async function toggleRow(button) {
  const detail = document.getElementById(button.getAttribute("aria-controls"));
  const open = detail.hidden;
  detail.hidden = !open;
  button.setAttribute("aria-expanded", open);
  const slot = $(".slot", detail);
  if (open && slot && !slot.hasChildNodes()) {
    const trace = await traces.get(slot.dataset.slot);
    slot.replaceChildren(trace ? waterfall(trace) : make("p", { class: "hint" }, "The trace could not be read."));
    const list = $("ol", slot);
    if (list) list.addEventListener("keydown", arrows);
    showCause(slot);
  }
}

// ---- sorting -------------------------------------------------------------------------------
function sortable(table) {
  const body = $("tbody", table), heads = $$("[data-sort]", table);
  for (const head of heads) {
    const button = make("button", { type: "button" }, head.textContent);
    button.onclick = () => {
      const down = head.getAttribute("aria-sort") !== "descending", key = `k${head.dataset.sort}`;
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const rows = [...body.rows].sort((a, b) => (Number(b.dataset[key]) - Number(a.dataset[key])) * (down ? 1 : -1));
      body.append(...rows);
    };
    head.replaceChildren(button);
  }
}

// ---- start ---------------------------------------------------------------------------------
document.addEventListener("click", (event) => {
  const copied = event.target.closest("[data-copy]");
  if (copied) return void copy(copied.dataset.copy, copied);
  const whole = event.target.closest("[data-copy-of]");
  if (whole) return void copy(document.getElementById(whole.dataset.copyOf).textContent, whole);
  if (event.target.matches(".show-all")) return void $(".slow").classList.add("all");
  const opened = event.target.closest("button[data-trace]");
  if (opened) return void viewer.open(opened.dataset.trace);
  const toggle = event.target.closest(".toggle") ?? (event.target.closest("button, a") ? null : event.target.closest(".row")?.querySelector(".toggle"));
  if (toggle && (event.target === toggle || getSelection().isCollapsed)) toggleRow(toggle);
});
async function start() {
  const began = performance.now();
  const columns = readColumns(await unpack("iterations"));
  viewer.columns = columns;
  const unpacked = performance.now();
  const host = $("#scatter"), drawn = host ? scatter(host, columns, loadChart($("#load"), loadStrips())) : { draw() {}, show() {} };
  search(columns, drawn.show);
  const flames = $$("[data-flame]").map((plot) => flame(plot, charts.workloads[Number(plot.dataset.flame)], plot.dataset.flame));
  const held = $("#process") ? processChart($("#process")) : () => {};
  const rest = () => {
    held();
    for (const one of flames) one?.();
    for (const plot of $$("[data-chart]")) {
      const workload = charts.workloads[Number(plot.dataset.w)];
      if (!plot.clientWidth) continue;
      if (plot.dataset.chart === "curve") drawCurve(plot, workload);
      else drawHistogram(plot, workload);
    }
  };
  const draw = () => { drawn.draw(); rest(); };
  drawn.draw();
  const scattered = performance.now();
  rest();
  $$(".sortable").forEach(sortable);
  // A phone shows the long parts when asked.
  if (matchMedia("(max-width: 560px)").matches) for (const part of $$("details.chapter, details.more-rows")) part.open = false;
  let width = document.body.clientWidth, waiting;
  new ResizeObserver(() => {
    if (document.body.clientWidth === width) return;
    width = document.body.clientWidth;
    clearTimeout(waiting);
    waiting = setTimeout(draw, 80);
  }).observe(document.body);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  // Paper is white whatever the screen is.
  matchMedia("print").addEventListener("change", draw);
  addEventListener("beforeprint", () => { for (const part of $$("details.chapter")) part.open = true; });
  document.documentElement.dataset.drawn = "yes";
  // Times for measurements: unpacking, the scatter chart, everything.
  Object.assign(document.documentElement.dataset, { unpackedMs: (unpacked - began).toFixed(1), scatterMs: (scattered - unpacked).toFixed(1), drawnMs: (performance.now() - began).toFixed(1) });
  openFromHash();
  addEventListener("hashchange", openFromHash);
}
start().catch((fault) => {
  for (const plot of $$(".plot")) nothing(plot, "This chart could not be drawn; it needs a browser from mid-2023 or later.");
  console.error(fault);
});
