// The worker that has the rows of a table. It lists and watches, filters and sorts, and sends the page only the rows that
// are on the screen: so neither a hundred thousand rows nor a thousand changes a second stop the page.
import {ask, Failure, json, lines, moment, tables, wait} from './api.js';
import {matcher} from './query.js';

/**
 * @typedef {{id: string, ns: string, name: string, cells: any[], created: number, labels: string, at: number}} Row
 * @typedef {{name: string, priority: number, age: boolean}} Column
 */

/** @type {Map<string, Row>} */
let rows = new Map();
/** @type {Row[]} rows that match, in order */
let shown = [];
/** @type {Column[]} */
let columns = [];
let query = {q: '', sort: '', down: false};
/** @type {(r: Row) => boolean} */
let matches = () => true;
/** @type {(a: Row, b: Row) => number} */
let compare = byName;
let wanted = {from: 0, to: 60};
/** @type {Set<string>} ids of rows that have changed since the last look */
let changed = new Set();
let all = false; // everything has to be looked at
let looking = 0;
/** @type {AbortController|null} */
let running = null;
let version = '';
let loading = true;
let told = '';

/** @param {any} message */
const send = (message) => postMessage(message);

/** @param {Row} a @param {Row} b */
function byName(a, b) {
  return a.ns < b.ns ? -1 : a.ns > b.ns ? 1 : a.name < b.name ? -1 : a.name > b.name ? 1 : 0;
}

/** How rows are compared by a column. */
function comparison() {
  const down = query.down ? -1 : 1;
  if (query.sort === '') return byName;
  if (query.sort === 'Namespace') return (a, b) => down * (a.ns < b.ns ? -1 : a.ns > b.ns ? 1 : 0) || byName(a, b);
  const i = columns.findIndex((c) => c.name === query.sort);
  if (i < 0) return byName;
  if (columns[i].age) return (a, b) => down * (b.created - a.created) || byName(a, b);
  /** @param {any} v */
  const number = (v) => (typeof v === 'number' ? v : /^-?\d+(\.\d+)?(\s|%|\/|$)/.test(v) ? parseFloat(v) : NaN);
  return (a, b) => {
    const x = a.cells[i], y = b.cells[i], m = number(x), n = number(y);
    if (m === m && n === n && m !== n) return down * (m - n);
    const s = String(x ?? ''), t = String(y ?? '');
    return down * (s < t ? -1 : s > t ? 1 : 0) || byName(a, b);
  };
}

/** Looks at what has changed, soon. @param {boolean} [everything] */
function look(everything) {
  all ||= !!everything;
  looking ||= setTimeout(lookNow, 50);
}

function lookNow() {
  looking = 0;
  if (all) {
    shown = [...rows.values()].filter(matches).sort(compare);
  } else if (changed.size) {
    const fresh = [...changed].map((id) => rows.get(id)).filter((r) => r !== undefined).filter(matches).sort(compare);
    const kept = shown.filter((r) => !changed.has(r.id));
    shown = merge(kept, fresh);
  }
  all = false;
  changed = new Set();
  tell();
}

/** @param {Row[]} a @param {Row[]} b */
function merge(a, b) {
  if (!b.length) return a;
  const out = new Array(a.length + b.length);
  for (let i = 0, j = 0, k = 0; k < out.length; k++) {
    out[k] = j >= b.length || (i < a.length && compare(a[i], b[j]) <= 0) ? a[i++] : b[j++];
  }
  return out;
}

function tell() {
  const from = Math.max(0, Math.min(wanted.from, shown.length)), to = Math.min(wanted.to, shown.length);
  send({type: 'rows', from, rows: shown.slice(from, to), shown: shown.length, total: rows.size, columns, loading, trouble: told});
}

/** Takes rows of a table. @param {any} table @param {Map<string, Row>} into */
function take(table, into) {
  if (table.columnDefinitions?.length) {
    columns = table.columnDefinitions.map((/** @type {any} */ c) => ({name: c.name, priority: c.priority, age: c.name === 'Age' || c.format === 'date'}));
    compare = comparison();
    matches = matcher(query.q, columns);
  }
  const taken = [];
  for (const r of table.rows ?? []) {
    const m = r.object?.metadata ?? {};
    const name = m.name ?? String(r.cells[0]), ns = m.namespace ?? '';
    let labels = '';
    for (const k in m.labels) labels += `${k}=${m.labels[k]}\n`;
    const row = {id: `${ns}/${name}`, ns, name, cells: r.cells, created: Date.parse(m.creationTimestamp) || 0, labels, at: 0};
    into.set(row.id, row);
    taken.push(row);
  }
  return taken;
}

