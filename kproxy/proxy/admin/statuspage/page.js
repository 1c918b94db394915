/* The status page of kproxy. Each second /live sends the whole state; `render` brings the page into line with it and
 * changes only what differs, so that focus, selection and the reader's place stay.
 *
 * All names and messages come from clients and brokers. They become text (textContent, setAttribute) and never HTML,
 * after `shown` has made visible what would hide or turn around the text beside it.
 *
 * The parts, in the order in which they are put together into one function (kproxy/proxy/admin/statuspage/__init__.py):
 *
 *   text.js      text and numbers: shown, rich, the units
 *   lists.js     history and sparklines; keyed rows, list boxes for the keyboard, tables
 *   state.js     the state of nodes and clients; figures; findings
 *   picture.js   clusters; the picture
 *   words.js     what is selected; tables, events, the process
 *   page.js      each second; the stream, why it is not there, when it is closed
 */
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
  now = { clusters: [], findings: [], events: [], ...JSON.parse(text) }; // another version may leave some out
  now.clusters = now.clusters.map((c) => ({ name: "", sessions: 0, bootstrap_servers: [], via: [], nodes: [], apis: [], clients: [], groups: [], forwards: [], forward_commands: [], ...c }));
  for (const c of now.clusters) c.clients = c.clients.map((k) => ({ users: [], ...k }));
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

let stream = null, lastSeen = 0, lostAt = null, paused = false, retry = 0, wait = 2000, asked = 0;

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
  lastSeen = Date.now();
  stream.onmessage = (event) => {
    lastSeen = Date.now();
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
  } catch { /* no answer: the page says so already */ }
  if (mine !== asked || lostAt === null || paused || document.hidden) return;
  if (status === 503) state("off", "too many viewers", `kproxy answers, but too many pages watch it already. Close one of them; this page tries again by itself.${old()}`);
  else if (status === 401) state("off", "needs the token", `kproxy wants its token. Load this page again, and give the token as the password of any user.${old()}`);
  else if (status === 421 || status === 403) state("off", "refused", `kproxy refuses this page (status ${status}), perhaps because of the name in the address bar: --admin-host allows it.${old()}`);
  else if (status === 404) state("off", "refused", `What answers at this address now has no /live: it is another kproxy, or no kproxy at all.${old()}`);
}
setInterval(() => {
  if (stream && lostAt === null && Date.now() - lastSeen > 6000) lost(); // the connection is there, and nothing comes
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
