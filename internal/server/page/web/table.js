// A table of objects. The rows are in a worker; here are those on the screen.
import {byId, fill, h, span} from './dom.js';

const height = 28; // of a row, as in the style
const spare = 20; // rows above and below the screen
// The worker's address is constant. Browsers let no other script become one.
const trusted = globalThis.trustedTypes?.createPolicy('millrace', {createScriptURL: () => new URL('rows.js', import.meta.url).pathname});

/** @typedef {import('./main.js').Kind} Kind */

export class Table {
  /** @param {HTMLElement} at @param {any} app @param {Kind} kind */
  constructor(at, app, kind) {
    this.app = app;
    this.kind = kind;
    this.at = at;
    this.selected = -1;
    /** @type {Map<number, HTMLElement>} */
    this.lines = new Map();
    /** @type {{name: string, priority: number, age: boolean}[]} */
    this.columns = [];
    this.shown = 0;
    this.form = '';
    this.sort = app.place.q.get('sort') ?? '';
    this.down = app.place.q.get('down') === '1';
    this.input = /** @type {HTMLInputElement} */ (h('input', {
      type: 'search', placeholder: 'Find: words, ns:…, status:…, app=web, -not', 'aria-label': 'Find', value: app.place.q.get('q') ?? '', spellcheck: 'false', autocomplete: 'off',
      input: () => this.ask(),
    }));
    this.count = h('span.count', {role: 'status'}, '…');
    this.heads = h('div.heads', {role: 'row'});
    this.body = h('div.body', {role: 'rowgroup'});
    this.grid = h('div.grid', {role: 'grid', tabindex: '0', 'aria-label': kind.resource, scroll: () => this.scrolled()}, this.heads, this.body);
    at.append(h('div.tools', null, h('h1', null, kind.kind), this.input, this.count), this.grid);
    this.body.addEventListener('click', (e) => {
      const line = /** @type {HTMLElement|null} */ (/** @type {Element} */ (e.target).closest('[data-i]'));
      if (line) this.open(Number(line.dataset.i));
    });
    this.size = new ResizeObserver(() => { this.layout(); this.scrolled(); });
    this.size.observe(this.grid);
    this.worker = new Worker(trusted ? trusted.createScriptURL('') : new URL('rows.js', import.meta.url).pathname, {type: 'module'});
    this.worker.onmessage = (e) => this.told(e.data);
    this.worker.onerror = (e) => app.failed(this.grid, 0, e.message);
    this.load(false);
    this.tick = setInterval(() => this.ages(), 1000);
    this.grid.focus({preventScroll: true});
    app.changes('/history' + app.path(kind));
  }

  /** @param {boolean} keep */
  load(keep) {
    const {app, kind} = this;
    this.worker.postMessage({
      type: 'open', keep, path: app.path(kind), key: app.key, at: app.place.at, watch: kind.verbs.includes('watch'), q: this.input.value, sort: this.sort, down: this.down,
    });
  }

  /** Shows another moment in place. */
  move() {
    if (this.broken) return false; // all of it has to be drawn
    this.load(true);
    return true;
  }

  close() {
    this.worker.terminate();
    this.size.disconnect();
    clearInterval(this.tick);
  }

  /** @param {boolean} hidden */
  pause(hidden) { this.worker.postMessage({type: hidden ? 'pause' : 'resume'}); }

  ask() {
    this.app.change({q: this.input.value, sort: this.sort, down: this.down ? '1' : null});
    this.selected = -1;
    this.grid.scrollTop = 0;
    this.worker.postMessage({type: 'query', q: this.input.value, sort: this.sort, down: this.down});
  }

  scrolled() {
    const from = Math.max(0, Math.floor(this.grid.scrollTop / height) - spare), to = Math.ceil((this.grid.scrollTop + this.grid.clientHeight) / height) + spare;
    if (from === this.from && to === this.to) return;
    this.from = from;
    this.to = to;
    this.worker.postMessage({type: 'window', from, to});
  }

