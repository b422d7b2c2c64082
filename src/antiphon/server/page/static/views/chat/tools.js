// Tools that run in the page when a model calls them.
import { calculate } from "./calculator.js";

const OBJECT = { type: "object", additionalProperties: false };

export const TOOLS = [
  {
    name: "current_time",
    label: "Date and time",
    description: "Get the current date, time and time zone of the user.",
    parameters: { ...OBJECT, properties: {} },
    run() {
      const now = new Date();
      const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
      return { local: now.toLocaleString("en-GB", { dateStyle: "full", timeStyle: "medium" }), utc: now.toISOString(), time_zone: zone };
    },
  },
  {
    name: "calculate",
    label: "Calculator",
    description: "Compute the value of an arithmetic expression, such as 2 * (3 + sqrt(16)).",
    parameters: { ...OBJECT, properties: { expression: { type: "string" } }, required: ["expression"] },
    run({ expression }) {
      return { value: calculate(String(expression)) };
    },
  },
];

/** Return the tools of these names in the API's format. */
export const apiTools = (names) =>
  TOOLS.filter((tool) => names.includes(tool.name)).map(({ name, description, parameters }) => ({
    type: "function",
    function: { name, description, parameters },
  }));

/** Run a tool call, and return its result or its error as text for the model. */
export function runTool(call) {
  const tool = TOOLS.find((known) => known.name === call.function.name);
  try {
    if (!tool) throw new Error(`there is no tool ${call.function.name}`);
    return JSON.stringify(tool.run(JSON.parse(call.function.arguments || "{}")));
  } catch (error) {
    return JSON.stringify({ error: error.message });
  }
}
