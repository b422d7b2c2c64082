// Latency of turns: a bar of stages below each answer, with a table, and the median of all turns.
import { seconds } from "../../lib/format.js";
import { computed, html } from "../../lib/ui.js";
import { entries } from "./state.js";
import { latencyOf, median, stagesOf } from "./waterfall.js";

const latencies = computed(() => entries.value.map((entry) => latencyOf(entry.marks.value)).filter((ms) => ms !== null));
/** Milliseconds of the scale, which all turns share so that their bars can be compared. */
const longest = computed(() => Math.max(1000, ...entries.value.map((entry) => entry.marks.value?.first_sound ?? 0)));

/** Median latency, shown after the first spoken turn. */
export function Median() {
  const known = latencies.value;
  if (known.length === 0) return null;
  const turns = known.length === 1 ? "1 turn" : `median of ${known.length} turns`;
  return html`<p class="talk-median number"><strong>${seconds(median(known) / 1000)}</strong> to the first sound, ${turns}</p>`;
}

export function Latency({ marks }) {
  if (marks.first_sound === undefined) return null;
  const from = "speech_ended" in marks ? "the end of speech" : "the request";
  const stages = stagesOf(marks);
  return html`<details class="latency">
    <summary>
      <span class="latency-bar" aria-hidden="true" style=${{ width: `${(100 * marks.first_sound) / longest.value}%` }}>
        ${stages
          .filter((stage) => stage.isCritical && stage.end > stage.start)
          .map((stage) => html`<span key=${stage.name} class=${`series-${stage.colour}`} title=${`${stage.label}: ${stage.end - stage.start} ms`}
            style=${{ flexGrow: stage.end - stage.start }}></span>`)}
      </span>
      <span class="latency-total number">${seconds(marks.first_sound / 1000)} to the first sound</span>
    </summary>
    <table>
      <caption>Milliseconds after ${from}</caption>
      <thead>
        <tr><th scope="col">Stage</th><th scope="col" class="latency-place"><span class="visually-hidden">Critical</span></th>
          <th scope="col">Begins</th><th scope="col">Ends</th></tr>
      </thead>
      <tbody>${stages.map((stage) => html`<${Row} key=${stage.name} stage=${stage} whole=${marks.first_sound} />`)}</tbody>
    </table>
  </details>`;
}

function Row({ stage, whole }) {
  const start = Math.max(0, stage.start);
  const share = (ms) => `${(100 * Math.max(0, ms)) / Math.max(1, whole)}%`;
  return html`<tr class=${stage.isCritical ? "critical" : ""}>
    <th scope="row">${stage.label}</th>
    <td class="latency-place">
      <span class=${`series-${stage.colour}`} style=${{ marginLeft: share(Math.min(start, whole)), width: share(Math.min(stage.end, whole) - start) }}></span>
      <span class="visually-hidden">${stage.isCritical ? "delayed the first sound" : "did not delay the first sound"}</span>
    </td>
    <td class="number">${stage.start}</td>
    <td class="number">${stage.end}</td>
  </tr>`;
}
