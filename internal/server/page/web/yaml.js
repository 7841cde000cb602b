// Objects as YAML, line by line, and who has set a line.
import {h} from './dom.js';

/** @typedef {{depth: number, dash: boolean, key: string|null, value: any, leaf: boolean, path: string}} Line */

const plain = /^[A-Za-z_./][\w./@-]*( [\w./@-]+)*$/;
const reserved = /^(true|false|null|yes|no|on|off|~|\.inf|\.nan)$/i;

/** A scalar as YAML. @param {any} v */
export function scalar(v) {
  if (v === null) return 'null';
  if (typeof v !== 'string') return JSON.stringify(v);
  return plain.test(v) && !reserved.test(v) ? v : JSON.stringify(v);
}

/** @param {any} v */
const empty = (v) => v === null || typeof v !== 'object' || Object.keys(v).length === 0;

/** The parts of a list have names where Kubernetes merges them by name, else numbers. @param {any} v @param {number} i */
function step(v, i) {
  return v && typeof v === 'object' && typeof v.name === 'string' ? `[${v.name}]` : v && typeof v === 'object' && typeof v.type === 'string' && v.status ? `[${v.type}]` : `[${i}]`;
}

/**
 * The lines of a value.
 * @param {any} v @param {string} [path] @param {number} [depth] @param {Line[]} [out]
 * @returns {Line[]}
 */
export function lines(v, path = '', depth = 0, out = []) {
  if (Array.isArray(v)) {
    v.forEach((one, i) => {
      const at = path + step(one, i);
      if (empty(one)) out.push({depth, dash: true, key: null, value: one, leaf: true, path: at});
      else {
        const first = out.length;
        lines(one, at, depth + 1, out);
        out[first].dash = true;
      }
    });
    return out;
  }
  for (const [key, one] of Object.entries(v)) {
    const at = path ? `${path}.${key}` : key;
    if (empty(one)) out.push({depth, dash: false, key, value: one, leaf: true, path: at});
    else {
      out.push({depth, dash: false, key, value: null, leaf: false, path: at});
      lines(one, at, Array.isArray(one) ? depth : depth + 1, out);
    }
  }
  return out;
}

/** All leaves of a value, by their paths. @param {any} v @returns {Map<string, any>} */
export function leaves(v) {
  const all = new Map();
  /** @param {any} v @param {string} path */
  const walk = (v, path) => {
    if (empty(v)) { all.set(path, v); return; }
    if (Array.isArray(v)) v.forEach((one, i) => walk(one, path + step(one, i)));
    else for (const [k, one] of Object.entries(v)) walk(one, path ? `${path}.${k}` : k);
  };
  walk(v, '');
  return all;
}

/** Draws a line. @param {Line} l @param {string} [cls] */
export function draw(l, cls) {
  const lead = '  '.repeat(l.dash ? l.depth - (l.key === null ? 0 : 1) : l.depth) + (l.dash ? '- ' : '');
  const kind = l.value === null || typeof l.value !== 'string' ? 'v.n' : 'v.s';
  const text = !l.leaf ? null : l.value !== null && typeof l.value === 'object' ? (Array.isArray(l.value) ? '[]' : '{}') : l.value;
  /** @type {any[]} */
  let shown = [];
  if (typeof text === 'string' && text.includes('\n') && l.value === text) {
    const indent = '\n' + '  '.repeat(l.depth + 1);
    shown = [' ', h('span.v.s', null, '|' + indent + text.replace(/\n$/, '').split('\n').join(indent))];
  } else if (l.leaf) shown = [l.key === null ? '' : ' ', h('span.' + kind, null, l.value !== null && typeof l.value === 'object' ? text : scalar(l.value))];
  return h('div.y' + (cls ? '.' + cls : ''), {'data-path': l.path}, lead, l.key !== null && [h('span.k', null, plain.test(l.key) ? l.key : JSON.stringify(l.key)), ':'], shown);
}

/**
 * Who has set which field, from the managed fields: the path, and the entry.
 * @param {any} o @returns {Map<string, any[]>}
 */
export function setters(o) {
  /** @type {Map<string, any[]>} */
  const by = new Map();
  for (const entry of o.metadata?.managedFields ?? []) {
    /** @param {any} f @param {any} v @param {string} path */
    const walk = (f, v, path) => {
      const inner = Object.keys(f).filter((k) => k !== '.');
      if (!inner.length || '.' in f) by.set(path, [...(by.get(path) ?? []), entry]);
      for (const k of inner) {
        if (k.startsWith('f:')) walk(f[k], v?.[k.slice(2)], path ? `${path}.${k.slice(2)}` : k.slice(2));
        else if (Array.isArray(v)) {
          const i = position(v, k);
          if (i >= 0) walk(f[k], v[i], path + step(v[i], i));
        }
      }
    };
    walk(entry.fieldsV1 ?? {}, o, '');
  }
  return by;
}

/** Where in a list the part is that a managed field names. @param {any[]} list @param {string} k */
function position(list, k) {
  if (k.startsWith('i:')) return Number(k.slice(2));
  let wanted;
  try { wanted = JSON.parse(k.slice(2)); } catch { return -1; }
  if (k.startsWith('v:')) return list.indexOf(wanted);
  return list.findIndex((one) => one && Object.entries(wanted).every(([name, v]) => one[name] === v));
}
