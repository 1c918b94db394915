/* The state of nodes, clients and clusters; the figures in the bar; the findings. */

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
  forwarded: "because a `--forward-command` forwards it to the node",
  advertised: "because the node advertises that address",
  learned: "because this node answered there before, for example as a bootstrap server",
  untold: "because it is a bootstrap server, and nothing tells yet which node answers there",
};

function clusterState(c) {
  if (now.draining) return ["warn", "kproxy is stopping: it accepts no new connections"];
  const units = c.switch ? [c.switch, ...(c.switch.parts ?? [])] : [];
  const stuck = units.find((one) => one.problem || one.phase === "committed"), held = units.find((one) => one.phase !== "serving");
  if (stuck) return ["bad", switchState(stuck)];
  if (c.replaced_by) return ["bad", "another Kafka cluster answers"];
  if (!c.answered) return ["bad", c.problem ? "no bootstrap server answers" : "waits for the first answer of a bootstrap server"];
  const lost = c.nodes.filter((node) => nodeState(node)[0] === "bad").length;
  if (c.full) return ["bad", "no more connections fit"];
  if (lost) return ["bad", `${lost} of ${count(c.nodes.length, "node")} cannot be reached`];
  if (held) return ["warn", switchState(held)];
  if (c.problem) return ["warn", "in use, with a problem at a bootstrap server"];
  if (!c.searched) return ["warn", "looks for a route to each node"];
  const gone = c.nodes.filter((node) => !node.present).length;
  if (gone) return ["warn", `${gone} of ${count(c.nodes.length, "node")} ${gone === 1 ? "is" : "are"} not in the cluster any more`];
  return ["ok", c.nodes.length === 1 ? "the only node can be reached" : `all ${c.nodes.length} nodes can be reached`];
}

/** Where a switch is, in a few words. */
function switchState(one) {
  if (one.part) return `part ${one.part}: ${switchState({ ...one, part: "" })}`;
  if (one.problem) return "a switch cannot continue here";
  const left = one.seconds_left === null ? "" : `; it undoes itself in ${Math.ceil(one.seconds_left)} s`;
  return { serving: `routes clients to upstream ${one.active}`, holding: `a switch to ${one.to} holds writes, and waits for answers${left}`, held: `a switch to ${one.to} holds writes${left}`,
    flipped: `switched to ${one.to}, and holds writes${left}`, committed: `committed to ${one.to}, and holds writes until the switch continues` }[one.phase] ?? one.phase;
}

// ---------------------------------------------------------------- figures

const figures = new Map();
function figure(key, label, text, series) {
  let one = figures.get(key);
  if (one === undefined) {
    const name = el("dt"), value = el("dd");
    one = { name, value };
    const box = el("div", "", name, value);
    if (series) box.append(el("dd", "drawn", (one.drawn = spark(series[1], label))));
    $("figures").append(box);
    figures.set(key, one);
  }
  put(one.name, label);
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
  figure("state", now.clusters.length === 1 ? "Cluster" : "Clusters", now.clusters.length ? { ok: "well", warn: "with a warning", bad: "in trouble" }[worst[0]] : "none");
  const found = now.findings.length;
  figure("findings", "Findings", found ? String(found) : "none");
  figure("sessions", "Sessions", digits(sum("sessions")));
  figure("requests", "Requests", per(sum("requests")), ["requests", per]);
  figure("from", "From clients", bytes(sum("from_client")), ["from", bytes]);
  figure("to", "To clients", bytes(sum("to_client")), ["to", bytes]);
  figure("errors", "Errors, 1 min", digits(sum("errors")));
  hide($("figures"), false);
  put($("version"), shown(now.version));
  const errors = now.findings.filter((one) => one.severity === "error").length;
  const title = errors ? `kproxy: ${count(errors, "error")}` : "kproxy";
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
  const all = now.findings; // the most urgent first
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
    row.kproxyPart = { badge: el("span", "badge"), title: el("h3"), where: el("span", "where"), text: el("p"), fix: el("pre"), why: el("dd"), check: el("dd"), advice: el("dd") };
    for (const [key, label] of [["why", "Cause"], ["check", "Check"], ["advice", "Do"]]) words.append(el("dt", "", label), row.kproxyPart[key]);
    const { badge, title, where, text, fix } = row.kproxyPart;
    row.append(el("div", "about", badge, title, where), text, fix, details);
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
    const part = row.kproxyPart, error = f.severity === "error";
    row.kproxyFinding = f;
    cls(row, error ? "finding error" : "finding");
    cls(part.badge, error ? "badge ERROR" : "badge WARNING");
    put(part.badge, error ? "Error" : "Warning");
    setText(part.title, f.title);
    const c = now.clusters.find((one) => one.name === f.cluster), node = c?.nodes.find((one) => one.node === f.node);
    const where = [now.clusters.length > 1 && `cluster ${shown(f.cluster)}`, f.node && labelName(f.node), f.client && name(f.client), `since ${clock(f.since)}`];
    rich(part.where, where.filter(Boolean).join(" · "));
    setText(part.text, f.text);
    put(part.fix, (f.fix ?? []).map((line) => shown(line, 2000)).join("\n"));
    hide(part.fix, !f.fix?.length);
    for (const key of ["why", "check", "advice"]) {
      setText(part[key], f[key] ?? "");
      hide(part[key], !f[key]);
      hide(part[key].previousSibling, !f[key]);
    }
    hide(part.show, !node);
    if (node) attr(part.show, "aria-label", `Show ${nodeName(node)} in the picture`);
  });
  more($("findings-more"), all.length, findingsLeft, `and ${all.length - rows.length} more findings`);
}
