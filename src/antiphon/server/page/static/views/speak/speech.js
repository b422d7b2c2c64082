// Speech of a text: plays the sound while it is generated, and receives the times of the words.
import { announce } from "../../lib/announce.js";
import { events } from "../../lib/api.js";
import { ModelError, prepare } from "../../lib/models.js";
import { SoundPlayer, floatsOf } from "../../lib/player.js";
import { signal } from "../../lib/ui.js";
import { placeWords } from "../../lib/word_places.js";
import { stopSample } from "./samples.js";

/** Current or last speech; null before the first. */
export const speech = signal(null);

/** Error of the last speech, or null. */
export const speechError = signal(null);

const ROUTE = "/v1/audio/speech";

/** Return the request's body for a speech. */
export const bodyOf = ({ model, text, voice, speed }, format) => ({
  model,
  input: text,
  response_format: format,
  ...(voice ? { voice } : {}),
  ...(speed === 1 ? {} : { speed }),
});

const bytesOf = (base64) => Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));

/** Generate a speech: `onClause` receives `{text, start, end, words}`, `onSound` bytes. Resolves to the usage. */
export async function synthesize(asked, format, { signal: aborted, onClause, onSound }) {
  await prepare([asked.model], { signal: aborted });
  const json = { ...bodyOf(asked, format), stream_format: "sse", words: true };
  let usage = null;
  for await (const { data } of events(ROUTE, { json, signal: aborted })) {
    if (data.type === "speech.audio.words") onClause?.(data);
    else if (data.type === "speech.audio.delta") onSound?.(bytesOf(data.audio));
    else if (data.type === "speech.audio.done") usage = data.usage;
  }
  return usage;
}

export class Speech {
  constructor(asked) {
    this.asked = asked;
    this.player = new SoundPlayer();
    this.clauses = []; // clauses as received
    this.paragraphs = signal([]); // clauses aligned with the text
    this.rest = signal(asked.text); // text without sound so far
    this.duration = signal(0);
    this.isMade = signal(false);
    this.moves = signal(0); // number of seeks
    this.unreadable = signal([]); // characters that the voice cannot read
    this.controller = new AbortController();
    this.cursor = 0;
  }

  async run() {
    try {
      const usage = await synthesize(this.asked, "pcm", {
        signal: this.controller.signal,
        onClause: (clause) => this.#addClause(clause),
        onSound: (bytes) => {
          this.player.push(floatsOf(bytes));
          this.duration.value = this.player.duration;
        },
      });
      this.unreadable.value = usage?.unreadable ?? [];
      this.#addRest();
      this.isMade.value = true;
      this.player.end();
    } catch (error) {
      if (error.name === "AbortError") return;
      this.player.end(); // play the sound received so far
      if (!(error instanceof ModelError)) speechError.value = error.message;
    }
  }

  seek(second) {
    this.player.seek(second);
    this.moves.value += 1;
  }

  stop() {
    this.controller.abort();
    this.player.stop();
  }

  #addClause(clause) {
    this.clauses.push(clause);
    const { parts, cursor } = placeWords(this.asked.text, clause.words, this.cursor);
    this.cursor = cursor;
    this.paragraphs.value = [...this.paragraphs.peek(), { parts }];
    this.rest.value = this.asked.text.slice(cursor);
  }

  /** Add the text after the last word, such as a full stop. */
  #addRest() {
    const text = this.asked.text.slice(this.cursor);
    if (text) this.paragraphs.value = [...this.paragraphs.peek(), { parts: [{ text, word: null }] }];
    this.rest.value = "";
  }
}

const isSame = (one, other) => ["model", "text", "voice", "speed"].every((name) => one[name] === other[name]);

/** Speak `{model, text, voice, speed}`, and stop the previous speech. Call in a click handler: browsers require one. */
export function speak(asked) {
  stopSample();
  speech.peek()?.stop();
  speechError.value = null;
  speech.value = new Speech(asked);
  announce("Speaking");
  return speech.value.run();
}

/** Return the clauses of a speech with their times: those of the last speech if it is the same, or new ones. */
export async function clausesOf(asked, aborted) {
  const last = speech.peek();
  if (last?.isMade.peek() && isSame(last.asked, asked)) return last.clauses;
  const clauses = [];
  await synthesize(asked, "pcm", { signal: aborted, onClause: (clause) => clauses.push(clause) });
  return clauses;
}
