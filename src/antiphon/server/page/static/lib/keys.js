// The keys that the user gave, kept for this tab only, and the question for one that the server asks for.
import { signal } from "./ui.js";

export const API = "api";
export const ADMIN = "admin";

const NAMES = { [API]: "antiphon.api-key", [ADMIN]: "antiphon.admin-key" };
const ADDRESS_FIELD = "admin_key";

/** The question that is open: `{kind, message, answer}`, or null. The shell shows it. */
export const question = signal(null);

export function keyOf(kind) {
  return sessionStorage.getItem(NAMES[kind]);
}

export function setKey(kind, key) {
  if (key) sessionStorage.setItem(NAMES[kind], key);
  else sessionStorage.removeItem(NAMES[kind]);
}

/** Keep the key that `antiphon serve --open` put behind the #, and take it out of the address and the history. */
export function takeKeyFromAddress() {
  const fields = new URLSearchParams(location.hash.slice(1));
  const key = fields.get(ADDRESS_FIELD);
  if (key === null) return;
  setKey(ADMIN, key);
  history.replaceState(null, "", location.pathname + location.search);
}

let asking = null;

/** Ask the user for a key, once however many requests need it. Resolves to true if one was given. */
export function askForKey(kind, message) {
  if (asking?.kind === kind) return asking.promise;
  const before = asking?.promise ?? Promise.resolve();
  const promise = before.then(
    () =>
      new Promise((resolve) => {
        question.value = {
          kind,
          message,
          answer(key) {
            if (key) setKey(kind, key);
            question.value = null;
            asking = null;
            resolve(Boolean(key));
          },
        };
      }),
  );
  asking = { kind, promise };
  return promise;
}
