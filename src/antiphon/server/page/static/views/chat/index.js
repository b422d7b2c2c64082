// Chat with a language model.
import { media } from "../../lib/media.js";
import { hrefOf, navigate } from "../../lib/navigate.js";
import { setting } from "../../lib/settings.js";
import { html, useEffect, useRef, useSignal } from "../../lib/ui.js";
import { Icon, IconButton } from "../../components/icon.js";
import { ModelPicker } from "../../components/model_picker.js";
import { ModelStates } from "../../components/model_state.js";
import { Notice } from "../../components/notice.js";
import { ViewHeader } from "../../components/view_header.js";
import { current, openConversation } from "./conversations.js";
import { ask } from "./generation.js";
import { dropping } from "./input/attachments.js";
import { Composer } from "./input/composer.js";
import { dictationModel } from "./input/dictation.js";
import { ConversationList } from "./list.js";
import { model } from "./model.js";
import { OptionsPanel } from "./settings/options.js";
import { speechError, speechModel, spoken } from "./speech.js";
import { Thread } from "./thread.js";
import { Welcome } from "./welcome.js";

const isListShown = setting("chat.list", true);
const isNarrow = media("(max-width: 760px)");

export function View({ path }) {
  const areOptionsShown = useSignal(false);
  const isDrawerOpen = useSignal(false); // the list on a narrow screen
  const isDraggedOver = useSignal(false);
  const follow = useRef(true);
  useEffect(() => {
    openConversation(path).then((isFound) => {
      if (path && !isFound) navigate("chat", "", true);
    });
  }, [path]);
  const conversation = current.value;
  if (!conversation) return null;
  conversation.shape.value; // the first message replaces the welcome
  const list = isNarrow.value ? isDrawerOpen : isListShown;
  const onAsk = () => {
    follow.current = true;
    if (!path) navigate("chat", conversation.id, true);
  };
  const askExample = (text) => {
    onAsk();
    ask(conversation, model.value, text);
  };
  const label = list.value ? "Hide the list of chats" : "Show the list of chats";
  return html`<${ViewHeader} title="Chat">
      <${ModelPicker} task="generate" chosen=${model} />
      <${IconButton} icon="list" label=${label} aria-expanded=${String(list.value)} onClick=${() => (list.value = !list.value)} />
      <a class="button icon-button" href=${hrefOf("chat")} aria-label="New chat" title="New chat"><${Icon} name="plus" /></a>
      <${IconButton} icon="sliders" label="Settings" aria-expanded=${String(areOptionsShown.value)}
        onClick=${() => (areOptionsShown.value = !areOptionsShown.value)} />
    <//>
    <div class="chat">
      ${list.value && html`<${ConversationList} onClose=${() => (isDrawerOpen.value = false)} />`}
      <div class=${`chat-main ${isDraggedOver.value ? "dropping" : ""}`} ...${dropping((isOver) => (isDraggedOver.value = isOver))}>
        ${conversation.isEmpty ? html`<${Welcome} onAsk=${askExample} />` : html`<${Thread} conversation=${conversation} follow=${follow} />`}
        <div class="chat-foot column">
          ${speechError.value &&
          html`<${Notice} kind="error" onClose=${() => (speechError.value = null)}>The answer cannot be read aloud: ${speechError}<//>`}
          <${ModelStates} names=${[model.value]} />
          ${spoken.value && html`<${ModelStates} names=${[speechModel()]} isQuiet />`}
          ${dictationModel.value && html`<${ModelStates} names=${[dictationModel.value]} isQuiet />`}
          <${Composer} conversation=${conversation} onAsk=${onAsk} />
        </div>
      </div>
      ${areOptionsShown.value && html`<${OptionsPanel} key=${conversation.id} conversation=${conversation} onClose=${() => (areOptionsShown.value = false)} />`}
    </div>`;
}
