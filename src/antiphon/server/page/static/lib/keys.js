// Keys that the user entered or the server gave, kept for this tab only, and the dialog that asks for them.
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

/** The request for the admin key that is in flight, or null. */
let giving = null;
/** Reason why the server refused the ticket in the address, or "". */
let ticketRefusal = "";

/** Exchange a ticket in the address for the admin key, and remove it from the address and the history. */
export function takeTicketFromAddress() {
  const ticket = new URLSearchParams(location.hash.slice(1)).get("ticket");
  if (ticket === null) return;
  history.replaceState(null, "", location.pathname + location.search);
  giving = exchange(ticket);
}

/**
 * Ask the server for its admin key, which it gives to browsers of its own user, once for all waiting requests. Resolves
 * to "" once this tab has the key, or to the reason for a refusal.
 */
export function requestAdminKey() {
  giving ??= exchange();
  return giving;
}

/** Exchange a ticket for the key; without a ticket, or if it is refused, ask for the key without a ticket. */
async function exchange(ticket) {
  if (ticket) ticketRefusal = await fetchAdminKey({ ticket });
  const isGiven = ticket && !ticketRefusal;
  const refusal = isGiven ? "" : await fetchAdminKey({});
  giving = null;
  return refusal && (ticketRefusal || refusal);
}

async function fetchAdminKey(given) {
  try {
    const response = await fetch(new URL("page/admin-key", document.baseURI), {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(given),
      credentials: "omit",
      cache: "no-store",
    });
    const told = await response.json();
    if (!response.ok) return sentence(told.error.message);
    setKey(ADMIN, told.admin_key);
    return "";
  } catch {
    return "The server did not answer the request for its admin key.";
  }
}

const sentence = (message) => `${message[0].toUpperCase()}${message.slice(1)}.`;

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
