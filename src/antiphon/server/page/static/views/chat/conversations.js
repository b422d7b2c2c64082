// The user's conversations, stored in the browser and shared by its tabs.
import { allRecords, changeRecord, deleteRecord, getRecord } from "../../lib/database.js";
import { hrefOf, navigate } from "../../lib/navigate.js";
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
const known = new WeakSet(); // conversations that the database has had

export function loadConversations() {
  loading ??= allRecords(STORE).then((records) => {
    conversations.value = inOrder(records.map(fromRecord));
  });
  return loading;
}

const inOrder = (list) => list.sort((one, other) => other.record.updatedAt - one.record.updatedAt);

function fromRecord(record) {
  const conversation = new Conversation(record);
  known.add(conversation);
  return conversation;
}

const find = (id) => conversations.peek()?.find((conversation) => conversation.id === id);

/** Show the conversation of an id, or a new one if there is none. Resolves to whether it was found. */
export async function openConversation(id) {
  await loadConversations();
  const found = id ? find(id) : null;
  if (found) current.value = found;
  else if (!current.peek()?.isEmpty || id) current.value = Conversation.create(lastOptions.peek());
  return Boolean(found);
}

/** Move a conversation to the top of the list, and save it soon. */
export function keep(conversation) {
  const others = (conversations.peek() ?? []).filter((other) => other !== conversation);
  conversations.value = [conversation, ...others];
  saveSoon(conversation);
}

export function saveSoon(conversation) {
  if (conversation.isEmpty || conversation.isDeleted || waiting.has(conversation)) return;
  waiting.set(conversation, setTimeout(() => save(conversation), SAVE_MS));
}

/** Store a conversation with what other tabs have added to it. A conversation that another tab deleted is not stored. */
export async function save(conversation) {
  clearTimeout(waiting.get(conversation));
  waiting.delete(conversation);
  if (conversation.isDeleted) return;
  let isGone = false;
  const hasStored = await changeRecord(STORE, conversation.id, (stored) => {
    isGone = stored === undefined && known.has(conversation);
    if (isGone || conversation.isDeleted) return null;
    if (stored) conversation.merge(stored);
    return conversation.record;
  });
  isStored.value = hasStored;
  if (isGone) {
    discard(conversation);
    return;
  }
  if (hasStored) known.add(conversation);
  tell({ kind: "saved", id: conversation.id });
}

export async function remove(conversation) {
  discard(conversation);
  await deleteRecord(STORE, conversation.id);
  tell({ kind: "deleted", id: conversation.id });
}

/** Remove a conversation from the list, and end its answer. */
function discard(conversation) {
  clearTimeout(waiting.get(conversation));
  waiting.delete(conversation);
  conversation.isDeleted = true;
  conversation.onDelete?.();
  conversations.value = conversations.peek().filter((other) => other !== conversation);
  if (current.peek() !== conversation) return;
  current.value = Conversation.create(lastOptions.peek());
  if (location.hash === hrefOf("chat", conversation.id)) navigate("chat", "", true);
}

export function setOption(conversation, name, value) {
  conversation.setOption(name, value);
  const { system: _, schema: __, ...options } = conversation.record.options;
  lastOptions.value = options;
  saveSoon(conversation);
}

window.addEventListener("pagehide", () => [...waiting.keys()].forEach(save));

const otherTabs = "BroadcastChannel" in window ? new BroadcastChannel("antiphon.chats") : null;

const tell = (news) => otherTabs?.postMessage(news);

/** Take over what another tab has saved or deleted. */
otherTabs?.addEventListener("message", async ({ data: { kind, id } }) => {
  if (conversations.peek() === null) return; // all are read when the view is opened
  if (kind === "deleted") {
    const found = find(id);
    if (found) discard(found);
    return;
  }
  const record = await getRecord(STORE, id);
  if (!record) return;
  const found = find(id);
  if (found) found.merge(record);
  else conversations.value = [fromRecord(record), ...conversations.peek()];
  conversations.value = inOrder([...conversations.peek()]);
});
