// What runs here: is it well, what has just happened, who is busy.
import {ask, Failure, tables, json, moment, wait} from './api.js';
import {bytes, clock, fill, h, span, svg} from './dom.js';
import {counts} from './main.js';
import {actor, eventTable, when} from './object.js';
import {sample} from './metrics.js';
import {tone} from './table.js';

const every = 3000;
const kept = 60;

export class Home {
  /** @param {HTMLElement} at @param {any} app */
  constructor(at, app) {
    this.app = app;
    this.ended = new AbortController();
    /** @type {number[]} */
    this.rates = [];
    this.parts = Object.fromEntries(['health', 'busy', 'loops', 'nodes', 'events', 'changes', 'store'].map((n) => [n, h('div', null, h('div.skeleton'))]));
    /** @param {string} title @param {string} name @param {string} [cls] */
    const card = (title, name, cls) => h('section.card' + (cls ? '.' + cls : ''), null, h('h2', null, title), this.parts[name]);
    at.append(h('div.home', null, card('Is it well?', 'health'), card('Requests', 'busy'), card('Loops', 'loops'), card('Nodes', 'nodes'), card('Store', 'store'), card('People changed', 'changes'), card('It just happened', 'events', 'wide')));
    app.changes('/history/apis/apps/v1/deployments');
    this.run();
  }

  close() { this.ended.abort(); }

  move() {
    this.ended.abort();
    this.ended = new AbortController();
    this.run();
    return true;
  }

  /** @param {boolean} hidden */
  pause(hidden) {
    if (hidden) this.ended.abort();
    else if (this.ended.signal.aborted) this.move();
  }

  async run() {
    const {signal} = this.ended;
    for (;;) {
      const past = this.app.place.at;
      const all = past ? [this.nodes(), this.events(), this.changes()] : [this.health(), this.metrics(), this.nodes(), this.events(), this.changes()];
      if (past) for (const n of ['health', 'busy', 'loops', 'store']) fill(this.parts[n], h('p.faint', null, 'This is not kept.'));
      const ends = await Promise.allSettled(all);
      if (signal.aborted) return;
      const failed = ends.map((e) => (e.status === 'rejected' ? e.reason : null)).filter(Boolean);
      for (const f of failed) if (!(f instanceof Failure)) throw f;
      const out = failed.find((f) => f.code === 401);
      if (out) return this.app.failed(/** @type {HTMLElement} */ (this.parts.health.closest('main')), 401, '');
      this.app.trouble(failed.find((f) => f.code === 0)?.message ?? '');
      if (past) return;
      try { await wait(every, signal); } catch { return; }
    }
  }

  /** Fills a part, or says why not. @param {string} name @param {() => Promise<any>} make */
  async part(name, make) {
    try {
      const made = await make();
      if (!this.ended.signal.aborted) fill(this.parts[name], made);
    } catch (e) {
      if (this.ended.signal.aborted) return;
      if (e instanceof Failure && e.code >= 400 && e.code !== 401) {
        fill(this.parts[name], h('p.faint', null, e.code === 403 ? 'You may not see this.' : e.message));
        return;
      }
      throw e;
    }
  }

  get now() { return this.app.place.at ? Date.parse(this.app.place.at) || Date.now() : Date.now(); }

  health() {
    return this.part('health', async () => {
      let text = '', well = true;
      try {
        text = await (await ask('/readyz?verbose', {key: this.app.key, signal: this.ended.signal, accept: '*/*'})).text();
      } catch (e) {
        if (!(e instanceof Failure) || e.code < 500) throw e;
        well = false;
        text = e.message;
      }
      const checks = text.split('\n').filter((l) => /^\[[+-]\]/.test(l));
      const bad = checks.filter((l) => l.startsWith('[-]'));
      this.version ??= (await json('/version', {key: this.app.key, signal: this.ended.signal})).gitVersion;
      return [h('p.big.' + (well && !bad.length ? 'good' : 'bad'), null, well && !bad.length ? 'Ready' : 'Not ready'),
        bad.length ? h('ul.plain', null, bad.map((l) => h('li.bad', null, l.slice(3)))) : h('p.faint', null, `${checks.length} checks pass`), h('p.faint', null, this.version, this.up && ` · up ${span(this.up)}`)];
    });
  }

