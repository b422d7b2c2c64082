// Running, waiting and recently ended requests.
import { seconds, whole } from "../../lib/format.js";
import { html } from "../../lib/ui.js";
import { engineState, known, live, models, now, queues, version } from "./feed.js";
import { meets } from "./series.js";
import { targetFirst, targetToken } from "./plots.js";
import { chosen } from "./timeline.js";

const MAX_ROWS = 40;

export function Queues() {
  const shown = models.value.filter((model) => model.role !== "detector");
  const rows = shown.map((model) => [model, queues.value[model.name] ?? [0, 0]]);
  return html`<section class="panel" aria-label="Queues">
    <h2>Queues</h2>
    ${rows.length === 0 && html`<p class="hint">${engineState.value === "ready" ? "No model is loaded." : "The engine is not ready."}</p>`}
    <ul class="queues">
      ${rows.map(([model, [running, waiting]]) => html`<li key=${model.name} data-model=${model.name}>
        <span class="queue-name">${model.name}</span>
        <span class="number"><b>${running}</b> running, <b>${waiting}</b> waiting</span>
        ${model.device !== "cpu" && html`<span class="hint">${model.device}</span>`}
      </li>`)}
    </ul>
  </section>`;
}

export function Requests() {
  version.value;
  const running = [...live.value].sort((one, other) => one.arrived - other.arrived);
  const rows = [...running, ...known.ended.slice(-Math.max(0, MAX_ROWS - running.length)).reverse()].slice(0, MAX_ROWS);
  return html`<section class="panel" aria-label="Requests">
    <h2>Requests</h2>
    ${rows.length === 0
      ? html`<p class="hint">No request since the engine started.</p>`
      : html`<div class="scrolled" tabindex="0" role="region" aria-label="Table of requests">
          <table class="requests">
            <thead>
              <tr>
                <th scope="col">Request</th><th scope="col">Model</th><th scope="col">Task</th><th scope="col">State</th>
                <th scope="col">In</th><th scope="col">Out</th><th scope="col">Waited</th><th scope="col">First token</th>
                <th scope="col">Each token</th><th scope="col">Total</th>
              </tr>
            </thead>
            <tbody>${rows.map((request) => html`<${Row} key=${request.id + request.arrived} request=${request} />`)}</tbody>
          </table>
        </div>`}
  </section>`;
}

function Row({ request }) {
  const { arrived, first_scheduled: scheduled, finished } = request;
  const isOver = finished !== null;
  const ms = (value) => (value === null ? "–" : seconds(value));
  const targets = { first: targetFirst.value, token: targetToken.value };
  const isLate = isOver && request.task === "generate" && request.state === "finished" && !meets(request, targets);
  return html`<tr onPointerEnter=${() => (chosen.value = { request })} onPointerLeave=${() => (chosen.value = null)}>
    <td class="id" title=${request.id}>${request.id}</td>
    <td>${request.model}</td>
    <td>${request.task}</td>
    <td><span class=${`state ${request.state}`}>${isOver && request.state !== "finished" ? request.finish_reason : request.state}${isLate ? ", late" : ""}</span></td>
    <td>${whole(request.prompt_tokens)}</td>
    <td>${whole(request.output_tokens)}</td>
    <td>${seconds(Math.max(0, (scheduled ?? finished ?? now()) - arrived))}</td>
    <td>${ms(request.time_to_first_token)}</td>
    <td>${ms(request.time_per_output_token)}</td>
    <td>${seconds(Math.max(0, (finished ?? now()) - arrived))}</td>
  </tr>`;
}
