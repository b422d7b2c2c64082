// Components of messages: questions, answers, reasoning and tool calls.
import { seconds, whole } from "../../lib/format.js";
import { html } from "../../lib/ui.js";
import { Icon } from "../../components/icon.js";
import { Markdown } from "../../components/markdown.js";
import { Notice } from "../../components/notice.js";
import { AnswerActions, QuestionActions } from "./message_actions.js";
import { isGrowing } from "./generation.js";
import { FileChips } from "./input/attachments.js";
import { QuestionEditor } from "./input/question_editor.js";

export function Question({ node, conversation, edited }) {
  return html`<article class="message question">
    <h2 class="visually-hidden">You</h2>
    ${node.files?.length > 0 && html`<${FileChips} files=${node.files} />`}
    ${edited.value === node.id
      ? html`<${QuestionEditor} node=${node} conversation=${conversation} onClose=${() => (edited.value = null)} />`
      : html`${node.content && html`<div class="bubble">${node.content}</div>`}
          <${QuestionActions} node=${node} conversation=${conversation} onEdit=${() => (edited.value = node.id)} />`}
  </article>`;
}

/** One step of an answer; `results` are the tool messages after it, and `isLast` marks the answer's last step. */
export function Answer({ node, conversation, results, isFirst, isLast }) {
  const isLive = isGrowing(node);
  const isJson = Boolean(conversation.record.options.schema) || node.isJson;
  return html`<article class="message answer" aria-busy=${isLive ? "true" : undefined}>
    <h2 class=${isFirst ? "answer-model" : "visually-hidden"}>${node.model}</h2>
    ${node.reasoning && html`<${Reasoning} node=${node} isLive=${isLive && !node.content} />`}
    ${isLive && !node.content && !node.reasoning && !node.toolCalls.length && html`<p class="thinking" role="status">Waiting for the first word</p>`}
    ${node.content && html`<${Markdown} text=${isJson ? prettyJson(node.content) : node.content} isGrowing=${isLive} />`}
    ${(node.toolCalls ?? []).map((call) => {
      const result = results.find((found) => found.toolCallId === call.id);
      return html`<${ToolCall} key=${call.id} call=${call} result=${result} />`;
    })}
    ${node.error && html`<${Notice} kind="error">The answer failed: ${node.error}<//>`}
    ${!isLive && isLast && html`<footer class="answer-foot">
      <${AnswerActions} node=${node} conversation=${conversation} />
      <${Figures} node=${node} />
    </footer>`}
  </article>`;
}

function Reasoning({ node, isLive }) {
  const took = node.thinkingSeconds === undefined ? "" : ` for ${seconds(node.thinkingSeconds)}`;
  return html`<details class="reasoning">
    <summary>${isLive ? "Thinking" : `Thought${took}`}</summary>
    <div class="reasoning-text">${node.reasoning.trim()}</div>
  </details>`;
}

function ToolCall({ call, result }) {
  return html`<details class="tool-call">
    <summary>
      <${Icon} name="tool" size=${15} /> <code>${call.function.name}</code>
      <span class="hint">${result ? "called" : "being called"}</span>
    </summary>
    <dl>
      <dt>Arguments</dt>
      <dd><code>${call.function.arguments || "{}"}</code></dd>
      ${result && html`<dt>Result</dt><dd><code>${result.content}</code></dd>`}
    </dl>
  </details>`;
}

const ENDINGS = { length: "stopped at the token limit", stopped: "stopped by you" };

function Figures({ node }) {
  const { figures } = node;
  if (!figures) return node.finish === "stopped" ? html`<p class="figures">stopped by you</p>` : null;
  const parts = [
    `${figures.isCounted ? "" : "about "}${whole(figures.tokens)} tokens`,
    figures.tokensPerSecond && `${figures.tokensPerSecond.toFixed(1)} tokens/s`,
    `first token after ${seconds(figures.timeToFirstToken)}`,
    figures.cachedTokens && `${whole(figures.cachedTokens)} of ${whole(figures.promptTokens)} prompt tokens cached`,
    figures.drafted && `${figures.drafted.map(whole).join(" of ")} drafted tokens accepted`,
    ENDINGS[node.finish],
  ];
  return html`<p class="figures number">${parts.filter(Boolean).join(" · ")}</p>`;
}

/** Return an answer in JSON as a code block, indented once it is complete. */
function prettyJson(text) {
  try {
    return `\`\`\`json\n${JSON.stringify(JSON.parse(text), null, 2)}\n\`\`\``;
  } catch {
    return `\`\`\`json\n${text}\n\`\`\``;
  }
}
