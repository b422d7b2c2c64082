// Dictation: the microphone as text in the composer, transcribed by the live session of the view Transcribe.
import { announce } from "../../../lib/announce.js";
import { MicrophoneError } from "../../../lib/microphone.js";
import { firstUse, ModelError, modelsFor } from "../../../lib/models.js";
import { effect, signal } from "../../../lib/ui.js";

/** Open dictation, or null. */
export const dictation = signal(null);
/** Name of the model that a dictation waits for or uses, or null. */
export const dictationModel = signal(null);
/** Sentence about the microphone or the transcription, or null. */
export const dictationError = signal(null);

/** Text being dictated, in the place of a `Record` of the view Transcribe; `onText` receives the words so far. */
class Dictation {
  constructor(asked, onText) {
    this.asked = asked;
    this.onText = onText;
    this.state = signal("waiting");
    this.error = signal(null);
    this.seconds = signal(0);
    this.duration = signal(null);
    this.session = null;
  }

  show(segments) {
    this.onText(segments.map(({ text, tail }) => `${text}${tail ?? ""}`.trim()).filter(Boolean).join(" "));
  }

  setSource() {} // the sound is not kept
}

/** Return the tooltip of the button that starts dictation. */
export function dictationTitle() {
  const download = firstUse(modelsFor("transcribe")[0]?.id);
  return download ? `Dictate (${download})` : "Dictate";
}

/** Open the microphone, and pass the words so far to `onText` until `stopDictation`. */
export async function startDictation(onText) {
  if (dictation.peek()) return;
  dictationError.value = null;
  try {
    const [{ openLive }, { options }] = await Promise.all([import("../../transcribe/live.js"), import("../../transcribe/options.js")]);
    const asked = options();
    const model = asked.model || modelsFor("transcribe")[0]?.id;
    if (!model) {
      dictationError.value = "This server has no transcription model.";
      return;
    }
    const made = new Dictation({ ...asked, model }, onText);
    dictationModel.value = model;
    made.session = await openLive(made);
    if (!made.session) {
      dictationError.value = "The microphone is in use in the view Transcribe.";
      dictationModel.value = null;
      return;
    }
    dictation.value = made;
    announce("Dictating");
    const unfollow = effect(() => {
      if (made.state.value !== "done") return;
      dictationError.value = made.error.peek();
      dictation.value = null;
      dictationModel.value = null;
      queueMicrotask(() => unfollow());
    });
  } catch (error) {
    dictationError.value = error instanceof MicrophoneError ? error.message : `Dictation could not begin: ${error.message}`;
    if (!(error instanceof ModelError)) dictationModel.value = null; // the model's state on the page shows its reason
  }
}

/** Close the microphone; the last words follow. */
export const stopDictation = () => dictation.peek()?.session.stop();