  /** @param {any} m */
  told(m) {
    if (m.type === 'failed') {
      this.broken = true;
      return this.app.failed(this.at, m.code, m.message);
    }
    if (m.type === 'found') return this.found(m);
    if (m.type === 'count') { this.count.textContent = `${m.total.toLocaleString('en')}…`; return; }
    this.app.trouble(m.trouble);
    const form = m.columns.map((/** @type {any} */ c) => c.name).join('\n');
    if (form !== this.form) {
      this.form = form;
      this.columns = m.columns;
      this.lines.forEach((e) => e.remove());
      this.lines.clear();
      this.widths = null;
    }
    this.shown = m.shown;
    this.count.textContent = m.loading && m.total === 0 ? '…' : (m.shown === m.total ? '' : `${m.shown.toLocaleString('en')} of `) + m.total.toLocaleString('en') + (m.loading ? '…' : '');
    this.body.style.height = `${m.shown * height}px`;
    this.grid.setAttribute('aria-rowcount', String(m.shown));
    if (!this.widths && m.rows.length) this.measure(m.rows);
    this.empty(m);
    this.draw(m.from, m.rows);
  }

  /** Says that there is nothing. @param {any} m */
  empty(m) {
    const nothing = !m.loading && m.shown === 0;
    this.nothing ??= h('p.nothing');
    if (!nothing) return this.nothing.remove();
    this.nothing.textContent = m.total ? 'Nothing here has all these words.' : `There are no ${this.kind.resource}${this.app.place.at ? ' at this moment' : ''}.`;
    this.body.after(this.nothing);
  }

  /** Finds how wide the columns are, from the first rows. @param {any[]} rows */
  measure(rows) {
    this.widths = this.columns.map((c, i) => {
      let w = c.name.length + 2;
      for (const r of rows) w = Math.max(w, Math.min(44, String(c.age ? '00d00h' : r.cells[i] ?? '').length));
      return w;
    });
    this.nsWidth = this.kind.namespaced ? Math.max(10, ...rows.map((r) => Math.min(24, r.ns.length))) : 0;
    this.layout();
  }

  /** Divides the width among the columns that there is space for. */
  layout() {
    if (!this.widths) return;
    const letter = 7.4, space = this.grid.clientWidth - 24;
    let left = space - 18 * letter;
    this.visible = this.columns.map((c, i) => {
      if (i === 0) return true;
      const need = this.widths[i] * letter + 20;
      if (c.priority > 0 && left - need < 120 || left - need < 0) return false;
      left -= need;
      return true;
    });
    this.showNs = this.nsWidth > 0 && left > this.nsWidth * letter + 20;
    const parts = [this.showNs ? `${this.nsWidth * letter + 20}px` : '', ...this.visible.map((v, i) => (!v ? '' : i === 0 ? `minmax(14ch, ${this.widths[0] * 8.4 + 34}px)` : `minmax(${Math.min(this.widths[i], 8) * letter}px, ${this.widths[i] * letter + 20}px)`))];
    this.grid.style.setProperty('--columns', parts.filter(Boolean).join(' '));
    this.lines.forEach((e) => e.remove());
    this.lines.clear();
    this.from = -1;
    this.drawHeads();
    this.scrolled();
  }

  drawHeads() {
    /** @param {string} name @param {string} key */
    const head = (name, key) => h('button', {
      type: 'button', role: 'columnheader', 'aria-sort': this.sort === key ? (this.down ? 'descending' : 'ascending') : 'none',
      click: () => { this.down = this.sort === key ? !this.down : false; this.sort = key; this.drawHeads(); this.ask(); },
    }, name);
    fill(this.heads, this.showNs && head('Namespace', 'Namespace'), this.columns.map((c, i) => this.visible[i] && head(c.name, c.name)));
  }

  /** @param {number} from @param {any[]} rows */
  draw(from, rows) {
    const to = from + rows.length;
    for (const [i, e] of this.lines) {
      if (i < from || i >= to) { e.remove(); this.lines.delete(i); }
    }
    rows.forEach((r, k) => this.line(from + k, r));
  }

  /** Draws a row, or changes what has changed of it. @param {number} i @param {any} r */
  line(i, r) {
    let e = this.lines.get(i);
    if (!e) {
      e = h('div.line', {role: 'row', 'data-i': i, 'aria-rowindex': i + 1});
      e.style.transform = `translateY(${i * height}px)`;
      const count = (this.showNs ? 1 : 0) + this.visible.filter(Boolean).length;
      for (let n = 0; n < count; n++) e.append(h('span', {role: 'gridcell'}));
      this.lines.set(i, e);
      this.body.append(e);
    }
    const texts = this.columns.map((c, n) => (!this.visible[n] ? null : c.age ? this.age(r) : n === 0 ? r.name : r.cells[n])).filter((v) => v !== null);
    if (this.showNs) texts.unshift(r.ns);
    const offset = this.showNs ? 1 : 0;
    texts.forEach((v, n) => {
      const cell = /** @type {HTMLElement} */ (/** @type {HTMLElement} */ (e).children[n]), text = v === '<none>' || v === '' || v == null ? '–' : String(v);
      if (cell.textContent !== text) cell.textContent = text;
      const look = n === offset ? 'name' : n < offset ? 'ns' : tone(text);
      if (cell.className !== look) cell.className = look;
    });
    e.dataset.created = r.created;
    const flash = r.at > Date.now() - 1500 && e.dataset.at !== String(r.at);
    e.dataset.at = r.at;
    if (flash) { e.classList.remove('flash'); void e.offsetWidth; e.classList.add('flash'); }
    e.setAttribute('aria-selected', String(i === this.selected));
  }

