// State of the conversation, which is kept while other views are open.
import { computed, signal } from "../../lib/ui.js";

/** State of the session: `idle`, `preparing` its models, `connecting`, `open`, or `reconnecting` after the connection broke. */
export const status = signal("idle");
/** Message `{kind, text}` on top of the view, or null. */
export const problem = signal(null);
/** Transcript as Entry objects, oldest first. */
export const entries = signal([]);
/** Remark about the last turn, for instance that nothing was understood. */
export const remark = signal("");

export const hasMicrophone = signal(false);
export const isMuted = signal(false);
/** True while the user holds the button to speak. */
export const isHolding = signal(false);
/** True while the server hears speech. */
export const isHearing = signal(false);
/** True while an answer is played. */
export const isSounding = signal(false);
/** Id of the response that the server is generating, or null. */
export const response = signal(null);
/** Ids of ended turns without a response so far. */
export const unanswered = signal(new Set());

/** Phase of the turn: a status other than `open`, or `hearing`, `speaking`, `thinking`, `listening`. */
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

/** Entry of the transcript; `kind` is `you`, `answer`, or `call` of a function. */
export class Entry {
  constructor(id, kind) {
    this.id = id;
    this.kind = kind;
    this.text = signal("");
    this.unsettled = signal(""); // words that may still change
    this.isSettled = signal(false);
    this.isShown = signal(kind !== "you"); // a turn is shown once it has words or has ended
    this.heard = signal(null); // heard text of an interrupted answer
    this.marks = signal(null); // marks of the turn's waterfall
    this.note = signal("");
    this.call = null; // {callId, name, arguments, output} of a call
    this.responseId = null;
  }

  /** Items of the API by which another session continues the conversation. */
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

/** Return the entry of an item, appended if it does not exist. */
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

/** Reset the state of the turn; the transcript stays. */
export function resetTurn() {
  isHolding.value = false;
  isHearing.value = false;
  isSounding.value = false;
  response.value = null;
  unanswered.value = new Set();
  remark.value = "";
  // Remove turns that were cut off before their words were known.
  entries.value = entries.peek().filter((entry) => entry.kind !== "you" || entry.text.peek().trim());
  for (const entry of entries.peek()) {
    entry.unsettled.value = "";
    entry.isSettled.value = true;
  }
}
