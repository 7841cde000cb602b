// The shell: who is here, which kinds there are, what is looked at. Where one is, is in the address, so that it can be
// sent to somebody, and kept.
import {Failure, json, moment} from './api.js';
import {byId, fill, h} from './dom.js';
import {current, login, logout, takeCode, whenOpened} from './session.js';
import {Home} from './home.js';
import {ObjectView} from './object.js';
import {Table} from './table.js';
import {TimeBar} from './time.js';

/**
 * @typedef {{group: string, version: string, resource: string, kind: string, namespaced: boolean, verbs: string[], logs: boolean}} Kind
 * @typedef {{page: string, kind: Kind|null, ns: string, name: string, q: URLSearchParams, at: string|null}} Place
 */

/** What the views use of the page. */
export const app = {
  /** @type {Kind[]} */
  kinds: [],
  /** @type {Place} */
  place: {page: 'home', kind: null, ns: '', name: '', q: new URLSearchParams(), at: null},
  key: '',
  /** Asks for JSON, as of the moment that is looked at. @param {string} path @param {AbortSignal} [signal] @param {string|null} [at] */
  get: (path, signal, at) => json(moment(path, at === undefined ? app.place.at : at), {key: app.key, signal}),
  go,
  /** @type {(what: Partial<Record<string, string|null>>) => void} */
  change,
  path: pathOf,
  href,
  trouble,
  failed,
  /** Tells the time bar what to draw above it. @param {string|null} path a path below /history */
  changes(path) { time.show(path); },
};

/** @type {{close: () => void, key?: (e: KeyboardEvent) => boolean, pause?: (hidden: boolean) => void, move?: () => boolean}|null} */
let view = null;
const time = new TimeBar(byId('time'), app);

/** The path of a collection or an object. @param {Kind} k @param {string} [ns] @param {string} [name] */
export function pathOf(k, ns, name) {
  const parts = k.group ? ['/apis', k.group, k.version] : ['/api', k.version];
  if (k.namespaced && ns) parts.push('namespaces', encodeURIComponent(ns));
  parts.push(k.resource);
  if (name) parts.push(encodeURIComponent(name));
  return parts.join('/');
}

/** The address of a collection or an object. @param {Kind} k @param {string} [ns] @param {string} [name] @param {Record<string, string>} [more] */
export function href(k, ns, name, more) {
  const q = new URLSearchParams(more);
  if (app.place.at && !q.has('at')) q.set('at', app.place.at);
  const parts = [name ? 'object' : 'list', k.group || 'core', k.version, k.resource];
  if (name) parts.push(ns || '-', name);
  return '#/' + parts.map(encodeURIComponent).join('/') + (q.size ? '?' + q : '');
}

/** @param {string} address */
function go(address) {
  if (location.hash === address) route();
  else location.hash = address;
}

/** Changes what the address asks for, without a step in the browser's history. @param {Partial<Record<string, string|null>>} what */
function change(what) {
  const [path, text] = location.hash.split('?');
  const q = new URLSearchParams(text);
  for (const [k, v] of Object.entries(what)) v ? q.set(k, v) : q.delete(k);
  history.replaceState(null, '', (path || '#/') + (q.size ? '?' + q : ''));
  const before = app.place.at;
  app.place.q = q;
  app.place.at = q.get('at');
  document.body.classList.toggle('past', !!app.place.at);
  links();
  if (before !== app.place.at && !view?.move?.()) show();
}

