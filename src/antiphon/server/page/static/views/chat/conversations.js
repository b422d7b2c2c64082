// The user's conversations, stored in the browser.
import { allRecords, deleteRecord, putRecord } from "../../lib/database.js";
import { setting } from "../../lib/settings.js";
import { signal } from "../../lib/ui.js";
import { Conversation } from "./conversation.js";

const STORE = "conversations";
const SAVE_MS = 400;

/** All conversations, the latest first; null until loaded. */
export const conversations = signal(null);
/** Conversation that is shown; it joins the list with its first message. */
export const current = signal(null);
/** False if the browser cannot store conversations, which then last until the page is closed. */
export const isStored = signal(true);
/** Options that were set last, with which a new conversation begins. */
const lastOptions = setting("chat.options", {});

let loading = null;
const waiting = new Map(); // timers of conversations with unsaved changes

export function loadConversations() {
  loading ??= allRecords(STORE).then((records) => {
    records.sort((one, other) => other.updatedAt - one.updatedAt);
    conversations.value = records.map((record) => new Conversation(record));
  });
  return loading;
}

/** Show the conversation of an id, or a new one if there is none. Resolves to whether it was found. */
export async function openConversation(id) {
  await loadConversations();
  const found = id ? conversations.peek().find((known) => known.id === id) : null;
  if (found) current.value = found;
  else if (!current.peek()?.isEmpty || id) current.value = Conversation.create(lastOptions.peek());
  return Boolean(found);
}

/** Move a conversation to the top of the list, and save it soon. */
export function keep(conversation) {
  const others = (conversations.peek() ?? []).filter((known) => known !== conversation);
  conversations.value = [conversation, ...others];
  saveSoon(conversation);
}

export function saveSoon(conversation) {
  if (conversation.isEmpty || waiting.has(conversation)) return;
  waiting.set(conversation, setTimeout(() => save(conversation), SAVE_MS));
}

export async function save(conversation) {
  clearTimeout(waiting.get(conversation));
  waiting.delete(conversation);
  isStored.value = await putRecord(STORE, conversation.record);
}

export async function remove(conversation) {
  clearTimeout(waiting.get(conversation));
  waiting.delete(conversation);
  conversations.value = conversations.peek().filter((known) => known !== conversation);
  await deleteRecord(STORE, conversation.id);
}

export function setOption(conversation, name, value) {
  conversation.setOption(name, value);
  const { system: _, schema: __, ...options } = conversation.record.options;
  lastOptions.value = options;
  saveSoon(conversation);
}

window.addEventListener("pagehide", () => [...waiting.keys()].forEach(save));
