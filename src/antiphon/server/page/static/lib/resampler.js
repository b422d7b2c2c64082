// Streaming resampler with a windowed sinc: browsers have no API that resamples a stream.

/** Zero crossings of the sinc on each side: 16 attenuate aliases by 60 dB. */
const HALF_CROSSINGS = 16;
/** Share of the band that passes; the filter's transition takes the rest. */
const KEPT = 0.9;
/** Entries of the kernel's table per sample, with linear interpolation between entries. */
const STEPS = 256;

/** Resampler whose `push` takes samples at the rate `from` and returns the finished samples at the rate `to`. */
export class Resampler {
  constructor(from, to) {
    this.step = from / to;
    const scale = KEPT * Math.min(1, to / from); // cutoff relative to the old Nyquist frequency
    this.half = Math.ceil(HALF_CROSSINGS / scale);
    this.table = kernel(scale, this.half);
    this.samples = new Float32Array(2 * this.half); // silence before the first sample
    this.position = this.half; // position of the next output in `samples`
  }

  push(samples) {
    const all = new Float32Array(this.samples.length + samples.length);
    all.set(this.samples);
    all.set(samples, this.samples.length);
    const last = all.length - this.half - 1; // an output needs `half` samples after it
    const count = Math.max(0, Math.floor((last - this.position) / this.step) + 1);
    const made = new Float32Array(count);
    for (let index = 0; index < count; index += 1) made[index] = this.#at(all, this.position + index * this.step);
    this.position += count * this.step;
    const used = Math.max(0, Math.floor(this.position) - this.half);
    this.samples = all.slice(used);
    this.position -= used;
    return made;
  }

  #at(samples, position) {
    const first = Math.max(0, Math.ceil(position - this.half));
    const last = Math.min(samples.length - 1, Math.floor(position + this.half));
    let sum = 0;
    for (let index = first; index <= last; index += 1) {
      const place = Math.abs(index - position) * STEPS;
      const entry = Math.floor(place);
      const value = this.table[entry];
      sum += samples[index] * (value + (this.table[entry + 1] - value) * (place - entry));
    }
    return sum;
  }
}

/** Compute one side of the symmetric kernel, with a Blackman window. */
function kernel(scale, half) {
  const table = new Float32Array(half * STEPS + 2);
  for (let entry = 0; entry <= half * STEPS; entry += 1) {
    const time = entry / STEPS;
    const angle = Math.PI * scale * time;
    const sinc = angle === 0 ? 1 : Math.sin(angle) / angle;
    const share = (Math.PI * time) / half;
    table[entry] = scale * sinc * (0.42 + 0.5 * Math.cos(share) + 0.08 * Math.cos(2 * share));
  }
  return table;
}
