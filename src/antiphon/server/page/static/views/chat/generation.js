// Generation of answers: streams them into the conversation, and runs the tools that they call.
import { announce } from "../../lib/announce.js";
import { events } from "../../lib/api.js";
import { prepare } from "../../lib/models.js";
import { plainText } from "../../lib/markdown.js";
import { signal } from "../../lib/ui.js";
import { ROOT } from "./conversation.js";
import { keep, save, saveSoon } from "./conversations.js";
import { apiMessages } from "./prompt.js";
import { apiTools, runTool } from "./tools.js";

/** Maximum rounds of tool calls for one question. */
const MAX_ROUNDS = 8;
const STORE_MS = 2000;

/** Running answers `{controller}` by conversation id. */
export const running = signal({});
/** For each message being generated, a signal that changes when text was added. */
const growing = new Map();

/** Return whether a message is being generated, and render the calling component again when it grows. */
export function isGrowing(node) {
  return growing.get(node.id)?.value !== undefined;
}

export const runningIn = (conversation) => running.value[conversation.id];

export function stop(conversation) {
  running.peek()[conversation.id]?.controller.abort();
}

/** Ask a question, with attached files, below the message `parent`, by default below the last one shown. */
export function ask(conversation, model, content, { parent = conversation.path().at(-1)?.id ?? ROOT, files = [] } = {}) {
  const question = conversation.add(parent, { role: "user", content, ...(files.length ? { files } : {}) });
  keep(conversation);
  return answer(conversation, model, question.id);
}

/** Generate another answer to the question of an answer. */
export function regenerate(conversation, model, node) {
  return answer(conversation, model, conversation.questionOf(node));
}

/** Answer the branch that ends with the message `parent`, running tools as long as the model calls them. */
export async function answer(conversation, model, parent) {
  if (running.peek()[conversation.id]) return;
  const controller = new AbortController();
  running.value = { ...running.peek(), [conversation.id]: { controller } };
  conversation.onDelete = () => controller.abort();
  let last = null;
  try {
    for (let round = 0; round < MAX_ROUNDS; round += 1) {
      last = conversation.add(parent, { role: "assistant", model, reasoning: "", toolCalls: [] });
      await stream(conversation, last, model, controller.signal);
      if (last.finish !== "tool_calls" || !last.toolCalls.length) break;
      parent = last.id;
      for (const call of last.toolCalls) {
        const result = { role: "tool", toolCallId: call.id, name: call.function.name, content: runTool(call) };
        parent = conversation.add(parent, result).id;
      }
    }
  } finally {
    const { [conversation.id]: _, ...others } = running.peek();
    running.value = others;
    save(conversation);
  }
  if (last.error) announce(`The answer failed: ${last.error}`);
  else announce(last.finish === "stopped" ? "Stopped" : plainText(last.content));
}

/** Stream one answer into its message, and record its end or failure there. */
async function stream(conversation, node, model, abort) {
  const grown = new Growth(node, () => saveSoon(conversation));
  conversation.growing.add(node.id);
  const figures = { sentAt: performance.now(), firstAt: null, numDeltas: 0, usage: null };
  try {
    await prepare([model], { signal: abort });
    figures.sentAt = performance.now();
    const json = body(conversation, node, model);
    for await (const { data } of events("/v1/chat/completions", { json, signal: abort })) {
      if (data.usage) figures.usage = data.usage;
      const choice = data.choices[0];
      if (!choice) continue;
      if (take(node, choice.delta)) {
        figures.firstAt ??= performance.now();
        figures.numDeltas += 1;
        grown.note();
      }
      if (choice.finish_reason) node.finish = choice.finish_reason;
    }
    node.finish ??= "stop";
  } catch (error) {
    if (error.name === "AbortError") node.finish = "stopped";
    else node.error = error.message;
  } finally {
    if (node.thinkingStartedAt !== undefined) endThinking(node);
    node.figures = measured(figures);
    grown.end();
    conversation.growing.delete(node.id);
    conversation.changed();
  }
}

/** Add a chunk's delta to the message; return false if the delta is empty. */
function take(node, delta) {
  if (delta.reasoning_content) {
    node.thinkingStartedAt ??= performance.now();
    node.reasoning += delta.reasoning_content;
  }
  if (delta.content) {
    if (node.thinkingStartedAt !== undefined) endThinking(node);
    node.content += delta.content;
  }
  for (const part of delta.tool_calls ?? []) {
    const call = (node.toolCalls[part.index] ??= { id: "", type: "function", function: { name: "", arguments: "" } });
    if (part.id) call.id = part.id;
    call.function.name += part.function?.name ?? "";
    call.function.arguments += part.function?.arguments ?? "";
  }
  return Boolean(delta.content || delta.reasoning_content || delta.tool_calls?.length);
}

function endThinking(node) {
  node.thinkingSeconds = (performance.now() - node.thinkingStartedAt) / 1000;
  delete node.thinkingStartedAt;
}

/** Return tokens and times. A stopped answer has no usage: its chunks are counted, each about one token. */
function measured({ sentAt, firstAt, numDeltas, usage }) {
  if (firstAt === null) return null;
  const elapsed = (performance.now() - firstAt) / 1000;
  const gap = usage?.timings?.time_per_output_token;
  const tokens = usage?.completion_tokens ?? numDeltas;
  const rate = gap > 0 ? 1 / gap : tokens > 1 && elapsed > 0 ? (tokens - 1) / elapsed : null;
  return {
    tokens,
    isCounted: Boolean(usage),
    tokensPerSecond: rate,
    timeToFirstToken: (firstAt - sentAt) / 1000,
    promptTokens: usage?.prompt_tokens ?? null,
    cachedTokens: usage?.prompt_tokens_details?.cached_tokens ?? null,
    drafted: usage?.timings?.draft_n ? [usage.timings.draft_n_accepted, usage.timings.draft_n] : null,
  };
}

function body(conversation, node, model) {
  const { schema, stop: stops, tools, system: _, reasoning_effort, ...sampling } = conversation.record.options;
  const given = Object.fromEntries(Object.entries(sampling).filter(([, value]) => value !== null && value !== ""));
  const called = apiTools(tools);
  return {
    model,
    messages: apiMessages(conversation, node.parent),
    stream: true,
    stream_options: { include_usage: true },
    timings: true,
    ...given,
    ...(reasoning_effort ? { reasoning_effort } : {}),
    ...(stops ? { stop: stops.split("\n").filter(Boolean) } : {}),
    ...(called.length ? { tools: called } : {}),
    ...(schema.trim()
      ? { response_format: { type: "json_schema", json_schema: { name: "answer", schema: JSON.parse(schema) } } }
      : {}),
  };
}

/** Growing message, rendered at most once a frame, or every 250 ms while the page is hidden. */
class Growth {
  constructor(node, store) {
    this.grown = signal(0);
    this.node = node;
    this.store = store;
    this.storedAt = performance.now();
    this.isScheduled = false;
    growing.set(node.id, this.grown);
  }

  note() {
    if (this.isScheduled) return;
    this.isScheduled = true;
    const show = () => {
      this.isScheduled = false;
      this.grown.value += 1;
      const now = performance.now();
      if (now - this.storedAt < STORE_MS) return;
      this.storedAt = now;
      this.store();
    };
    if (document.hidden) setTimeout(show, 250);
    else requestAnimationFrame(show);
  }

  end() {
    growing.delete(this.node.id);
    this.grown.value += 1;
  }
}
