/* Five minutes of history and its sparklines; keyed rows, orders that hold still, list boxes, tables. */

// ---------------------------------------------------------------- history

const SECONDS = 300, EACH = 3, POINTS = SECONDS / EACH, SERIES = 3000;
const history = { series: new Map(), slot: -1 };

function remember(key, value) {
  const { series, slot } = history;
  let one = series.get(key);
  if (one === undefined) {
    if (series.size >= SERIES) return;
    series.set(key, (one = { values: new Float32Array(SECONDS).fill(NaN), last: slot - 1 }));
  }
  const gap = slot - one.last;
  if (gap > SECONDS || gap < 0) one.values.fill(NaN);
  else for (let s = one.last + 1; s < slot; s++) one.values[s % SECONDS] = gap <= 2 ? value : NaN; // a second's jitter is no gap
  one.values[slot % SECONDS] = value ?? NaN;
  one.last = slot;
}
function forget() {
  for (const [key, one] of history.series) if (history.slot - one.last > SECONDS) history.series.delete(key);
}
/** The last five minutes as means of three seconds; NaN where no page was open. */
function points(key) {
  const one = history.series.get(key), made = new Array(POINTS).fill(NaN);
  if (one === undefined) return made;
  const newest = Math.floor(history.slot / EACH);
  for (let i = 0; i < POINTS; i++) {
    let sum = 0, n = 0;
    for (let s = (newest - POINTS + 1 + i) * EACH, end = s + EACH; s < end; s++) {
      if (s > one.last || s <= one.last - SECONDS || s < 0) continue;
      const value = one.values[s % SECONDS];
      if (value === value) { sum += value; n++; }
    }
    if (n) made[i] = sum / n;
  }
  return made;
}
const labelled = new WeakMap();
function spark(unit, what) {
  const made = svg("svg", "spark");
  made.setAttribute("viewBox", `0 0 ${POINTS - 1} 20`);
  made.setAttribute("preserveAspectRatio", "none");
  made.setAttribute("role", "img");
  made.append(svg("path"));
  labelled.set(made, { unit, what, at: 0 });
  return made;
}
function draw(made, key) {
  const values = points(key), label = labelled.get(made);
  let most = 0, least = Infinity, line = "", pen = false, last = null;
  for (const value of values) if (value === value) { most = Math.max(most, value); least = Math.min(least, value); last = value; }
  const scale = most > 0 ? 18.5 / most : 0;
  for (let i = 0; i < POINTS; i++) {
    const value = values[i];
    if (value !== value) { pen = false; continue; }
    const y = (19.25 - value * scale).toFixed(1);
    line += pen ? `L${i} ${y}` : `M${i} ${y}h.01`;
    pen = true;
  }
  const path = made.firstChild;
  if (path.kproxyLine !== line) path.setAttribute("d", (path.kproxyLine = line));
  const now = performance.now();
  if (label.at === 0 || now - label.at > 10000 || label.key !== key) {
    label.at = now;
    label.key = key;
    made.setAttribute("aria-label", last === null ? `${label.what}: no values yet` : `${label.what}, up to 5 minutes: ${label.unit(least)} to ${label.unit(most)}, now ${label.unit(last)}`);
  }
  return last === null ? null : most;
}

// ---------------------------------------------------------------- lists

/** Make the children of `parent` one row for each item, in this order; rows of before are kept. */
function keyed(parent, items, keyOf, make, update) {
  const have = (parent.kproxyRows ??= new Map()), keys = new Set();
  const focus = parent.contains(document.activeElement) ? document.activeElement : null;
  const rows = items.map((item, index) => {
    const key = keyOf(item);
    keys.add(key);
    let row = have.get(key);
    if (row === undefined) {
      have.set(key, (row = make(item)));
      row.kproxyKey = key;
    }
    update(row, item, index);
    return row;
  });
  for (const [key, row] of have) if (!keys.has(key)) {
    if (row === focus || row.contains(focus)) parent.kproxyLost = [...parent.children].indexOf(row);
    row.remove();
    have.delete(key);
  }
  let next = parent.firstChild;
  for (const row of rows) {
    if (row === next) next = next.nextSibling;
    else parent.insertBefore(row, next);
  }
  if (focus && document.activeElement !== focus && focus.isConnected) focus.focus({ preventScroll: true });
  return rows;
}

/** An order that changes at most each five seconds, at once if `urgent` does, and not under the reader's hand. */
function still() {
  let ranks = new Map(), at = -Infinity, was = null;
  return (items, keyOf, compare, urgent, held) => {
    const now = performance.now();
    if (urgent !== was || (now - at > 5000 && !held())) {
      was = urgent;
      at = now;
      ranks = new Map([...items].sort(compare).map((item, i) => [keyOf(item), i]));
    }
    const rank = (item) => ranks.get(keyOf(item)) ?? Infinity;
    return [...items].sort((a, b) => { const x = rank(a), y = rank(b); return x === y ? 0 : x - y; });
  };
}
const inHand = (node) => () => node.matches(":hover") || node.contains(document.activeElement);

