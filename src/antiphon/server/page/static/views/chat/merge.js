// Merging of two versions of a conversation that two tabs have changed.

/**
 * Add to the record `own` what `other`, another version of the same conversation, has and `own` has not. Messages of
 * `own` stay the same objects; `isOwn` tells which of them this tab is generating. Returns whether `own` changed.
 */
export function mergeInto(own, other, isOwn = () => false) {
  const before = JSON.stringify({ ...own, updatedAt: 0 });
  for (const [id, node] of Object.entries(other.nodes)) {
    const known = own.nodes[id];
    if (!known) own.nodes[id] = node;
    else if (!isOwn(known) && isFurther(node, known)) replace(known, node);
  }
  for (const [id, children] of Object.entries(other.children)) {
    const known = own.children[id] ?? [];
    const all = [...known, ...children.filter((child) => !known.includes(child))];
    own.children[id] = all.length === known.length ? known : all.sort(inOrder(own.nodes));
  }
  own.chosen = { ...other.chosen, ...own.chosen }; // this tab goes on showing its own branch
  if ((other.titledAt ?? 0) > (own.titledAt ?? 0) || !own.title) {
    const { title, titledAt, hasGivenTitle } = other;
    Object.assign(own, { title, titledAt, hasGivenTitle });
  }
  if ((other.optionsAt ?? 0) > (own.optionsAt ?? 0)) Object.assign(own, { options: other.options, optionsAt: other.optionsAt });
  own.updatedAt = Math.max(own.updatedAt, other.updatedAt);
  return JSON.stringify({ ...own, updatedAt: 0 }) !== before;
}

function replace(known, node) {
  for (const name of Object.keys(known)) delete known[name];
  Object.assign(known, node);
}

/** Order of siblings by their creation, the same in every tab. */
const inOrder = (nodes) => (one, other) => nodes[one].createdAt - nodes[other].createdAt || (one < other ? -1 : 1);

/** Return whether a version of a message has more of the answer: messages only grow, and then end. */
function isFurther(node, known) {
  const isOver = (message) => Boolean(message.finish || message.error);
  if (isOver(node) !== isOver(known)) return isOver(node);
  return sizeOf(node) > sizeOf(known);
}

const sizeOf = (node) =>
  node.content.length + (node.reasoning?.length ?? 0) + JSON.stringify(node.toolCalls ?? []).length + Number(Boolean(node.figures));
