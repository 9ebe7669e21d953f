// Shared by both pages: elements, numbers, packed data, copying. Outside text is only ever set as text.
const NS = "http://www.w3.org/2000/svg";
const $ = (selector, root = document) => root.querySelector(selector);
const $$ = (selector, root = document) => [...root.querySelectorAll(selector)];
document.documentElement.classList.add("js");

// The longest text to lay out: a name of a mebibyte takes a browser most of a minute. The data stays whole.
const TEXT_MAX = 4000;
function shorten(text, most = TEXT_MAX) {
  return text.length > most ? text.slice(0, most).replace(/[\ud800-\udbff]$/, "") + "…" : text;
}
function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children.map((child) => (typeof child === "string" ? shorten(child) : child)));
  return node;
}
function shape(tag, attributes = {}, text) {
  const node = document.createElementNS(NS, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (text !== undefined) node.textContent = typeof text === "string" ? shorten(text) : text;
  return node;
}
// A figure and its unit stay on one line.
const NBSP = "\u00a0";
function time(ms) {
  if (!(ms > 0)) return `0${NBSP}ms`;
  const three = (value) => value.toFixed(value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2);
  if (ms < 999.5e-6) return `${(ms * 1e6).toFixed(0)}${NBSP}ns`;
  for (const [unit, scale] of [["µs", 1e-3], ["ms", 1]]) if (ms < 999.5 * scale) return `${three(ms / scale)}${NBSP}${unit}`;
  return `${three(ms / 1e3)}${NBSP}s`;
}
const count = (number) => Math.round(number).toLocaleString("en-US");
// Axis labels are round numbers: no trailing zeros.
const axisTime = (ms) => (ms > 0 ? time(ms) : "0").replace(/(\.\d*?)0+\s/, `$1${NBSP}`).replace(/\.\s/, NBSP);
// The distance of round ticks, about `wanted` of them up to `most`.
function roundStep(most, wanted) {
  const rough = most / wanted, power = 10 ** Math.floor(Math.log10(rough));
  return [1, 2, 5, 10].find((s) => s * power >= rough * 0.999) * power;
}
// How wide a text is in a chart, in px.
const pen = make("canvas").getContext("2d"), family = getComputedStyle(document.body).fontFamily;
function textWidth(text, strong) {
  pen.font = `${strong ? "600 " : ""}12px ${family}`;
  return pen.measureText(text).width;
}

async function unpack(id) {
  const packed = atob($(`#${id}`).textContent.trim());
  const bytes = new Uint8Array(packed.length);
  for (let n = 0; n < packed.length; n++) bytes[n] = packed.charCodeAt(n);
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).arrayBuffer();
}

// ---- copying -------------------------------------------------------------------------------
let fading;
function toast(text) {
  const box = $("#toast");
  box.textContent = text;
  box.classList.add("on");
  clearTimeout(fading);
  fading = setTimeout(() => box.classList.remove("on"), 2200);
}
async function copy(text, button) {
  let done = true;
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const focused = document.activeElement, field = make("textarea", { readonly: "" });
    field.value = text;
    document.body.append(field);
    field.select();
    done = document.execCommand("copy");
    field.remove();
    focused?.focus();
  }
  const told = shorten(text, 80).split("\n");
  toast(`${done ? "Copied" : "Could not copy"} ${told[0]}${told.length > 1 ? " …" : ""}`);
  if (!button || !done) return;
  button.classList.add("copied");
  setTimeout(() => button.classList.remove("copied"), 1500);
}
const idButton = (id) => make("button", { type: "button", class: "id", "data-copy": id, title: "Copy" }, id);
