// Spoken text, with the word being heard highlighted, and the controls of its sound.
import { clock } from "../../lib/format.js";
import { html, useEffect, useState } from "../../lib/ui.js";
import { IconButton } from "../../components/icon.js";
import { Notice } from "../../components/notice.js";
import { TimedText } from "../../components/timed_text.js";

const WORDS = { waiting: "Waiting for the first sound…", playing: "Speaking", paused: "Paused", ended: "Ended" };

export function Reader({ speech }) {
  const { player } = speech;
  const state = player.state.value;
  const isPlaying = state === "playing";
  speech.moves.value; // the highlighted word follows seeking even while paused
  const onWord = (word) => {
    speech.seek(word.start);
    player.resume();
  };
  const hasSound = speech.duration.value > 0;
  return html`<section class="panel reader" aria-label="What is spoken" data-state=${state}>
    <div class="transport">
      ${isPlaying || state === "waiting"
        ? html`<${IconButton} icon="pause" label="Pause" kind="primary" onClick=${() => player.pause()} />`
        : html`<${IconButton} icon="play" label="Play" kind="primary" disabled=${!hasSound} onClick=${() => play(player)} />`}
      <${IconButton} icon="stop" label="Stop" disabled=${state === "ended" && (speech.isMade.value || speech.controller.signal.aborted)}
        onClick=${() => speech.stop()} />
      <${Position} speech=${speech} isPlaying=${isPlaying} state=${state} />
    </div>
    <p class="visually-hidden" role="status">${WORDS[state]}</p>
    ${speech.unreadable.value.length > 0 &&
    html`<${Notice} kind="warning">The voice cannot read: ${speech.unreadable.value.join(", ")}<//>`}
    <${TimedText} label="The text; arrow keys go from word to word, Enter plays from one" paragraphs=${speech.paragraphs.value}
      rest=${speech.rest.value && html`<span class="unmade">${speech.rest.value}</span>`}
      position=${() => (player.duration && !(state === "ended" && player.stoppedAt === null) ? player.position : null)}
      isPlaying=${isPlaying} onWord=${onWord} />
  </section>`;
}

function play(player) {
  if (player.state.peek() === "ended") player.seek(player.stoppedAt ?? 0);
  else player.resume();
}

function Position({ speech, isPlaying, state }) {
  const { player } = speech;
  const [second, setSecond] = useState(0);
  const duration = speech.duration.value;
  useEffect(() => {
    const show = () => setSecond(state === "ended" && player.stoppedAt === null ? player.duration : player.position);
    show();
    if (!isPlaying) return undefined;
    const timer = setInterval(show, 100);
    return () => clearInterval(timer);
  }, [isPlaying, state, speech]);
  const move = (event) => {
    speech.seek(Number(event.target.value));
    setSecond(player.position);
  };
  const isMade = speech.isMade.value;
  return html`<input type="range" class="seek" min="0" max=${duration || 1} step="0.01" value=${second} aria-label="Position"
      aria-valuetext=${`${clock(second)} of ${clock(duration)}`} disabled=${duration === 0} onInput=${move} />
    <span class="number times">${clock(second)} / ${clock(duration)}${isMade || speech.controller.signal.aborted ? "" : "…"}</span>`;
}
