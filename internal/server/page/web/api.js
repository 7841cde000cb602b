// Requests to the API. They work in the page and in its worker.

/** What the API answered instead. */
export class Failure extends Error {
  /** @param {number} code @param {string} message */
  constructor(code, message) {
    super(message);
    this.code = code; // 0: nothing answered
  }
}

export const tables = 'application/json;as=Table;v=v1;g=meta.k8s.io,application/json';

/** The path of a moment. @param {string} path @param {string|null|undefined} at */
export const moment = (path, at) => (at ? `/at/${encodeURIComponent(at)}${path}` : path);

/**
 * Sends a request.
 * @param {string} path @param {{key: string, accept?: string, signal?: AbortSignal}} o
 */
export async function ask(path, o) {
  let answer;
  try {
    answer = await fetch('/page/cluster' + path, {
      headers: {'Millrace-Page': o.key, Accept: o.accept ?? 'application/json'}, signal: o.signal, credentials: 'same-origin', cache: 'no-store',
    });
  } catch (e) {
    if (o.signal?.aborted) throw e;
    throw new Failure(0, 'the server does not answer');
  }
  if (answer.ok) return answer;
  const text = await answer.text();
  let message = text.slice(0, 500);
  try { message = JSON.parse(text).message ?? message; } catch { /* it is text */ }
  throw new Failure(answer.status, message || answer.statusText);
}

/** @param {string} path @param {{key: string, accept?: string, signal?: AbortSignal}} o @returns {Promise<any>} */
export async function json(path, o) {
  const answer = await ask(path, o);
  try {
    return await answer.json();
  } catch (e) {
    if (o.signal?.aborted) throw e;
    throw new Failure(0, 'the answer ended early');
  }
}

/**
 * Reads an answer line by line, some lines at a time.
 * @param {Response} answer @param {AbortSignal} signal
 * @returns {AsyncGenerator<string[]>}
 */
export async function* lines(answer, signal) {
  const reader = /** @type {ReadableStream<Uint8Array>} */ (answer.body).getReader();
  const text = new TextDecoder();
  let rest = '';
  try {
    for (;;) {
      let part;
      try {
        part = await reader.read();
      } catch (e) {
        if (signal.aborted) throw e;
        throw new Failure(0, 'the connection was lost');
      }
      if (part.done) return;
      const all = (rest + text.decode(part.value, {stream: true})).split('\n');
      rest = /** @type {string} */ (all.pop());
      if (all.length) yield all;
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

/** Waits. @param {number} ms @param {AbortSignal} signal */
export function wait(ms, signal) {
  return new Promise((done, failed) => {
    if (signal.aborted) return failed(signal.reason);
    const timer = setTimeout(done, ms);
    signal.addEventListener('abort', () => { clearTimeout(timer); failed(signal.reason); }, {once: true});
  });
}
