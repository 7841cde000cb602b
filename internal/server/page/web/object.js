// One object: what it is now or was, its past, what belongs to it, and what it says.
import {ask, Failure, lines as readLines, moment, wait} from './api.js';
import {byId, clock, fill, h, span} from './dom.js';
import * as diff from './diff.js';
import * as yaml from './yaml.js';
import {tone} from './table.js';

/** @typedef {import('./main.js').Kind} Kind */

export class ObjectView {
  /** @param {HTMLElement} at @param {any} app @param {Kind} kind @param {string} ns @param {string} name */
  constructor(at, app, kind, ns, name) {
    this.app = app;
    this.kind = kind;
    this.ns = ns;
    this.name = name;
    this.at = at;
    this.path = app.path(kind, ns, name);
    this.ended = new AbortController();
    /** @type {any} */
    this.object = null;
    this.managed = false;
    this.revealed = false;
    this.head = h('div.objecthead');
    this.tabs = h('div.tabs', {role: 'tablist'});
    this.body = h('div.objectbody', {role: 'tabpanel', tabindex: '0'});
    at.append(this.head, this.tabs, this.body);
    app.changes('/history' + this.path);
    this.load();
  }

  get names() { return ['Overview', 'YAML', 'History', 'Events', ...(this.kind.logs ? ['Logs'] : [])]; }
  get tab() {
    const t = this.app.place.q.get('tab');
    return this.names.includes(t) ? t : 'Overview';
  }
  get now() { return this.app.place.at ? Date.parse(this.app.place.at) || Date.now() : Date.now(); }
  get secret() { return this.kind.resource === 'secrets' && !this.kind.group; }

  close() { this.ended.abort(); }

  move() {
    if (this.broken) return false; // all of it has to be drawn
    this.ended.abort();
    this.ended = new AbortController();
    this.load();
    return true;
  }

  /** @param {boolean} hidden */
  pause(hidden) {
    if (hidden) this.ended.abort();
    else if (this.ended.signal.aborted) this.move();
  }

  async load() {
    const {signal} = this.ended, {app} = this;
    for (let pause = 300; ; pause = Math.min(2 * pause, 5000)) {
      try {
        this.object = await app.get(this.path, signal);
        if (signal.aborted) return;
        this.gone = false;
        app.trouble('');
        this.draw();
        if (app.place.at || !this.kind.verbs.includes('watch')) return;
        pause = 300;
        await this.watch(signal);
      } catch (e) {
        if (signal.aborted) return;
        if (!(e instanceof Failure)) throw e;
        if (e.code === 404 && !app.place.at) return this.lost(e);
        if (e.code >= 400 && e.code < 500 && e.code !== 429 && (e.code !== 410 || app.place.at)) {
          this.broken = true;
          return app.failed(this.at, e.code, e.message);
        }
        app.trouble(e.message);
      }
      await wait(pause, signal).catch(() => {});
      if (signal.aborted) return;
    }
  }

  /** An object that is gone has a past, perhaps. @param {Failure} e */
  lost(e) {
    if (this.object) {
      this.gone = true;
      return this.draw();
    }
    this.gone = true;
    this.object = {metadata: {name: this.name, namespace: this.ns || undefined}};
    if (!this.app.place.q.get('tab')) this.app.change({tab: 'History'});
    this.draw();
  }

  /** @param {AbortSignal} signal */
  async watch(signal) {
    const field = encodeURIComponent(`metadata.name=${this.name}`);
    const answer = await ask(`${this.app.path(this.kind, this.ns)}?watch=1&fieldSelector=${field}&resourceVersion=${this.object.metadata.resourceVersion}`, {key: this.app.key, signal});
    for await (const some of readLines(answer, signal)) {
      let last = null;
      for (const line of some) if (line) last = JSON.parse(line);
      if (!last) continue;
      if (last.type === 'ERROR') throw new Failure(last.object?.code ?? 500, last.object?.message ?? 'the watch ended');
      if (last.type === 'BOOKMARK') continue;
      this.gone = last.type === 'DELETED';
      this.object = last.object;
      this.draw();
    }
  }

