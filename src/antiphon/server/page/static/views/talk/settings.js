// The settings of a conversation by voice, and the session fields that they become.
import { setting } from "../../lib/settings.js";
import { computed } from "../../lib/ui.js";
import { TOOLS } from "../chat/tools.js";

/** Of the sound in both directions. */
export const RATE = 24000;
/** Words that may still change come too, on servers that send them. */
const UNSETTLED = "item.input_audio_transcription.unsettled";
const PCM = { type: "audio/pcm", rate: RATE };

export const PUSH_TO_TALK = "push_to_talk";

export const chatModel = setting("talk.chat_model", "");
export const transcriptionModel = setting("talk.transcription_model", "");
/** Empty for the server's default. */
export const voice = setting("talk.voice", "");
export const speed = setting("talk.speed", 1);
export const instructions = setting(
  "talk.instructions",
  "You are a helpful assistant in a spoken conversation. Answer in one or two short sentences of plain words, " +
    "without lists, code or markup.",
);
/** `server_vad`, `semantic_vad` or `push_to_talk`. */
export const detection = setting("talk.detection", "server_vad");
export const eagerness = setting("talk.eagerness", "auto");
/** Tokens of one answer; null for no limit. */
export const maxTokens = setting("talk.max_tokens", null);
export const toolNames = setting("talk.tools", []);

export const isPushToTalk = computed(() => detection.value === PUSH_TO_TALK);

/** The whole session, as `session.update` has it. */
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
  if (detection.value === "semantic_vad") return { type: "semantic_vad", eagerness: eagerness.value };
  return { type: "server_vad" };
}
