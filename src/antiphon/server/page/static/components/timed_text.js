// Text that highlights the word being heard, and plays from a word when it is clicked.
import { html, useEffect, useMemo, useRef } from "../lib/ui.js";
import { wordAt } from "../lib/word_places.js";

const STEPS = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };

/**
 * Paragraphs `{parts, time, tail}`: `parts` from lib/word_places.js, `time` a label beside them, `tail` text that may
 * still change. `rest` is text after the last paragraph. `position` returns the second being heard, or null for none,
 * and is polled while `isPlaying`. `onWord` receives a clicked word; without `onWord`, words are not clickable. The Tab
 * key reaches one word, and arrow keys move to the others.
 */
export function TimedText({ paragraphs, rest, label, position, isPlaying, onWord }) {
  const element = useRef(null);
  const words = useMemo(() => paragraphs.flatMap(({ parts }) => wordsOf(parts)), [paragraphs]);
  useEffect(() => {
    const show = () => light(element.current, words, position());
    show();
    if (!isPlaying) return undefined;
    let frame = requestAnimationFrame(function again() {
      show();
      frame = requestAnimationFrame(again);
    });
    return () => cancelAnimationFrame(frame);
  });
  const onClick = (event) => {
    const index = indexOf(event.target);
    if (index >= 0) onWord?.(words[index]);
  };
  let count = 0;
  return html`<div class="timed-text" ref=${element} role="group" aria-label=${label} onClick=${onClick} onKeyDown=${step}>
    ${paragraphs.map((paragraph, number) => {
      const first = count;
      count += wordsOf(paragraph.parts).length;
      return html`<${Paragraph} key=${number} paragraph=${paragraph} first=${first} canClick=${Boolean(onWord)} />`;
    })}${rest}
  </div>`;
}

const wordsOf = (parts) => parts.filter((part) => part.word).map((part) => part.word);

/** Paragraph that is rendered once, however many follow it. */
function Paragraph({ paragraph, first, canClick }) {
  return useMemo(() => {
    const { parts, time, tail } = paragraph;
    let index = first - 1;
    const rendered = parts.map(({ text, word }) => {
      if (!word) return text;
      index += 1;
      if (!canClick) return html`<span class="word" data-index=${index}>${text}</span>`;
      return html`<button type="button" class="word" data-index=${index} tabindex=${index === 0 ? 0 : -1}>${text}</button>`;
    });
    return html`<span class="timed-part" data-time=${time}>${rendered}${tail && html`<span class="unsettled">${tail}</span>`}</span>`;
  }, [paragraph, first, canClick]);
}

const indexOf = (target) => Number(target.closest?.(".word")?.dataset.index ?? -1);

function step(event) {
  const by = STEPS[event.key];
  const from = indexOf(event.target);
  if (!by || from < 0) return;
  event.preventDefault();
  const next = event.currentTarget.querySelector(`.word[data-index="${from + by}"]`);
  if (!next) return;
  event.target.tabIndex = -1;
  next.tabIndex = 0;
  next.focus();
}

/** Highlight the word heard at `second`, and keep it visible if the text has a scroll area of its own. */
function light(element, words, second) {
  if (!element) return; // the view was closed during this frame
  const index = second === null ? -1 : wordAt(words, second);
  const before = element.querySelector(".word.lit");
  if (before && Number(before.dataset.index) === index) return;
  before?.classList.remove("lit");
  const word = index < 0 ? null : element.querySelector(`.word[data-index="${index}"]`);
  if (!word) return;
  word.classList.add("lit");
  if (element.scrollHeight <= element.clientHeight) return;
  const top = word.offsetTop - element.offsetTop;
  const isSeen = top >= element.scrollTop && top + word.offsetHeight <= element.scrollTop + element.clientHeight;
  if (!isSeen) element.scrollTop = top - element.clientHeight / 3;
}