/** @returns {Place} */
function parse() {
  const [path, text] = location.hash.replace(/^#\/?/, '').split('?');
  const q = new URLSearchParams(text);
  const [page, group, version, resource, ns, name] = path.split('/').map(decodeURIComponent);
  const at = q.get('at');
  const g = group === 'core' ? '' : group;
  const kind = app.kinds.find((k) => k.group === g && k.resource === resource && k.version === version) ??
    app.kinds.find((k) => k.group === g && k.resource === resource) ?? null;
  if (page !== 'list' && page !== 'object' || !kind) return {page: page && !kind && group ? 'unknown' : 'home', kind: null, ns: '', name: '', q, at};
  return {page, kind, ns: ns === '-' ? '' : ns ?? '', name: name ?? '', q, at};
}

function route() {
  app.place = parse();
  document.body.classList.toggle('past', !!app.place.at);
  byId('side').classList.remove('open');
  byId('menu').setAttribute('aria-expanded', 'false');
  show();
}

function show() {
  view?.close();
  const {page, kind, ns, name} = app.place;
  const at = fill(byId('view'));
  links();
  if (page === 'list' && kind) view = new Table(at, app, kind);
  else if (page === 'object' && kind) view = new ObjectView(at, app, kind, ns, name);
  else if (page === 'unknown') {
    view = null;
    at.append(h('div.note', null, h('h2', null, 'The cluster does not have this kind'), h('p', null, app.place.at ? 'Perhaps it did at another time.' : 'Perhaps it had it once.')));
  } else view = new Home(at, app);
  document.title = [name || kind?.resource || 'Start', 'Millrace'].join(' · ');
}

/** Draws the links: where one is, and the kinds. */
function links() {
  const {page, kind, ns, name, at} = app.place;
  fill(byId('crumbs'),
    kind && h('a', {href: href(kind)}, kind.resource),
    name && ns && [h('i', null, '/'), h('a', {href: href(kind, '', '', {q: 'ns:' + ns})}, ns)],
    name && [h('i', null, '/'), h('b', null, name)]);
  byId('mark').setAttribute('href', at ? `#/?at=${encodeURIComponent(at)}` : '#/');
  const side = byId('side');
  for (const a of side.querySelectorAll('a')) {
    const k = app.kinds[Number(a.dataset.kind)];
    if (k) a.href = href(k);
    a.toggleAttribute('aria-current', k ? k === kind : page === 'home');
  }
}

/** The kinds that people look at most, in their order. @type {[string, string[]][]} */
const shelves = [
  ['Workloads', ['/pods', 'apps/deployments', 'apps/statefulsets', 'apps/daemonsets', 'apps/replicasets', 'batch/jobs', 'batch/cronjobs', 'autoscaling/horizontalpodautoscalers']],
  ['Cluster', ['/nodes', '/namespaces', '/events', 'coordination.k8s.io/leases']],
  ['Configuration', ['/configmaps', '/secrets', '/serviceaccounts', '/resourcequotas', '/limitranges']],
  ['Network', ['/services', 'discovery.k8s.io/endpointslices', 'networking.k8s.io/ingresses', 'networking.k8s.io/networkpolicies']],
  ['Storage', ['/persistentvolumeclaims', '/persistentvolumes', 'storage.k8s.io/storageclasses']],
];

/** Draws the kinds. */
function sidebar() {
  const left = new Set(app.kinds.keys());
  /** @param {number} i */
  const link = (i) => h('li', null, h('a', {'data-kind': i, title: [app.kinds[i].kind, app.kinds[i].group || 'core'].join(' · ')}, app.kinds[i].resource, h('small')));
  /** @param {string} title @param {number[]} ids @param {boolean} open */
  const shelf = (title, ids, open) => ids.length > 0 && h('details', {open}, h('summary', null, title), h('ul', null, ids.map(link)));
  const known = shelves.map(([title, names]) => {
    const ids = names.map((n) => app.kinds.findIndex((k) => `${k.group}/${k.resource}` === n)).filter((i) => i >= 0);
    ids.forEach((i) => left.delete(i));
    return shelf(title, ids, true);
  });
  /** @type {Map<string, number[]>} */
  const groups = new Map();
  for (const i of left) groups.set(app.kinds[i].group, [...(groups.get(app.kinds[i].group) ?? []), i]);
  const custom = [...groups].filter(([g]) => g.includes('.') && !g.endsWith('.k8s.io'));
  const rest = [...groups].filter(([g]) => !custom.some(([c]) => c === g)).sort(([a], [b]) => (a < b ? -1 : 1));
  fill(byId('side'), h('ul', null, h('li', null, h('a', {href: '#/'}, 'What runs here'))), known,
    custom.map(([g, ids]) => shelf(g, ids, true)), rest.map(([g, ids]) => shelf(g || 'core', ids, false)));
}

/** Shows how many objects there are, beside the kinds. @param {Map<string, number>} counts */
export function counts(counts) {
  for (const a of byId('side').querySelectorAll('a')) {
    const k = app.kinds[Number(a.dataset.kind)];
    const n = k && counts.get(k.group ? `${k.resource}.${k.group}` : k.resource);
    const small = a.querySelector('small');
    if (small) small.textContent = n ? n.toLocaleString('en') : '';
  }
}

/** Asks which kinds there are. */
async function discover() {
  const accept = 'application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList';
  const both = await Promise.all(['/api', '/apis'].map((p) => json(p, {key: app.key, accept})));
  /** @type {Kind[]} */
  const kinds = [];
  for (const group of both.flatMap((d) => d.items ?? [])) {
    const seen = new Set();
    for (const v of group.versions ?? []) {
      for (const r of v.resources ?? []) {
        if (seen.has(r.resource) || !r.verbs?.includes('list')) continue;
        seen.add(r.resource);
        kinds.push({
          group: group.metadata?.name ?? '', version: v.version, resource: r.resource, kind: r.responseKind?.kind ?? r.resource,
          namespaced: r.scope === 'Namespaced', verbs: r.verbs, logs: !!r.subresources?.some((/** @type {any} */ s) => s.subresource === 'log'),
        });
      }
    }
  }
  const same = JSON.stringify(kinds) === JSON.stringify(app.kinds);
  if (!same) {
    app.kinds = kinds.filter((k) => k.group !== 'events.k8s.io');
    sidebar();
  }
}

let lost = false;

/** Says what is wrong with the connection; nothing if it is well. @param {string} text */
function trouble(text) {
  const e = byId('state');
  if (text) {
    lost = true;
    e.className = 'bad';
    e.textContent = `${text[0].toUpperCase()}${text.slice(1)}: trying again…`;
  } else if (lost) {
    lost = false;
    e.className = 'good';
    e.textContent = 'Connected again';
    setTimeout(() => { if (!lost) fill(e); }, 4000);
  }
}

/** Shows why a view cannot be shown. @param {Element} at @param {number} code @param {string} message */
function failed(at, code, message) {
  if (code === 401) return entrance('Your session has ended', 'It ends after twelve hours, and with the server.');
  fill(at, h('div.note', {role: 'alert'},
    h('h2', null, code === 403 ? 'You may not see this' : code === 404 ? 'This is not there' : code === 410 ? 'The history does not reach back so far' : 'This cannot be shown'),
    h('p', null, message),
    code === 403 && h('p.faint', null, 'Somebody who administers the cluster can give you a role that may list and watch it.'),
    app.place.at && h('p', null, h('button', {type: 'button', click: () => change({at: null})}, 'Back to now'))));
}

/** Shows what it takes to get in. @param {string} title @param {string} why */
function entrance(title, why) {
  view?.close();
  view = null;
  document.body.classList.add('out');
  fill(byId('view'), h('div.note', {role: 'alert'}, h('h2', null, title), h('p', null, why),
    h('p', null, 'Open the link that ', h('code', null, 'millrace up'), ' has printed, or print another one:'), h('pre', null, 'millrace page'),
    h('p.faint', null, 'A link can be used once, within ten minutes. If you open it in another tab, this one goes on by itself.')));
}

/** Begins, with a session. */
async function begin() {
  const s = current();
  if (!s) return entrance('Who are you?', 'This page shows a cluster to those it knows.');
  app.key = s.key;
  document.body.classList.remove('out');
  fill(byId('who'), h('b', null, s.user), h('button', {type: 'button', title: 'Ends the session in all tabs', click: leave}, 'Leave'));
  for (let pause = 500; ; pause = Math.min(pause * 2, 5000)) {
    try {
      await discover();
      trouble('');
      break;
    } catch (e) {
      if (!(e instanceof Failure)) throw e;
      if (e.code === 401) return entrance('Your session has ended', 'It ends after twelve hours, and with the server.');
      if (e.code !== 0) return failed(byId('view'), e.code, e.message);
      trouble(e.message);
      await new Promise((done) => setTimeout(done, pause));
    }
  }
  route();
}

async function leave() {
  await logout().catch(() => {});
  entrance('You have left', 'The session has ended.');
}

/** Which keys there are. */
function help() {
  const keys = [['/', 'find'], ['j  k', 'down, up'], ['Enter', 'open'], ['Esc', 'back'], ['g', 'what runs here'], ['[  ]', 'back and forth in time'], ['n', 'now'], ['?', 'this']];
  const d = /** @type {HTMLDialogElement} */ (byId('keys'));
  fill(d, h('h2', null, 'Keys'), h('dl', null, keys.map(([k, what]) => [h('dt', null, k.split('  ').map((one) => h('kbd', null, one))), h('dd', null, what)])),
    h('form', {method: 'dialog'}, h('button', null, 'Close')));
  d.showModal();
}

addEventListener('keydown', (e) => {
  if (e.ctrlKey || e.metaKey || e.altKey || document.querySelector('dialog[open]')) return;
  const typing = e.target instanceof HTMLInputElement || e.target instanceof HTMLSelectElement || e.target instanceof HTMLTextAreaElement;
  if (view?.key?.(e)) return e.preventDefault();
  if (typing) return;
  if (e.key === '?') help();
  else if (e.key === 'g') go('#/');
  else if (e.key === 'n') change({at: null});
  else if (e.key === '[' || e.key === ']') time.step(e.key === '[' ? -1 : 1);
  else if (e.key === 'Escape' && app.place.page === 'object' && app.place.kind) history.length > 1 ? history.back() : go(href(app.place.kind));
  else return;
  e.preventDefault();
});

byId('menu').addEventListener('click', () => byId('menu').setAttribute('aria-expanded', String(byId('side').classList.toggle('open'))));

addEventListener('hashchange', async () => {
  const code = takeCode();
  if (code) return enter(code);
  if (!app.key) return;
  if (location.hash.startsWith('#/list') && !parse().kind) await discover().catch(() => {}); // it may be new
  route();
});

// A tab that nobody looks at watches nothing: browsers have six connections to a server.
let hiding = 0;
document.addEventListener('visibilitychange', () => {
  clearTimeout(hiding);
  if (document.hidden) hiding = setTimeout(() => view?.pause?.(true), 20_000);
  else view?.pause?.(false);
});

whenOpened(begin);
setInterval(() => { if (app.key && !document.hidden && !document.body.classList.contains('out')) discover().then(links, () => {}); }, 30_000);

/** @param {string} code */
async function enter(code) {
  try {
    await login(code);
  } catch (e) {
    if (!current()) return entrance('This link lets nobody in any more', String(e instanceof Error ? e.message : e) + '.');
  }
  await begin();
}

const code = takeCode();
if (code) enter(code);
else begin();
