// Whether the server answers, and what state it is in, checked every few seconds while the page is visible.
import { signal } from "./ui.js";

const CALM_MS = 5000;
const WAITING_MS = 1000;

/**
 * `status`: `connecting`, `ready`, `away` (no answer), or what the server says of itself: `starting`, `loading`,
 * `restarting`, `failed`, `draining`; `cause` may say why.
 */
export const connection = signal({ status: "connecting", cause: null, version: "" });

/** The largest bodies that the server takes, in bytes: `{json, recording}`; null until they are known. */
export const limits = signal(null);

let timer = 0;
let isChecking = false;
let startedWith = null;

/** True once the server has files of another version than those that this page runs. */
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

/** A request got no answer, or the server failed: look at once. */
export function noticeFailure() {
  check();
}

/** A request was answered: the server is there. */
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
