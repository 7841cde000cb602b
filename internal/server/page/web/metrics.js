// Reads what the page needs of /metrics.
const wanted = /^(apiserver_request_total|apiserver_resource_objects|apiserver_longrunning_requests|apiserver_flowcontrol_dispatched_requests_total|workqueue_(depth|adds_total|retries_total|unfinished_work_seconds)|millrace_watch_cache_window_bytes|process_(start_time_seconds|resident_memory_bytes|cpu_seconds_total))(\{|\s)/;

/** @param {string} text */
export function sample(text) {
  /** @type {Map<string, [Record<string, string>, number][]>} */
  const all = new Map();
  for (const line of text.split('\n')) {
    const name = wanted.exec(line)?.[1];
    if (!name) continue;
    const close = line.lastIndexOf('}');
    /** @type {Record<string, string>} */
    const labels = {};
    if (close > 0) for (const [, k, v] of line.slice(name.length + 1, close).matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)) labels[k] = v;
    const value = Number(line.slice((close > 0 ? close : name.length) + 1).trim().split(' ')[0]);
    const list = all.get(name) ?? [];
    list.push([labels, value]);
    all.set(name, list);
  }
  return {
    at: Date.now(),
    /** @param {string} name */
    number: (name) => all.get(name)?.[0][1] ?? 0,
    /** @param {string} name */
    sum: (name) => (all.get(name) ?? []).reduce((sum, [, n]) => sum + n, 0),
    /** Sums by a key of the labels. @param {string} name @param {(l: Record<string, string>) => string} key */
    by(name, key) {
      /** @type {Map<string, number>} */
      const sums = new Map();
      for (const [l, n] of all.get(name) ?? []) sums.set(key(l), (sums.get(key(l)) ?? 0) + n);
      return sums;
    },
  };
}
