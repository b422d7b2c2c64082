// Transcript of both sides.
import { html, useEffect, useLayoutEffect, useRef } from "../../lib/ui.js";
import { Icon } from "../../components/icon.js";
import { Latency } from "./latency.js";
import { entries } from "./state.js";

/** Transcript that scrolls with the conversation unless the user has scrolled up. */
export function Transcript({ children }) {
  const body = useRef(null);
  const isAtEnd = useRef(true);
  const onScroll = ({ target }) => (isAtEnd.current = target.scrollHeight - target.scrollTop - target.clientHeight < 48);
  const toEnd = () => {
    const place = body.current; // null once the view is closed
    if (place && isAtEnd.current) place.scrollTop = place.scrollHeight;
  };
  useEffect(() => {
    const follow = new ResizeObserver(toEnd);
    follow.observe(body.current.firstElementChild);
    return () => follow.disconnect();
  }, []);
  useLayoutEffect(toEnd);
  return html`<div class="view-body talk-transcript" ref=${body} onScroll=${onScroll} tabindex="0" role="region" aria-label="What was said">
    <div class="column">
      ${children}
      ${entries.value.map((entry) => html`<${Said} key=${entry.id} entry=${entry} />`)}
    </div>
  </div>`;
}

function Said({ entry }) {
  if (!entry.isShown.value) return null;
  if (entry.kind === "call") return html`<${Call} entry=${entry} />`;
  const isYou = entry.kind === "you";
  const isOpen = !entry.isSettled.value;
  return html`<article class=${`said ${entry.kind}`} data-settled=${String(!isOpen)}>
    <h2>${isYou ? "You" : "Antiphon"}</h2>
    <p class="said-text">
      ${isYou ? html`<${Heard} entry=${entry} />` : html`<${Answered} entry=${entry} />`}
      ${isOpen && !entry.text.value && !entry.unsettled.value && html`<span class="pending">…</span>`}
    </p>
    ${entry.note.value && html`<p class="hint">${entry.note}</p>`}
    ${entry.marks.value && html`<${Latency} marks=${entry.marks.value} />`}
  </article>`;
}

/** Settled words of the user, and words that may still change. */
function Heard({ entry }) {
  return html`<span class="settled">${entry.text}</span>${entry.unsettled.value && html`<span class="unsettled"> ${entry.unsettled.value.trim()}</span>`}`;
}

/** Answer, whose part that an interruption cut off is marked as not heard. */
function Answered({ entry }) {
  const text = entry.text.value;
  const heard = entry.heard.value;
  if (heard === null || !text.startsWith(heard) || heard.trim() === text.trim()) return html`<span class="settled">${text}</span>`;
  return html`<span class="settled">${heard}</span><span class="cut"><span class="visually-hidden"> Not heard: </span><s>${text.slice(heard.length)}</s></span>`;
}

function Call({ entry }) {
  return html`<article class="said call">
    <h2 class="visually-hidden">Function call</h2>
    <details>
      <summary><${Icon} name="tool" size=${16} /> ${entry.text} <span class="hint">${entry.note.value ? "called" : "being called"}</span></summary>
      <pre>${entry.isSettled.value ? entry.call.arguments : ""}</pre>
      <pre>${entry.note}</pre>
    </details>
    ${entry.marks.value && html`<${Latency} marks=${entry.marks.value} />`}
  </article>`;
}