  /** @param {any} r */
  age(r) {
    const i = this.columns.findIndex((c) => c.age);
    return r.created ? span((this.app.place.at ? Date.parse(this.app.place.at) || Date.now() : Date.now()) - r.created) : r.cells[i];
  }

  ages() {
    const n = this.columns.findIndex((c) => c.age);
    if (n < 0 || !this.visible?.[n] || this.app.place.at || document.hidden) return;
    const column = this.visible.slice(0, n).filter(Boolean).length + (this.showNs ? 1 : 0);
    for (const e of this.lines.values()) {
      const created = Number(e.dataset.created), cell = e.children[column];
      const text = created ? span(Date.now() - created) : cell.textContent ?? '';
      if (cell.textContent !== text) cell.textContent = text;
    }
  }

  /** @param {number} i */
  select(i) {
    if (!this.shown) return;
    this.selected = Math.max(0, Math.min(this.shown - 1, i));
    const top = this.selected * height, g = this.grid;
    const head = this.heads.offsetHeight;
    if (top < g.scrollTop) g.scrollTop = top;
    if (top + height > g.scrollTop + g.clientHeight - head) g.scrollTop = top + height - g.clientHeight + head;
    for (const [n, e] of this.lines) e.setAttribute('aria-selected', String(n === this.selected));
    this.scrolled();
  }

  /** @param {number} i */
  open(i) { this.worker.postMessage({type: 'find', index: i}); }

  /** @param {any} m */
  found(m) {
    if (m.row) this.app.go(this.app.href(this.kind, m.row.ns, m.row.name));
  }

  /** @param {KeyboardEvent} e */
  key(e) {
    if (e.target === this.input) {
      if (e.key === 'Escape' && this.input.value) { this.input.value = ''; this.ask(); return true; }
      if (e.key === 'Escape' || e.key === 'Enter' || e.key === 'ArrowDown') { this.grid.focus(); this.select(Math.max(0, this.selected)); return true; }
      return false;
    }
    if (e.target instanceof HTMLButtonElement && (e.key === 'Enter' || e.key === ' ') || byId('time').contains(/** @type {Node} */ (e.target))) return false;
    const page = Math.max(1, Math.floor(this.grid.clientHeight / height) - 2);
    switch (e.key) {
      case '/': this.input.focus(); this.input.select(); return true;
      case 'j': case 'ArrowDown': this.select(this.selected + 1); return true;
      case 'k': case 'ArrowUp': this.select(this.selected - 1); return true;
      case 'PageDown': this.select(this.selected + page); return true;
      case 'PageUp': this.select(this.selected - page); return true;
      case 'Home': this.select(0); return true;
      case 'End': case 'G': this.select(this.shown - 1); return true;
      case 'Enter': if (this.selected >= 0) this.open(this.selected); return true;
      case 'Escape': if (!this.input.value) return false; this.input.value = ''; this.ask(); return true;
    }
    return false;
  }
}

/** The colour of a word that says how something is. @param {string} text */
export function tone(text) {
  if (/^(Running|Ready|Active|Bound|Complete|Completed|Succeeded|True|Available|Healthy|Normal)$/.test(text)) return 'good';
  if (/(Error|Failed|CrashLoop|BackOff|NotReady|Evicted|OOMKilled|Lost|Unknown|Warning|Invalid)/.test(text)) return 'bad';
  if (/^(Pending|Terminating|ContainerCreating|PodInitializing|Init:.*|Released|Suspended|Creating|SchedulingDisabled)/.test(text)) return 'soso';
  const part = /^(\d+)\/(\d+)$/.exec(text);
  if (part) return part[1] === part[2] ? 'num' : 'soso num';
  return /^-?[\d.]+[a-zA-Z%]{0,2}$/.test(text) ? 'num' : text === '–' ? 'faint' : '';
}
