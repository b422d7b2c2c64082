// Placeholder of a view on a server that offers no model for its task: it may load only models it was started with.
import { hrefOf } from "../lib/navigate.js";
import { html } from "../lib/ui.js";
import { Empty } from "./notice.js";

const KINDS = {
  generate: { icon: "chat", title: "No language model", what: "answers in text", example: "qwen2.5-coder-0.5b" },
  synthesize: { icon: "speaker", title: "No speech model", what: "speaks", example: "hibari-6m" },
  transcribe: { icon: "file", title: "No transcription model", what: "transcribes", example: "whisper-base.en" },
};

export function NoModel({ task }) {
  const { icon, title, what, example } = KINDS[task];
  return html`<${Empty} icon=${icon} title=${title}>
    <p>This server has no model that ${what}, and it loads no models by itself. Start it with one, such
      as <code>${example}</code>, or without <code>--load-on-use configured</code>; or load one
      in <a href=${hrefOf("models")}>Models</a>.</p>
  <//>`;
}
