// Reading an answer aloud while its sound is generated.
import { readBody, request } from "../../lib/api.js";
import { plainText } from "../../lib/markdown.js";
import { modelsFor, prepare } from "../../lib/models.js";
import { SoundPlayer, pcmSamples } from "../../lib/player.js";
import { effect, signal } from "../../lib/ui.js";

/** Message being read, `{id, controller, player}`, or null. */
export const spoken = signal(null);
/** Error of the last message to be read, or null. */
export const speechError = signal(null);

/** Return the name of the model that reads answers aloud, or undefined without one. */
export const speechModel = () => modelsFor("synthesize")[0]?.id;

export function stopSpeaking() {
  const now = spoken.peek();
  spoken.value = null;
  now?.controller.abort();
  now?.player.stop();
}

/** Read a message aloud, and stop reading any other. */
export async function speak(node) {
  stopSpeaking();
  const text = plainText(node.content);
  if (!text) return;
  const player = new SoundPlayer();
  const controller = new AbortController();
  spoken.value = { id: node.id, controller, player };
  speechError.value = null;
  const unfollow = effect(() => {
    if (player.state.value === "ended" && spoken.peek()?.player === player) spoken.value = null;
  });
  try {
    const model = speechModel();
    await prepare([model], { signal: controller.signal });
    const json = { model, input: text, response_format: "pcm" };
    const response = await request("/v1/audio/speech", { json, signal: controller.signal });
    for await (const samples of pcmSamples(readBody(response))) player.push(samples);
    player.end();
  } catch (error) {
    if (error.name === "AbortError") return;
    speechError.value = error.reason ?? error.message;
    stopSpeaking();
    unfollow();
  }
}
