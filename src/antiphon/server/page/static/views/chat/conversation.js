// Conversation: a tree of messages, of which one branch is shown.
import { signal } from "../../lib/ui.js";
import { mergeInto } from "./merge.js";

export const ROOT = "";

export const DEFAULT_OPTIONS = {
  system: "",
  temperature: null,
  top_p: null,
  top_k: null,
  min_p: null,
  max_tokens: null,
  seed: null,
  repetition_penalty: null,
  presence_penalty: null,
  frequency_penalty: null,
  stop: "",
  reasoning_effort: "",
  schema: "",
  tools: [],
};

const newId = () => crypto.randomUUID?.() ?? `${Date.now().toString(36)}-${Math.random().toString(36).slice(2)}`;

/**
 * Conversation with its stored `record`: `{id, title, hasGivenTitle, titledAt, createdAt, updatedAt, options, optionsAt,
 * nodes, children, chosen}`. `children` lists the ids of the messages below each message, and `chosen` the id of the one
 * that is shown. The signal `shape` changes with the messages, the branch that is shown, the title and the options.
 */
export class Conversation {
  constructor(record) {
    this.record = record;
    this.shape = signal(0);
    this.isDeleted = false;
    this.onDelete = null; // ends the answer in progress
    this.growing = new Set(); // ids of messages that this tab is generating
  }

  static create(options = {}) {
    const now = Date.now();
    return new Conversation({
      id: newId(),
      title: "",
      hasGivenTitle: false,
      createdAt: now,
      updatedAt: now,
      options: { ...DEFAULT_OPTIONS, ...options },
      nodes: {},
      children: { [ROOT]: [] },
      chosen: {},
    });
  }

  get id() {
    return this.record.id;
  }

  get title() {
    return this.record.title || "New chat";
  }

  get isEmpty() {
    return this.record.children[ROOT].length === 0;
  }

  /** Add a message below `parent` (an id, or ROOT) and show it. */
  add(parent, message) {
    const { nodes, children, chosen } = this.record;
    const node = { id: newId(), parent, createdAt: Date.now(), content: "", ...message };
    nodes[node.id] = node;
    children[node.id] = [];
    children[parent].push(node.id);
    chosen[parent] = node.id;
    if (!this.record.title && node.role === "user") this.record.title = titleOf(node);
    this.changed();
    return node;
  }

  changed() {
    this.record.updatedAt = Date.now();
    this.shape.value += 1;
  }

  /** Return the messages of the branch that is shown, or of the branch that ends with the message `end`. */
  path(end = null) {
    const { nodes, chosen } = this.record;
    const found = [];
    if (end !== null) {
      for (let node = nodes[end]; node; node = nodes[node.parent]) found.unshift(node);
      return found;
    }
    for (let id = chosen[ROOT]; id; id = chosen[id]) found.push(nodes[id]);
    return found;
  }

  /** Return the ids of a message and its alternatives: answers to the same question, or versions of a question. */
  siblings(node) {
    return this.record.children[node.parent];
  }

  show(id) {
    const node = this.record.nodes[id];
    this.record.chosen[node.parent] = id;
    this.changed();
  }

  /** Return the id of the question that an answer or one of its steps belongs to, or ROOT. */
  questionOf(node) {
    let found = node;
    while (found && found.role !== "user") found = this.record.nodes[found.parent];
    return found?.id ?? ROOT;
  }

  /** Create a conversation from the messages up to `end`. */
  branch(end) {
    const made = Conversation.create(this.record.options);
    let parent = ROOT;
    for (const { id: _, parent: __, ...message } of this.path(end)) parent = made.add(parent, message).id;
    made.record.title = this.record.title;
    return made;
  }

  setOption(name, value) {
    this.record.options = { ...this.record.options, [name]: value };
    this.record.optionsAt = Date.now();
    this.changed();
  }

  rename(title) {
    this.record.title = title;
    this.record.hasGivenTitle = true;
    this.record.titledAt = Date.now();
    this.changed();
  }

  /** Add what the record of the same conversation has that another tab saved. */
  merge(record) {
    if (mergeInto(this.record, record, (node) => this.growing.has(node.id))) this.shape.value += 1;
  }

  /** Return whether the title, any message or the name of a file contains `words`. */
  matches(words) {
    const wanted = words.trim().toLowerCase();
    if (!wanted) return true;
    const written = Object.values(this.record.nodes).flatMap(({ content, files = [] }) => [content, ...files.map(({ name }) => name)]);
    const texts = [this.record.title, ...written];
    return texts.some((text) => text.toLowerCase().includes(wanted));
  }
}

const titleOf = ({ content, files }) => (content.trim().split("\n")[0] || files?.[0]?.name || "").slice(0, 60);
