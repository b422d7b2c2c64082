// The server's state: always shown beside the navigation, and above the view while the server cannot answer.
import { html } from "../lib/ui.js";
import { connection, isOutdated } from "../lib/connection.js";

const WORDS = {
  connecting: "Connecting",
  ready: "Ready",
  away: "Server away",
  starting: "Starting",
  loading: "Loading models",
  incomplete: "Model missing",
  restarting: "Engine restarting",
  failed: "Failed",
  draining: "Shutting down",
  closed: "Shutting down",
};

const ADVICE = {
  away: "The server does not answer. The page tries again by itself.",
  starting: "The engine is starting.",
  loading: "The server is loading its models. Those that are loaded already work.",
  incomplete: "A model of this server could not be loaded. Others work.",
  restarting: "The engine stopped and is being started again. Requests work again in a few seconds.",
  draining: "The server is shutting down and takes no new requests.",
  closed: "The server is shutting down.",
  failed: "The server cannot answer requests.",
};

export function StatusDot() {
  const { status, version } = connection.value;
  const title = version ? `Antiphon ${version}` : undefined;
  return html`<p class="status" title=${title}>
    <span class=${`dot ${status}`} aria-hidden="true"></span> <span class="status-word">${WORDS[status] ?? status}</span>
  </p>`;
}

/** State of a server that is not ready, with advice; empty while it is ready. */
export function StatusBanner() {
  const { status, cause } = connection.value;
  const advice = ADVICE[status];
  return html`<div class="banner-place" role="status">
    ${advice && html`<p class=${`banner ${status}`}>${advice}${cause && status !== "away" ? ` (${cause})` : ""}</p>`}
    ${isOutdated.value &&
    html`<p class="banner">The server was updated.
      <button type="button" class="link" onClick=${() => location.reload()}>Reload the page</button></p>`}
  </div>`;
}