  draw() {
    const m = this.object.metadata ?? {};
    const age = m.creationTimestamp && span(this.now - Date.parse(m.creationTimestamp));
    fill(this.head, h('h1', null, h('small', null, this.kind.kind), m.name ?? this.name),
      h('p.facts', null, m.namespace && h('a', {href: this.app.href(this.kind, '', '', {q: 'ns:' + m.namespace})}, m.namespace), age && h('span', null, `${age} old`),
        m.resourceVersion && h('span.faint', null, `version ${m.resourceVersion}`), this.gone && h('span.bad', null, 'is gone'), m.deletionTimestamp && !this.gone && h('span.soso', null, 'is being deleted')),
      waiting(this.object));
    fill(this.tabs, this.names.map((t) => h('button', {type: 'button', role: 'tab', 'aria-selected': t === this.tab ? 'true' : 'false', click: () => { this.app.change({tab: t}); this.shownTab = ''; this.draw(); }}, t)));
    const again = this.shownTab === this.tab;
    if (again && (this.tab === 'Logs' || this.tab === 'History' && (this.comparing?.size || this.unfolded?.size))) return;
    if (!again) this.stopTab?.abort();
    this.stopTab = again && this.stopTab ? this.stopTab : new AbortController();
    this.ended.signal.addEventListener('abort', () => this.stopTab?.abort(), {once: true});
    this.shownTab = this.tab;
    const show = /** @type {Record<string, () => any>} */ ({Overview: () => this.overview(), YAML: () => this.yaml(), History: () => this.history(), Events: () => this.events(), Logs: () => this.logs()});
    Promise.resolve(show[this.tab]()).catch((e) => {
      if (!this.ended.signal.aborted) fill(this.body, h('p.nothing', {role: 'alert'}, String(e.message ?? e)));
    });
  }

  overview() {
    const o = this.object, m = o.metadata ?? {}, {app} = this;
    const owners = (m.ownerReferences ?? []).map((/** @type {any} */ r) => {
      const [group, version] = r.apiVersion.includes('/') ? r.apiVersion.split('/') : ['', r.apiVersion];
      const k = app.kinds.find((/** @type {Kind} */ k) => k.kind === r.kind && k.group === group) ?? app.kinds.find((/** @type {Kind} */ k) => k.kind === r.kind && k.version === version);
      return h('li', null, h('small', null, r.kind), k ? h('a', {href: app.href(k, k.namespaced ? m.namespace : '', r.name)}, r.name) : r.name, r.controller && h('span.faint', null, ' controls it'));
    });
    const owned = h('ul.plain', null, h('li.faint', null, '…'));
    const events = h('div');
    fill(this.body, h('div.columns', null,
      conditions(o),
      containers(o),
      section('Belongs to', owners.length && h('ul.plain', null, owners)),
      (this.ownedSection = section('Owns', owned)),
      section('Labels', m.labels && chips(m.labels, (k, v) => app.href(this.kind, '', '', {q: `${k}=${v}`}))),
      section('Annotations', m.annotations && pairs(m.annotations)),
      section('Status', status(o.status)),
      section('Events', events)));
    this.owned(owned).catch(() => fill(owned));
    this.eventRows(6).then((rows) => fill(events, rows.length ? eventTable(rows, this.now) : h('p.faint', null, 'None.')), () => fill(events, h('p.faint', null, 'They cannot be read.')));
  }

