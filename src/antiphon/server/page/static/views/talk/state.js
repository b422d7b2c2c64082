// What is shown of the conversation. It lives on while other views are open.
import { computed, signal } from "../../lib/ui.js";

/** `idle`, `connecting`, `open`, or `reconnecting` after the connection broke off. */
export const status = signal("idle");
/** `{kind, text}` of the message on top, or null. */
export const problem = signal(null);
/** What was said, oldest first: each an Entry. */
export const entries = signal([]);
/** A remark about the last turn, such as that nothing was understood. */
export const remark = signal("");

export const hasMicrophone = signal(false);
export const isMuted = signal(false);
/** The user holds the button to speak. */
export const isHolding = signal(false);
/** The server hears speech. */
export const isHearing = signal(false);
/** An answer sounds. */
export const isSounding = signal(false);
/** The id of the response that the server is making, or null. */
export const response = signal(null);
/** Ids of turns that have ended and that no response was made for yet. */
export const unanswered = signal(new Set());

/** Who has the turn: a status other than `open`, or `hearing`, `speaking`, `thinking`, `listening`. */
export const turn = computed(() => {
  if (status.value !== "open") return status.value;
  if (isHearing.value || isHolding.value) return "hearing";
  if (isSounding.value) return "speaking";
  return response.value !== null || unanswered.value.size > 0 ? "thinking" : "listening";
});

export function markUnanswered(itemId, isUnanswered) {
  const next = new Set(unanswered.peek());
  if (isUnanswered) next.add(itemId);
  else next.delete(itemId);
  unanswered.value = next;
}

/** Something that was said. `kind`: `you`, `answer`, or `call` of a function. */
export class Entry {
  constructor(id, kind) {
    this.id = id;
    this.kind = kind;
    this.text = signal("");
    this.unsettled = signal(""); // words that may still change
    this.isSettled = signal(false);
    this.isShown = signal(kind !== "you"); // a turn is shown once it has words, or has ended
    this.heard = signal(null); // of an interrupted answer: the words that were heard
    this.marks = signal(null); // of the turn's waterfall
    this.note = signal("");
    this.call = null; // of a call: {callId, name, arguments, output}
    this.responseId = null;
  }

  /** What is kept of it when the conversation goes on in another session, as items of the API. */
  get items() {
    if (this.kind === "call") {
      const { callId, name, arguments: given, output } = this.call;
      if (output === null) return [];
      const call = { type: "function_call", call_id: callId, name, arguments: given };
      return [call, { type: "function_call_output", call_id: callId, output }];
    }
    const text = (this.heard.peek() ?? this.text.peek()).trim();
    if (!text) return [];
    const [role, type] = this.kind === "you" ? ["user", "input_text"] : ["assistant", "output_text"];
    return [{ id: this.id, type: "message", role, content: [{ type, text }] }];
  }
}

export const entryOf = (id) => entries.peek().find((entry) => entry.id === id);

/** The entry of an item, made at the end if there is none. */
export function entryFor(id, kind) {
  const found = entryOf(id);
  if (found) return found;
  const made = new Entry(id, kind);
  entries.value = [...entries.peek(), made];
  return made;
}

export function removeEntry(id) {
  entries.value = entries.peek().filter((entry) => entry.id !== id);
}

/** Nothing is going on any more; what was said stays. */
export function resetTurn() {
  isHolding.value = false;
  isHearing.value = false;
  isSounding.value = false;
  response.value = null;
  unanswered.value = new Set();
  remark.value = "";
  // A turn that was cut off before its words were known leaves nothing.
  entries.value = entries.peek().filter((entry) => entry.kind !== "you" || entry.text.peek().trim());
  for (const entry of entries.peek()) {
    entry.unsettled.value = "";
    entry.isSettled.value = true;
  }
}
