/* What is selected, in words; the tables, the events, the process. */

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
  if (!node.present) text.push("The cluster's last metadata does not name this node any more: it has ended, or was removed. kproxy keeps its port for some time (`--retire-after`).");
  if (node.problem) text.push(`The last try to reach it failed: ${shown(node.problem, 600)}`);
  if (node.problem && node.lost_since) text.push(`Each try has failed since ${clock(node.lost_since)} (${span(now.time - node.lost_since)}).`);
  if (node.dial_belongs_to) text.push(`${capital(labelName(node.dial_belongs_to))} answers at ${name(node.dial)} now.`);
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
  if (k.users.length) text.push(`It logs in as ${listed(k.users.map((one) => name(one, 60)))}.`);
  if (groups.length) text.push(`A client of this name is in ${groups.length === 1 ? "group" : "groups"} ${listed(groups.slice(0, 5).map((one) => name(one.group, 60)))}.`);
  return { title: `Client ${shown(k.client_id, 60) || "without a client id"}`, text, facts: [...story(c, k), ...facts(T(k.traffic), k.sessions)],
    drawn: [[`k ${c.name} ${clientKey(k)}`, "Requests per second", per]] };
}
/** What a client has asked since a page is open, what it received, what failed: labels and texts. */
function story(c, k) {
  const asked = k.asked ?? [], addresses = k.addresses ?? [], unusable = k.unusable ?? [], made = [];
  const uses = asked.map((use) => `${shown(use.api)} ${times(use.requests)}${use.api === "Metadata" ? ` (last at ${clock(use.last)})` : ""}`);
  if (uses.length) made.push(["Asked", `since ${clock(k.observed_since)}: ${uses.join(", ")}${k.asked_left_out ? `, and ${count(k.asked_left_out, "other API")}` : ""}`]);
  if (uses.length) made.push(["Received", addresses.map((one) => `${name(one.from)} is at ${name(one.to)}`).join(", ") || "no addresses since then"]);
  const failed = asked.filter((use) => use.errors).map((use) => `${shown(use.api)} ${times(use.errors)}: ${shown(use.last_error.name)} (${use.last_error.code}), last at ${clock(use.last_error.time)}`);
  failed.push(...unusable.map((one) => `${name(one.what, 100)}: ${shown(one.name)}`));
  const refused = (c.access?.latest ?? []).filter((one) => one.client === k.address && one.client_id === k.client_id).slice(-3);
  failed.push(...refused.map((one) => `kproxy refused ${shown(one.api)} ${name(one.name, 100)} ${times(one.times)}, last at ${clock(one.last)}: ${shown(one.reason, 200)}`));
  if (asked.length || failed.length) made.push(["Failed", failed.join("; ") || "nothing, by the first error code of each response"]);
  return made;
}
const times = (n) => (n === 1 ? "once" : `${n.toLocaleString("en")} times`);
/** A finding names a client by address and client id, by address alone if kproxy refused it, or by client id alone. */
const concerns = (f, k) => [`${k.client_id || "a client without an id"} at ${k.address}`, k.address, k.client_id || null].includes(f.client);
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
    const ill = now.findings.filter((f) => f.cluster === c.name && (chosen.kind === "node" ? f.node === chosen.key : concerns(f, found)));
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
  keyed($("selection-facts"), words.facts.flatMap(([label, value]) => [["dt", label, label], ["dd", label, value]]), ([tag, label]) => tag + label, ([tag]) => el(tag), (node, [, , text]) => {
    rich(node, text);
    cls(node, text.length > 40 ? "words" : "");
  });
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
  { label: "User", value: (x) => x.users[0] ?? "", text: (x) => x.users.map((one) => shown(one, 60)).join(", ") || "–" },
  { label: "Sessions", number: true, value: (x) => x.sessions, text: (x) => digits(x.sessions) },
  ...traffic((x) => T(x.traffic)),
  { label: "5 minutes", history: (x) => `k ${cluster.name} ${clientKey(x)}` },
  lastError((x) => T(x.traffic)),
], 5);
const groupTable = table($("groups"), "Consumer groups", [
  { label: "Group", value: (x) => x.group, text: (x) => shown(x.group) },
  { label: "Members seen", number: true, value: (x) => x.members, text: (x) => digits(x.members) },
  { label: "Coordinator", value: (x) => x.node ?? "", text: (x) => nodeText(x.node) },
  { label: "Clients", value: (x) => x.clients[0] ?? "", text: (x) => x.clients.slice(0, 5).map((one) => shown(one, 60)).join(", ") + (x.clients.length > 5 ? ` and ${x.clients.length - 5} more` : "") },
], 1);