/** Lists all, page by page. @param {any} o @param {AbortSignal} signal */
async function list(o, signal) {
  const first = rows.size === 0;
  /** @type {Map<string, Row>} */
  const next = first ? rows : new Map();
  let more = '', limit = 500;
  do {
    const path = moment(`${o.path}?pretty=0&limit=${limit}${more ? '&continue=' + encodeURIComponent(more) : ''}`, o.at);
    const table = await json(path, {key: o.key, accept: tables, signal});
    if (table.kind !== 'Table') throw new Failure(0, 'the server sends no tables of this kind');
    take(table, next);
    version = table.metadata.resourceVersion;
    more = table.metadata.continue ?? '';
    if (first && (limit === 500 || !more)) look(true);
    else if (first) send({type: 'count', total: rows.size});
    limit = 4000;
  } while (more);
  rows = next;
  loading = false;
  look(true);
}

/** Watches from where the list ended. @param {any} o @param {AbortSignal} signal */
async function watch(o, signal) {
  const answer = await ask(`${o.path}?watch=1&allowWatchBookmarks=true&resourceVersion=${version}`, {key: o.key, accept: tables, signal});
  trouble('');
  for await (const some of lines(answer, signal)) {
    for (const line of some) {
      if (line) event(JSON.parse(line));
    }
    if (changed.size) look();
  }
}

/** @param {any} e */
function event(e) {
  if (e.type === 'ERROR') throw new Failure(e.object.code ?? 500, e.object.message ?? 'the watch ended');
  if (e.type === 'BOOKMARK') {
    version = e.object.metadata.resourceVersion;
    return;
  }
  for (const row of take(e.object, rows)) {
    if (e.type === 'DELETED') rows.delete(row.id);
    else row.at = Date.now();
    changed.add(row.id);
  }
  const m = e.object.rows?.[0]?.object?.metadata;
  if (m?.resourceVersion) version = m.resourceVersion;
}

/** @param {string} text */
function trouble(text) {
  if (text === told) return;
  told = text;
  tell();
}

/** Keeps the rows as they are in the cluster. @param {any} o @param {AbortSignal} signal */
async function follow(o, signal) {
  let pause = 250;
  for (;;) {
    try {
      if (!version || o.at) await list(o, signal);
      pause = 250;
      if (o.at || !o.watch) return;
      await watch(o, signal);
    } catch (e) {
      if (signal.aborted) return;
      if (!(e instanceof Failure)) throw e;
      if (!o.at && (e.code === 410 || e.code === 504)) version = '';
      else if (e.code >= 400 && e.code < 500 && e.code !== 429) {
        loading = false;
        send({type: 'failed', code: e.code, message: e.message});
        return;
      } else {
        trouble(e.message);
        if (e.code === 0 && rows.size === 0 && !version) look(true);
      }
      pause = Math.min(pause * 2, 5000);
    }
    try { await wait(pause, signal); } catch { return; }
  }
}

let opened = /** @type {any} */ (null);

function start() {
  running?.abort();
  running = new AbortController();
  follow(opened, running.signal).catch((e) => send({type: 'failed', code: 0, message: String(e?.message ?? e)}));
}

/** Keeps a query. @param {any} m */
function ask_(m) {
  query = {q: m.q, sort: m.sort, down: m.down};
  matches = matcher(query.q, columns);
  compare = comparison();
}

onmessage = ({data: m}) => {
  switch (m.type) {
    case 'open':
      opened = m;
      if (!m.keep) { rows = new Map(); shown = []; columns = []; }
      version = '';
      loading = true;
      told = '';
      ask_(m);
      start();
      break;
    case 'query':
      ask_(m);
      look(true);
      break;
    case 'window':
      wanted = {from: m.from, to: m.to};
      if (!looking) tell();
      break;
    case 'find': {
      send({type: 'found', index: m.index, row: shown[m.index] ?? null, then: m.then});
      break;
    }
    case 'pause':
      running?.abort();
      break;
    case 'resume':
      if (opened && !opened.at) start();
      break;
  }
};
