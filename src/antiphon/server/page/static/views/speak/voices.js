// Voices of the chosen model, and the user's mixture of them.
import { getJson } from "../../lib/api.js";
import { ModelError, prepare } from "../../lib/models.js";
import { setting } from "../../lib/settings.js";
import { signal } from "../../lib/ui.js";

export const model = setting("speak.model", "");
/** Parts `{voice, weight}` of the mixture by model, with weights from 1 to 100. One part is a plain voice. */
const chosen = setting("speak.voices", {});

/** `{model, default, data}` of the model whose voices were fetched, or null. */
export const voices = signal(null);
export const voicesError = signal(null);

const MAX_PARTS = 5;
let asked = "";

/** Fetch a model's voices. This downloads and loads the model, so it is automatic only for loaded models. */
export async function findVoices(name) {
  if (!name || voices.peek()?.model === name || asked === name) return;
  asked = name;
  voicesError.value = null;
  try {
    await prepare([name]);
    const found = await getJson(`/v1/audio/voices?model=${encodeURIComponent(name)}`);
    if (model.peek() === name) voices.value = { ...found, model: name };
  } catch (error) {
    if (model.peek() === name && !(error instanceof ModelError)) voicesError.value = error.message;
  } finally {
    asked = "";
  }
}

/** Return the model's voices without aliases. */
export const ownVoices = () => (voices.value?.data ?? []).filter((voice) => voice.same_as === null);

export function partsOf(name) {
  const known = new Set(ownVoices().map((voice) => voice.id));
  const kept = (chosen.value[name] ?? []).filter((part) => known.has(part.voice));
  return kept.length ? kept : [{ voice: voices.value?.default ?? "", weight: 50 }];
}

const setParts = (name, parts) => (chosen.value = { ...chosen.peek(), [name]: parts });

export function changePart(name, index, change) {
  setParts(name, partsOf(name).map((part, place) => (place === index ? { ...part, ...change } : part)));
}

export const canAdd = (name) => partsOf(name).length < Math.min(MAX_PARTS, ownVoices().length);

/** Add the first voice that is not in the mixture yet. */
export function addPart(name) {
  const parts = partsOf(name);
  const used = new Set(parts.map((part) => part.voice));
  const voice = ownVoices().find((other) => !used.has(other.id));
  if (voice) setParts(name, [...parts, { voice: voice.id, weight: 50 }]);
}

export function removePart(name, index) {
  setParts(name, partsOf(name).filter((_, place) => place !== index));
}

/** Return each part's share in whole percent; the shares add up to 100. */
export function shares(parts) {
  const total = parts.reduce((sum, part) => sum + part.weight, 0);
  const made = parts.map((part) => Math.round((100 * part.weight) / total));
  made[made.length - 1] += 100 - made.reduce((sum, share) => sum + share, 0);
  return made;
}

/** Return the request's `voice`: a name, or names with shares; empty until the voices are known. */
export function voiceText(name) {
  if (voices.value?.model !== name) return "";
  const parts = partsOf(name);
  if (parts.length === 1) return parts[0].voice;
  const portions = shares(parts);
  return parts.map((part, index) => `${part.voice}:${portions[index] / 100}`).join("+");
}

const LANGUAGES = new Intl.DisplayNames(["en"], { type: "language" });

/** Return the language of a tag: "en-us" -> "American English". */
export function languageName(tag) {
  try {
    return LANGUAGES.of(tag);
  } catch {
    return tag;
  }
}

export const languageOf = (voice) => ownVoices().find((own) => own.id === voice)?.language;
