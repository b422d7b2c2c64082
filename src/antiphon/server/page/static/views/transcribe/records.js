// Files and recordings that wait, are being transcribed or are finished, in the order in which they were added.
import { announce } from "../../lib/announce.js";
import { events } from "../../lib/api.js";
import { clock } from "../../lib/format.js";
import { prepare } from "../../lib/models.js";
import { signal } from "../../lib/ui.js";
import { placeWords, wordsBySegment } from "../../lib/word_places.js";
import { options } from "./options.js";

export const records = signal([]);

let lastId = 0;

/**
 * File or recording. `state` is `waiting`, `working`, `recording`, `finishing`, `done`, `failed` or `cancelled`.
 * `source` is the sound, a Blob, and `url` its address. `segments` are `{text, start, end, words}`; the open segment of
 * a recording has a `tail`, text that may still change.
 */
export class Record {
  constructor(name, { source = null, asked = options() } = {}) {
    lastId += 1;
    this.id = lastId;
    this.name = name;
    this.asked = asked;
    this.source = source;
    this.url = signal(source && URL.createObjectURL(source));
    this.state = signal("waiting");
    this.segments = signal([]);
    this.paragraphs = signal([]); // paragraphs of the segments, for TimedText
    this.seconds = signal(0); // seconds transcribed so far
    this.duration = signal(null); // seconds of the whole sound, null until known
    this.language = "";
    this.error = signal(null);
    this.controller = new AbortController();
  }

  get isOver() {
    return ["done", "failed", "cancelled"].includes(this.state.value);
  }

  get text() {
    return this.segments.value.map((segment) => segment.text.trim()).join("\n");
  }

  show(segments) {
    const before = new Map(this.segments.peek().map((segment, index) => [segment, this.paragraphs.peek()[index]]));
    this.segments.value = segments;
    this.paragraphs.value = segments.map((segment) => before.get(segment) ?? paragraphOf(segment));
  }

  setSource(source) {
    this.source = source;
    this.url.value = URL.createObjectURL(source);
  }

  cancel() {
    if (this.isOver) return;
    this.state.value = "cancelled";
    this.controller.abort();
  }

  fail(message) {
    this.error.value = message;
    this.state.value = "failed";
    announce(`${this.name}: ${message}`);
  }
}

/** Return the paragraph of a segment; a segment without timed words becomes one word. */
function paragraphOf({ text, start, end, words, tail }) {
  const plain = text.trim();
  const time = clock(start);
  if (tail !== undefined) return { parts: [{ text: plain, word: null }], time, tail };
  if (!words?.length) return { parts: [{ text: plain, word: { word: plain, start, end } }], time };
  const { parts, cursor } = placeWords(plain, words);
  return { parts: [...parts, { text: plain.slice(cursor), word: null }], time };
}

export function add(record) {
  records.value = [...records.peek(), record];
}

export function remove(record) {
  record.cancel();
  if (record.url.peek()) URL.revokeObjectURL(record.url.peek());
  records.value = records.peek().filter((other) => other !== record);
}

export function addFiles(files) {
  for (const file of files) add(new Record(file.name, { source: file }));
  work();
}

/** Transcribe a record again with the current options. */
export function tryAgain(record) {
  const again = new Record(record.name, { source: record.source });
  URL.revokeObjectURL(record.url.peek());
  records.value = records.peek().map((other) => (other === record ? again : other));
  work();
}

let isWorking = false;

/** Transcribe waiting files one after another. */
async function work() {
  if (isWorking) return;
  isWorking = true;
  try {
    for (;;) {
      const next = records.peek().find((record) => record.state.peek() === "waiting");
      if (!next) return;
      await transcribe(next);
    }
  } finally {
    isWorking = false;
  }
}

async function transcribe(record) {
  try {
    await prepare([record.asked.model], { signal: record.controller.signal });
    record.state.value = "working";
    for await (const { data } of events("/v1/audio/transcriptions", { body: formOf(record), signal: record.controller.signal })) {
      take(record, data);
    }
    if (record.state.peek() === "working") record.fail("the server ended the transcription early");
  } catch (error) {
    if (record.state.peek() !== "cancelled") record.fail(error.message);
  }
}

function formOf({ source, name, asked }) {
  const form = new FormData();
  form.append("file", source, name);
  form.append("model", asked.model);
  form.append("response_format", "verbose_json");
  form.append("stream", "true");
  for (const kind of ["segment", "word"]) form.append("timestamp_granularities[]", kind);
  if (asked.language) form.append("language", asked.language);
  if (asked.prompt) form.append("prompt", asked.prompt);
  return form;
}

function take(record, data) {
  if (data.type === "transcript.text.delta") {
    const words = wordsBySegment(data.segments, data.words);
    record.show([...record.segments.peek(), ...data.segments.map((segment, index) => ({ ...segment, words: words[index] }))]);
    record.seconds.value = data.seconds;
  } else if (data.type === "transcript.text.done") {
    record.language = data.language;
    record.duration.value = data.duration;
    record.seconds.value = data.duration;
    record.state.value = "done";
    announce(`${record.name} is transcribed`);
  }
}
