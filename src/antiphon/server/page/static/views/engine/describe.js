// Descriptions of steps and requests, one line each.
import { plural, seconds, whole } from "../../lib/format.js";

const PARTS = ["plan", "build", "run", "sample", "commit"];
const NOUNS = { encoder: "window", synthesis: "utterance", embedding: "text", detection: "detection" };

export function describeStep(step) {
  const took = step.microseconds < 10_000 ? `${(step.microseconds / 1000).toFixed(2)} ms` : seconds(step.microseconds / 1e6);
  const contents = [];
  const noun = NOUNS[step.kind];
  if (noun) contents.push(plural(step.prefills, noun));
  if (step.decodes) contents.push(`${plural(step.decodes, "request")} decoding`);
  if (step.prefills && !noun) contents.push(`${plural(step.prefill_tokens, "prompt token")} of ${plural(step.prefills, "request")}`);
  const parts = PARTS.filter((part) => step[part] > 0).map((part) => `${part} ${(step[part] / 1000).toFixed(2)}`);
  return `Step ${whole(step.index)} of ${step.model}: ${contents.join(", ")}; ${took} (ms: ${parts.join(", ")}); ${step.waiting} waiting`;
}

/** Describe a request since its arrival. `now` is the time by the engine's clock, in seconds. */
export function describeRequest(request, now) {
  const { arrived, first_scheduled: scheduled, first_token: token, finished } = request;
  const id = request.id.length > 16 ? `${request.id.slice(0, 12)}…` : request.id;
  const parts = [`${id}: ${request.task} on ${request.model}, ${request.state}`];
  parts.push(`${whole(request.prompt_tokens)} in${request.cached_tokens ? ` (${whole(request.cached_tokens)} cached)` : ""}, ${whole(request.output_tokens)} out`);
  parts.push(`waited ${seconds((scheduled ?? finished ?? now) - arrived)}`);
  if (token !== null) parts.push(`first token after ${seconds(token - arrived)}`);
  if (request.time_per_output_token !== null) parts.push(`${seconds(request.time_per_output_token)} a token`);
  if (request.preemptions) parts.push(plural(request.preemptions, "preemption"));
  parts.push(finished === null ? `for ${seconds(now - arrived)}` : `ended after ${seconds(finished - arrived)} (${request.finish_reason})`);
  return parts.join("; ");
}
