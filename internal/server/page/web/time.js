// The time bar: when things have changed, and the moment that is looked at.
import {Failure} from './api.js';
import {clock, fill, h, span} from './dom.js';

/** @type {[string, number][]} */
const ranges = [['10m', 600], ['1h', 3600], ['6h', 6 * 3600], ['24h', 24 * 3600]];
const bars = 120;

export class TimeBar {
  /** @param {HTMLElement} at @param {any} app */
  constructor(at, app) {
    this.app = app;
    this.range = 600;
    /** @type {string|null} */
    this.path = null;
    /** @type {number[]} times of changes */
    this.times = [];
    this.playing = 0;
    this.canvas = /** @type {HTMLCanvasElement} */ (h('canvas', {'aria-hidden': 'true'}));
    this.slider = /** @type {HTMLInputElement} */ (h('input', {
      type: 'range', min: '0', max: '1000', value: '1000', 'aria-label': 'Moment', input: () => this.moved(), change: () => this.moved(true),
    }));
    this.label = h('output');
    this.now = h('button', {type: 'button', title: 'n', click: () => this.go(null)}, 'now');
    this.play = h('button', {type: 'button', 'aria-label': 'Play, ten times as fast', click: () => this.run()}, '▶ 10×');
    this.select = /** @type {HTMLSelectElement} */ (h('select', {'aria-label': 'How far back', change: () => { this.range = Number(this.select.value); this.draw(); this.place(); this.load(); }},
      ranges.map(([name, s]) => h('option', {value: s}, name))));
    this.note = h('span.faint');
    fill(at, this.select, h('div.track', null, this.canvas, this.slider), this.label, this.play, this.now);
    new ResizeObserver(() => this.draw()).observe(this.canvas);
    setInterval(() => { if (!document.hidden) { this.draw(); this.place(); } }, 1000);
    setInterval(() => { if (!document.hidden && !this.app.place.at) this.load(); }, 10_000);
  }

  /** @param {string|null} path the changes that are drawn */
  show(path) {
    if (path !== this.path) this.fresh = true;
    this.path = path;
    this.times = [];
    this.stop();
    this.draw();
    this.place();
    this.load();
  }

  async load() {
    const path = this.path;
    if (!path || !this.app.key) return;
    this.loading?.abort();
    this.loading = new AbortController();
    try {
      const list = await this.app.get(`${path}?limit=300`, this.loading.signal, null);
      if (path !== this.path) return;
      this.times = list.items.map((/** @type {any} */ c) => Date.parse(c.time));
      if (this.fresh) this.widen();
      this.fresh = false;
      this.without = '';
    } catch (e) {
      if (!(e instanceof Failure) || path !== this.path) return;
      this.without = e.code === 400 ? 'This server keeps no history.' : '';
    }
    document.body.classList.toggle('nohistory', !!this.without);
    this.draw();
    this.place();
  }

  /** Shows as much time as it takes to see changes. */
  widen() {
    const seen = (/** @type {number} */ s) => this.times.filter((t) => t > Date.now() - s * 1000).length;
    const range = ranges.find(([, s]) => seen(s) >= Math.min(3, this.times.length));
    if (!range || range[1] <= this.range || seen(this.range) > 0) return;
    this.range = range[1];
    this.select.value = String(this.range);
  }

  /** The moment of a position from 0 to 1000. @param {number} v */
  moment(v) { return Date.now() - (1 - v / 1000) * this.range * 1000; }

  /** @param {boolean} [done] */
  moved(done) {
    this.stop();
    const v = Number(this.slider.value);
    if (v >= 1000) return this.go(null);
    const at = new Date(this.moment(v)).toISOString();
    this.tell(at);
    clearTimeout(this.soon);
    this.soon = setTimeout(() => this.go(at), done ? 0 : 120);
  }

  /** @param {string|null} at */
  go(at) {
    clearTimeout(this.soon);
    if (!at) this.stop();
    this.app.change({at});
    this.place();
    this.draw();
  }

  /** Steps to the change before, or after. @param {number} by */
  step(by) {
    const at = this.app.place.at ? Date.parse(this.app.place.at) : Date.now();
    const sorted = [...this.times].sort((a, b) => a - b);
    const next = by < 0 ? sorted.filter((t) => t < at - 1).pop() : sorted.find((t) => t > at + 1);
    if (next !== undefined) this.go(new Date(next).toISOString());
    else if (by > 0) this.go(null);
    if (next !== undefined && Date.now() - next > this.range * 1000) {
      this.range = (ranges.find(([, s]) => s * 1000 > Date.now() - next) ?? ranges[ranges.length - 1])[1];
      this.select.value = String(this.range);
    }
  }

  /** Plays from the moment that is looked at, or from the oldest change that is drawn. */
  run() {
    if (this.playing) return this.stop();
    const first = this.times.filter((t) => t > Date.now() - this.range * 1000).sort((a, b) => a - b)[0];
    let at = this.app.place.at ? Date.parse(this.app.place.at) : (first ?? Date.now() - 60_000) - 1000;
    this.play.textContent = '■';
    const tick = () => {
      at += 5000;
      if (at >= Date.now() - 1000) return this.go(null);
      this.app.change({at: new Date(at).toISOString()});
      this.place();
      this.draw();
    };
    this.playing = setInterval(tick, 500);
    tick();
  }

  stop() {
    clearInterval(this.playing);
    this.playing = 0;
    this.play.textContent = '▶ 10×';
  }

  /** Puts the slider to where the address is. */
  place() {
    const {at} = this.app.place;
    const t = at ? Date.parse(at) : NaN;
    if (document.activeElement !== this.slider || !at) {
      const v = at && t === t ? Math.max(0, Math.min(999, 1000 - (Date.now() - t) / this.range)) : 1000;
      this.slider.value = String(v);
    }
    this.tell(at);
    this.now.toggleAttribute('disabled', !at);
  }

  /** @param {string|null} at */
  tell(at) {
    const t = at ? Date.parse(at) : NaN;
    this.label.textContent = this.without || (!at ? 'now' : t === t ? `${clock(new Date(t))} · ${span(Date.now() - t)} ago` : `revision ${at}`);
    this.slider.setAttribute('aria-valuetext', this.label.textContent);
  }

  draw() {
    const c = this.canvas, scale = devicePixelRatio || 1, w = c.clientWidth, height = c.clientHeight;
    if (!w) return;
    c.width = w * scale;
    c.height = height * scale;
    const g = /** @type {CanvasRenderingContext2D} */ (c.getContext('2d'));
    g.scale(scale, scale);
    const style = getComputedStyle(document.body), count = new Array(bars).fill(0);
    const from = Date.now() - this.range * 1000;
    for (const t of this.times) {
      const i = Math.floor(((t - from) / (this.range * 1000)) * bars);
      if (i >= 0 && i < bars) count[i]++;
    }
    const most = Math.max(1, ...count);
    g.fillStyle = style.getPropertyValue(this.app.place.at ? '--past' : '--accent');
    count.forEach((n, i) => {
      if (!n) return;
      const tall = 2 + (height - 3) * Math.sqrt(n / most);
      g.fillRect((i * w) / bars, height - tall, Math.max(1, w / bars - 1), tall);
    });
  }
}
