// Slow against typical: two flame graphs of the mean trace on one scale of time, typical ones above, slow ones below.
// The colour shows how much of the difference a point itself explains.
const ROW = 20;

// Nodes with their children; the widths of children that ran side by side are made to fit.
function flameTree(nodes) {
  const all = nodes.map((node, index) => ({ ...node, index, children: [], parent: null })), open = [];
  for (const node of all) {
    while (open.length && open.at(-1).depth >= node.depth) open.pop();
    node.parent = open.at(-1) ?? null;
    node.parent?.children.push(node);
    open.push(node);
  }
  return all;
}
function layOut(node, side, x, width, depth, out) {
  out.push({ node, x, width, depth });
  const key = side === "slow" ? "slow_ms" : "typical_ms";
  const sum = node.children.reduce((total, child) => total + child[key], 0);
  const scale = sum > 0 ? width / Math.max(sum, node[key]) : 0;
  let at = x;
  for (const child of node.children) {
    const part = child[key] * scale;
    if (part > 0) layOut(child, side, at, part, depth + 1, out);
    at += part;
  }
  return out;
}
// As much of a text as fits into a box; nothing of it if that says nothing.
function fitted(text, room, strong) {
  const whole = textWidth(text, strong);
  if (whole <= room) return text;
  const kept = text.slice(0, Math.max(0, Math.floor(text.length * room / whole) - 1)).replace(/[ …·]+$/, "");
  for (let end = kept.length; end > 3; end--) {
    const cut = `${kept.slice(0, end)}…`;
    if (textWidth(cut, strong) <= room) return cut;
  }
  return "";
}
function flame(host, workload, number) {
  const nodes = flameTree(workload.tree);
  if (!nodes.length) return;
  const crumbs = $(`[data-crumbs="${number}"]`), said = $(`[data-said="${number}"]`);
  let root = nodes[0], on = nodes[0], boxes = new Map();
  const label = (node) => node.short;
  const facts = (node) => {
    const difference = node.slow_ms - node.typical_ms, calls = (n) => String(+n.toPrecision(3));
    return [node.detail ? `${node.name} ${node.detail}` : node.name, ...(node.service ? [node.service] : []),
      `slow ${time(node.slow_ms)} in ${calls(node.slow_calls)} calls`, `typical ${time(node.typical_ms)} in ${calls(node.typical_calls)} calls`,
      `${difference < 0 ? "−" : "+"}${time(Math.abs(difference))}; by itself ${Math.round(node.own * 100)} % of the difference`];
  };
  const tip = make("div", { class: "tip", hidden: "" });
  const point = (node, quiet) => {
    for (const box of boxes.get(on) ?? []) box.classList.remove("on");
    on = node;
    for (const box of boxes.get(on) ?? []) box.classList.add("on");
    if (!quiet) said.textContent = facts(node).join(", ");
  };
  const zoom = (node) => { root = node; draw(); point(node); };
  function draw() {
    const width = host.clientWidth;
    if (!width) return;
    const slow = root.slow_ms, typical = root.typical_ms, most = Math.max(slow, typical, 1e-9);
    const sides = [["typical", layOut(root, "typical", 0, typical / most * width, 0, [])], ["slow", layOut(root, "slow", 0, slow / most * width, 0, [])]];
    boxes = new Map();
    const parts = sides.map(([side, placed]) => {
      const rows = Math.max(0, ...placed.filter((p) => p.width >= 0.4).map((p) => p.depth)) + 1, height = rows * ROW;
      const svg = shape("svg", { width, height, viewBox: `0 0 ${width} ${height}`, class: side === "slow" ? "below" : "above", "aria-hidden": "true" });
      for (const { node, x, width: w, depth } of placed) {
        if (w < 0.4) continue;
        const y = side === "slow" ? depth * ROW : height - (depth + 1) * ROW;
        const group = shape("g", { class: "cell", "data-n": node.index });
        const own = Math.max(-1, Math.min(1, node.own)), rect = shape("rect", { x: x.toFixed(2), y: y + 0.5, width: Math.max(w - 0.7, 0.4).toFixed(2), height: ROW - 1, rx: 1.5, class: own < -0.02 ? "cold" : own > 0.02 ? "hot" : "same" });
        rect.style.fillOpacity = Math.abs(own) > 0.02 ? 0.25 + 0.75 * Math.min(1, Math.abs(own) * 1.3) : 1;
        group.append(rect);
        const text = w > 30 ? fitted(label(node), w - 8, own > 0.4) : "";
        if (text) group.append(shape("text", { x: (x + 4).toFixed(1), y: y + 14, class: own > 0.4 ? "strong" : "" }, text));
        svg.append(group);
        boxes.set(node, [...(boxes.get(node) ?? []), group]);
      }
      const caption = make("p", { class: "side" }, side === "slow" ? `slow: ${time(root.slow_ms)}` : `typical: ${time(root.typical_ms)}`);
      return side === "slow" ? [make("hr"), svg, caption] : [caption, svg];
    });
    host.replaceChildren(...parts.flat(), tip);
    const path = [];
    for (let node = root; node; node = node.parent) path.unshift(node);
    crumbs.replaceChildren(...path.flatMap((node, n) => {
      const button = make("button", { type: "button", ...(node === root ? { "aria-current": "true" } : {}) }, label(node));
      button.onclick = () => zoom(node);
      return n ? [" › ", button] : [button];
    }));
    point(boxes.has(on) ? on : root, true);
  }
  const under = (event) => { const cell = event.target.closest?.(".cell"); return cell ? nodes[Number(cell.dataset.n)] : null; };
  host.onpointermove = (event) => {
    const node = under(event);
    if (!node) { tip.hidden = true; return; }
    point(node, true);
    const box = host.getBoundingClientRect();
    placeTip(tip, host, event.clientX - box.left, event.clientY - box.top, facts(node));
  };
  host.onpointerleave = () => { tip.hidden = true; };
  host.onblur = () => { tip.hidden = true; };
  host.onclick = (event) => { const node = under(event); if (node) zoom(node === root ? root.parent ?? root : node); };
  host.onkeydown = (event) => {
    const beside = (by) => { const row = on.parent?.children.filter((n) => boxes.has(n)) ?? []; return row[row.indexOf(on) + by]; };
    const next = { ArrowDown: () => on.children.reduce((best, n) => (boxes.has(n) && (!best || n.slow_ms > best.slow_ms) ? n : best), null), ArrowUp: () => (on === root ? null : on.parent), ArrowLeft: () => beside(-1), ArrowRight: () => beside(1) }[event.key];
    if (next) {
      event.preventDefault();
      const node = next();
      if (!node || !boxes.has(node)) return;
      point(node);
      const cell = boxes.get(node).at(-1).getBoundingClientRect(), box = host.getBoundingClientRect();
      placeTip(tip, host, cell.left - box.left + Math.min(cell.width / 2, 60), cell.top - box.top, facts(node));
    } else if (event.key === "Enter") { event.preventDefault(); zoom(on); }
    else if (event.key === "Escape" && root.parent) { event.preventDefault(); zoom(root.parent); }
  };
  return draw;
}
