// Where the words of a text stand in it, so that each can be lit or clicked while the text keeps its spaces and signs.

/** A word is looked for within so many characters: one further on is another word that is written the same. */
const REACH = 200;

/**
 * Cut `text` from `cursor` on into `{text, word}`: a word as it stands there, or what is between words (null). `words`
 * have their writing as `word`. Those that the text does not have count as part of the word before them.
 */
export function placeWords(text, words, cursor = 0) {
  const parts = [];
  for (const word of words) {
    const place = text.slice(cursor, cursor + REACH + word.word.length).indexOf(word.word);
    if (place < 0 || word.word === "") {
      const before = parts.at(-1);
      if (before?.word) before.word = { ...before.word, end: word.end };
      continue;
    }
    if (place > 0) parts.push({ text: text.slice(cursor, cursor + place), word: null });
    cursor += place + word.word.length;
    parts.push({ text: word.word, word });
  }
  return { parts, cursor };
}

/** The last of the words (in order of time) that has begun at a second; -1 before the first. */
export function wordAt(words, second) {
  let low = 0;
  let high = words.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (words[middle].start <= second) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

/** Each segment's own words, of the words of all segments in order. */
export function wordsBySegment(segments, words) {
  const letters = (text) => text.replace(/\s/g, "").length;
  let next = 0;
  return segments.map((segment) => {
    const own = [];
    let left = letters(segment.text);
    while (left > 0 && next < words.length) {
      own.push(words[next]);
      left -= letters(words[next].word);
      next += 1;
    }
    return own;
  });
}
