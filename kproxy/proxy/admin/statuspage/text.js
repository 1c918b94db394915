/* Text and numbers for people: what peers wrote is made harmless here. Its first lines are for all parts. */

const $ = (id) => document.getElementById(id);
const NONE = { requests: 0, from_client: 0, to_client: 0, p50: null, p99: null, errors: 0, last_error: null };

// ---------------------------------------------------------------- text and numbers

const NAME = "\u0001", END = "\u0002"; // around a name in a sentence; `shown` lets neither through
const INVISIBLE = /[\p{C}\p{Zl}\p{Zp}]/gu;
const PILED = /(\p{M}{3})\p{M}+/gu; // letters that grow over their neighbours
const known = new Map();

/** A peer's text for people: of bounded length, with escapes for what is invisible or turns the writing around. */
function shown(text, most = 160) {
  if (typeof text !== "string") return text === null || text === undefined ? "" : String(text);
  if (text.length < most && /^[\x20-\x7e]*$/.test(text)) return text;
  const key = most + text;
  let made = known.get(key);
  if (made === undefined) {
    const cut = text.length > most ? `${text.slice(0, most).replace(/[\ud800-\udbff]$/, "")}… (${text.length} characters)` : text;
    made = cut.replace(PILED, "$1").replace(INVISIBLE, (c) => `\\u{${c.codePointAt(0).toString(16)}}`);
    if (known.size > 4000) known.clear();
    known.set(key, made);
  }
  return made;
}
const name = (text, most) => NAME + (shown(text, most) || "(no name)") + END;

function el(tag, cls, ...children) {
  const made = document.createElement(tag);
  if (cls) made.className = cls;
  made.append(...children);
  return made;
}
function svg(tag, cls) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  if (cls) made.setAttribute("class", cls);
  return made;
}
function put(node, text) {
  if (node.kproxyText !== text) node.textContent = node.kproxyText = text;
}
function attr(node, key, value) {
  if (node.getAttribute(key) !== value) value === null ? node.removeAttribute(key) : node.setAttribute(key, value);
}
function cls(node, value) {
  if (node.getAttribute("class") !== value) node.setAttribute("class", value);
}
function hide(node, hidden) {
  if (node.hidden !== hidden) node.hidden = hidden;
}
/** A sentence with `commands` between backticks, and names that keep their direction of writing to themselves. */
function rich(node, text) {
  if (node.kproxyText === text) return;
  node.kproxyText = text;
  node.replaceChildren(...text.split(/(`[^`]+`|\u0001[^\u0002]*\u0002)/).filter(Boolean).map((part) => {
    if (part[0] === NAME) return el("bdi", "", part.slice(1, -1));
    return part.length > 2 && part[0] === "`" && part.at(-1) === "`" ? el("code", "", part.slice(1, -1)) : part;
  }));
}
/** The same for a text of kproxy, in which a peer's names may be. */
const setText = (node, text) => rich(node, shown(text, 2000));
function paragraphs(parent, texts) {
  while (parent.children.length > texts.length) parent.lastChild.remove();
  while (parent.children.length < texts.length) parent.append(el("p"));
  texts.forEach((text, i) => rich(parent.children[i], text));
}

const digits = (value) => (value >= 99.5 ? Math.round(value).toLocaleString("en") : value >= 9.95 || Number.isInteger(value) ? String(Math.round(value)) : value.toFixed(value < 0.095 ? 2 : 1));
const per = (value) => (value >= 1e6 ? `${digits(value / 1e6)} M/s` : value >= 1e4 ? `${digits(value / 1e3)} k/s` : `${digits(value || 0)}/s`);
function bytes(value) {
  for (const [unit, size] of [["GB/s", 1e9], ["MB/s", 1e6], ["kB/s", 1e3]]) if (value >= size) return `${digits(value / size)} ${unit}`;
  return `${Math.round(value || 0)} B/s`;
}
const took = (value) => (value === null || value === undefined ? "–" : value >= 1 ? `${digits(value)} s` : value >= 1e-3 ? `${digits(value * 1e3)} ms` : `${Math.round(value * 1e6)} µs`);
const count = (n, one, many = `${one}s`) => `${n === 0 ? "no" : n.toLocaleString("en")} ${n === 1 ? one : many}`;
const listed = (words) => (words.length < 2 ? words.join("") : `${words.slice(0, -1).join(", ")} and ${words.at(-1)}`);
const capital = (text) => text[0].toUpperCase() + text.slice(1);
const hour = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
function clock(seconds) {
  const then = new Date(seconds * 1000);
  if (Number.isNaN(then.getTime())) return "?";
  const today = new Date().toDateString() === then.toDateString();
  const two = (n) => String(n).padStart(2, "0");
  return (today ? "" : `${then.getFullYear()}-${two(then.getMonth() + 1)}-${two(then.getDate())} `) + hour.format(then);
}
function span(seconds) {
  const s = Math.max(0, Math.round(seconds));
  return s < 60 ? `${s} s` : s < 3600 ? `${Math.floor(s / 60)} min` : s < 172800 ? `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min` : `${Math.floor(s / 86400)} days`;
}
const errorWords = (e) => `${shown(e.name)} (${e.code}) on ${shown(e.api)} at ${clock(e.time)}`;
