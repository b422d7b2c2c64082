// State of the server, polled every few seconds while the page is visible.
import { signal } from "./ui.js";

const CALM_MS = 5000;
const WAITING_MS = 1000;

/**
 * State of the server. `status` is `connecting`, `away` (no answer), or the server's own status: `ready`, `starting`,
 * `loading`, `restarting`, `failed` or `draining`; `cause` is the reason, or null.
 */
export const connection = signal({ status: "connecting", cause: null, version: "" });

/** Maximum bytes of a request's body, `{json, recording}`; null until known. */
export const limits = signal(null);

let timer = 0;
let isChecking = false;
let startedWith = null;

/** True once the server's version of the page differs from the running one. */
export const isOutdated = signal(false);

export async function check() {
  clearTimeout(timer);
  if (isChecking) return;
  isChecking = true;
  try {
    const response = await fetch(new URL("page/status", document.baseURI), { cache: "no-store", credentials: "omit" });
    const told = await response.json();
    show({ status: told.status, cause: told.cause, version: told.version });
    limits.value = told.limits;
    startedWith ??= told.page;
    isOutdated.value = told.page !== startedWith;
  } catch {
    show({ ...connection.peek(), status: "away", cause: null });
  } finally {
    isChecking = false;
  }
  if (!document.hidden) timer = setTimeout(check, connection.peek().status === "ready" ? CALM_MS : WAITING_MS);
}

function show(next) {
  const now = connection.peek();
  if (now.status !== next.status || now.cause !== next.cause || now.version !== next.version) connection.value = next;
}

/** Check at once: a request got no answer, or the server failed. */
export function noticeFailure() {
  check();
}

/** Check at once if the server seemed away: a request was answered. */
export function noticeSuccess() {
  if (connection.peek().status === "away") check();
}

export function watchConnection() {
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) check();
  });
  window.addEventListener("online", check);
  check();
}
