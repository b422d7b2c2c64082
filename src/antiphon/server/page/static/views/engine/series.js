// Figures per second, and the rows of the plots that they become.

/** Seconds that the plots show. */
export const SPAN = 120;
/** Seconds over which goodput is averaged. */
const GOODPUT_SECONDS = 10;
const TEXT = ["prefill", "decode", "mixed"];
const DEFAULT_BUCKETS = { shortest: 1e-4, per_decade: 20, count: 140 };

const emptySecond = () => ({ decode: 0, prefill: 0, busy: 0, gaps: new Map(), firsts: [], ended: [] });

export class Series {
  constructor(buckets = DEFAULT_BUCKETS) {
    this.buckets = buckets;
    this.seconds = new Map(); // figures by whole second of the engine's clock
    this.first = null;
  }

  #at(time) {
    const second = Math.floor(time);
    let found = this.seconds.get(second);
    if (!found) {
      found = emptySecond();
      this.seconds.set(second, found);
      this.first = this.first === null ? second : Math.min(this.first, second);
      if (this.seconds.size > 3 * SPAN) this.#forget(second);
    }
    return found;
  }

  #forget(newest) {
    for (const second of this.seconds.keys()) if (second < newest - 2 * SPAN) this.seconds.delete(second);
  }

  addStep(step) {
    const second = this.#at(step.end);
    second.decode += step.decodes;
    if (TEXT.includes(step.kind)) second.prefill += step.prefill_tokens; // other kinds count windows, phonemes or texts
    second.busy += step.microseconds / 1e6;
  }

  addGaps(time, _model, pairs) {
    const { gaps } = this.#at(time);
    for (const [bucket, count] of pairs) gaps.set(bucket, (gaps.get(bucket) ?? 0) + count);
  }

  /** Add a request's new state; `before` is its previous state, if any. */
  addRequest(request, before) {
    if (request.task !== "generate") return;
    if (request.first_token !== null && !before?.first_token) {
      this.#at(request.first_token).firsts.push(request.time_to_first_token);
    }
    if (request.finished !== null && request.finish_reason !== null) this.#at(request.finished).ended.push(request);
  }

  /** Return columns for the last `SPAN` whole seconds before `now`: negative ages in seconds, and the figures. */
  columns(now, targets) {
    const last = Math.floor(now) - 1;
    const ages = [];
    const rows = { decode: [], prefill: [], gap50: [], gap95: [], first50: [], first95: [], finished: [], good: [] };
    for (let second = last - SPAN + 1; second <= last; second += 1) {
      const { decode = 0, prefill = 0, gaps, firsts } = this.seconds.get(second) ?? {};
      const isKnown = this.first !== null && second >= this.first;
      ages.push(second - last);
      rows.decode.push(isKnown ? decode : null);
      rows.prefill.push(isKnown ? prefill : null);
      rows.gap50.push(this.#gap(gaps, 0.5));
      rows.gap95.push(this.#gap(gaps, 0.95));
      rows.first50.push(quantile(firsts, 0.5));
      rows.first95.push(quantile(firsts, 0.95));
      const [finished, good] = isKnown ? this.#goodput(second, targets) : [null, null];
      rows.finished.push(finished);
      rows.good.push(good);
    }
    return { ages, ...rows };
  }

  /** Return the mean number of requests per second that finished, and that also met the targets. */
  #goodput(second, targets) {
    let finished = 0;
    let good = 0;
    for (let at = second - GOODPUT_SECONDS + 1; at <= second; at += 1) {
      for (const request of this.seconds.get(at)?.ended ?? []) {
        if (request.state !== "finished") continue;
        finished += 1;
        good += meets(request, targets);
      }
    }
    return [finished / GOODPUT_SECONDS, good / GOODPUT_SECONDS];
  }

  /** Return the quantile `share` of the gaps in milliseconds, or null without gaps. */
  #gap(gaps, share) {
    if (!gaps?.size) return null;
    const total = [...gaps.values()].reduce((sum, count) => sum + count, 0);
    let seen = 0;
    for (const bucket of [...gaps.keys()].sort((one, other) => one - other)) {
      seen += gaps.get(bucket);
      if (seen >= share * total) return 1e3 * this.#upper(bucket);
    }
    return null;
  }

  #upper(bucket) {
    return this.buckets.shortest * 10 ** ((bucket + 1) / this.buckets.per_decade);
  }
}

/** Return whether an ended request met both targets, in milliseconds. */
export function meets(request, { first, token }) {
  const isSoon = request.time_to_first_token !== null && request.time_to_first_token * 1e3 <= first;
  return isSoon && (request.time_per_output_token ?? 0) * 1e3 <= token;
}

function quantile(values, share) {
  if (!values?.length) return null;
  const sorted = [...values].sort((one, other) => one - other);
  return 1e3 * sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))];
}
