// The keys that the user gave, kept for this tab only, and the question for one that the server asks for.
import { signal } from "./ui.js";

export const API = "api";
export const ADMIN = "admin";

const NAMES = { [API]: "antiphon.api-key", [ADMIN]: "antiphon.admin-key" };

/** The question that is open: `{kind, message, answer}`, or null. The shell shows it. */
export const question = signal(null);

export function keyOf(kind) {
  return sessionStorage.getItem(NAMES[kind]);
}

export function setKey(kind, key) {
  if (key) sessionStorage.setItem(NAMES[kind], key);
  else sessionStorage.removeItem(NAMES[kind]);
}

/** Resolves once the ticket in the address, if there was one, is exchanged: to why it could not be, or to "". */
export let handover = Promise.resolve("");

/** Keep the admin key behind the # of the address, or that of the ticket there, and take it out of the history. */
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
