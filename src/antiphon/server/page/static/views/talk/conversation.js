// Voice conversation: its session, microphone and playback, and the user's actions.
import { announce } from "../../lib/announce.js";
import { check, connection } from "../../lib/connection.js";
import { MicrophoneError, openMicrophone } from "../../lib/microphone.js";
import { END_OF_TURN, ModelError, modelsFor, prepare, refreshModels } from "../../lib/models.js";
import { effect, signal } from "../../lib/ui.js";
import { handle } from "./events.js";
import { Playback } from "./playback.js";
import { RealtimeSession } from "./session.js";
import { chatModel, detection, isPushToTalk, RATE, SEMANTIC, sessionFields, transcriptionModel } from "./settings.js";
import {
  entries,
  entryFor,
  hasMicrophone,
  isHolding,
  isMuted,
  isSounding,
  problem,
  remark,
  resetTurn,
  response,
  status,
} from "./state.js";

/** Tasks for which a conversation needs models, and the names of such models. */
export const NEEDED = { generate: "a chat model", transcribe: "a transcription model", synthesize: "a speech model" };
/** Maximum frames kept until the session is ready, so that early speech is not lost. */
const MAX_WAITING_FRAMES = 1500;
const MAX_TRIES = 6;
/** Errors after which the session is not opened again. */
const LAST_WORDS = {
  session_expired: "The conversation has reached the longest time that this server allows for one.",
  session_idle: "The server ended the conversation because nothing had happened for a long time.",
};
const REFUSED =
  "The server did not open a conversation. It may have as many of them as it allows (--max-sessions), or as many requests " +
  "of your key (--max-per-key). A proxy before it may not pass WebSockets on.";

/** Open microphone and playback, also for the waveforms; null while closed. */
export const microphone = signal(null);
export const playback = signal(null);

let session = null;
let isReady = false; // the session has confirmed the settings
let waitingFrames = [];
let settingsEvent = null; // id of the last `session.update`
let numTries = 0;
let retryTimer = 0;
let stopWaiting = () => {};
let attempt = 0; // counts starts and ends, so that results of earlier attempts are ignored
let preparing = null; // AbortController of the wait for the models
let lastWords = null; // reason for which the server is about to close the session
let numTyped = 0;
const stopped = new Set(); // responses that the user stopped, whose remaining events are dropped

export const missingTasks = () => Object.keys(NEEDED).filter((task) => modelsFor(task).length === 0);

/** Return the models that a conversation uses: to hear, to answer, to speak, and to notice the end of a sentence. */
export function usedModels() {
  const first = (task) => modelsFor(task)[0]?.id;
  const named = (chosen, task) => (modelsFor(task).some((card) => card.id === chosen.value) ? chosen.value : first(task));
  const names = [named(transcriptionModel, "transcribe"), named(chatModel, "generate"), first("synthesize")];
  if (detection.value === SEMANTIC) names.push(END_OF_TURN);
  return names.filter(Boolean);
}

// -- start and end -------------------------------------------------------------------------------------------------

/**
 * Start a conversation, or continue the last (`goesOn`), once its models are loaded; `byTyping`: without a microphone.
 * Call in a click handler.
 */
export async function start({ goesOn = false, byTyping = false } = {}) {
  if (status.peek() !== "idle") return;
  attempt += 1;
  const mine = attempt;
  problem.value = null;
  status.value = "preparing";
  numTries = 0;
  openPlayback();
  preparing = new AbortController();
  try {
    await refreshModels(); // asks for the key if one is needed
    if (mine !== attempt) return;
    chooseModels();
    await prepare(usedModels(), { signal: preparing.signal });
    if (mine !== attempt) return;
    status.value = "connecting";
    if (!byTyping) {
      const opened = await openMicrophone({ rate: RATE, onFrame, onLost: loseMicrophone });
      if (mine !== attempt) return opened.close();
      microphone.value = opened;
      hasMicrophone.value = true;
      opened.isMuted = isMuted.peek();
    }
    if (!goesOn) entries.value = [];
    connect();
  } catch (error) {
    if (mine !== attempt) return;
    end();
    if (error instanceof ModelError) return; // the model's state on the page has the reason
    problem.value = { kind: "error", text: error.message, isMicrophone: error instanceof MicrophoneError };
  }
}

/** End the conversation; its transcript stays on the page. */
export function end() {
  attempt += 1;
  preparing?.abort();
  clearTimeout(retryTimer);
  stopWaiting();
  if (status.peek() === "open") announce("The conversation has ended");
  session?.close();
  session = null;
  microphone.peek()?.close();
  microphone.value = null;
  hasMicrophone.value = false;
  playback.peek()?.close();
  playback.value = null;
  isReady = false;
  waitingFrames = [];
  status.value = "idle";
  resetTurn();
}

/** Replace chosen models that do not exist by the first ones for their tasks. Throws if a task has no model. */
function chooseModels() {
  const missing = missingTasks();
  if (missing.length) throw new Error(`This server has no model for this: ${missing.map((task) => NEEDED[task]).join(", ")}.`);
  for (const [task, chosen] of [["generate", chatModel], ["transcribe", transcriptionModel]]) {
    const cards = modelsFor(task);
    if (!cards.some((card) => card.id === chosen.peek())) chosen.value = cards[0].id;
  }
}

function openPlayback() {
  const made = new Playback(RATE);
  playback.value = made;
  effect(() => {
    const isPlaying = made.isPlaying.value;
    if (playback.peek() === made) isSounding.value = isPlaying;
  });
}

