// Playback of answers in chunks, which measures how much of each answer was played.
import { signal } from "../../lib/ui.js";

/** Seconds from the first chunk to the start of playback, so that the next chunks arrive in time. */
const LEAD_SECONDS = 0.06;

/**
 * Player of answers in the order in which their sound arrives. Positions are in samples, by the clock of the audio
 * context. `isPlaying` is a signal; `analyser` receives the sound being played.
 */
export class Playback {
  constructor(rate) {
    this.rate = rate;
    this.context = new AudioContext({ sampleRate: rate, latencyHint: "interactive" });
    this.analyser = this.context.createAnalyser();
    this.analyser.connect(this.context.destination);
    this.isPlaying = signal(false);
    this.answers = new Map(); // {pieces: [{start, length}], isComplete} by item id
    this.sources = new Set();
    this.next = 0; // start of the next chunk, in samples of the context's clock
    this.resume();
  }

  /** Resume sound, which browsers suspend until the user interacts with the page, or during a phone call. */
  resume() {
    if (this.context.state !== "running" && this.context.state !== "closed") this.context.resume().catch(() => {});
  }

  push(itemId, samples) {
    if (samples.length === 0) return;
    const buffer = this.context.createBuffer(1, samples.length, this.rate);
    buffer.copyToChannel(samples, 0);
    const source = this.context.createBufferSource();
    source.buffer = buffer;
    source.connect(this.analyser);
    if (this.next < this.#now()) this.next = this.#now() + Math.round(LEAD_SECONDS * this.rate);
    source.start(this.next / this.rate);
    this.#answer(itemId).pieces.push({ start: this.next, length: samples.length });
    this.next += samples.length;
    this.sources.add(source);
    this.isPlaying.value = true;
    source.onended = () => {
      this.sources.delete(source);
      if (this.sources.size === 0) this.isPlaying.value = false;
    };
  }

  /** Mark an answer's sound as complete. */
  finish(itemId) {
    this.#answer(itemId).isComplete = true;
  }

  /** Return the milliseconds of an answer that have been played. */
  playedMs(itemId) {
    const now = this.#now();
    const { pieces } = this.#answer(itemId);
    const played = pieces.reduce((sum, { start, length }) => sum + Math.max(0, Math.min(length, now - start)), 0);
    return Math.floor((played * 1000) / this.rate);
  }

  /** Stop. Return `{itemId, ms}`, the milliseconds played, for each answer that was not played to its end. */
  stop() {
    const now = this.#now();
    const cut = [];
    for (const [itemId, { pieces, isComplete }] of this.answers) {
      const end = pieces.length ? pieces.at(-1).start + pieces.at(-1).length : 0;
      if (pieces.length && (!isComplete || end > now)) cut.push({ itemId, ms: this.playedMs(itemId) });
    }
    for (const source of this.sources) {
      source.onended = null;
      source.stop();
      source.disconnect();
    }
    this.sources.clear();
    this.answers.clear();
    this.next = 0;
    this.isPlaying.value = false;
    return cut;
  }

  close() {
    this.stop();
    this.context.close();
  }

  #now() {
    return Math.round(this.context.currentTime * this.rate);
  }

  #answer(itemId) {
    if (!this.answers.has(itemId)) this.answers.set(itemId, { pieces: [], isComplete: false });
    return this.answers.get(itemId);
  }
}
