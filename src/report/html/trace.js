// The page of one trace: its waterfall, and the search in it.
function searchable(point) {
  return [point.name, point.detail, point.service, point.project, point.host, point.id, point.error ?? "", JSON.stringify(point.info), JSON.stringify(point.stop_info)].join("\n").toLowerCase();
}
// `drawAll` shows a row for every point: what is folded is not found.
function search(points, drawAll) {
  let texts, list = $("#waterfall ol"), items = [], found = [], now = -1;
  const show = (at) => {
    items[found[now]]?.classList.remove("now");
    now = at;
    const item = items[found[now]];
    if (!item) return;
    for (let above = found[now], depth = points[above].depth; depth > 0 && above >= 0; above--) {
      if (points[above].depth < depth) { depth = points[above].depth; unfold(above); }
    }
    item.classList.add("now");
    item.scrollIntoView({ block: "center" });
    $("#matches").textContent = `${now + 1} of ${count(found.length)}`;
  };
  const unfold = (index) => {
    const fold = $(".fold", items[index]);
    if (fold?.getAttribute("aria-expanded") === "false") fold.click();
  };
  const look = (wanted, move) => {
    texts ??= points.map(searchable);
    if (!items.length) { list = drawAll(); items = [...list.children].slice(1); }
    items[found[now]]?.classList.remove("now");
    found = [];
    const any = wanted !== "" || errors();
    list.classList.toggle("seek", any);
    texts.forEach((text, index) => {
      const match = any && text.includes(wanted) && (!errors() || points[index].error !== null);
      items[index].classList.toggle("miss", any && !match);
      if (match) found.push(index);
    });
    now = -1;
    $("#previous").disabled = $("#next").disabled = !found.length;
    $("#matches").textContent = any ? (found.length ? `${count(found.length)} found` : "none") : "";
    if (move && found.length) show(0);
  };
  const errors = () => $("#errors")?.getAttribute("aria-pressed") === "true";
  const step = (by) => found.length && show((now + by + found.length) % found.length);
  const field = $("#search");
  field.oninput = () => look(field.value.trim().toLowerCase(), false);
  field.onkeydown = (event) => {
    if (event.key === "Enter") { event.preventDefault(); step(event.shiftKey ? -1 : 1); }
    if (event.key === "Escape") { field.value = ""; look("", false); }
  };
  $("#next").onclick = () => step(1);
  $("#previous").onclick = () => step(-1);
  const button = $("#errors");
  if (button) button.onclick = () => { button.setAttribute("aria-pressed", !errors()); look(field.value.trim().toLowerCase(), true); };
  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.target.closest("input, textarea")) return;
    event.preventDefault();
    field.focus();
  });
}
function foldAll(list, button) {
  const fold = button.textContent === "Fold all";
  button.textContent = fold ? "Unfold all" : "Fold all";
  for (const item of $$(".fold", list)) if ((item.getAttribute("aria-expanded") === "true") === fold && !item.closest("li").hidden) item.click();
}
// Up and down move from point to point.
function arrows(event) {
  if (!["ArrowDown", "ArrowUp"].includes(event.key) || event.target.className !== "open") return;
  event.preventDefault();
  const key = event.key === "ArrowDown" ? "nextElementSibling" : "previousElementSibling";
  let item = event.target.closest("li")[key];
  while (item?.hidden) item = item[key];
  $(".open", item ?? event.target.closest("li"))?.focus();
}
document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-copy]");
  if (button) copy(button.dataset.copy, button);
});
async function start() {
  const [trace] = JSON.parse(new TextDecoder().decode(await unpack("traces")));
  const list = () => $("#waterfall ol");
  const show = (drawn) => {
    $("#waterfall").replaceChildren(drawn);
    drawn.redrawn = () => list()?.addEventListener("keydown", arrows);
    drawn.redrawn();
  };
  show(waterfall(trace));
  if (list()) {
    search(trace.points, () => { show(waterfall(trace, true)); return list(); });
    $("#fold").onclick = (event) => foldAll(list(), event.target);
  }
  // A phone shows the long parts when asked.
  if (matchMedia("(max-width: 560px)").matches) for (const part of $$("details.chapter")) part.open = false;
  addEventListener("beforeprint", () => { for (const part of $$("details.chapter")) part.open = true; });
  document.documentElement.dataset.drawn = "yes";
}
start().catch((fault) => {
  $("#waterfall").append(make("p", { class: "empty" }, "The waterfall could not be drawn; it needs a browser from mid-2023 or later."));
  console.error(fault);
});