  async metrics() {
    let text;
    try {
      text = await (await ask('/metrics', {key: this.app.key, signal: this.ended.signal, accept: '*/*'})).text();
    } catch (e) {
      if (e instanceof Failure && e.code === 403) {
        for (const n of ['busy', 'loops', 'store']) fill(this.parts[n], h('p.faint', null, 'You may not see this.'));
        return;
      }
      throw e;
    }
    const s = sample(text), last = this.last;
    this.last = s;
    this.up = Date.now() - s.number('process_start_time_seconds') * 1000;
    counts(s.by('apiserver_resource_objects', (l) => (l.group ? `${l.resource}.${l.group}` : l.resource)));
    fill(this.parts.store, facts([
      ['objects', s.sum('apiserver_resource_objects').toLocaleString('en')], ['watches', s.sum('apiserver_longrunning_requests').toLocaleString('en')],
      ['changes kept in memory', bytes(s.sum('millrace_watch_cache_window_bytes'))], ['memory of the program', bytes(s.number('process_resident_memory_bytes'))],
      ['history', document.body.classList.contains('nohistory') ? 'none' : 'kept'],
    ]));
    if (!last) return;
    const seconds = Math.max(0.5, (s.at - last.at) / 1000);
    /** @param {string} name @param {(l: Record<string, string>) => string} key @returns {[string, number][]} */
    const rates = (name, key) => {
      const before = last.by(name, key);
      return [...s.by(name, key)].map(([k, n]) => /** @type {[string, number]} */ ([k, (n - (before.get(k) ?? 0)) / seconds])).filter(([, n]) => n > 0.05).sort((a, b) => b[1] - a[1]);
    };
    const verbs = rates('apiserver_request_total', (l) => l.verb), who = rates('apiserver_flowcontrol_dispatched_requests_total', (l) => l.flow_schema);
    this.rates = [...this.rates, verbs.reduce((sum, [, n]) => sum + n, 0)].slice(-kept);
    const cpu = (s.number('process_cpu_seconds_total') - last.number('process_cpu_seconds_total')) / seconds;
    fill(this.parts.busy, h('p.big', null, rate(this.rates[this.rates.length - 1]), h('small', null, ' requests/s')), plot(this.rates), table(verbs.slice(0, 5), 'verb'), table(who.slice(0, 5), 'flow'), h('p.faint', null, `${Math.round(cpu * 100)} % of a core`));
    const depth = s.by('workqueue_depth', (l) => l.name), busy = rates('workqueue_adds_total', (l) => l.name), retries = new Map(rates('workqueue_retries_total', (l) => l.name));
    const oldest = s.by('workqueue_unfinished_work_seconds', (l) => l.name);
    const waits = [...depth].filter(([, n]) => n > 0).sort((a, b) => b[1] - a[1]);
    const names = [...new Set([...waits.map(([n]) => n), ...busy.map(([n]) => n)])].slice(0, 9);
    const added = new Map(busy);
    fill(this.parts.loops, names.length ? h('table.small', null, h('thead', null, h('tr', null, ['loop', 'waiting', 'added/s', 'retries/s', 'at it'].map((t) => h('th', null, t)))),
      h('tbody', null, names.map((n) => h('tr', null, h('td', null, n), num(depth.get(n) ?? 0, (depth.get(n) ?? 0) > 100 ? 'soso' : ''), num(rate(added.get(n) ?? 0)), num(rate(retries.get(n) ?? 0), (retries.get(n) ?? 0) > 0.5 ? 'soso' : ''), num((oldest.get(n) ?? 0) > 0.01 ? `${(oldest.get(n) ?? 0).toFixed(1)}s` : ''))))) :
      h('p.faint', null, `All ${depth.size} queues are empty.`));
  }

  nodes() {
    return this.part('nodes', async () => {
      const kind = this.app.kinds.find((/** @type {any} */ k) => k.resource === 'nodes' && !k.group);
      if (!kind) return null;
      const t = await json(moment('/api/v1/nodes?pretty=0&limit=500', this.app.place.at), {key: this.app.key, accept: tables, signal: this.ended.signal});
      const i = t.columnDefinitions.findIndex((/** @type {any} */ c) => c.name === 'Status');
      const not = t.rows.filter((/** @type {any} */ r) => !/^Ready/.test(r.cells[i]));
      const shown = [...not, ...t.rows.filter((/** @type {any} */ r) => !not.includes(r))].slice(0, 8);
      const total = t.rows.length + (t.metadata.remainingItemCount ?? 0);
      return [h('p.big.' + (not.length ? 'bad' : 'good'), null, not.length ? `${not.length} of ${total} not ready` : `${total} ready`),
        h('ul.plain', null, shown.map((/** @type {any} */ r) => h('li', null, h('a', {href: this.app.href(kind, '', r.cells[0])}, r.cells[0]), ' ', h('span.' + (tone(r.cells[i].split(',')[0]) || 'x'), null, r.cells[i])))),
        total > shown.length && h('p', null, h('a', {href: this.app.href(kind)}, `all ${total}`))];
    });
  }

