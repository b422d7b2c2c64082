// @openai/agents-realtime: a RealtimeSession over a WebSocket, which calls the tool itself.
// The first argument is the folder that has node_modules.

import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const require = createRequire(pathToFileURL(`${process.argv[2]}/package.json`));
const { RealtimeAgent, RealtimeSession, OpenAIRealtimeWebSocket, tool } = require('@openai/agents-realtime');
const { z } = require('zod');

const KEY = process.env.CLIENT_KEY;
const MODEL = 'gpt-realtime';
const URL_ = `${process.env.CLIENT_HOST.replace('http', 'ws')}/v1/realtime?model=${MODEL}`;
const SPEECH = readFileSync(process.env.CLIENT_SPEECH);
const CHUNK = 4800; // bytes of 100 ms
const SHORT = 20;
const LONG = 400;
const TIMEOUT_MS = 120_000;

const report = {
  kinds: [], heard: '', answers: [], tool_arguments: null, interrupted_status: null, was_over: false, errors: [],
};
const statuses = [];
const waiting = new Set();
let text = '';
let sound = [];

function notify() {
  for (const check of [...waiting]) check();
}

function until(holds, what) {
  return new Promise((resolve, reject) => {
    const end = (settle, value) => {
      clearTimeout(timer);
      waiting.delete(check);
      settle(value);
    };
    const check = () => {
      if (report.errors.length) end(reject, new Error(report.errors.join('\n')));
      else if (holds()) end(resolve);
    };
    const timer = setTimeout(() => end(reject, new Error(`${what}; seen so far: ${report.kinds}`)), TIMEOUT_MS);
    waiting.add(check);
    check();
  });
}

const count = (kind) => report.kinds.filter((found) => found === kind).length;
const untilSeen = (kind, times = 1) => until(() => count(kind) >= times, `${times} × ${kind}`);

const getWeather = tool({
  name: 'get_weather',
  description: 'The weather of a city.',
  parameters: z.object({ city: z.enum(['Paris', 'Oslo']) }),
  execute: async (given) => {
    report.tool_arguments = given;
    await configure('none', SHORT); // the answer to the tool's result is spoken
    return 'It is sunny, with 18 degrees.';
  },
});

const agent = new RealtimeAgent({ name: 'assistant', instructions: 'Answer in one short sentence.', tools: [getWeather] });
const transport = new OpenAIRealtimeWebSocket({ url: URL_ });
const session = new RealtimeSession(agent, {
  transport,
  model: MODEL,
  config: { toolChoice: 'none', providerData: { max_output_tokens: SHORT } },
});

async function configure(toolChoice, maxTokens) {
  const before = count('session.updated');
  const settings = { type: 'realtime', tool_choice: toolChoice, max_output_tokens: maxTokens, parallel_tool_calls: false };
  transport.sendEvent({ type: 'session.update', session: settings });
  await untilSeen('session.updated', before + 1);
}

function failed(code, detail) {
  if (code === 'response_cancel_not_active') report.was_over = true;
  else report.errors.push(JSON.stringify(detail) ?? String(detail));
}

function take(event) {
  if (event.type === 'response.output_audio_transcript.delta') text += event.delta;
  else if (event.type === 'conversation.item.input_audio_transcription.completed') report.heard += event.transcript;
  else if (event.type === 'response.done') {
    statuses.push(event.response.status);
    if (sound.length) report.answers.push({ text, sound: Buffer.concat(sound).toString('base64') });
    text = '';
    sound = [];
  }
  report.kinds.push(event.type);
  notify();
}

session.on('audio', (event) => sound.push(Buffer.from(event.data)));
session.on('error', (event) => {
  failed(event.error?.error?.code ?? event.error?.code, event.error);
  notify();
});
session.on('audio_interrupted', () => take({ type: 'audio_interrupted' }));
session.on('agent_tool_end', () => take({ type: 'agent_tool_end' }));
transport.on('*', take);

async function talk() {
  await session.connect({ apiKey: KEY });
  await untilSeen('session.updated');
  for (let start = 0; start < SPEECH.length; start += CHUNK) {
    session.sendAudio(new Uint8Array(SPEECH.subarray(start, start + CHUNK)).buffer);
  }
  await untilSeen('response.done');
  await until(() => report.heard, 'the transcript');
  await configure('required', 'inf');
  session.sendMessage('What is the weather in Paris?');
  await until(() => report.answers.length === 2, 'the answer after the tool');
  await untilSeen('agent_tool_end');
  await configure('none', LONG);
  const number = statuses.length;
  const heard = count('response.output_audio.delta');
  session.sendMessage('Tell me a long story about a ship on the sea.');
  await untilSeen('response.output_audio.delta', heard + 1);
  transport.interrupt(true);
  await until(() => statuses.length > number, 'the end of the interrupted response');
  report.interrupted_status = statuses[number];
  await untilSeen('conversation.item.truncated');
}

await talk();
session.close();
report.answers.length = 2;
process.stdout.write(`${JSON.stringify(report)}\n`, () => process.exit(0));
