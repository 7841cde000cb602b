// The session: one secret is in a cookie that no script reads, the other one here, in what this origin keeps.
const kept = 'millrace-page';

/** @typedef {{key: string, user: string, ends: string}} Session */

/** @returns {Session|null} */
export function current() {
  try {
    const s = JSON.parse(localStorage.getItem(kept) ?? 'null');
    return s && Date.parse(s.ends) > Date.now() ? s : null;
  } catch {
    return null;
  }
}

/** The code of a link, which is removed from the address at once. @returns {string} */
export function takeCode() {
  const code = location.hash.slice(1);
  if (!/^[A-Z2-7]{20,40}$/.test(code)) return '';
  history.replaceState(null, '', location.pathname + '#/');
  return code;
}

/** Exchanges a code for a session. @param {string} code */
export async function login(code) {
  const answer = await fetch('/page/login', {
    method: 'POST', headers: {'Content-Type': 'application/json'}, body: JSON.stringify({code}), credentials: 'same-origin',
  });
  const said = await answer.json();
  if (!answer.ok) throw new Error(said.message);
  localStorage.setItem(kept, JSON.stringify(said));
}

/** Ends the session. */
export async function logout() {
  const s = current();
  localStorage.removeItem(kept);
  if (s) await fetch('/page/logout', {method: 'POST', headers: {'Millrace-Page': s.key}});
}

/** Calls back when another tab has a session. @param {() => void} back */
export function whenOpened(back) {
  addEventListener('storage', (e) => { if (e.key === kept && e.newValue) back(); });
}
