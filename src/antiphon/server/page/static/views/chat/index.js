// Chat with a language model.
import { html } from "../../lib/ui.js";
import { setting } from "../../lib/settings.js";
import { ModelPicker } from "../../components/model_picker.js";
import { Empty } from "../../components/notice.js";
import { ViewHeader } from "../../components/view_header.js";

const model = setting("chat.model", "");

export function View() {
  return html`<${ViewHeader} title="Chat"><${ModelPicker} task="generate" chosen=${model} /><//>
    <div class="view-body"><${Empty} icon="chat" title="Ask something" /></div>`;
}
