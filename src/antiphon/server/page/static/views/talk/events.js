// Handlers of the server's events during a conversation.
import { floatsOf } from "../../lib/player.js";
import { runTool } from "../chat/tools.js";
import { bytesOf } from "./session.js";
import { isPushToTalk } from "./settings.js";
import { entries, entryFor, entryOf, isHearing, markUnanswered, problem, remark, removeEntry, response, unanswered } from "./state.js";
import { marksOf } from "./waterfall.js";

/** Maximum consecutive answers that call functions, before the model is not asked again. */
const MAX_ROUNDS = 5;
let numRounds = 0;

const TRANSCRIPT = "conversation.item.input_audio_transcription";

/** Handle an event; `conversation` has `send`, `stopAnswer`, `stopped` (responses to ignore) and `playback`. */
export function handle(event, conversation) {
  HANDLERS[event.type]?.(event, conversation);
}

const HANDLERS = {
  // -- the user ------------------------------------------------------------------------------------------------
  "input_audio_buffer.speech_started"(event, { stopAnswer }) {
    stopAnswer({ cancels: false }); // the server cancels the response itself
    entryFor(event.item_id, "you");
    remark.value = "";
    isHearing.value = true;
  },
  "input_audio_buffer.speech_stopped"() {
    isHearing.value = false;
  },
  "input_audio_buffer.committed"(event, { send }) {
    entryFor(event.item_id, "you").isShown.value = true;
    markUnanswered(event.item_id, true);
    numRounds = 0;
    if (isPushToTalk.peek()) send("response.create"); // the response waits for the transcript
  },
  [`${TRANSCRIPT}.delta`](event) {
    const entry = entryFor(event.item_id, "you");
    entry.text.value += event.delta;
    entry.unsettled.value = "";
    entry.isShown.value = true;
  },
  [`${TRANSCRIPT}.unsettled`](event) {
    const entry = entryFor(event.item_id, "you");
    entry.unsettled.value = event.text;
    if (event.text.trim()) entry.isShown.value = true;
  },
  [`${TRANSCRIPT}.completed`](event, conversation) {
    if (!event.transcript.trim()) return dropTurn(event.item_id, conversation);
    const entry = entryFor(event.item_id, "you");
    entry.text.value = event.transcript;
    entry.unsettled.value = "";
    entry.isSettled.value = true;
    entry.isShown.value = true;
  },
  [`${TRANSCRIPT}.failed`](event) {
    const entry = entryFor(event.item_id, "you");
    entry.note.value = `Not transcribed: ${event.error.message}`;
    entry.unsettled.value = "";
    entry.isSettled.value = true;
    entry.isShown.value = true;
    markUnanswered(event.item_id, false);
  },

  // -- answers -------------------------------------------------------------------------------------------------
  "response.created"(event) {
    response.value = event.response.id;
    unanswered.value = new Set();
  },
  "response.output_item.added"(event, { stopped }) {
    if (stopped.has(event.response_id)) return;
    const { item } = event;
    const entry = entryFor(item.id, item.type === "function_call" ? "call" : "answer");
    entry.responseId = event.response_id;
    if (item.type === "function_call") {
      entry.call = { callId: item.call_id, name: item.name, arguments: "", output: null };
      entry.text.value = item.name;
    }
  },
  "response.output_audio_transcript.delta": addText,
  "response.output_text.delta": addText,
  "response.output_audio.delta"(event, { stopped, playback }) {
    if (!stopped.has(event.response_id)) playback.push(event.item_id, floatsOf(bytesOf(event.delta)));
  },
  "response.output_audio.done"(event, { stopped, playback }) {
    if (!stopped.has(event.response_id)) playback.finish(event.item_id);
  },
  "response.function_call_arguments.done"(event) {
    const entry = entryOf(event.item_id);
    if (entry) entry.call.arguments = event.arguments;
  },
  "response.done"(event, conversation) {
    finishResponse(event.response, conversation);
  },

  // -- interrupted answers -------------------------------------------------------------------------------------
  "conversation.item.truncated"(event, { send }) {
    send("conversation.item.retrieve", { item_id: event.item_id });
  },
  "conversation.item.retrieved"({ item }) {
    keepHeard(item);
  },
};

function addText(event) {
  const entry = entryOf(event.item_id);
  if (entry) entry.text.value += event.delta;
}

/** Remove a turn in which nothing was understood. */
function dropTurn(itemId, { stopAnswer }) {
  removeEntry(itemId);
  markUnanswered(itemId, false);
  remark.value = "Nothing was understood.";
  if (isPushToTalk.peek()) stopAnswer();
}

function keepHeard(item) {
  const entry = entryOf(item.id);
  if (entry && item.type === "message") entry.heard.value = item.content.map((part) => part.transcript ?? part.text ?? "").join("");
}

function finishResponse(done, { send, stopped }) {
  if (response.peek() === done.id) response.value = null;
  const mine = entries.peek().filter((entry) => entry.responseId === done.id);
  for (const entry of mine) entry.isSettled.value = true;
  if (mine.length) mine[0].marks.value = marksOf(done);
  if (done.status === "cancelled") done.output.forEach(keepHeard);
  if (done.status === "failed") {
    problem.value = { kind: "error", text: `The answer failed: ${done.status_details?.error?.message ?? "the server does not say why"}` };
  }
  if (done.status === "incomplete" && mine.length) {
    const isRepeating = done.status_details?.reason === "content_filter";
    mine.at(-1).note.value = isRepeating ? "The answer repeated itself and was ended." : "The answer reached its limit of tokens.";
  }
  if (done.status === "completed" && !stopped.has(done.id)) runCalls(mine.filter((entry) => entry.kind === "call"), send);
  stopped.delete(done.id);
}

function runCalls(calls, send) {
  if (calls.length === 0) {
    numRounds = 0;
    return;
  }
  for (const { call, note } of calls) {
    call.output = runTool({ function: { name: call.name, arguments: call.arguments } });
    note.value = call.output;
    send("conversation.item.create", { item: { type: "function_call_output", call_id: call.callId, output: call.output } });
  }
  numRounds += 1;
  if (numRounds <= MAX_ROUNDS) send("response.create");
  else problem.value = { kind: "warning", text: `The model called functions ${MAX_ROUNDS} times in a row without an answer.` };
}