/** One stop for Tab; arrows, Home and End move and select; Enter, Space and a click select. */
function listbox(list, choose, point) {
  const options = () => [...list.children];
  list.addEventListener("keydown", (event) => {
    const all = options(), at = all.indexOf(document.activeElement);
    if (at < 0 || event.altKey || event.ctrlKey || event.metaKey) return;
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: all.length - 1, PageDown: at + 10, PageUp: at - 10, Enter: at, " ": at }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    const option = all[Math.max(0, Math.min(all.length - 1, to))];
    option.focus();
    choose(option.kproxyKey, false);
  });
  list.addEventListener("click", (event) => {
    const option = event.target.closest("[role=option]");
    if (option) { option.focus({ preventScroll: true }); choose(option.kproxyKey, true); }
  });
  for (const kind of ["pointerover", "focusin"]) list.addEventListener(kind, (event) => point(event.target.closest("[role=option]")?.kproxyKey ?? null));
  for (const kind of ["pointerleave", "focusout"]) list.addEventListener(kind, () => point(null));
}
function rove(list, chosen) {
  const all = [...list.children];
  if (list.kproxyLost !== undefined) {
    all[Math.min(list.kproxyLost, all.length - 1)]?.focus({ preventScroll: true });
    list.kproxyLost = undefined;
  }
  const focused = all.includes(document.activeElement) ? document.activeElement : null;
  const stop = focused ?? all.find((option) => option.kproxyKey === chosen) ?? all[0];
  for (const option of all) {
    attr(option, "tabindex", option === stop ? "0" : "-1");
    attr(option, "aria-selected", String(option.kproxyKey === chosen));
  }
  hide(list, all.length === 0);
}

function more(button, all, left, words) {
  hide(button, all <= left.few);
  attr(button, "aria-expanded", String(left.open));
  put(button, left.open ? `Show only ${left.few} of them` : words);
}
function expander(button) {
  const state = { open: false, few: 12 };
  button.addEventListener("click", () => { state.open = !state.open; render(); });
  return state;
}

/** A table with a button to sort by each column. A column: label, text(item), value(item) to sort by, and its kind. */
function table(parent, label, columns, first) {
  const sort = { column: first, down: true }, order = still();
  const head = el("tr"), body = el("tbody"), scroll = el("div", "scroll"), button = el("button", "more");
  const empty = el("p", "empty");
  columns.forEach((column, i) => {
    const th = el("th", column.number ? "number" : "");
    th.scope = "col";
    if (column.value) {
      const by = el("button", "", column.label);
      by.type = "button";
      by.addEventListener("click", () => {
        if (sort.column === i) sort.down = !sort.down;
        else Object.assign(sort, { column: i, down: Boolean(column.number) });
        render();
      });
      th.append(by);
    } else th.append(el("span", "", column.label));
    head.append(th);
  });
  button.type = "button";
  const left = expander(button);
  left.few = 15;
  scroll.tabIndex = 0;
  scroll.setAttribute("role", "region");
  scroll.setAttribute("aria-label", `${label}: table, scrolls sideways`);
  scroll.append(el("table", "", el("thead", "", head), body));
  parent.append(empty, scroll, button);
  const held = inHand(body);
  return (items, keyOf, none, urgent) => {
    const column = columns[sort.column], sign = sort.down ? -1 : 1;
    const compare = (a, b) => {
      const x = column.value(a), y = column.value(b);
      return sign * (typeof x === "string" ? x.localeCompare(y, "en", { numeric: true }) : (x ?? -1) - (y ?? -1));
    };
    columns.forEach((one, i) => one.value && attr(head.children[i], "aria-sort", i !== sort.column ? "none" : sort.down ? "descending" : "ascending"));
    const sorted = order(items, keyOf, compare, `${sort.column} ${sort.down} ${urgent}`, held);
    const rows = sorted.slice(0, left.open ? 500 : left.few);
    keyed(body, rows, keyOf, () => {
      const row = el("tr");
      columns.forEach((one, i) => {
        const cell = el(i ? "td" : "th", one.number ? "number" : "");
        if (!i) cell.scope = "row";
        if (one.history) cell.append(spark(per, "Requests per second"));
        row.append(cell);
      });
      return row;
    }, (row, item) => columns.forEach((one, i) => {
      const cell = row.children[i];
      if (one.history) return draw(cell.firstChild, one.history(item));
      const text = one.text(item);
      put(cell, text);
      if (!one.number) attr(cell, "title", text.length > 24 ? text : null);
      if (one.wrong) cls(cell, (one.number ? "number" : "") + (one.wrong(item) ? " wrong" : ""));
    }));
    hide(scroll, items.length === 0);
    hide(empty, items.length > 0);
    put(empty, none);
    more(button, items.length, left, `Show ${items.length - rows.length} more`);
  };
}
