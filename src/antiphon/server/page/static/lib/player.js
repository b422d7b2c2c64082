// Playback of sound while it is generated: chunks of samples without gaps between them.
import { signal } from "./ui.js";

/** Seconds from the first chunk to the start of playback, so that the next chunks arrive in time. */
const LEAD_SECONDS = 0.08;

let context = null;

/** Return the page's only AudioContext. Browsers let it play only after the user has interacted with the page. */
export function audioContext() {
  context ??= new AudioContext({ latencyHint: "interactive" });
  if (context.state === "suspended") context.resume();
  return context;
}

/** Convert 16-bit little-endian samples, the API's `pcm` format, to floats. */
export function floatsOf(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const samples = new Float32Array(bytes.byteLength >> 1);
  for (let index = 0; index < samples.length; index += 1) samples[index] = view.getInt16(index * 2, true) / 32768;
  return samples;
}

/**
 * Player of one stream of mono sound. `push` chunks of floats, then call `end`; `stop` at any time. `state` is a signal
 * of `waiting` (for sound), `playing`, `paused` or `ended`. `analyser` receives the sound being played.
 */
export class SoundPlayer {
  constructor(sampleRate = 24000) {
    this.sampleRate = sampleRate;
    this.state = signal("waiting");
    this.context = audioContext();
    this.analyser = this.context.createAnalyser();
    this.analyser.connect(this.context.destination);
    this.chunks = []; // all samples, for seeking back
    this.numSamples = 0;
    this.sources = new Set();
    this.nextTime = 0; // start of the next chunk, by the context's clock
    this.startedAt = 0; // start of the sound by the context's clock, moved by pauses and gaps
    this.pausedAt = null;
    this.stoppedAt = null;
    this.isComplete = false;
  }

  /** Seconds of sound received so far. */
  get duration() {
    return this.numSamples / this.sampleRate;
  }

  /** Playback position in seconds. */
  get position() {
    const still = this.pausedAt ?? this.stoppedAt;
    if (still !== null) return still;
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

  /** Enter the state `ended` after the last chunk, because no more chunks follow. */
  end() {
    this.isComplete = true;
    this.#endIfPlayed();
  }

  stop() {
    if (this.state.peek() === "ended") return;
    this.stoppedAt = this.position;
    this.pausedAt = null;
    this.#silence();
    this.state.value = "ended";
  }

  pause() {
    if (this.pausedAt !== null || this.state.peek() === "ended") return;
    this.pausedAt = this.position;
    this.#silence();
    this.state.value = "paused";
  }

  resume() {
    if (this.pausedAt !== null) this.#playFrom(this.pausedAt);
  }

  /** Go to a second of the received sound, and continue playing there unless paused. */
  seek(second) {
    const place = Math.max(0, Math.min(second, this.duration));
    if (this.pausedAt === null) this.#playFrom(place);
    else this.pausedAt = place;
  }

  #playFrom(second) {
    this.#silence();
    this.pausedAt = null;
    this.stoppedAt = null;
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

/** Yield chunks of floats from byte chunks of the API's `pcm` format, which may end within a sample. */
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
