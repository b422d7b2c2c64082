// Live transcription of the microphone by a transcription session of /v1/realtime.
import { announce } from "../../lib/announce.js";
import { ApiError, socket } from "../../lib/api.js";
import { MicrophoneError, openMicrophone } from "../../lib/microphone.js";
import { ModelError, prepare } from "../../lib/models.js";
import { signal } from "../../lib/ui.js";
import { wavOf } from "../../lib/wav.js";
import { Record, add } from "./records.js";

const RATE = 24000;
const FRAMES_PER_MESSAGE = 5; // frames of 20 ms
const INCLUDED = ["item.input_audio_transcription.unsettled", "item.input_audio_transcription.words"];
const EMPTY = "input_audio_buffer_commit_empty";

/** Open session, or null. */
export const live = signal(null);
/** Error of the microphone, or null. */
export const liveError = signal(null);
/** What the start waits for, the `model` or the `microphone`; null otherwise. */
export const opening = signal(null);

export async function startLive() {
  if (live.peek() || opening.peek()) return;
  liveError.value = null;
  const record = new Record(named());
  try {
    await openLive(record);
    add(record);
    announce("Recording");
  } catch (error) {
    if (error instanceof MicrophoneError || error instanceof ApiError) liveError.value = error.message;
    else if (!(error instanceof ModelError)) throw error;
  }
}

/**
 * Transcribe the microphone into `record`, a `Record` or an object with its fields `asked`, `state`, `seconds`,
 * `duration` and `error` and its methods `show` and `setSource`, once its model is loaded. Resolves to the session, or to
 * null if there is one already. Throws ModelError, MicrophoneError, or ApiError.
 */
export async function openLive(record) {
  if (live.peek() || opening.peek()) return null;
  opening.value = "model";
  try {
    await prepare([record.asked.model]);
    opening.value = "microphone";
    const session = new LiveSession(record);
    session.microphone = await openMicrophone({
      rate: RATE,
      onFrame: (frame) => session.hear(frame),
      onLost: () => session.stop(),
    });
    session.connect();
    live.value = session;
    return session;
  } finally {
    opening.value = null;
  }
}

const named = () => `Recording, ${new Date().toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" })}`;

class LiveSession {
  constructor(record) {
    this.record = record;
    this.microphone = null;
    this.frames = []; // all frames of the recording
    this.numSent = 0; // number of frames sent
    this.level = signal(0);
    this.seconds = signal(0);
    this.items = new Map(); // segments by item id of their turn
    this.awaited = new Set(); // turns without a transcript
    this.isCommitted = false;
  }

  connect() {
    const { model, language, prompt } = this.record.asked;
    this.record.state.value = "recording";
    this.socket = socket(`/v1/realtime?intent=transcription&model=${encodeURIComponent(model)}`, ["realtime"]);
    this.socket.onopen = () => {
      const transcription = { model, language: language || null, prompt: prompt || null };
      this.#send("session.update", { session: { type: "transcription", include: INCLUDED, audio: { input: { transcription } } } });
      this.#sendFrames();
      if (this.record.state.peek() === "finishing") this.#send("input_audio_buffer.commit");
    };
    this.socket.onmessage = ({ data }) => this.#take(JSON.parse(data));
    this.socket.onclose = () => this.#end("The server ended the live session. What it heard until then is kept.");
  }

  /** Take a frame of the microphone, even before the session is open. */
  hear(frame) {
    this.frames.push(frame);
    if (this.frames.length % FRAMES_PER_MESSAGE) return;
    this.level.value = Math.min(1, rootMeanSquare(frame) * 4);
    this.seconds.value = (this.frames.length * frame.length) / RATE;
    this.#sendFrames();
  }

  /** Stop recording, and wait for the rest of the transcript. */
  stop() {
    if (this.record.state.peek() !== "recording") return;
    this.record.state.value = "finishing";
    this.microphone.close();
    this.level.value = 0;
    if (this.socket.readyState !== WebSocket.OPEN) return;
    this.#sendFrames();
    this.#send("input_audio_buffer.commit");
  }

  #send(type, fields = {}) {
    this.socket.send(JSON.stringify({ type, ...fields }));
  }

  #sendFrames() {
    if (this.socket?.readyState !== WebSocket.OPEN) return;
    for (; this.numSent < this.frames.length; this.numSent += FRAMES_PER_MESSAGE) {
      const audio = base64Of(this.frames.slice(this.numSent, this.numSent + FRAMES_PER_MESSAGE));
      this.#send("input_audio_buffer.append", { audio });
    }
  }

  #take(event) {
    switch (event.type) {
      case "input_audio_buffer.speech_started":
        this.#change(event.item_id, { start: event.audio_start_ms / 1000 });
        break;
      case "input_audio_buffer.speech_stopped":
        this.#change(event.item_id, { end: event.audio_end_ms / 1000 });
        break;
      case "input_audio_buffer.committed":
        this.awaited.add(event.item_id);
        this.isCommitted = this.record.state.peek() === "finishing";
        break;
      case "conversation.item.input_audio_transcription.delta":
        this.#change(event.item_id, { text: (this.items.get(event.item_id)?.text ?? "") + event.delta });
        break;
      case "conversation.item.input_audio_transcription.unsettled":
        this.#change(event.item_id, { tail: event.text });
        break;
      case "conversation.item.input_audio_transcription.completed":
        this.#complete(event);
        break;
      case "conversation.item.input_audio_transcription.failed":
        this.#complete({ item_id: event.item_id, transcript: this.items.get(event.item_id)?.text ?? "" });
        this.record.error.value = `A part could not be transcribed: ${event.error.message}`;
        break;
      case "error":
        if (event.error.code === EMPTY) this.isCommitted = true;
        else this.record.error.value = event.error.message;
        break;
    }
    if (this.isCommitted && this.awaited.size === 0) this.#end(null);
  }

  #complete({ item_id: id, transcript, words }) {
    this.awaited.delete(id);
    this.#change(id, { text: transcript, words: words ?? [], tail: undefined });
  }

  /** Change a turn's segment; it is shown once it has words. */
  #change(id, fields) {
    const before = this.items.get(id) ?? { text: "", start: this.seconds.peek(), end: this.seconds.peek(), words: [], tail: "" };
    this.items.set(id, { ...before, ...fields });
    this.record.show([...this.items.values()].filter((segment) => segment.text || segment.tail));
  }

  #end(cause) {
    if (live.peek() !== this) return;
    live.value = null;
    this.microphone.close();
    this.socket.onclose = null;
    this.socket.close();
    const { record } = this;
    for (const [id, segment] of this.items) if (segment.tail !== undefined) this.#change(id, { tail: undefined });
    record.setSource(wavOf(this.frames, RATE));
    record.seconds.value = this.seconds.peek();
    record.duration.value = this.seconds.peek();
    record.error.value ??= cause;
    record.state.value = "done";
    announce("The recording is transcribed");
  }
}

function rootMeanSquare(frame) {
  let sum = 0;
  for (const sample of frame) sum += sample * sample;
  return Math.sqrt(sum / frame.length) / 32768;
}

function base64Of(frames) {
  let text = "";
  for (const frame of frames)
    text += String.fromCharCode(...new Uint8Array(frame.buffer, frame.byteOffset, frame.byteLength));
  return btoa(text);
}