  /** Finds what an object owns, among the kinds that its kind makes. @param {HTMLElement} at */
  async owned(at) {
    /** @type {Record<string, string[]>} */
    const makes = {
      Deployment: ['apps/replicasets'], ReplicaSet: ['/pods'], StatefulSet: ['/pods', 'apps/controllerrevisions'], DaemonSet: ['/pods', 'apps/controllerrevisions'], Job: ['/pods'],
      CronJob: ['batch/jobs'], Service: ['discovery.k8s.io/endpointslices'], ReplicationController: ['/pods'], Node: ['coordination.k8s.io/leases'],
    };
    const custom = this.kind.group.includes('.') && !this.kind.group.endsWith('.k8s.io');
    const names = makes[this.kind.kind] ?? (custom ? ['apps/deployments', 'apps/statefulsets', '/services', '/configmaps', '/secrets', '/pods', 'batch/jobs'] : []);
    const uid = this.object.metadata.uid;
    const found = [];
    for (const name of names) {
      const k = this.app.kinds.find((/** @type {Kind} */ k) => `${k.group}/${k.resource}` === name);
      if (!k || !uid) continue;
      const ns = this.kind.kind === 'Node' ? 'kube-node-lease' : this.ns;
      const answer = await ask(moment(this.app.path(k, ns) + '?pretty=0&limit=2000', this.app.place.at),
        {key: this.app.key, signal: this.ended.signal, accept: 'application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json'});
      for (const one of (await answer.json()).items ?? []) {
        if (one.metadata.ownerReferences?.some((/** @type {any} */ r) => r.uid === uid)) found.push({k, m: one.metadata});
      }
    }
    if (!found.length) return this.ownedSection.remove();
    found.sort((a, b) => Date.parse(b.m.creationTimestamp) - Date.parse(a.m.creationTimestamp));
    fill(at, found.slice(0, 50).map(({k, m}) => h('li', null, h('small', null, k.kind), h('a', {href: this.app.href(k, m.namespace, m.name)}, m.name), h('span.faint', null, ' ' + span(this.now - Date.parse(m.creationTimestamp))))),
      found.length > 50 && h('li.faint', null, `and ${found.length - 50} more`));
  }

  yaml() {
    const o = structuredClone(this.object);
    const by = yaml.setters(o);
    if (!this.managed) delete o.metadata?.managedFields;
    if (this.secret && !this.revealed) for (const k of ['data', 'stringData']) for (const name of Object.keys(o[k] ?? {})) o[k][name] = '••••••••';
    const all = yaml.lines(o);
    const told = h('p.setter', {role: 'status'}, 'Select a line to see who has set it.');
    const text = h('div.yaml', {click: (/** @type {Event} */ e) => {
      const line = /** @type {HTMLElement|null} */ (/** @type {Element} */ (e.target).closest('.y'));
      if (!line) return;
      text.querySelector('.chosen')?.classList.remove('chosen');
      line.classList.add('chosen');
      fill(told, ...this.setter(line.dataset.path ?? '', by));
    }}, all.map((l) => yaml.draw(l)));
    const scroll = this.body.scrollTop;
    fill(this.body, h('div.tools', null,
      h('label', null, h('input', {type: 'checkbox', ...(this.managed && {checked: true}), change: () => { this.managed = !this.managed; this.yaml(); }}), ' managed fields'),
      this.secret && h('label', null, h('input', {type: 'checkbox', ...(this.revealed && {checked: true}), change: () => { this.revealed = !this.revealed; this.yaml(); }}), ' show the values'),
      told), text);
    this.body.scrollTop = scroll;
  }

