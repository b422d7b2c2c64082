// Positions of words in a text, so that each can be highlighted or clicked while spaces and punctuation stay.

/** Maximum characters ahead in which a word is searched: a match further on is another occurrence. */
const REACH = 200;

/**
 * Divide `text` from `cursor` on into parts `{text, word}`, where `word` is null between words. The spelling of each of
 * `words` is its field `word`. A word that is not found extends the time of the word before it.
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

/** Return the index of the last word, in order of time, that has begun at `second`; -1 before the first. */
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

/** Return the words of each segment, from the words of all segments in order. */
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
