// Elements are made here, and text gets into them as text alone: nothing of a cluster is ever read as HTML.

/**
 * Makes an element.
 * @param {string} tag a tag, with classes after dots
 * @param {Record<string, any>|null} set attributes; functions are listeners
 * @param {...any} inside nodes and texts; lists of them; null is nothing
 * @returns {HTMLElement}
 */
export function h(tag, set, ...inside) {
  const [name, ...classes] = tag.split('.');
  const e = document.createElement(name);
  if (classes.length) e.className = classes.join(' ');
  for (const [key, value] of Object.entries(set ?? {})) {
    if (value == null || value === false) continue;
    if (typeof value === 'function') e.addEventListener(key, value);
    else e.setAttribute(key, value === true ? '' : String(value));
  }
  add(e, inside);
  return e;
}

/** @param {Element} e @param {any[]} inside */
export function add(e, inside) {
  for (const one of inside.flat(9)) if (one != null && one !== false) e.append(one instanceof Node ? one : String(one));
  return e;
}

/** Replaces what is in an element. @param {Element} e @param {...any} inside */
export function fill(e, ...inside) {
  e.replaceChildren();
  return add(e, inside);
}

/** @param {string} id @returns {HTMLElement} */
export const byId = (id) => /** @type {HTMLElement} */ (document.getElementById(id));

/** Makes an SVG element. @param {string} name @param {Record<string, any>} set @param {...Element} inside */
export function svg(name, set, ...inside) {
  const e = document.createElementNS('http://www.w3.org/2000/svg', name);
  for (const [key, value] of Object.entries(set)) e.setAttribute(key, String(value));
  e.append(...inside);
  return e;
}

/** How long ago something was, in Kubernetes' way: 12s, 5m, 3h, 2d. @param {number} ms */
export function span(ms) {
  const s = Math.max(0, Math.floor(ms / 1000));
  if (s < 120) return `${s}s`;
  const m = Math.floor(s / 60);
  if (m < 10) return s % 60 ? `${m}m${s % 60}s` : `${m}m`;
  if (m < 180) return `${m}m`;
  const hours = Math.floor(m / 60);
  if (hours < 8) return m % 60 ? `${hours}h${m % 60}m` : `${hours}h`;
  if (hours < 48) return `${hours}h`;
  const d = Math.floor(hours / 24);
  if (d < 8) return hours % 24 ? `${d}d${hours % 24}h` : `${d}d`;
  return d < 730 ? `${d}d` : `${Math.floor(d / 365)}y`;
}

/** The time of the day, with the day if it is another one. @param {Date} at */
export function clock(at) {
  const two = (/** @type {number} */ n) => String(n).padStart(2, '0');
  const time = `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
  const today = new Date();
  return at.toDateString() === today.toDateString() ? time : `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${time}`;
}

/** Bytes as people read them. @param {number} n */
export function bytes(n) {
  for (const unit of ['B', 'KiB', 'MiB', 'GiB']) {
    if (n < 1024 || unit === 'GiB') return `${n < 10 && unit !== 'B' ? n.toFixed(1) : Math.round(n)} ${unit}`;
    n /= 1024;
  }
  return '';
}
