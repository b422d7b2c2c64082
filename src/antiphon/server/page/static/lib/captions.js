// Captions of segments `{text, start, end, words}`; the words `{word, start, end}` may be missing.

const MAX_CUE_SECONDS = 7;
const MAX_CUE_CHARACTERS = 84;

/** Return a cue for each segment, or several for a segment that is too long for one. */
export function cues(segments) {
  return segments.flatMap((segment) => {
    const text = plain(segment.text);
    if (!text) return [];
    const groups = groupsOf(segment.words ?? []);
    if (groups.length < 2) {
      const [first, last] = [groups[0]?.[0], groups[0]?.at(-1)];
      return [{ start: first?.start ?? segment.start, end: last?.end ?? segment.end, text }];
    }
    return groups.map((group) => ({
      start: group[0].start,
      end: group.at(-1).end,
      text: plain(group.map((word) => word.word).join(" ")),
    }));
  });
}

function groupsOf(words) {
  const groups = [];
  let length = 0;
  for (const word of words) {
    const group = groups.at(-1);
    const isFull =
      group && (length + 1 + word.word.length > MAX_CUE_CHARACTERS || word.end - group[0].start > MAX_CUE_SECONDS);
    if (!group || isFull) {
      groups.push([word]);
      length = word.word.length;
    } else {
      group.push(word);
      length += 1 + word.word.length;
    }
  }
  return groups;
}

// Blank lines would end a cue, and an arrow would be read as its timing.
const plain = (text) => text.split(/\s+/).filter(Boolean).join(" ").replaceAll("-->", "->");
const escaped = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");

export function srt(segments) {
  return cues(segments)
    .map((cue, index) => `${index + 1}\n${stamp(cue.start, ",")} --> ${stamp(cue.end, ",")}\n${cue.text}\n`)
    .join("\n");
}

export function vtt(segments) {
  const made = cues(segments).map((cue) => `${stamp(cue.start, ".")} --> ${stamp(cue.end, ".")}\n${escaped(cue.text)}\n`);
  return `WEBVTT\n\n${made.join("\n")}`;
}

/** Return the text, the segments and the words with their times as JSON, after the fields `more`. */
export function json(segments, more = {}) {
  const told = {
    ...more,
    text: segments.map((segment) => plain(segment.text)).join(" "),
    segments: segments.map(({ text, start, end }, id) => ({ id, start, end, text: plain(text) })),
    words: segments.flatMap((segment) => segment.words ?? []).map(({ word, start, end }) => ({ word, start, end })),
  };
  return `${JSON.stringify(told, null, 2)}\n`;
}

function stamp(seconds, point) {
  const total = Math.round(Math.max(0, seconds) * 1000);
  const two = (value) => String(Math.floor(value)).padStart(2, "0");
  const parts = [two(total / 3_600_000), two((total / 60_000) % 60), two((total / 1000) % 60)];
  return `${parts.join(":")}${point}${String(total % 1000).padStart(3, "0")}`;
}
