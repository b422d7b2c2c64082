// Messages of a conversation as the API takes them.

/** End of a file's name that names its language. */
const SUFFIX = /\.([\w+#-]{1,20})$/;

/** Return the text of a question for the model: its files, each in a fenced block below its name, then the question. */
export function promptOf({ content, files = [] }) {
  const blocks = files.map(({ name, text }) => {
    const longest = Math.max(2, ...[...text.matchAll(/`+/g)].map(([run]) => run.length));
    const fence = "`".repeat(longest + 1);
    const suffix = SUFFIX.exec(name)?.[1].toLowerCase() ?? "";
    return `File \`${name}\`:\n${fence}${suffix}\n${text.replace(/\n$/, "")}\n${fence}`;
  });
  return [...blocks, content].filter(Boolean).join("\n\n");
}

/** Return the messages of a branch in the API's format. */
export function apiMessages(conversation, end) {
  const messages = conversation.path(end).flatMap((node) => {
    if (node.role === "tool") return [{ role: "tool", tool_call_id: node.toolCallId, content: node.content }];
    if (node.role === "user") return [{ role: "user", content: promptOf(node) }];
    if (!node.content && !node.toolCalls?.length) return []; // an answer that failed before it began
    const calls = node.toolCalls?.length ? { tool_calls: node.toolCalls } : {};
    return [{ role: "assistant", content: node.content, ...calls }];
  });
  const { system } = conversation.record.options;
  return system.trim() ? [{ role: "system", content: system }, ...messages] : messages;
}
