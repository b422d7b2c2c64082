// Audio worklet that turns the microphone's sound into frames of 16-bit samples at the requested rate.
import { Resampler } from "./resampler.js";

const FRAME_SECONDS = 0.02;

class Capture extends AudioWorkletProcessor {
  constructor({ processorOptions }) {
    super();
    const { rate } = processorOptions;
    this.resampler = sampleRate === rate ? null : new Resampler(sampleRate, rate);
    this.frame = new Int16Array(Math.round(rate * FRAME_SECONDS));
    this.filled = 0;
  }

  process([channels]) {
    const samples = channels[0];
    if (!samples) return true; // the source is not connected yet
    for (const sample of this.resampler ? this.resampler.push(samples) : samples) {
      this.frame[this.filled] = Math.max(-32768, Math.min(32767, Math.round(sample * 32768)));
      this.filled += 1;
      if (this.filled === this.frame.length) this.#send();
    }
    return true;
  }

  #send() {
    const full = this.frame;
    this.frame = new Int16Array(full.length);
    this.filled = 0;
    this.port.postMessage(full, [full.buffer]);
  }
}

registerProcessor("capture", Capture);
