// Short samples of voices.
import { readBody, request } from "../../lib/api.js";
import { SoundPlayer, pcmSamples } from "../../lib/player.js";
import { effect, signal } from "../../lib/ui.js";

/** Sentence that a sample speaks, by the voice's language. */
const SENTENCES = {
  en: "Hello, this is how I sound.",
  es: "Hola, así suena mi voz.",
  fr: "Bonjour, voici comment je parle.",
  hi: "नमस्ते, मेरी आवाज़ ऐसी है।",
  it: "Ciao, questa è la mia voce.",
  pt: "Olá, esta é a minha voz.",
};

/** Voice whose sample is generated or played, or null. */
export const sampled = signal(null);
/** Error of the last sample, or null. */
export const sampleError = signal(null);

let current = null;

export function stopSample() {
  current?.controller.abort();
  current?.player.stop();
  current = null;
  sampled.value = null;
}

/** Play a sample of a voice or a mixture, and stop the previous one. Call in a click handler. */
export async function playSample(model, voice, language) {
  stopSample();
  sampleError.value = null;
  sampled.value = voice;
  const mine = { player: new SoundPlayer(), controller: new AbortController() };
  current = mine;
  effect(() => {
    if (mine.player.state.value === "ended" && current === mine) stopSample();
  });
  const input = SENTENCES[language?.slice(0, 2)] ?? SENTENCES.en;
  try {
    const json = { model, input, voice, response_format: "pcm" };
    const response = await request("/v1/audio/speech", { json, signal: mine.controller.signal });
    for await (const samples of pcmSamples(readBody(response))) mine.player.push(samples);
    mine.player.end();
  } catch (error) {
    if (error.name === "AbortError") return;
    sampleError.value = error.message;
    if (current === mine) stopSample();
  }
}
