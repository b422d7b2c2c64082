// Selection of a voice, or of several to mix, with samples.
import { html, useEffect, useId } from "../../lib/ui.js";
import { cardOf, isBusy } from "../../lib/models.js";
import { Icon, IconButton } from "../../components/icon.js";
import { Notice } from "../../components/notice.js";
import { playSample, sampleError, sampled, stopSample } from "./samples.js";
import {
  addPart, canAdd, changePart, findVoices, languageName, languageOf, model, ownVoices, partsOf, removePart, shares,
  voiceText, voices, voicesError,
} from "./voices.js"; // prettier-ignore

export function VoicePicker() {
  const name = model.value;
  const card = cardOf(name);
  const isLoaded = card?.state === "ready";
  useEffect(() => {
    if (isLoaded) findVoices(name);
  }, [name, isLoaded]);
  const isKnown = voices.value?.model === name;
  return html`<section class="panel voices" aria-labelledby="voices-title">
    <h2 id="voices-title">Voice</h2>
    ${voicesError.value && html`<${Notice} kind="error" onClose=${() => (voicesError.value = null)}>${voicesError}<//>`}
    ${isKnown ? html`<${Mixture} name=${name} />` : html`<${Unknown} name=${name} card=${card} isLoaded=${isLoaded} />`}
    ${sampleError.value && html`<${Notice} kind="error" onClose=${() => (sampleError.value = null)}>${sampleError}<//>`}
  </section>`;
}

function Unknown({ name, card, isLoaded }) {
  if (isLoaded) return voicesError.value ? null : html`<p class="hint">Finding the voices…</p>`;
  return html`<p class="hint">The model's own voice speaks. Its other voices are known once it is loaded.</p>
    <p><button type="button" disabled=${!card || isBusy(card)} onClick=${() => findVoices(name)}>Load the model and show its voices</button></p>`;
}

function Mixture({ name }) {
  const parts = partsOf(name);
  const portions = shares(parts);
  const text = voiceText(name);
  return html`<ul class="voice-parts">
      ${parts.map(
        (part, index) => html`<${Part} key=${index} name=${name} part=${part} index=${index} share=${portions[index]}
          isMixed=${parts.length > 1} />`,
      )}
    </ul>
    ${ownVoices().length > 1 &&
    html`<div class="voice-foot">
      ${canAdd(name) &&
      html`<button type="button" onClick=${() => addPart(name)}><${Icon} name="plus" size=${16} /> Mix with another voice</button>`}
      ${parts.length > 1 &&
      html`<${SampleButton} name=${name} voice=${text} language=${languageOf(parts[0].voice)} label="Hear the mixture" isWide />
        <code class="mixture">${text}</code>`}
    </div>`}`;
}

function Part({ name, part, index, share, isMixed }) {
  const id = useId();
  const others = ownVoices();
  const number = isMixed ? ` ${index + 1}` : "";
  return html`<li class="voice-part">
    ${others.length > 1
      ? html`<label class="visually-hidden" for=${id}>Voice${number}</label>
          <select id=${id} value=${part.voice} onChange=${(event) => changePart(name, index, { voice: event.target.value })}>
            ${byLanguage(others).map(
              ([language, group]) => html`<optgroup key=${language} label=${languageName(language)}>
                ${group.map(
                  (voice) => html`<option key=${voice.id} value=${voice.id} selected=${voice.id === part.voice}>
                    ${describe(voice)}
                  </option>`,
                )}
              </optgroup>`,
            )}
          </select>`
      : html`<p class="only-voice">${describe(others[0])} <span class="hint">${languageName(others[0].language)}</span></p>`}
    <${SampleButton} name=${name} voice=${part.voice} language=${languageOf(part.voice)} label=${`Hear ${part.voice}`} />
    ${isMixed &&
    html`<input type="range" class="share" min="1" max="100" value=${part.weight} aria-label=${`Share of ${part.voice}`}
        aria-valuetext=${`${share} percent`} onInput=${(event) => changePart(name, index, { weight: Number(event.target.value) })} />
      <span class="number share-text">${share} %</span>
      <${IconButton} icon="close" label=${`Remove ${part.voice}`} size=${16} onClick=${() => removePart(name, index)} />`}
  </li>`;
}

const describe = (voice) => (voice.gender ? `${voice.id} (${voice.gender})` : voice.id);

function byLanguage(list) {
  const groups = new Map();
  for (const voice of list) groups.set(voice.language, [...(groups.get(voice.language) ?? []), voice]);
  return [...groups];
}

function SampleButton({ name, voice, language, label, isWide = false }) {
  const isOn = sampled.value === voice;
  const press = () => (isOn ? stopSample() : playSample(name, voice, language));
  const icon = isOn ? "stop" : "speaker";
  if (isWide) {
    return html`<button type="button" onClick=${press}><${Icon} name=${icon} size=${16} /> ${isOn ? "Stop" : label}</button>`;
  }
  return html`<${IconButton} icon=${icon} label=${isOn ? "Stop the sample" : label} onClick=${press} />`;
}
