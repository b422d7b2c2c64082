// Stages of a turn's latency, from its marks in milliseconds since the end of speech.

/** Possible causes of each mark, as on the server; the mark waited for the latest cause. */
const WAITS_FOR = {
  turn_decided: ["speech_ended"],
  transcription_started: ["speech_ended"],
  transcript_final: ["transcription_started", "speech_ended"],
  answer_started: ["transcript_final", "requested"],
  first_token: ["answer_started"],
  first_clause: ["first_token"],
  sound_made: ["first_clause"],
  first_text: ["first_token", "turn_decided", "requested"],
  first_sound: ["sound_made", "turn_decided", "transcript_final", "requested"],
};

/** Stages in the order shown: mark, label, and number of the colour. */
const SHOWN = [
  ["turn_decided", "End of turn decided", 3],
  ["transcription_started", "Transcription begun", 6],
  ["transcript_final", "Transcript", 2],
  ["answer_started", "Answer begun", 6],
  ["first_token", "First token", 4],
  ["first_clause", "First clause", 5],
  ["sound_made", "Sound made", 1],
  ["first_sound", "First sound", 1],
];

/** Return the marks in a response's metadata, or null. */
export function marksOf(response) {
  const text = response.metadata?.["antiphon.waterfall"];
  return text ? JSON.parse(text) : null;
}

/** Return `{name, label, colour, start, end, isCritical}` per known stage; only critical stages delayed the sound. */
export function stagesOf(marks) {
  const stages = new Map();
  for (const [name, label, colour] of SHOWN) {
    const causes = WAITS_FOR[name].filter((cause) => cause in marks);
    if (!(name in marks) || causes.length === 0) continue;
    const waitedFor = causes.reduce((late, cause) => (marks[cause] > marks[late] ? cause : late));
    const start = Math.min(marks[waitedFor], marks[name]);
    stages.set(name, { name, label, colour, start, end: marks[name], waitedFor, isCritical: false });
  }
  for (let stage = stages.get("first_sound"); stage; stage = stages.get(stage.waitedFor)) stage.isCritical = true;
  return [...stages.values()];
}

/** Return the milliseconds from the end of speech to the first sound; null for typed turns and without sound. */
export const latencyOf = (marks) => (marks && "speech_ended" in marks ? (marks.first_sound ?? null) : null);

export function median(values) {
  const sorted = [...values].sort((one, other) => one - other);
  const middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}
