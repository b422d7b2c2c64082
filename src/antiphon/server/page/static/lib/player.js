// Sound played while it is made: chunks of samples, one after another without a gap.
import { signal } from "./ui.js";

/** Sound begins this long after the first chunk, so that the next ones are there in time. */
const LEAD_SECONDS = 0.08;

let context = null;

/** The page's one AudioContext. Browsers let it sound only after the user has done something on the page. */
export function audioContext() {
  context ??= new AudioContext({ latencyHint: "interactive" });
  if (context.state === "suspended") context.resume();
  return context;
}

/** 16-bit little-endian samples, as the API's `pcm` format has them, as floats. */
export function floatsOf(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const samples = new Float32Array(bytes.byteLength >> 1);
  for (let index = 0; index < samples.length; index += 1) samples[index] = view.getInt16(index * 2, true) / 32768;
  return samples;
}

/**
 * Plays one stream of mono sound. `push` chunks of floats, then `end`; or `stop` at any time. `state` is a signal:
 * `waiting` for sound, `playing`, `paused`, `ended`. `analyser` hears what is played.
 */
export class SoundPlayer {
  constructor(sampleRate = 24000) {
    this.sampleRate = sampleRate;
    this.state = signal("waiting");
    this.context = audioContext();
    this.analyser = this.context.createAnalyser();
    this.analyser.connect(this.context.destination);
    this.chunks = []; // all samples, for going back
    this.numSamples = 0;
    this.sources = new Set();
    this.nextTime = 0; // of the context's clock: when the next chunk begins
    this.startedAt = 0; // of the context's clock, less pauses and gaps: when the sound's second 0 was played
    this.pausedAt = null;
    this.isComplete = false;
  }

  /** Seconds of sound that were received. */
  get duration() {
    return this.numSamples / this.sampleRate;
  }

  /** Seconds of sound that were heard. */
  get position() {
    if (this.pausedAt !== null) return this.pausedAt;
    if (this.state.value === "waiting") return 0;
    return Math.max(0, Math.min(this.duration, this.context.currentTime - this.startedAt));
  }

  push(samples) {
    if (this.state.peek() === "ended" || samples.length === 0) return;
    this.chunks.push(samples);
    const offset = this.duration;
    this.numSamples += samples.length;
    if (this.pausedAt === null) this.#schedule(samples, offset);
  }

  /** No more chunks follow: `ended` when the last one was played. */
  end() {
    this.isComplete = true;
    this.#endIfPlayed();
  }

  stop() {
    this.#silence();
    this.state.value = "ended";
  }

  pause() {
    if (this.state.peek() !== "playing") return;
    this.pausedAt = this.position;
    this.#silence();
    this.state.value = "paused";
  }

  resume() {
    if (this.pausedAt !== null) this.seek(this.pausedAt);
  }

  /** Play on from a second of the sound that was received. */
  seek(second) {
    this.#silence();
    this.pausedAt = null;
    this.nextTime = 0;
    this.state.value = "waiting";
    let offset = 0;
    for (const chunk of this.chunks) {
      const length = chunk.length / this.sampleRate;
      const skipped = Math.max(0, second - offset);
      if (skipped < length) this.#schedule(chunk.subarray(Math.floor(skipped * this.sampleRate)), offset + skipped);
      offset += length;
    }
    this.#endIfPlayed();
  }

  #schedule(samples, offset) {
    if (samples.length === 0) return;
    const buffer = this.context.createBuffer(1, samples.length, this.sampleRate);
    buffer.copyToChannel(samples, 0);
    const source = this.context.createBufferSource();
    source.buffer = buffer;
    source.connect(this.analyser);
    const now = this.context.currentTime;
    if (this.nextTime < now) {
      this.nextTime = now + LEAD_SECONDS;
      this.startedAt = this.nextTime - offset;
    }
    source.start(this.nextTime);
    this.nextTime += buffer.duration;
    this.sources.add(source);
    source.onended = () => {
      this.sources.delete(source);
      this.#endIfPlayed();
    };
    this.state.value = "playing";
  }

  #endIfPlayed() {
    if (this.isComplete && this.sources.size === 0 && this.pausedAt === null) this.state.value = "ended";
  }

  #silence() {
    for (const source of this.sources) {
      source.onended = null;
      source.stop();
      source.disconnect();
    }
    this.sources.clear();
  }
}

/** Byte chunks of the API's `pcm` format, cut anywhere, as chunks of floats. */
export async function* pcmSamples(chunks) {
  let rest = new Uint8Array(0);
  for await (const chunk of chunks) {
    const whole = new Uint8Array(rest.length + chunk.length);
    whole.set(rest);
    whole.set(chunk, rest.length);
    const even = whole.length & ~1;
    rest = whole.slice(even);
    if (even) yield floatsOf(whole.subarray(0, even));
  }
}
