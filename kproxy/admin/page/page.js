/* The status page of kproxy. Each second /live sends the whole state; `render` brings the page into line with it and
 * changes only what differs, so that focus, selection and the reader's place stay.
 *
 * All names and messages come from clients and brokers. They become text (textContent, setAttribute) and never HTML,
 * after `shown` has made visible what would hide or turn around the text beside it.
 *
 *   text and numbers     shown, rich, the units
 *   history              five minutes of one value a second; the sparklines
 *   lists                keyed rows, orders that hold still, list boxes for the keyboard, tables
 *   parts                figures, findings, the picture, what is selected, tables, events
 *   connection           the stream, why it is not there, when it is closed
 */
"use strict";
(() => {
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
  const told = (node, text) => rich(node, shown(text, 2000));
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
  /** The last five minutes as means of three seconds; NaN where nobody looked. */
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

  // ---------------------------------------------------------------- the state of the page

  let now = null; // the newest snapshot
  let cluster = null; // the one that is shown
  let chosen = null; // {kind: "node" | "client" | "bootstrap" | "hops", key, words: the last that was known of it}
  let pointed = null;
  const clientKey = (c) => JSON.stringify([c.address, c.client_id, c.software]);
  const T = (of) => of ?? NONE;

  function nodeState(node) {
    if (!node.bound) return ["bad", "no local port"];
    if (!node.present) return ["idle", "not in the cluster any more"];
    if (node.problem) return ["bad", "not reachable"];
    if (!node.dial) return ["idle", "not tried yet"];
    if (T(node.traffic).errors > 0) return ["warn", "errors"];
    if (!node.checked) return ["warn", "not proved"];
    return ["ok", "reachable"];
  }
  const nodeName = (node) => (node.kind === "controller" ? `controller ${node.id}` : `broker ${node.id}`);
  const labelName = (label) => (label === "bootstrap" ? "the bootstrap address" : /^\d+$/.test(label) ? `broker ${label}` : shown(label).replace("controller-", "controller "));
  const WHY = {
    mapped: "because a `--map` says so",
    advertised: "because the node advertises that address",
    learned: "because this node answered there before, for example as a bootstrap server",
    untold: "because it is a bootstrap server, and nothing tells yet which node answers there",
  };

  function clusterState(c) {
    if (now.draining) return ["warn", "kproxy is stopping: it accepts no new connections"];
    if (!c.answered) return ["bad", c.problem ? "no bootstrap server answers" : "waits for the first answer of a bootstrap server"];
    const lost = c.nodes.filter((node) => nodeState(node)[0] === "bad").length;
    if (c.full) return ["bad", "no more connections fit"];
    if (lost) return ["bad", `${lost} of ${count(c.nodes.length, "node")} cannot be reached`];
    if (c.problem) return ["warn", "in use, with a problem at a bootstrap server"];
    if (!c.searched) return ["warn", "looks for a route to each node"];
    return ["ok", c.nodes.length === 1 ? "the only node can be reached" : `all ${c.nodes.length} nodes can be reached`];
  }

  // ---------------------------------------------------------------- figures

  const figures = new Map();
  function figure(key, label, text, series) {
    let one = figures.get(key);
    if (one === undefined) {
      const value = el("dd");
      one = { value };
      const box = el("div", "", el("dt", "", label), value);
      if (series) box.append(el("dd", "drawn", (one.drawn = spark(series[1], label))));
      $("figures").append(box);
      figures.set(key, one);
    }
    put(one.value, text);
    if (series) draw(one.drawn, series[0]);
  }
  function totals(c) {
    const sum = { sessions: c.sessions, requests: 0, from_client: 0, to_client: 0, errors: 0 };
    for (const t of [c.bootstrap_traffic, ...c.nodes.map((node) => node.traffic)]) for (const key of ["requests", "from_client", "to_client", "errors"]) sum[key] += T(t)[key] || 0;
    return sum;
  }
  function showFigures() {
    const all = now.clusters.map(totals), sum = (key) => all.reduce((n, one) => n + one[key], 0);
    const worst = now.clusters.map(clusterState).sort((a, b) => "bad warn ok".indexOf(a[0]) - "bad warn ok".indexOf(b[0]))[0] ?? ["warn", "no cluster"];
    figure("state", "Clusters", now.clusters.length ? { ok: "well", warn: "with a warning", bad: "in trouble" }[worst[0]] : "none");
    const found = now.findings.length;
    figure("findings", "Findings", found ? String(found) : "none");
    figure("sessions", "Sessions", digits(sum("sessions")));
    figure("requests", "Requests", per(sum("requests")), ["requests", per]);
    figure("from", "From clients", bytes(sum("from_client")), ["from", bytes]);
    figure("to", "To clients", bytes(sum("to_client")), ["to", bytes]);
    figure("errors", "Errors, 1 min", digits(sum("errors")));
    hide($("figures"), false);
    put($("version"), shown(now.version));
    const problems = now.findings.filter((one) => one.severity === "problem").length;
    const title = problems ? `kproxy: ${count(problems, "problem")}` : "kproxy";
    if (document.title !== title) document.title = title;
  }
  function record() {
    const slot = Math.floor(now.time);
    if (slot < history.slot - 5) history.series.clear(); // another clock
    history.slot = slot;
    const all = now.clusters.map(totals), sum = (key) => all.reduce((n, one) => n + one[key], 0);
    remember("requests", sum("requests"));
    remember("from", sum("from_client"));
    remember("to", sum("to_client"));
    for (const [i, c] of now.clusters.entries()) {
      remember(`c ${c.name}`, all[i].requests);
      remember(`b ${c.name}`, T(c.bootstrap_traffic).requests);
      for (const node of c.nodes) {
        remember(`n ${c.name} ${node.node}`, T(node.traffic).requests);
        remember(`p ${c.name} ${node.node}`, T(node.traffic).p99);
      }
      if (c !== cluster) continue; // the tables of the others are not shown
      for (const one of c.clients) remember(`k ${c.name} ${clientKey(one)}`, T(one.traffic).requests);
      for (const one of c.apis) remember(`a ${c.name} ${one.node} ${one.api}`, one.requests);
    }
    if (slot % 60 === 0) forget();
  }

  // ---------------------------------------------------------------- findings

  const findingKey = (f) => JSON.stringify([f.fault, f.cluster, f.node, f.client]);
  const findingsLeft = expander($("findings-more"));
  findingsLeft.few = 6;
  let told_of = null, to_tell = [], telling = 0;

  function announce(text) {
    to_tell.push(text);
    if (telling) return;
    telling = setTimeout(() => {
      telling = 0;
      $("announce").textContent = to_tell.length > 3 ? `${to_tell.length} changes of the findings or of the state` : to_tell.join(". ");
      to_tell = [];
    }, 1500);
  }
  function showFindings() {
    const all = [...now.findings].sort((a, b) => (a.severity === b.severity ? b.since - a.since : a.severity === "problem" ? -1 : 1));
    const keys = new Map(all.map((f) => [findingKey(f), shown(f.title)]));
    if (told_of) {
      for (const [key, title] of keys) if (!told_of.has(key)) announce(`New finding: ${title}`);
      for (const [key, title] of told_of) if (!keys.has(key)) announce(`No longer found: ${title}`);
    }
    const first = told_of === null;
    told_of = keys;
    put($("findings-h"), all.length ? `Findings (${all.length})` : "Findings");
    hide($("findings-none"), all.length > 0);
    const rows = all.slice(0, findingsLeft.open ? 200 : findingsLeft.few);
    keyed($("findings-list"), rows, findingKey, (f) => {
      const row = el("li", "finding"), words = el("dl"), details = el("details", "", el("summary", "", "Cause and remedy"), words);
      row.kproxyPart = { badge: el("span", "badge"), title: el("h3"), where: el("span", "where"), text: el("p"), cause: el("dd"), check: el("dd"), fix: el("dd") };
      for (const [key, label] of [["cause", "Cause"], ["check", "Check"], ["fix", "Do"]]) words.append(el("dt", "", label), row.kproxyPart[key]);
      row.append(el("div", "about", row.kproxyPart.badge, row.kproxyPart.title, row.kproxyPart.where), row.kproxyPart.text, details);
      details.open = first && f === all[0];
      const show = el("button", "", "Show in the picture");
      show.type = "button";
      show.addEventListener("click", () => {
        const f = row.kproxyFinding;
        cluster = now.clusters.find((c) => c.name === f.cluster) ?? cluster;
        choose("node", f.node, true);
        $("selection").focus();
      });
      row.append((row.kproxyPart.show = show));
      return row;
    }, (row, f) => {
      const part = row.kproxyPart, problem = f.severity === "problem";
      row.kproxyFinding = f;
      cls(row, problem ? "finding problem" : "finding");
      cls(part.badge, problem ? "badge problem" : "badge hint");
      put(part.badge, problem ? "Problem" : "Hint");
      told(part.title, f.title);
      const c = now.clusters.find((one) => one.name === f.cluster), node = c?.nodes.find((one) => one.node === f.node);
      const where = [now.clusters.length > 1 && `cluster ${shown(f.cluster)}`, f.node && labelName(f.node), f.client && name(f.client), `since ${clock(f.since)}`];
      rich(part.where, where.filter(Boolean).join(" · "));
      told(part.text, f.text);
      for (const key of ["cause", "check", "fix"]) {
        told(part[key], f[key] ?? "");
        hide(part[key], !f[key]);
        hide(part[key].previousSibling, !f[key]);
      }
      hide(part.show, !node);
      if (node) attr(part.show, "aria-label", `Show ${nodeName(node)} in the picture`);
    });
    more($("findings-more"), all.length, findingsLeft, `and ${all.length - rows.length} more findings`);
  }

  // ---------------------------------------------------------------- clusters

  let filter = "", only = false;
  const fits = (...texts) => !filter || texts.some((text) => typeof text === "string" && text.toLowerCase().includes(filter));
  const refilter = () => { filter = $("filter").value.trim().toLowerCase(); only = $("only").checked; render(); };
  $("filter").addEventListener("input", refilter);
  $("only").addEventListener("change", refilter);
  $("filter-form").addEventListener("submit", (event) => event.preventDefault());

  $("tabs").addEventListener("click", (event) => {
    const tab = event.target.closest("[role=tab]");
    if (tab) open(tab.kproxyKey);
  });
  $("tabs").addEventListener("keydown", (event) => {
    const all = [...$("tabs").children], at = all.indexOf(document.activeElement);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: all.length - 1 }[event.key];
    if (at < 0 || to === undefined) return;
    event.preventDefault();
    const tab = all[(to + all.length) % all.length];
    tab.focus();
    open(tab.kproxyKey);
  });
  function open(key) {
    if (cluster.name === key) return;
    cluster = now.clusters.find((c) => c.name === key) ?? cluster;
    chosen = null;
    render();
  }
  function showCluster() {
    const c = cluster, several = now.clusters.length > 1;
    hide($("tabs"), !several);
    if (several) keyed($("tabs"), now.clusters, (one) => one.name, () => {
      const tab = el("button", "", el("span", "state"), el("bdi"), el("span", "hidden"));
      tab.type = "button";
      tab.setAttribute("role", "tab");
      return tab;
    }, (tab, one) => {
      const [state, words] = clusterState(one);
      cls(tab.children[0], `state ${state}`);
      put(tab.children[1], shown(one.name, 40));
      put(tab.children[2], `: ${words}`);
      attr(tab, "aria-selected", String(one === c));
      attr(tab, "tabindex", one === c ? "0" : "-1");
      attr(tab, "aria-controls", one === c ? "cluster" : null);
    });
    const [state, words] = clusterState(c), head = $("cluster-h");
    const title = `${state} ${c.name}`;
    if (head.kproxyText !== title) {
      head.kproxyText = title;
      head.replaceChildren(el("span", `state ${state}`), "Cluster ", el("bdi", "", shown(c.name, 60)));
    }
    rich($("cluster-words"), clusterWords(c, words));
  }
  function clusterWords(c, words) {
    const text = [`${capital(words)}.`];
    text.push(`kproxy listens on ${name(c.listen)}${c.bootstrap ? (c.bootstrap === c.listen ? "; that is the bootstrap server of the clients" : `; clients use ${name(c.bootstrap)} as their bootstrap server`) : "; under which address clients reach that, only you know"}.`);
    text.push(`It asks ${listed(c.bootstrap_servers.slice(0, 3).map((one) => name(one)))}${c.bootstrap_servers.length > 3 ? ` and ${c.bootstrap_servers.length - 3} more` : ""}${c.via.length ? ` through ${listed(c.via.map((one) => name(one)))}` : ""}.`);
    if (c.cluster_id) text.push(`The cluster's id is ${name(c.cluster_id)}.`);
    if (c.problem) text.push(`Problem: ${shown(c.problem, 600)}`);
    if (c.full) text.push(`The next connection is refused: ${shown(c.full, 300)}`);
    return text.join(" ");
  }

  // ---------------------------------------------------------------- the picture

  const nodesLeft = expander($("nodes-more")), clientsLeft = expander($("clients-more"));
  const nodeOrder = still(), clientOrder = still();
  const BOOTSTRAP = "\u0000bootstrap", LINES = 400;
  const RANK = { bad: 0, warn: 1, idle: 2, ok: 3 };
  const heavy = (value, steps) => `w${1 + steps.filter((step) => value >= step).length}`;

  function choose(kind, key, moved) {
    chosen = { kind, key, words: null };
    render();
    announceChoice();
    if (moved && $("selection").getBoundingClientRect().top > innerHeight - 80) $("selection").scrollIntoView({ block: "nearest" });
  }
  function announceChoice() {
    $("announce").textContent = `${$("selection-h").textContent}. ${$("selection-words").firstChild?.textContent ?? ""}`;
  }
  const point = (kind) => (key) => {
    pointed = key === null ? null : { kind: key === BOOTSTRAP ? "bootstrap" : kind, key };
    mark();
  };
  listbox($("clients"), (key, moved) => choose("client", key, moved), point("client"));
  listbox($("nodes"), (key, moved) => choose(key === BOOTSTRAP ? "bootstrap" : "node", key, moved), point("node"));
  $("clear").addEventListener("click", () => { chosen = null; render(); $("selection").focus(); });
  $("back").addEventListener("click", () => ($(chosen?.kind === "client" ? "clients" : "nodes").querySelector("[tabindex='0']") ?? $("filter")).focus());

  const rowsThatFit = () => Math.max(8, Math.min(40, Math.floor((innerHeight * 0.8) / (3.25 * rootSize) - 3)));
  let rootSize = 16, fit = 12;
  function measure() {
    rootSize = parseFloat(getComputedStyle(document.documentElement).fontSize) || 16;
    fit = rowsThatFit();
    if (now) render();
  }
  let measuring = 0;
  addEventListener("resize", () => { clearTimeout(measuring); measuring = setTimeout(measure, 150); });

  function few(all, left, order, keyOf, stateOf) {
    left.few = fit;
    let items = all;
    if (all.length > fit) {
      const urgent = all.filter((item) => stateOf(item)[0] === "bad").map(keyOf).join(" ") + filter + only;
      items = order.apply(all, keyOf, (a, b) => RANK[stateOf(a)[0]] - RANK[stateOf(b)[0]] || T(b.traffic).requests - T(a.traffic).requests, urgent, order.held);
    }
    if (left.open) return items;
    const mine = items.slice(fit).filter((item) => chosen !== null && keyOf(item) === chosen.key); // what is selected stays
    return [...items.slice(0, fit), ...mine];
  }
  const ordered = (apply, node) => ({ apply, held: inHand(node) });
  const NODES = ordered(nodeOrder, $("nodes")), CLIENTS = ordered(clientOrder, $("clients"));
  const clientState = (c) => (T(c.traffic).errors > 0 ? ["warn", "errors"] : c.sessions ? ["ok", "connected"] : ["idle", "gone"]);

  function filtered(c) {
    if (!filter && !only) return [c.clients, c.nodes];
    const well = (state) => !only || state === "bad" || state === "warn";
    const nodes = new Set(c.nodes.filter((n) => well(nodeState(n)[0]) && fits(n.node, nodeName(n), n.advertised, n.local, n.dial)).map((n) => n.node));
    const clients = new Set(c.clients.filter((k) => well(clientState(k)[0]) && fits(k.client_id, k.address, k.software)));
    // Beside what fits, who is connected to it.
    const both = filter && !only;
    return [
      c.clients.filter((k) => clients.has(k) || (both && Object.keys(k.nodes).some((label) => nodes.has(label)))),
      c.nodes.filter((n) => nodes.has(n.node) || (both && [...clients].some((k) => n.node in k.nodes))),
    ];
  }

  function cell(row, text, title, small) {
    put(row.kproxyText1 ??= row.querySelector("bdi"), text);
    put(row.kproxyText2 ??= row.querySelector("small"), small);
    attr(row, "title", title?.length > 20 ? shown(title, 300) : null);
  }
  function box(extra, withState) {
    const made = el("span", `box ${extra}`, el("b", "", ...(withState ? [el("span", "state")] : []), el("bdi")), el("small"));
    made.setAttribute("aria-hidden", "true");
    return made;
  }
  function option(kind) {
    const row = el("li", kind);
    row.setAttribute("role", "option");
    return row;
  }
  function nodeRow() {
    const row = option("node");
    row.append(box("port", true), el("span", "wire"), box("who"), el("span", "wire"), box("to"));
    return row;
  }
  function showNode(row, node) {
    const [port, wire1, who, wire2, to] = row.children;
    if (node === BOOTSTRAP) {
      const c = cluster, state = c.answered ? "ok" : c.problem ? "bad" : "idle", t = T(c.bootstrap_traffic);
      cls(row, `node ${state}`);
      cls(port.firstChild.firstChild, `state ${state}`);
      cell(port, shown(c.bootstrap ?? c.listen), c.bootstrap ?? c.listen, `${count(c.bootstrap_sessions ?? 0, "session")} · ${per(t.requests)}`);
      cell(who, "bootstrap", "", "any bootstrap server");
      cell(to, shown(c.bootstrap_servers[0] ?? "–"), c.bootstrap_servers.join(", "), c.bootstrap_servers.length > 1 ? `or one of ${c.bootstrap_servers.length - 1} more` : state === "ok" ? "answered" : "no answer yet");
      const weight = heavy(t.from_client + t.to_client, [1e3, 1e5, 1e7]);
      cls(wire1, `wire ${weight}`);
      cls(wire2, `wire ${weight}`);
      return attr(row, "aria-label", `bootstrap address ${shown(c.bootstrap ?? c.listen)}, ${state === "ok" ? "a bootstrap server has answered" : "no bootstrap server has answered"}`);
    }
    const [state, words] = nodeState(node), t = T(node.traffic);
    cls(row, `node ${state}`);
    cls(port.firstChild.firstChild, `state ${state}`);
    cell(port, shown(node.local), node.local, `${count(node.sessions, "session")} · ${per(t.requests)}`);
    cell(who, nodeName(node), node.advertised, shown(node.advertised));
    cell(to, node.dial ? shown(node.dial) : "nothing yet", node.dial ?? "", state === "ok" ? node.route ?? "" : words);
    const weight = heavy(t.from_client + t.to_client, [1e3, 1e5, 1e7]);
    cls(wire1, `wire ${weight}`);
    cls(wire2, `wire ${weight}`);
    attr(row, "aria-label", `${nodeName(node)}, ${words}, local port ${shown(node.local)}, advertised as ${shown(node.advertised)}`);
  }
  function clientRow() {
    const row = option("client");
    row.append(box("", true));
    return row;
  }
  function showClient(row, k) {
    const [state, words] = clientState(k);
    cls(row, `client ${state}`);
    cls(row.firstChild.firstChild.firstChild, `state ${state}`);
    cell(row.firstChild, shown(k.client_id, 80) || "(no client id)", `${shown(k.client_id)} at ${shown(k.address)}, ${shown(k.software)}`, `${shown(k.address, 60)} · ${shown(k.software, 60) || "unknown software"}`);
    attr(row, "aria-label", `${shown(k.client_id, 80) || "no client id"} at ${shown(k.address, 60)}, ${shown(k.software, 60) || "unknown software"}, ${words}`);
  }

  let lines = { clients: new Map(), nodes: new Map() };
  function showPicture() {
    const c = cluster, [allClients, allNodes] = filtered(c);
    const clients = few(allClients, clientsLeft, CLIENTS, clientKey, clientState);
    const nodes = few(allNodes, nodesLeft, NODES, (n) => n.node, nodeState);
    const rows = [...(filter || only ? [] : [BOOTSTRAP]), ...nodes];
    keyed($("clients"), clients, clientKey, clientRow, showClient);
    keyed($("nodes"), rows, (n) => (n === BOOTSTRAP ? n : n.node), nodeRow, showNode);
    rove($("clients"), chosen?.kind === "client" ? chosen.key : null);
    rove($("nodes"), chosen?.kind === "node" || chosen?.kind === "bootstrap" ? chosen.key : null);

    hide($("clients-none"), clients.length > 0);
    put($("clients-none"), c.clients.length ? "No client fits the filter." : "No client is connected.");
    more($("clients-more"), allClients.length, clientsLeft, `and ${allClients.length - clients.length} more clients`);
    const rest = allNodes.length - nodes.length, shownNodes = new Set(nodes);
    const ill = rest ? allNodes.filter((n) => !shownNodes.has(n) && nodeState(n)[0] !== "ok").length : 0;
    more($("nodes-more"), allNodes.length, nodesLeft, `and ${rest} more nodes${ill ? `, ${ill} of them not well` : " that are well"}`);
    showHops(c, rows.length);

    lines = { clients: new Map(clients.map((k, i) => [clientKey(k), i])), nodes: new Map(rows.map((n, i) => [n === BOOTSTRAP ? "bootstrap" : n.node, i])) };
    showLinks(allClients, clients.length, rows.length, allClients.length > clients.length, rest > 0);
  }
  function showHops(c, rows) {
    const hops = $("hops"), width = c.via.length ? `${c.via.length * 2 + 1}rem` : "1.5rem";
    if (hops.kproxyWidth !== width) $("flow").style.setProperty("--hops", (hops.kproxyWidth = width));
    const height = `${rows * 3.25 - 0.5}rem`;
    if (hops.style.height !== height) hops.style.height = height;
    hide(hops, c.via.length === 0);
    keyed(hops, c.via.map((hop, i) => [i, hop]), ([i]) => i, () => {
      const made = el("button", "", el("bdi"));
      made.type = "button";
      made.addEventListener("click", () => choose("hops", "hops", true));
      return made;
    }, (made, [i, hop]) => {
      put(made.firstChild, shown(hop, 80));
      attr(made, "aria-label", `Hop ${i + 1} of ${c.via.length}: ${shown(hop, 80)}`);
      attr(made, "aria-pressed", String(chosen?.kind === "hops"));
    });
  }
  /** One line for each client and local port; those that are folded together share one. */
  function showLinks(all, clientRows, nodeRows, restClients, restNodes) {
    const made = new Map();
    for (const k of all) {
      const key = clientKey(k), from = lines.clients.get(key) ?? (restClients ? clientRows : null);
      if (from === null) continue;
      for (const [label, sessions] of Object.entries(k.nodes)) {
        const to = lines.nodes.get(label) ?? (restNodes && label !== "bootstrap" ? nodeRows : null);
        if (to === null) continue;
        const id = `${from} ${to}`, link = made.get(id);
        if (link) link.sessions += sessions;
        else made.set(id, { id, from, to, sessions, client: from < clientRows ? key : null, node: to < nodeRows ? label : null });
      }
    }
    const mine = (link) => chosen !== null && (link.client === chosen.key || link.node === chosen.key);
    const drawn = [...made.values()].sort((a, b) => mine(b) - mine(a) || b.sessions - a.sessions).slice(0, LINES);
    const height = Math.max(clientRows + restClients, nodeRows + restNodes, 1), target = $("links");
    if (target.kproxyHeight !== height) {
      target.kproxyHeight = height;
      target.setAttribute("viewBox", `0 0 100 ${height}`);
      target.style.height = `${height * 3.25}rem`;
    }
    const bad = new Set(cluster.nodes.filter((n) => nodeState(n)[0] === "bad").map((n) => n.node));
    keyed(target, drawn, (link) => link.id, (link) => {
      const path = svg("path"), y1 = link.from + 0.5, y2 = link.to + 0.5;
      path.setAttribute("d", `M0 ${y1}C45 ${y1} 55 ${y2} 100 ${y2}`);
      return path;
    }, (path, link) => {
      path.kproxyLink = link;
      path.kproxyClass = heavy(link.sessions, [2, 5, 20]) + (bad.has(link.node) ? " bad" : "");
    });
    mark();
  }
  function mark() {
    const at = pointed ?? chosen, key = at && (at.kind === "bootstrap" ? "bootstrap" : at.key);
    let any = false;
    for (const path of $("links").children) {
      const link = path.kproxyLink, on = at !== null && at.kind !== "hops" && (at.kind === "client" ? link.client : link.node) === key;
      any ||= on;
      cls(path, path.kproxyClass + (on ? " on" : ""));
    }
    cls($("links"), any ? "links focused" : "links");
  }

  // ---------------------------------------------------------------- what is selected

  function facts(t, sessions) {
    const made = [["Sessions", digits(sessions)], ["Requests", per(t.requests)], ["From clients", bytes(t.from_client)], ["To clients", bytes(t.to_client)],
      ["Latency", t.p50 === null && t.p99 === null ? "nothing measured" : `p50 ${took(t.p50)}, p99 ${took(t.p99)}`], ["Errors in the last minute", t.errors ? digits(t.errors) : "none"]];
    if (t.last_error) made.push(["Last error", errorWords(t.last_error)]);
    return made;
  }
  function aboutNode(c, node) {
    const t = T(node.traffic), who = nodeName(node), text = [];
    text.push(node.bound ? `kproxy listens on ${name(node.local)} for ${who}.` : `kproxy does not listen on ${name(node.local)}, so clients cannot reach ${who}.`);
    let way = `The ${node.kind} advertises ${name(node.advertised)}; kproxy tells clients ${name(node.local)} instead. `;
    way += node.dial ? `kproxy dials ${name(node.dial)}${WHY[node.route] ? `, ${WHY[node.route]}` : ""}.` : "kproxy has not reached it at any address yet.";
    if (c.via.length) way += ` Each connection goes through ${listed(c.via.map((hop) => name(hop)))}.`;
    text.push(way);
    if (node.dial) text.push(node.checked ? `kproxy knows that this is the right node${node.proof ? `: ${shown(node.proof)}` : ""}.` : `kproxy does not know yet whether ${who} is what answers there.`);
    if (!node.present) text.push("The cluster's last metadata does not name this node any more. kproxy keeps its port for some time (`--retire-after`).");
    if (node.problem) text.push(`The last try to reach it failed: ${shown(node.problem, 600)}`);
    const users = c.clients.filter((k) => k.nodes[node.node]).sort((a, b) => b.nodes[node.node] - a.nodes[node.node]);
    if (users.length) text.push(`Clients, with their sessions: ${listed(users.slice(0, 5).map((k) => `${name(k.client_id, 60)} (${k.nodes[node.node]})`))}${users.length > 5 ? `, and ${users.length - 5} more` : ""}.`);
    const apis = c.apis.filter((one) => one.node === node.node && one.requests > 0).sort((a, b) => b.requests - a.requests).slice(0, 4);
    if (apis.length) text.push(`Most requests: ${listed(apis.map((one) => `${shown(one.api)} ${per(one.requests)}`))}.`);
    const groups = c.groups.filter((one) => one.node === node.node);
    if (groups.length) text.push(`It coordinates ${count(groups.length, "group")} seen here: ${listed(groups.slice(0, 5).map((one) => name(one.group, 60)))}${groups.length > 5 ? " and others" : ""}.`);
    return { title: `${capital(who)}: ${nodeState(node)[1]}`, text, facts: facts(t, node.sessions),
      drawn: [[`n ${c.name} ${node.node}`, "Requests per second", per], [`p ${c.name} ${node.node}`, "Latency, p99", took]] };
  }
  function aboutClient(c, k) {
    const places = Object.entries(k.nodes).sort((a, b) => b[1] - a[1]), groups = c.groups.filter((one) => one.clients.includes(k.client_id));
    const text = [`${name(k.client_id)} at ${name(k.address)} ${k.software ? `says that it is ${name(k.software)}` : "does not say which software it is"}.`,
      `It has ${count(k.sessions, "session")}${places.length ? `: ${listed(places.slice(0, 6).map(([label, n]) => `${n} to ${labelName(label)}`))}${places.length > 6 ? `, and others to ${places.length - 6} more` : ""}` : ""}. kproxy has known it since ${clock(k.since)} (${span(now.time - k.since)}).`];
    if (groups.length) text.push(`A client of this name is in ${groups.length === 1 ? "group" : "groups"} ${listed(groups.slice(0, 5).map((one) => name(one.group, 60)))}.`);
    return { title: `Client ${shown(k.client_id, 60) || "without a client id"}`, text, facts: facts(T(k.traffic), k.sessions), drawn: [[`k ${c.name} ${clientKey(k)}`, "Requests per second", per]] };
  }
  function aboutBootstrap(c) {
    const text = [`kproxy listens on ${name(c.listen)} for clients that do not know the cluster yet.${c.bootstrap ? ` They use ${name(c.bootstrap)} as their bootstrap server.` : ""}`,
      `kproxy connects them to ${c.bootstrap_servers.length > 1 ? "one of " : ""}${listed(c.bootstrap_servers.slice(0, 8).map((one) => name(one)))}, and puts local addresses into the answers.`,
      c.answered ? "A bootstrap server has answered." : "No bootstrap server has answered yet."];
    if (c.problem) text.push(`Problem: ${shown(c.problem, 600)}`);
    return { title: "The bootstrap address", text, facts: facts(T(c.bootstrap_traffic), c.bootstrap_sessions ?? 0), drawn: [[`b ${c.name}`, "Requests per second", per]] };
  }
  function aboutHops(c) {
    const text = [`kproxy reaches no broker of this cluster directly. Each connection goes through ${count(c.via.length, "hop")}, in this order:`,
      ...c.via.map((hop, i) => `${i + 1}. ${name(hop)}`), "The last of them resolves and reaches the addresses that kproxy dials."];
    return { title: c.via.length > 1 ? "Hops on the way" : "The hop on the way", text, facts: [], drawn: [] };
  }
  function aboutAll(c) {
    const sum = totals(c), text = ["Choose a client, a local port or a hop: here is then in words what it is and how it does."];
    text.push(`${capital(count(c.clients.length + (c.clients_left_out || 0), "client"))} with ${count(c.sessions, "session")} use ${count(c.nodes.length, "node")} through kproxy.`);
    return { title: "The whole cluster", text, facts: [["Sessions", digits(sum.sessions)], ["Requests", per(sum.requests)], ["From clients", bytes(sum.from_client)], ["To clients", bytes(sum.to_client)], ["Errors in the last minute", sum.errors ? digits(sum.errors) : "none"]],
      drawn: [[`c ${c.name}`, "Requests per second", per]] };
  }
  function about() {
    const c = cluster;
    if (!chosen) return aboutAll(c);
    if (chosen.kind === "bootstrap") return aboutBootstrap(c);
    if (chosen.kind === "hops") return c.via.length ? aboutHops(c) : aboutAll(c);
    const found = chosen.kind === "node" ? c.nodes.find((n) => n.node === chosen.key) : c.clients.find((k) => clientKey(k) === chosen.key);
    if (found) {
      const words = chosen.kind === "node" ? aboutNode(c, found) : aboutClient(c, found);
      const ill = now.findings.filter((f) => f.cluster === c.name && (chosen.kind === "node" ? f.node === chosen.key : f.client === `${found.client_id} at ${found.address}`));
      if (ill.length) words.text.splice(1, 0, `${ill.length > 1 ? "Findings" : "Finding"} about it: ${listed(ill.slice(0, 4).map((f) => shown(f.title)))}; see above.`);
      return (chosen.words = words);
    }
    const gone = chosen.words ?? { title: "What was selected", text: [], facts: [], drawn: [] };
    return { ...gone, text: [chosen.kind === "node" ? "kproxy knows this node no more. What follows is the last that was known." : "This client is not among those that kproxy lists any more. What follows is the last that was known.", ...gone.text], drawn: [] };
  }
  function showSelection() {
    const words = about();
    put($("selection-h"), words.title);
    paragraphs($("selection-words"), words.text);
    keyed($("selection-facts"), words.facts.flatMap(([label, value]) => [["dt", label, label], ["dd", label, value]]), ([tag, label]) => tag + label, ([tag]) => el(tag), (node, [, , text]) => put(node, text));
    keyed($("selection-history"), words.drawn, ([key]) => key, ([, label, unit]) => {
      const made = el("div", "drawn-big", el("span", "", el("span", "", label), el("span")), spark(unit, label));
      return made;
    }, (made, [key, , unit]) => {
      const most = draw(made.lastChild, key);
      put(made.firstChild.lastChild, most === null ? "nothing measured" : `5 min, up to ${unit(most)}`);
    });
    hide($("clear"), chosen === null);
  }

  // ---------------------------------------------------------------- tables, events, the process

  const nodeText = (label) => (label === null || label === undefined ? "–" : labelName(label).replace("the bootstrap address", "bootstrap"));
  const traffic = (of) => [
    { label: "Requests", number: true, value: (x) => of(x).requests, text: (x) => per(of(x).requests) },
    { label: "p50", number: true, value: (x) => of(x).p50, text: (x) => took(of(x).p50) },
    { label: "p99", number: true, value: (x) => of(x).p99, text: (x) => took(of(x).p99) },
    { label: "From client", number: true, value: (x) => of(x).from_client, text: (x) => bytes(of(x).from_client) },
    { label: "To client", number: true, value: (x) => of(x).to_client, text: (x) => bytes(of(x).to_client) },
    { label: "Errors", number: true, value: (x) => of(x).errors, text: (x) => digits(of(x).errors || 0), wrong: (x) => of(x).errors > 0 },
  ];
  const lastError = (of) => ({ label: "Last error", value: (x) => of(x).last_error?.time ?? 0, text: (x) => (of(x).last_error ? errorWords(of(x).last_error) : "–") });
  const apiTable = table($("apis"), "Requests by API and node", [
    { label: "API", value: (x) => x.api, text: (x) => shown(x.api) },
    { label: "Node", value: (x) => x.node, text: (x) => nodeText(x.node) },
    ...traffic((x) => x),
    { label: "5 minutes", history: (x) => `a ${cluster.name} ${x.node} ${x.api}` },
    lastError((x) => x),
  ], 2);
  const clientTable = table($("clients-table"), "Clients", [
    { label: "Client id", value: (x) => x.client_id, text: (x) => shown(x.client_id) || "(none)" },
    { label: "Address", value: (x) => x.address, text: (x) => shown(x.address) },
    { label: "Software", value: (x) => x.software ?? "", text: (x) => shown(x.software) || "unknown" },
    { label: "Sessions", number: true, value: (x) => x.sessions, text: (x) => digits(x.sessions) },
    ...traffic((x) => T(x.traffic)),
    { label: "5 minutes", history: (x) => `k ${cluster.name} ${clientKey(x)}` },
    lastError((x) => T(x.traffic)),
  ], 4);
  const groupTable = table($("groups"), "Consumer groups", [
    { label: "Group", value: (x) => x.group, text: (x) => shown(x.group) },
    { label: "Members seen", number: true, value: (x) => x.members, text: (x) => digits(x.members) },
    { label: "Coordinator", value: (x) => x.node ?? "", text: (x) => nodeText(x.node) },
    { label: "Clients", value: (x) => x.clients[0] ?? "", text: (x) => x.clients.slice(0, 5).map((one) => shown(one, 60)).join(", ") + (x.clients.length > 5 ? ` and ${x.clients.length - 5} more` : "") },
  ], 1);

  function showTables() {
    const c = cluster, none = filter || only ? "Nothing fits the filter." : null, urgent = c.name + filter + only;
    apiTable(c.apis.filter((x) => (!only || x.errors > 0) && fits(x.api, x.node, nodeText(x.node))), (x) => `${x.node} ${x.api}`, none ?? "No request has passed yet.", urgent);
    clientTable(c.clients.filter((x) => (!only || T(x.traffic).errors > 0) && fits(x.client_id, x.address, x.software)), clientKey, none ?? "No client is connected.", urgent);
    groupTable(c.groups.filter((x) => !only && fits(x.group, nodeText(x.node), ...x.clients)), (x) => x.group, none ?? "kproxy has seen no consumer group.", urgent);
    hide($("clients-left"), !c.clients_left_out);
    put($("clients-left"), `${count(c.clients_left_out || 0, "client")} more, less busy, ${c.clients_left_out === 1 ? "is" : "are"} not listed.`);
    hide($("groups-left"), !c.groups_left_out);
    put($("groups-left"), `${count(c.groups_left_out || 0, "group")} more ${c.groups_left_out === 1 ? "is" : "are"} not listed.`);
    hide($("lost"), !now.lost);
    put($("lost"), `In the last second ${count(now.lost || 0, "request")} passed uncounted, because there were too many. The rates are too low by that much.`);
  }
  const eventsLeft = expander($("events-more"));
  function showEvents() {
    const all = now.events;
    eventsLeft.few = 12;
    const rows = all.slice(eventsLeft.open ? -100 : -12).reverse();
    hide($("events-none"), all.length > 0);
    keyed($("events"), rows, (e) => e.number, (e) => {
      const row = el("li"), text = el("p"), level = ["INFO", "WARNING", "ERROR"].includes(e.level) ? e.level : "INFO";
      const time = el("time", "", clock(e.time));
      time.dateTime = new Date(e.time * 1000).toISOString();
      told(text, e.text);
      row.append(time, el("span", `badge ${level}`, { INFO: "Info", WARNING: "Warning", ERROR: "Error" }[level]), text);
      for (const [label, words] of [["It means: ", e.meaning], ["What to do: ", e.fix]]) if (words) {
        const line = el("p", "meaning");
        told(line, label + words);
        row.append(line);
      }
      return row;
    }, () => {});
    more($("events-more"), all.length, eventsLeft, `and ${all.length - rows.length} older events`);
  }
  function showProcess() {
    const since = Date.parse(now.since) / 1000, silent = now.workers.filter((w) => !w.answers);
    const text = [`kproxy ${name(now.version)} runs with this configuration since ${clock(since)} (${span(now.time - since)}).`];
    text.push(now.reloads ? `It has read its configuration again ${now.reloads === 1 ? "once" : `${now.reloads} times`}.` : "It has not read its configuration again since its start.");
    text.push(now.workers.length ? `${capital(count(now.workers.length, "worker process", "worker processes"))} ${now.workers.length === 1 ? "carries" : "carry"} the sessions${silent.length ? `; ${silent.length} of them ${silent.length === 1 ? "does" : "do"} not answer` : ""}.` : "The main process carries the sessions itself.");
    if (now.draining) text.unshift("kproxy is stopping: it finishes the requests in flight.");
    rich($("process-words"), text.join(" "));
    keyed($("workers"), now.workers.slice(0, 128), (w) => w.worker, () => el("li", "", el("span"), el("span")), (row, w) => {
      cls(row.firstChild, `state ${w.answers ? "ok" : "bad"}`);
      put(row.lastChild, `Worker ${w.worker} (pid ${w.pid}): ${w.answers ? count(w.sessions, "session") : "does not answer"}`);
    });
    hide($("workers"), now.workers.length === 0);
  }

  // ---------------------------------------------------------------- each second

  const measured = { updates: 0, milliseconds: 0, time: 0 }; // for the tests, and for the curious
  Object.defineProperty(window, "kproxyPage", { value: measured });
  let due = 0;

  function render() {
    if (now === null) return;
    const start = performance.now();
    cluster = now.clusters.find((c) => c.name === cluster?.name) ?? now.clusters[0] ?? null;
    hide($("main"), false);
    hide($("cluster"), cluster === null);
    const parts = [showFigures, showFindings, ...(cluster ? [showCluster, showPicture, showSelection, showTables] : []), showEvents, showProcess];
    for (const part of parts) {
      try {
        part();
      } catch (error) { // what one part cannot show must not hide the others
        console.error(`${part.name}:`, error);
      }
    }
    measured.milliseconds = performance.now() - start;
  }
  function receive(text) {
    now = { workers: [], clusters: [], findings: [], events: [], ...JSON.parse(text) }; // another version may leave some out
    now.clusters = now.clusters.map((c) => ({ name: "", sessions: 0, bootstrap_servers: [], via: [], nodes: [], apis: [], clients: [], groups: [], ...c }));
    cluster = now.clusters.find((c) => c.name === cluster?.name) ?? now.clusters[0] ?? null;
    record();
    if (!due) due = requestAnimationFrame(() => {
      due = 0;
      render();
      measured.updates++;
      measured.time = now.time;
    });
  }

  // ---------------------------------------------------------------- connection

  let stream = null, heard = 0, lostAt = null, paused = false, retry = 0, wait = 2000, asked = 0;

  function state(kind, word, words) {
    cls($("connection"), `live ${kind}`);
    put($("connection"), word);
    put($("notice"), words);
    document.documentElement.classList.toggle("stale", kind !== "on" && now !== null);
  }
  const old = () => (now === null ? "" : ` What you see is from ${clock(now.time)}.`);
  function start() {
    clearTimeout(retry);
    if (stream || paused || document.hidden) return;
    stream = new EventSource("live");
    heard = Date.now();
    stream.onmessage = (event) => {
      heard = Date.now();
      if (lostAt !== null) announce("kproxy answers again");
      if (lostAt !== null || now === null || $("connection").kproxyText !== "live") state("on", "live", "");
      lostAt = null;
      wait = 2000;
      receive(event.data);
    };
    stream.onerror = () => lost();
  }
  function stop() {
    clearTimeout(retry);
    stream?.close();
    stream = null;
  }
  /** The browser tells no reason, and tries by itself only where the answer was none: so ask, and try ourselves. */
  async function lost() {
    stop();
    if (lostAt === null) lostAt = now === null ? Date.now() / 1000 : now.time;
    if (paused || document.hidden) return;
    const mine = ++asked, since = clock(lostAt);
    if (now === null) state("off", "no answer", `kproxy does not answer since ${since}.`);
    else state("off", "no answer", `kproxy does not answer since ${since}; what you see is from then.`);
    retry = setTimeout(start, wait);
    wait = Math.min(wait * 1.5, 10000);
    let status = 0;
    try {
      status = (await fetch("live", { method: "HEAD", cache: "no-store", signal: AbortSignal.timeout(3000) })).status;
    } catch { /* nobody answers: that is said already */ }
    if (mine !== asked || lostAt === null || paused || document.hidden) return;
    if (status === 503) state("off", "too many viewers", `kproxy answers, but too many pages watch it already. Close one of them; this page tries again by itself.${old()}`);
    else if (status === 401) state("off", "needs the token", `kproxy wants its token. Load this page again, and give the token as the password of any user.${old()}`);
    else if (status === 421 || status === 403) state("off", "refused", `kproxy refuses this page (status ${status}), perhaps because of the name in the address bar: --admin-host allows it.${old()}`);
    else if (status === 404) state("off", "refused", `What answers at this address now has no /live: it is another kproxy, or no kproxy at all.${old()}`);
  }
  setInterval(() => {
    if (stream && lostAt === null && Date.now() - heard > 6000) lost(); // the connection is there, and nothing comes
  }, 1000);
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) stop();
    else { wait = 2000; start(); }
  });
  addEventListener("pagehide", stop);
  addEventListener("pageshow", start);
  $("pause").addEventListener("click", () => {
    paused = !paused;
    attr($("pause"), "aria-pressed", String(paused));
    if (paused) {
      stop();
      state("", "paused", `Paused: kproxy sends nothing to this page.${old()}`);
    } else {
      lostAt = null;
      state("", "connecting", "");
      start();
    }
  });
  measure();
  start();
})();
