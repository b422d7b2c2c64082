// Settings of voice conversations, and their form as fields of a session.
import { setting } from "../../lib/settings.js";
import { computed } from "../../lib/ui.js";
import { TOOLS } from "../chat/tools.js";

/** Sample rate in both directions. */
export const RATE = 24000;
/** Requests the event with words that may still change, which only some servers send. */
const UNSETTLED = "item.input_audio_transcription.unsettled";
const PCM = { type: "audio/pcm", rate: RATE };

export const PUSH_TO_TALK = "push_to_talk";
export const SEMANTIC = "semantic_vad";

export const chatModel = setting("talk.chat_model", "");
export const transcriptionModel = setting("talk.transcription_model", "");
/** Name of the voice; empty for the server's default. */
export const voice = setting("talk.voice", "");
export const speed = setting("talk.speed", 1);
export const instructions = setting(
  "talk.instructions",
  "You are a helpful assistant in a spoken conversation. Answer in one or two short sentences of plain words, " +
    "without lists, code or markup.",
);
/** Turn detection: `server_vad`, `semantic_vad` or `push_to_talk`. */
export const detection = setting("talk.detection", "server_vad");
export const eagerness = setting("talk.eagerness", "auto");
/** Maximum tokens of an answer; null for no limit. */
export const maxTokens = setting("talk.max_tokens", null);
export const toolNames = setting("talk.tools", []);

export const isPushToTalk = computed(() => detection.value === PUSH_TO_TALK);

/** Return the session's fields for `session.update`. */
export function sessionFields() {
  return {
    type: "realtime",
    model: chatModel.value,
    instructions: instructions.value,
    output_modalities: ["audio"],
    max_output_tokens: maxTokens.value,
    tools: TOOLS.filter((tool) => toolNames.value.includes(tool.name)).map(({ name, description, parameters }) => ({
      type: "function",
      name,
      description,
      parameters,
    })),
    include: [UNSETTLED],
    audio: {
      input: { format: PCM, transcription: { model: transcriptionModel.value }, turn_detection: turnDetection() },
      output: { format: PCM, voice: voice.value || null, speed: speed.value },
    },
  };
}

function turnDetection() {
  if (isPushToTalk.value) return null;
  if (detection.value === SEMANTIC) return { type: SEMANTIC, eagerness: eagerness.value };
  return { type: "server_vad" };
}
