// Keys that the user entered, kept for this tab only, and the dialog that asks for them.
import { signal } from "./ui.js";

export const API = "api";
export const ADMIN = "admin";

const NAMES = { [API]: "antiphon.api-key", [ADMIN]: "antiphon.admin-key" };

/** Open question `{kind, message, answer}`, which the shell shows, or null. */
export const question = signal(null);

export function keyOf(kind) {
  return sessionStorage.getItem(NAMES[kind]);
}

export function setKey(kind, key) {
  if (key) sessionStorage.setItem(NAMES[kind], key);
  else sessionStorage.removeItem(NAMES[kind]);
}

/** Resolves once a ticket in the address has been exchanged: to "", or to the reason why that failed. */
export let handover = Promise.resolve("");

/** Take the admin key, or a ticket for it, from the address, and remove it from the address and the history. */
export function takeKeyFromAddress() {
  const fields = new URLSearchParams(location.hash.slice(1));
  const [key, ticket] = [fields.get("admin_key"), fields.get("ticket")];
  if (key === null && ticket === null) return;
  history.replaceState(null, "", location.pathname + location.search);
  if (key !== null) setKey(ADMIN, key);
  else handover = exchange(ticket);
}

async function exchange(ticket) {
  try {
    const response = await fetch(new URL("page/ticket", document.baseURI), {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ ticket }),
      credentials: "omit",
    });
    const told = await response.json();
    if (!response.ok) return `There is no admin key for this page: ${told.error.message}.`;
    setKey(ADMIN, told.admin_key);
    return "";
  } catch {
    return "There is no admin key for this page: the server did not answer.";
  }
}

let asking = null;

/** Ask the user for a key, once for all waiting requests. Resolves to true if the user entered a key. */
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
