/* The clusters, and the picture from the clients to the addresses that kproxy dials. */

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
  if (c.switch) text.push(switchWords(c.switch));
  for (const one of c.upstreams ?? []) if (!one.active) text.push(otherWords(one));
  if (c.problem) text.push(`Problem: ${shown(c.problem, 600)}`);
  if (c.full) text.push(`The next connection is refused: ${shown(c.full, 300)}`);
  return text.join(" ");
}

/** The upstream to which clients are not routed. */
function otherWords(one) {
  const servers = one.bootstrap_servers, more = servers.length > 3 ? ` and ${servers.length - 3} more` : "";
  const text = [`Upstream ${name(one.name)} is not active: ${listed(servers.slice(0, 3).map((each) => name(each)))}${more}`];
  if (one.cluster_id) text.push(`, with the id ${name(one.cluster_id)}`);
  if (one.lost) text.push(`; ${one.lost} of ${count(one.nodes, "node")} cannot be reached`);
  else if (one.nodes) text.push(`; ${one.nodes === 1 ? "its only node" : `all ${one.nodes} nodes`} can be reached`);
  return `${text.join("")}.${one.refuses ? ` It cannot become active: ${shown(one.refuses, 300)}.` : ""}`;
}

function switchWords(one) {
  const text = [`Clients are routed to upstream ${name(one.active)}${one.active === one.configured ? "" : `, and not to ${name(one.configured)} as the configuration says`}.`];
  if (one.phase !== "serving") {
    text.push(`Switch ${name(one.switch)}, ${one.phase}: writes have waited for ${Math.floor(one.seconds)} s, of ${count(one.held, "session")}.`);
    if (one.unanswered) text.push(`${count(one.unanswered, "write")} without an answer yet.`);
  }
  if (one.doubts) text.push(`${count(one.doubts, "client")} may repeat a write.`);
  if (one.waiting) text.push(`${count(one.waiting, "consumer")} with positions from before the switch, which get nothing: start them anew.`);
  if (one.problem) text.push(`Problem: ${shown(one.problem, 300)}`);
  if (one.phase === "committed") text.push("`kproxy migrate switch --resume` goes on, `--abort` goes back.");
  if (one.last) text.push(`The last one: ${shown(one.last, 300)}.`);
  for (const part of one.parts ?? []) text.push(`Of its part ${name(part.part)}: ${switchWords(part)}`);
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
  const clients = new Set(c.clients.filter((k) => well(clientState(k)[0]) && fits(k.client_id, k.address, k.software, ...k.users)));
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
