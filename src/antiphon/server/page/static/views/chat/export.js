// Saving conversations as files.
import { download, fileName } from "../../lib/download.js";
import { promptOf } from "./prompt.js";

const FORMAT = "antiphon.conversation.v1";

/** Save all branches of a conversation. */
export function exportJson(conversation) {
  const content = JSON.stringify({ format: FORMAT, ...conversation.record }, null, 2);
  download(fileName(conversation.title, "json"), content, "application/json");
}

/** Save the branch that is shown. */
export function exportMarkdown(conversation) {
  download(fileName(conversation.title, "md"), markdownOf(conversation), "text/markdown");
}

export function markdownOf(conversation) {
  const { options } = conversation.record;
  const parts = [`# ${conversation.title}`];
  if (options.system.trim()) parts.push(`**System prompt**\n\n${options.system.trim()}`);
  for (const node of conversation.path()) {
    if (node.role === "user") parts.push(`## You\n\n${promptOf(node).trim()}`);
    else if (node.role === "tool") parts.push(`> Result of \`${node.name}\`: \`${node.content}\``);
    else {
      const calls = (node.toolCalls ?? []).map((call) => `> Called \`${call.function.name}\` with \`${call.function.arguments}\``);
      parts.push([`## ${node.model}`, node.content.trim(), ...calls].filter(Boolean).join("\n\n"));
    }
  }
  return `${parts.join("\n\n")}\n`;
}
