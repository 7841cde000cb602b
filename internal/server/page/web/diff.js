// What has changed from one version of an object to the next.
import {h} from './dom.js';
import {leaves, scalar} from './yaml.js';

/** @typedef {{path: string, from: any, to: any}} Change */

/** What changes with every write, and says nothing. */
const noise = /^(metadata\.(managedFields|resourceVersion|generation)\b|status\.observedGeneration$)/;

/** @param {any} from @param {any} to @param {boolean} [everything] @returns {Change[]} */
export function compare(from, to, everything) {
  const a = from ? leaves(from) : new Map(), b = to ? leaves(to) : new Map();
  /** @type {Change[]} */
  const out = [];
  for (const [path, v] of a) {
    if (!b.has(path)) out.push({path, from: v, to: undefined});
    else if (JSON.stringify(v) !== JSON.stringify(b.get(path))) out.push({path, from: v, to: b.get(path)});
  }
  for (const [path, v] of b) if (!a.has(path)) out.push({path, from: undefined, to: v});
  return everything ? out : out.filter((c) => !noise.test(c.path)).sort((x, y) => rank(x) - rank(y));
}

/** What people want first. @param {Change} c */
function rank(c) {
  return c.path.startsWith('spec') || c.path.startsWith('data') ? 0 : c.path.startsWith('metadata') ? 1 : /Time$|timestamp/i.test(c.path) ? 3 : 2;
}

/** Draws changes. @param {Change[]} changes @param {number} [most] @param {boolean} [secret] */
export function draw(changes, most = 200, secret = false) {
  const text = (/** @type {any} */ v, /** @type {string} */ path) => (secret && path.startsWith('data') ? '••••' : short(v));
  return h('div.diff', null, changes.slice(0, most).map((c) => h('div.change', null, h('span.k', null, c.path),
    c.from !== undefined && h('del', null, text(c.from, c.path)), c.from !== undefined && c.to !== undefined && h('i', null, '→'), c.to !== undefined && h('ins', null, text(c.to, c.path)))),
  changes.length > most && h('div.faint', null, `and ${changes.length - most} more`));
}

/** @param {any} v */
function short(v) {
  const s = v !== null && typeof v === 'object' ? JSON.stringify(v) : scalar(v);
  return s.length > 300 ? s.slice(0, 300) + '…' : s;
}

/** One line about changes. @param {Change[]} changes @param {boolean} [secret] */
export function brief(changes, secret = false) {
  const one = changes[0];
  if (!one) return 'nothing that people look at';
  const name = one.path.replace(/^(spec|status|metadata)\./, '');
  const hide = secret && one.path.startsWith('data');
  const what = hide ? 'changed' : one.from === undefined ? `= ${clip(one.to)}` : one.to === undefined ? 'removed' : `${clip(one.from)} → ${clip(one.to)}`;
  return `${name} ${what}` + (changes.length > 1 ? `, ${changes.length - 1} more` : '');
}

/** @param {any} v */
function clip(v) {
  const s = v !== null && typeof v === 'object' ? JSON.stringify(v) : String(v);
  return s.length > 40 ? s.slice(0, 38) + '…' : s;
}
