// Messages of a conversation, scrolled to the last one unless the user reads an earlier one.
import { html, useLayoutEffect, useRef, useSignal } from "../../lib/ui.js";
import { Answer, Question } from "./message.js";

/** Maximum pixels from the end at which the view follows a growing answer. */
const NEAR = 60;

export function Thread({ conversation, follow }) {
  const place = useRef(null);
  const content = useRef(null);
  const edited = useSignal(null);
  conversation.shape.value; // a message was added or another branch chosen
  useLayoutEffect(() => {
    const toEnd = () => {
      if (follow.current) place.current.scrollTop = place.current.scrollHeight;
    };
    const sizes = new ResizeObserver(toEnd);
    sizes.observe(content.current);
    follow.current = true;
    toEnd();
    return () => sizes.disconnect();
  }, [conversation.id]);
  const onScroll = () => {
    const { scrollTop, scrollHeight, clientHeight } = place.current;
    follow.current = scrollHeight - scrollTop - clientHeight < NEAR;
  };
  return html`<div class="view-body thread" ref=${place} onScroll=${onScroll} tabindex="0" role="region" aria-label="Messages">
    <div class="column messages" ref=${content}>
      ${turns(conversation.path()).map(({ node, results, isFirst, isLast }) =>
        node.role === "user"
          ? html`<${Question} key=${node.id} node=${node} conversation=${conversation} edited=${edited} />`
          : html`<${Answer} key=${node.id} node=${node} conversation=${conversation} results=${results} isFirst=${isFirst} isLast=${isLast} />`,
      )}
    </div>
  </div>`;
}

/** Group the messages to show: tool results belong to the answer that called the tools. */
function turns(path) {
  const shown = [];
  for (const node of path) {
    if (node.role === "tool") shown.at(-1).results.push(node);
    else shown.push({ node, results: [], isFirst: shown.at(-1)?.node.role !== "assistant", isLast: true });
  }
  shown.forEach((turn, index) => (turn.isLast = shown[index + 1]?.node.role !== "assistant"));
  return shown;
}