  /** Who has set a field. @param {string} path @param {Map<string, any[]>} by */
  setter(path, by) {
    for (let p = path; p; p = p.replace(/(\.[^.[]+|\[[^\]]*\]|^[^.[]+)$/, '')) {
      const entries = by.get(p);
      if (entries) {
        return [h('b', null, path), ' set by ', entries.map((e, i) => [i > 0 && ' and ', h('b', null, e.manager), ` (${e.operation === 'Apply' ? 'apply' : 'update'}${e.subresource ? ' of ' + e.subresource : ''}${e.time ? ', ' + span(this.now - Date.parse(e.time)) + ' ago' : ''})`])];
      }
    }
    return [h('b', null, path), ' is not of any manager: the server has set it.'];
  }

  /** @param {number} most */
  async eventRows(most) {
    const m = this.object.metadata ?? {};
    const kind = this.app.kinds.find((/** @type {Kind} */ k) => k.resource === 'events' && k.group === '');
    if (!kind) return [];
    const selector = `involvedObject.name=${this.name},involvedObject.kind=${this.kind.kind}` + (m.uid && this.kind.kind !== 'Node' ? `,involvedObject.uid=${m.uid}` : '');
    const list = await this.app.get(`${this.app.path(kind, this.ns)}?pretty=0&limit=500&fieldSelector=${encodeURIComponent(selector)}`, this.ended.signal);
    return list.items.sort((/** @type {any} */ a, /** @type {any} */ b) => when(b) - when(a)).slice(0, most);
  }

  async events() {
    const rows = await this.eventRows(200);
    fill(this.body, rows.length ? eventTable(rows, this.now) : h('p.nothing', null, 'Nothing was reported about this object in the last hour.'));
  }

  async history() {
    if (this.shownTab !== 'History') return;
    const {app} = this;
    const before = app.place.at ? await json_revision(app, this.ended.signal) : '';
    const list = await app.get('/history' + this.path + '?limit=200' + (before ? `&before=${Number(before) + 1}` : ''), this.ended.signal, null);
    /** @type {any[]} */
    const items = list.items;
    this.comparing ??= new Set();
    const panel = h('div.versions');
    const rows = items.map((c, i) => {
      const changes = c.type === 'MODIFIED' ? diff.compare(items[i - 1]?.object, c.object) : [];
      const summary = c.type === 'ADDED' ? 'created' : c.type === 'DELETED' ? 'deleted' : i === 0 ? 'an older change' : diff.brief(changes, this.secret);
      const details = c.type === 'MODIFIED' && i > 0 ? diff.draw(changes, 200, this.secret) : null;
      const at = new Date(c.time);
      const box = /** @type {HTMLInputElement} */ (h('input', {type: 'checkbox', 'aria-label': 'Compare this version', ...(this.comparing?.has(c.revision) && {checked: true}), change: () => {
        box.checked ? this.comparing?.add(c.revision) : this.comparing?.delete(c.revision);
        this.compared(items, compared);
      }}));
      return h('li.version.' + c.type.toLowerCase(), null,
        h('details', {toggle: (/** @type {Event} */ e) => this.opened(e, c)}, h('summary', null, box, h('time', {datetime: c.time, title: at.toString()}, clock(at)), h('span.ago', null, span(this.now - at.getTime())),
          actor(c), h('span.sum', null, summary)),
        details, h('div.because'), c.unreadable && h('p.faint', null, c.unreadable),
        h('p', null, h('button', {type: 'button', click: () => app.change({at: c.time})}, 'Show the cluster at this moment'), h('span.faint', null, ` revision ${c.revision}`))));
    }).reverse();
    const compared = h('div.compared');
    fill(panel, h('p.faint', null, items.length ? 'The newest first. Choose two to compare them.' : 'The history has no change of this object.'), compared, h('ol.timeline', null, rows));
    fill(this.body, panel);
    this.compared(items, compared);
  }

  /** Asks why a change was made, when somebody looks at it. @param {Event} e @param {any} c */
  async opened(e, c) {
    const details = /** @type {HTMLDetailsElement} */ (e.target), at = details.querySelector('.because');
    this.unfolded ??= new Set();
    details.open ? this.unfolded.add(c.revision) : this.unfolded.delete(c.revision);
    if (!details.open || !at || at.childElementCount) return;
    const found = await causes(this.app, this.path, c, this.ended.signal).catch(() => null);
    if (found) fill(at, found);
  }

  /** Shows what is between two versions. @param {any[]} items @param {HTMLElement} at */
  compared(items, at) {
    const two = items.filter((c) => this.comparing?.has(c.revision));
    if (two.length < 2) return void fill(at, two.length === 1 && h('p.faint', null, 'Choose another one.'));
    const [a, b] = [two[0], two[two.length - 1]];
    const changes = diff.compare(a.object, b.object);
    fill(at, h('h3', null, `From ${clock(new Date(a.time))} to ${clock(new Date(b.time))}`), changes.length ? diff.draw(changes, 500, this.secret) : h('p', null, 'Nothing that people look at is different.'));
  }

  async logs() {
    if (this.app.place.at) return void fill(this.body, h('p.nothing', null, 'What containers have written is not kept with the history. ', h('button', {type: 'button', click: () => this.app.change({at: null})}, 'Back to now')));
    const names = [...(this.object.spec?.initContainers ?? []), ...(this.object.spec?.containers ?? [])].map((c) => c.name);
    const chosen = this.container && names.includes(this.container) ? this.container : names[names.length - (this.object.spec?.containers?.length ?? 1)];
    const out = h('pre.logs', {tabindex: '0'});
    const said = h('span.faint', {role: 'status'});
    fill(this.body, h('div.tools', null, h('label', null, 'Container ', h('select', {change: (/** @type {any} */ e) => { this.container = e.target.value; this.shownTab = ''; this.draw(); }}, names.map((n) => h('option', {value: n, ...(n === chosen && {selected: true})}, n)))), said), out);
    const {signal} = /** @type {AbortController} */ (this.stopTab);
    for (let pause = 500; !signal.aborted; pause = Math.min(pause * 2, 5000)) {
      try {
        const answer = await ask(`${this.path}/log?container=${encodeURIComponent(chosen)}&tailLines=1000&follow=true`, {key: this.app.key, signal, accept: '*/*'});
        out.replaceChildren();
        said.textContent = 'follows';
        for await (const some of readLines(answer, signal)) {
          const end = out.scrollHeight - out.scrollTop - out.clientHeight < 40;
          out.append(...some.map((l) => h('div', null, l || ' ')));
          while (out.childElementCount > 5000) out.firstElementChild?.remove();
          if (end) out.scrollTop = out.scrollHeight;
          pause = 500;
        }
        said.textContent = out.childElementCount ? 'has ended' : 'has written nothing';
        return;
      } catch (e) {
        if (signal.aborted) return;
        said.textContent = e instanceof Error ? e.message : String(e);
        if (e instanceof Failure && e.code >= 400 && e.code < 500 && e.code !== 429) return;
      }
      await wait(pause, signal).catch(() => {});
    }
  }

  /** @param {KeyboardEvent} e */
  key(e) {
    if (e.target instanceof HTMLSelectElement || e.target instanceof HTMLInputElement && e.target.type !== 'checkbox' || byId('time').contains(/** @type {Node} */ (e.target))) return false;
    const n = Number(e.key);
    if (n >= 1 && n <= this.names.length) {
      this.app.change({tab: this.names[n - 1]});
      this.shownTab = '';
      this.draw();
      return true;
    }
    const by = {j: 60, k: -60}[e.key];
    if (by) { (this.body.querySelector('.logs') ?? this.body).scrollBy(0, by); return true; }
    return false;
  }
}

/** The revision of the moment that is looked at. @param {any} app @param {AbortSignal} signal */
async function json_revision(app, signal) {
  const m = await app.get(`/at/${encodeURIComponent(app.place.at)}`, signal, null);
  return m.revision;
}

/** @param {any} e an event */
export function when(e) {
  return Date.parse(e.lastTimestamp ?? e.series?.lastObservedTime ?? e.eventTime ?? e.metadata?.creationTimestamp ?? '') || 0;
}

/** @param {any[]} rows @param {number} now @param {(e: any) => Node|string} [about] */
export function eventTable(rows, now, about) {
  return h('ul.events', null, rows.map((e) => h('li', null, h('span.ago', null, span(now - when(e))), h('b.' + (tone(e.type) || 'x'), null, e.reason), about && about(e),
    h('span', null, e.message), (e.count ?? e.series?.count ?? 1) > 1 && h('small', null, `${e.count ?? e.series.count} ×`))));
}

/** Who made a change: people and programs look different. @param {any} c */
export function actor(c) {
  if (!c.user) return h('span.actor.faint', null, 'unknown');
  const name = c.user.replace(/^system:serviceaccount:[^:]+:/, '').replace(/^system:/, '');
  const program = (c.program ?? '').replace(/\/.*/, '');
  const person = !c.user.startsWith('system:');
  return h('span.actor' + (person ? '.person' : ''), {title: `${c.user} · ${c.program ?? ''}`}, h('b', null, name), program && program !== name && h('i', null, program), c.verb && h('em', null, c.verb));
}

/**
 * Why a change was made, back to its root, and what it set off.
 * @param {any} app @param {string} path of the object @param {any} c the change @param {AbortSignal} signal
 */
async function causes(app, path, c, signal) {
  const [why, effects] = await Promise.all(['/why', '/effects'].map((ask) => app.get(`${ask}${path}?at=${c.revision}`, signal, null).catch((/** @type {any} */ e) => {
    if (e instanceof Failure) return null; // a server that does not know causes, or a change that nobody may see any more
    throw e;
  })));
  return [why && chain(why, app), effects && effects.items.length > 1 && effected(effects, app)];
}

/** @param {any} why @param {any} app */
function chain(why, app) {
  const hops = why.items;
  if (hops.length < 2 && !hops[0]?.cause && !why.ends) return null;
  return h('div.why', null, h('h3', null, 'Why'), h('ol', null, hops.map((/** @type {any} */ x, /** @type {number} */ i) => {
    const next = hops[i + 1], by = x.cause;
    return h('li', null, i > 0 && h('span.ago', null, '+' + delay(x, hops[i - 1])), x.hidden ? h('span.faint', null, 'something that you may not see') : [actor(x), named(x, app), h('span.sum', null, said(x))],
      by?.loop && h('p.faint', null, `the loop ${by.loop}${by.key ? ' for ' + by.key : ''}`, by.decision && `: ${by.decision}`, next && (by.count ?? by.changes?.length ?? 1) > 1 && `, because of ${by.count ?? by.changes.length} changes`, ' ↓'));
  })), why.ends && h('p.faint', null, `It goes no further: ${why.ends}.`));
}

/** @param {any} list @param {any} app */
function effected(list, app) {
  const [root, ...rest] = list.items;
  /** @type {Map<string, any[]>} */
  const by = new Map();
  for (const e of rest) by.set(e.because, [...(by.get(e.because) ?? []), e]);
  let left = 60;
  /** @param {any} of @returns {any} */
  const tree = (of) => {
    const all = (by.get(of.revision) ?? []).slice(0, Math.max(0, left));
    left -= all.length;
    return all.length > 0 && h('ul', null, all.map((e) => h('li', null, h('span.ago', null, '+' + delay(root, e)), actor(e), named(e, app), h('span.faint', null, e.type === 'ADDED' ? 'created' : e.type === 'DELETED' ? 'deleted' : 'changed'), tree(e))));
  };
  const shown = tree(root), hidden = list.hidden ? h('p.faint', null, `and ${list.hidden} that you may not see`) : null;
  return h('div.why.effects', null, h('h3', null, `What it set off: ${rest.length}${list.more ? ' or more' : ''} changes`), shown, rest.length > 60 && h('p.faint', null, `and ${rest.length - 60} more`), hidden);
}

/** What a change has changed. @param {any} x */
function said(x) {
  if (x.type === 'ADDED') return 'created';
  if (x.type === 'DELETED') return 'deleted';
  return x.previous && x.object ? diff.brief(diff.compare(x.previous, x.object), x.resource === 'secrets') : '';
}

/** How much time is between two changes. @param {any} from @param {any} to */
function delay(from, to) {
  const ms = Math.abs(Date.parse(to.time) - Date.parse(from.time));
  return ms < 1000 ? `${ms}ms` : ms < 60_000 ? `${(ms / 1000).toFixed(1)}s` : span(ms);
}

/** A link to what a change has changed. @param {any} c @param {any} app */
function named(c, app) {
  const [resource, ...group] = (c.resource ?? '').split('.');
  const k = app.kinds.find((/** @type {Kind} */ k) => k.resource === resource && k.group === group.join('.'));
  const text = `${k?.kind ?? resource} ${c.name}`;
  return k ? h('a', {href: app.href(k, c.namespace, c.name, {tab: 'History'})}, text) : h('b', null, text);
}

/** What a pod waits for, and other things that need a look. @param {any} o */
function waiting(o) {
  const out = [];
  if (o.kind === 'Pod') {
    for (const c of o.status?.conditions ?? []) if (c.type === 'PodScheduled' && c.status !== 'True') out.push(`Waits for a node: ${c.message ?? c.reason ?? ''}`);
    for (const s of [...(o.status?.initContainerStatuses ?? []), ...(o.status?.containerStatuses ?? [])]) {
      const w = s.state?.waiting, t = s.state?.terminated;
      if (w) out.push(`${s.name} waits: ${w.reason ?? ''} ${w.message ?? ''}`);
      if (t && t.exitCode !== 0) out.push(`${s.name} ended with ${t.exitCode}: ${t.reason ?? ''} ${t.message ?? ''}`);
    }
  } else {
    for (const c of o.status?.conditions ?? []) if ((c.type === 'Progressing' || c.type === 'Available' || c.type === 'Ready') && c.status === 'False') out.push(`${c.type} is false: ${c.message ?? c.reason ?? ''}`);
  }
  if (o.metadata?.deletionTimestamp && o.metadata.finalizers?.length) out.push(`Its end waits for ${o.metadata.finalizers.join(', ')}`);
  return out.length ? h('ul.waits', {role: 'status'}, out.map((t) => h('li', null, t))) : null;
}

/** @param {string} title @param {any} inside */
function section(title, inside) {
  return inside ? h('section.card', null, h('h2', null, title), inside) : h('span', {hidden: true});
}

/** @param {any} o */
function conditions(o) {
  const all = o.status?.conditions;
  if (!Array.isArray(all) || !all.length) return null;
  /** @param {any} c */
  const look = (c) => {
    const bad = /(Pressure|Unavailable|Failed|Failure|Degraded)$/.test(c.type);
    return c.status === 'True' ? (bad ? 'bad' : 'good') : c.status === 'False' ? (bad ? 'faint' : 'soso') : 'faint';
  };
  return section('Conditions', h('ul.conditions', null, all.map((c) => h('li', null, h('b.' + look(c), null, c.type), h('span', null, c.status === 'True' ? '' : c.status, ' ', c.reason ?? ''), c.message && h('p.faint', null, c.message)))));
}

/** @param {any} o */
function containers(o) {
  const list = o.spec?.containers ?? o.spec?.template?.spec?.containers;
  if (!Array.isArray(list)) return null;
  const is = new Map((o.status?.containerStatuses ?? []).map((/** @type {any} */ s) => [s.name, s]));
  return section('Containers', h('ul.plain', null, list.map((c) => {
    const s = is.get(c.name), state = s && Object.keys(s.state ?? {})[0];
    return h('li', null, h('b', null, c.name), ' ', h('code', null, c.image ?? ''), s && h('span.' + (s.ready ? 'good' : 'soso'), null, ` ${state ?? ''}`), s?.restartCount > 0 && h('span.soso', null, ` ${s.restartCount} restarts`));
  })));
}

/** @param {any} s */
function status(s) {
  if (!s || typeof s !== 'object') return null;
  const flat = Object.entries(s).filter(([, v]) => v === null || typeof v !== 'object');
  return flat.length ? pairs(Object.fromEntries(flat)) : null;
}

/** @param {Record<string, any>} all */
function pairs(all) {
  return h('dl.pairs', null, Object.entries(all).map(([k, v]) => [h('dt', null, k), h('dd', null, String(v).length > 400 ? String(v).slice(0, 400) + '…' : v)]));
}

/** @param {Record<string, string>} all @param {(k: string, v: string) => string} to */
function chips(all, to) {
  return h('p.chips', null, Object.entries(all).map(([k, v]) => h('a', {href: to(k, v)}, k, h('i', null, '='), v)));
}
