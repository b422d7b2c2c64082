// Parser of server-sent events in chunks of bytes, which may end anywhere.

/** Yield the events `{event, data}` in an async iterable of byte chunks. */
export async function* sseEvents(chunks) {
  const decoder = new TextDecoder();
  let rest = "";
  let event = "message";
  let data = [];
  for await (const chunk of chunks) {
    rest += decoder.decode(chunk, { stream: true });
    const lines = rest.split(/\r\n|\n|\r(?!$)/);
    rest = lines.pop();
    for (const line of lines) {
      if (line === "") {
        if (data.length) yield { event, data: data.join("\n") };
        event = "message";
        data = [];
        continue;
      }
      const colon = line.indexOf(":");
      const name = colon < 0 ? line : line.slice(0, colon);
      const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
      if (name === "data") data.push(value);
      else if (name === "event") event = value;
    }
  }
}
