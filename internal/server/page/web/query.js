// What can be typed to find rows: words that must all be there.
//
//   web            in the namespace, the name or a column
//   ns:shop        in the namespace; name:web, or the name of a column: status:pending
//   app=web        a label
//   -web           not

/**
 * @typedef {{ns: string, name: string, cells: any[], labels: string, created: number}} Row
 * @typedef {{name: string, age: boolean}} Column
 */

/** Makes the test of a query. @param {string} text @param {Column[]} columns @returns {(r: Row) => boolean} */
export function matcher(text, columns) {
  const tests = text.trim().split(/\s+/).filter(Boolean).map((word) => test(word, columns));
  return (row) => tests.every((t) => t(row));
}

/** @param {string} word @param {Column[]} columns @returns {(r: Row) => boolean} */
function test(word, columns) {
  if (word.length > 1 && word[0] === '-') {
    const not = test(word.slice(1), columns);
    return (r) => !not(r);
  }
  const [, where, what] = /^([^:=]+):(.*)$/.exec(word) ?? [];
  if (where) {
    const w = what.toLowerCase(), in_ = where.toLowerCase();
    if (in_ === 'ns' || in_ === 'namespace') return (r) => r.ns.includes(w);
    if (in_ === 'name') return (r) => r.name.includes(w);
    const i = columns.findIndex((c) => c.name.toLowerCase().replace(/\s/g, '') === in_);
    if (i >= 0) return (r) => String(r.cells[i] ?? '').toLowerCase().includes(w);
  }
  if (/^[^=]+=[^=]*$/.test(word)) {
    const label = word + (word.endsWith('=') ? '' : '\n');
    return (r) => r.labels.startsWith(label) || r.labels.includes('\n' + label);
  }
  const w = word.toLowerCase();
  return (r) => r.name.includes(w) || r.ns.includes(w) || r.cells.some((c, i) => i > 0 && !columns[i]?.age && c != null && String(c).toLowerCase().includes(w));
}