  /** The newest events: as the history has them, or else some. */
  events() {
    return this.part('events', async () => {
      let items;
      try {
        items = this.app.place.at ? null : (await this.app.get('/history/api/v1/events?limit=40', this.ended.signal, null)).items.map((/** @type {any} */ c) => c.object).filter(Boolean);
      } catch (e) {
        if (!(e instanceof Failure) || e.code !== 400) throw e;
      }
      items ??= (await this.app.get('/api/v1/events?pretty=0&limit=500', this.ended.signal)).items;
      const seen = new Set();
      const rows = items.sort((/** @type {any} */ a, /** @type {any} */ b) => when(b) - when(a)).filter((/** @type {any} */ e) => !seen.has(e.metadata.uid) && seen.add(e.metadata.uid)).slice(0, 14);
      return rows.length ? eventTable(rows, this.now, (e) => this.about(e.involvedObject)) : h('p.faint', null, 'Nothing was reported in the last hour.');
    });
  }

  /** A link to what an event is about. @param {any} o */
  about(o) {
    const group = o?.apiVersion?.includes('/') ? o.apiVersion.split('/')[0] : '';
    const k = this.app.kinds.find((/** @type {any} */ k) => k.kind === o?.kind && k.group === group);
    return k ? h('a', {href: this.app.href(k, o.namespace, o.name)}, o.name) : h('span', null, o?.name ?? '');
  }

  /** What people have changed last, of what people change. */
  changes() {
    return this.part('changes', async () => {
      const names = ['apps/deployments', '/services', '/configmaps', '/namespaces', 'apps/statefulsets', 'batch/jobs'];
      const kinds = names.map((n) => this.app.kinds.find((/** @type {any} */ k) => `${k.group}/${k.resource}` === n)).filter(Boolean);
      const to = this.now;
      const lists = await Promise.allSettled(kinds.map((k) => this.app.get(`/history${this.app.path(k)}?limit=40`, this.ended.signal, null)));
      const none = lists.find((l) => l.status === 'rejected');
      if (lists.every((l) => l.status === 'rejected')) throw /** @type {PromiseRejectedResult} */ (none).reason;
      const all = lists.flatMap((l, i) => (l.status === 'fulfilled' ? l.value.items.map((/** @type {any} */ c) => ({...c, kind: kinds[i]})) : []))
        .filter((c) => c.user && !c.user.startsWith('system:') && Date.parse(c.time) <= to).sort((a, b) => Number(b.revision) - Number(a.revision)).slice(0, 10);
      if (!all.length) return h('p.faint', null, 'Nobody has changed anything that is remembered.');
      return h('ul.events', null, all.map((c) => h('li', null, h('span.ago', {title: clock(new Date(c.time))}, span(this.now - Date.parse(c.time))), actor(c),
        h('a', {href: this.app.href(c.kind, c.namespace, c.name, {tab: 'History'})}, `${c.kind.kind} ${c.name}`), c.type === 'DELETED' && h('span.soso', null, 'deleted'))));
    });
  }
}

/** @param {number} n */
const rate = (n) => (n >= 10 ? Math.round(n).toLocaleString('en') : n >= 0.05 ? n.toFixed(1) : '0');

/** @param {any} v @param {string} [cls] */
const num = (v, cls) => h('td.num' + (cls ? '.' + cls : ''), null, v);

/** @param {[string, number][]} rows @param {string} name */
function table(rows, name) {
  if (!rows.length) return null;
  const most = rows[0][1];
  return h('table.small', null, h('tbody', {'aria-label': name}, rows.map(([k, n]) => {
    const bar = h('i.bar');
    bar.style.width = `${Math.max(2, (n / most) * 100)}%`;
    return h('tr', null, h('td', null, k), h('td.barcell', null, bar), num(rate(n)));
  })));
}

/** @param {[string, string][]} all */
function facts(all) {
  return h('dl.pairs', null, all.map(([k, v]) => [h('dt', null, k), h('dd', null, v)]));
}

/** A small plot. @param {number[]} values */
function plot(values) {
  const most = Math.max(1, ...values), w = 240, high = 36;
  const points = values.map((v, i) => `${((i + kept - values.length) / (kept - 1)) * w},${high - 1 - (v / most) * (high - 3)}`).join(' ');
  return svg('svg', {viewBox: `0 0 ${w} ${high}`, class: 'plot', role: 'img', 'aria-label': `at most ${rate(most)} a second`, preserveAspectRatio: 'none'},
    svg('polyline', {points, fill: 'none', 'vector-effect': 'non-scaling-stroke'}));
}