const refusalTable = table($("refusals"), "Refused requests", [
  { label: "API", value: (x) => x.api, text: (x) => shown(x.api) },
  { label: "Name", value: (x) => x.name, text: (x) => shown(x.name, 100) || "–" },
  { label: "Client id", value: (x) => x.client_id, text: (x) => shown(x.client_id) || "(none)" },
  { label: "Address", value: (x) => x.client, text: (x) => shown(x.client) },
  { label: "User", value: (x) => x.user ?? "", text: (x) => shown(x.user ?? "", 60) || "–" },
  { label: "Refused by", value: (x) => x.reason, text: (x) => shown(x.reason, 200) },
  { label: "Times", number: true, value: (x) => x.times, text: (x) => digits(x.times) },
], 6);
function showAccess(c, none, urgent) {
  hide($("access-card"), !c.access);
  if (!c.access) return;
  keyed($("access-rules"), c.access.rules, (x) => x, () => document.createElement("li"), (item, text) => put(item, shown(text, 300)));
  refusalTable(c.access.latest.filter((x) => fits(x.api, x.name, x.client_id, x.client, x.user ?? "")), (x) => [x.api, x.family, x.name, x.client, x.client_id].join(" "), none ?? "kproxy has refused nothing yet.", urgent);
  put($("access-note"), `${count(c.access.refused, "request")} refused since kproxy was started. The clients received Kafka's own error.`);
}
const forwardTable = table($("forwards"), "Forwards", [
  { label: "Local port", value: (x) => x.listen, text: (x) => shown(x.listen) },
  { label: "Leads to", value: (x) => x.to, text: (x) => shown(x.to) },
  { label: "Open", number: true, value: (x) => x.connections, text: (x) => digits(x.connections) },
  { label: "Accepted", number: true, value: (x) => x.accepted, text: (x) => digits(x.accepted) },
  { label: "Problem", value: (x) => x.problem ?? "", text: (x) => shown(x.problem, 300) || "–", wrong: (x) => x.problem },
], 0);
const commandNode = (x) => (x.server ? `bootstrap server ${shown(x.server)}` : nodeText(x.node)) + (x.upstream ? ` of ${shown(x.upstream)}` : "");
const commandTable = table($("commands"), "Forward commands", [
  { label: "Node", value: (x) => x.node, text: (x) => commandNode(x) },
  { label: "Local port", number: true, value: (x) => x.port, text: (x) => String(x.port) },
  { label: "State", value: (x) => x.state, text: (x) => `${shown(x.state)} since ${clock(x.since)}`, wrong: (x) => x.state === "ended" },
  { label: "Restarts", number: true, value: (x) => x.starts, text: (x) => digits(Math.max(0, x.starts - 1)) },
  { label: "Command", value: (x) => x.command, text: (x) => shown(x.command, 300) },
  { label: "Last words", value: (x) => x.last_line ?? "", text: (x) => shown(x.last_line, 300) || "–" },
  { label: "Problem", value: (x) => x.problem ?? "", text: (x) => shown(x.problem, 600) || "–", wrong: (x) => x.problem },
], 0);
function showTables() {
  const c = cluster, none = filter || only ? "Nothing fits the filter." : null, urgent = c.name + filter + only;
  apiTable(c.apis.filter((x) => (!only || x.errors > 0) && fits(x.api, x.node, nodeText(x.node))), (x) => `${x.node} ${x.api}`, none ?? "No request has passed lately while a page was open.", urgent);
  clientTable(c.clients.filter((x) => (!only || T(x.traffic).errors > 0) && fits(x.client_id, x.address, x.software, ...x.users)), clientKey, none ?? "No client is connected.", urgent);
  groupTable(c.groups.filter((x) => !only && fits(x.group, nodeText(x.node), ...x.clients)), (x) => x.group, none ?? "No consumer group was seen while a page was open.", urgent);
  showAccess(c, none, urgent);
  hide($("forwards-card"), c.forwards.length === 0);
  forwardTable(c.forwards.filter((x) => (!only || x.problem) && fits(x.listen, x.to, x.problem)), (x) => x.listen, none ?? "There is none.", urgent);
  hide($("commands-card"), c.forward_commands.length === 0);
  commandTable(c.forward_commands.filter((x) => (!only || x.problem) && fits(commandNode(x), x.command, x.last_line, x.problem)), (x) => `${x.upstream} ${x.server} ${x.node}`, none ?? "There is none.", urgent);
  hide($("clients-left"), !c.clients_left_out);
  put($("clients-left"), `${count(c.clients_left_out || 0, "client")} more, less busy, ${c.clients_left_out === 1 ? "is" : "are"} not listed.`);
  hide($("groups-left"), !c.groups_left_out);
  put($("groups-left"), `${count(c.groups_left_out || 0, "group")} more ${c.groups_left_out === 1 ? "is" : "are"} not listed.`);
}
const eventsLeft = expander($("events-more"));
function showEvents() {
  const all = now.events;
  eventsLeft.few = 12;
  const rows = all.slice(eventsLeft.open ? -100 : -12).reverse();
  hide($("events-none"), all.length > 0);
  keyed($("events"), rows, (e) => e.number, (e) => {
    const row = el("li"), level = ["INFO", "WARNING", "ERROR"].includes(e.level) ? e.level : "INFO";
    const part = (row.kproxyPart = { time: el("time"), text: el("span"), times: el("span", "times"), like: el("ul"), summary: el("summary") });
    row.append(part.time, el("span", `badge ${level}`, { INFO: "Info", WARNING: "Warning", ERROR: "Error" }[level]), el("p", "", part.text, part.times));
    row.append((part.details = el("details", "", part.summary, part.like)));
    for (const [label, words] of [["It means: ", e.meaning], ["What to do: ", e.fix]]) if (words) {
      const line = el("p", "meaning");
      setText(line, label + words);
      row.append(line);
    }
    return row;
  }, (row, e) => {
    const { time, text, times, details, summary, like } = row.kproxyPart, often = e.times > 1, others = e.like_it ?? [], rest = e.like_it_left_out || 0;
    put(time, clock(e.time));
    attr(time, "datetime", new Date(e.time * 1000).toISOString());
    setText(text, e.text);
    hide(times, !often);
    put(times, often ? ` ×${e.times.toLocaleString("en")} since ${clock(e.since)}` : "");
    hide(details, !others.length);
    put(summary, `${count(others.length + rest, "line")} like it`);
    keyed(like, [...others, ...(rest ? [`and ${rest} more`] : [])].map((words, i) => [i, words]), ([i]) => i, () => el("li"), (item, [, words]) => setText(item, words));
  });
  more($("events-more"), all.length, eventsLeft, `and ${all.length - rows.length} older events`);
}
function showProcess() {
  const since = Date.parse(now.since) / 1000;
  const text = [`kproxy ${name(now.version)} runs with this configuration since ${clock(since)} (${span(now.time - since)}).`];
  text.push(now.reloads ? `It has read its configuration again ${now.reloads === 1 ? "once" : `${now.reloads} times`}.` : "It has not read its configuration again since its start.");
  if (now.draining) text.unshift("kproxy is stopping: it finishes the requests in flight.");
  rich($("process-words"), text.join(" "));
}