// -- the session ---------------------------------------------------------------------------------------------------

function connect() {
  isReady = false;
  lastWords = null;
  stopped.clear();
  session = new RealtimeSession(chatModel.peek(), { onEvent, onClose });
}

function onEvent(event) {
  if (event.type === "session.created") {
    sendSettings();
    for (const entry of entries.peek()) for (const item of entry.items) send("conversation.item.create", { item });
  } else if (event.type === "session.updated") {
    if (!isReady) becomeReady();
  } else if (event.type === "error") {
    takeError(event.error);
  } else {
    handle(event, { send, stopAnswer, stopped, playback: playback.peek() });
  }
}

function becomeReady() {
  isReady = true;
  numTries = 0;
  if (status.peek() === "reconnecting") problem.value = null;
  status.value = "open";
  announce("The conversation has begun");
  for (const frame of waitingFrames) session.sendSound(frame);
  waitingFrames = [];
}

function takeError(error) {
  if (error.code in LAST_WORDS) lastWords = LAST_WORDS[error.code];
  else if (error.code === "shutting_down") problem.value = { kind: "warning", text: "The server is shutting down." };
  else if (error.code === "input_audio_buffer_commit_empty") remark.value = "Nothing was heard.";
  else if (error.code === "response_cancel_not_active") return; // the response had already ended
  else if (error.event_id === settingsEvent && !isReady) fail(`The server rejects the settings: ${error.message}`);
  else problem.value = { kind: "error", text: error.message };
}

function fail(text) {
  end();
  problem.value = { kind: "error", text };
}

/** Open another session with the transcript after the server or the network ended one, unless that cannot help. */
function onClose() {
  session = null;
  isReady = false;
  if (lastWords) return fail(lastWords);
  const wasOpen = status.peek() === "open";
  if (!wasOpen) numTries += 1;
  const isAway = connection.peek().status !== "ready";
  if (status.peek() === "connecting" && !isAway) return fail(REFUSED);
  if (numTries >= MAX_TRIES) return fail(isAway ? "The server does not answer." : REFUSED);
  playback.peek()?.stop();
  resetTurn();
  status.value = "reconnecting";
  problem.value = { kind: "warning", text: "The connection to the server broke off. The conversation goes on when it is back." };
  check();
  retryTimer = setTimeout(reconnect, wasOpen ? 0 : 500 * 2 ** numTries);
}

/** Connect as soon as the server is ready. */
function reconnect() {
  stopWaiting();
  let isDone = false;
  let dispose = () => {};
  stopWaiting = () => {
    isDone = true;
    dispose();
  };
  dispose = effect(() => {
    if (isDone || connection.value.status !== "ready") return;
    isDone = true;
    queueMicrotask(() => {
      dispose();
      if (status.peek() === "reconnecting") connect();
    });
  });
}

function send(type, fields) {
  return session?.send(type, fields);
}

function sendSettings() {
  settingsEvent = send("session.update", { session: sessionFields() });
}

/** Send changed settings to an open session. */
export function applySettings() {
  if (!isReady) return;
  if (isHolding.peek() && !isPushToTalk.peek()) isHolding.value = false;
  sendSettings();
}

// -- user actions --------------------------------------------------------------------------------------------------

/** Return whether sound is sent: always unless muted, or with push to talk while the button is held. */
export const isSending = () => hasMicrophone.value && (isPushToTalk.value ? isHolding.value : !isMuted.value);

function onFrame(frame) {
  if (isPushToTalk.peek() && !isHolding.peek()) return;
  if (isReady) session.sendSound(frame);
  else if (waitingFrames.length < MAX_WAITING_FRAMES && status.peek() === "connecting") waitingFrames.push(frame);
}

function loseMicrophone() {
  microphone.peek()?.close();
  microphone.value = null;
  hasMicrophone.value = false;
  isHolding.value = false;
  problem.value = { kind: "warning", text: "The microphone was disconnected. You can go on by typing, or end and start again." };
}

export function mute(isWanted) {
  isMuted.value = isWanted;
  const open = microphone.peek();
  if (open) open.isMuted = isWanted;
}

/** Stop playback; the server keeps only the heard part of the answer. `cancels`: also stop its generation. */
export function stopAnswer({ cancels = true } = {}) {
  if (cancels && response.peek() !== null) {
    stopped.add(response.peek());
    send("response.cancel", { response_id: response.peek() });
  }
  for (const { itemId, ms } of playback.peek()?.stop() ?? []) {
    send("conversation.item.truncate", { item_id: itemId, content_index: 0, audio_end_ms: ms });
  }
}

/** Begin a turn of push to talk, and stop the answer. */
export function hold() {
  if (!isReady || !hasMicrophone.peek() || isHolding.peek()) return;
  stopAnswer();
  send("input_audio_buffer.clear");
  remark.value = "";
  isHolding.value = true;
}

/** End a turn of push to talk. The answer is requested once the server has committed the turn. */
export function release() {
  if (!isHolding.peek()) return;
  isHolding.value = false;
  send("input_audio_buffer.commit");
}

/** Send a typed message. */
export function say(text) {
  if (!isReady || !text.trim()) return;
  stopAnswer();
  numTyped += 1;
  const entry = entryFor(`typed-${attempt}-${numTyped}`, "you");
  entry.text.value = text.trim();
  entry.isSettled.value = true;
  entry.isShown.value = true;
  remark.value = "";
  for (const item of entry.items) send("conversation.item.create", { item });
  send("response.create");
}
