// The server's API: requests with the user's key, streams of events, sounds and WebSockets.
import { ADMIN, API, askForKey, handover, keyOf, setKey } from "./keys.js";
import { limits, noticeFailure, noticeSuccess } from "./connection.js";
import { whole } from "./format.js";
import { sseEvents } from "./sse.js";

const KEY_PROTOCOL = "openai-insecure-api-key.";

/** What the server answered instead of a result; `status` is 0 if it did not answer. */
export class ApiError extends Error {
  constructor(message, { status = 0, code = "", requestId = "" } = {}) {
    super(message);
    this.name = "ApiError";
    this.status = status;
    this.code = code;
    this.requestId = requestId;
  }
}

/** The address of a route, also where a proxy serves the page below a path. */
export function address(path) {
  return new URL(path.replace(/^\//, ""), document.baseURI);
}

/**
 * Send a request and resolve to its response once it has begun well. `json` becomes the body, or `body` is one already
 * (a FormData, a Blob). Asks for the key if the server needs one. Throws ApiError, or AbortError if `signal` aborts.
 */
export async function request(path, { method, json, body, headers = {}, signal } = {}) {
  const verb = method ?? (json !== undefined || body !== undefined ? "POST" : "GET");
  const kind = needsAdmin(verb, path) ? ADMIN : API;
  const content = json !== undefined ? JSON.stringify(json) : body;
  checkSize(content);
  const missing = kind === ADMIN ? await handover : "";
  for (;;) {
    const key = keyOf(kind);
    const response = await send(path, {
      method: verb,
      headers: {
        ...(json !== undefined ? { "content-type": "application/json" } : {}),
        ...(key ? { authorization: `Bearer ${key}` } : {}),
        ...headers,
      },
      body: content,
      signal,
    });
    if (response.ok) return response;
    const error = await errorOf(response);
    if (response.status >= 500) noticeFailure();
    if (response.status !== 401) throw error;
    if (keyOf(kind) !== key) continue; // another request was answered with a key meanwhile
    setKey(kind, null);
    const message = key ? "The server does not accept this key." : missing;
    if (!(await askForKey(kind, message))) throw error;
  }
}

export const getJson = async (path, options) => (await request(path, options)).json();
export const postJson = async (path, json, options) => (await request(path, { ...options, json })).json();

/** The events of a stream, each `{event, data}` with its data parsed; ends after `[DONE]`. Throws on an error event. */
export async function* events(path, options) {
  const response = await request(path, options);
  for await (const { event, data } of sseEvents(readBody(response))) {
    if (data === "[DONE]") return;
    const parsed = JSON.parse(data);
    if (parsed.error) {
      const { message, code } = parsed.error;
      noticeFailure(); // the engine may be gone
      throw new ApiError(message, { status: response.status, code, requestId: response.headers.get("x-request-id") });
    }
    yield { event, data: parsed };
  }
}

/** The body's bytes as they come; a connection that breaks is an ApiError. */
export async function* readBody(response) {
  const reader = response.body.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield value;
    }
  } catch (error) {
    if (error.name === "AbortError") throw error;
    noticeFailure();
    throw new ApiError("the connection to the server broke off");
  } finally {
    reader.cancel().catch(() => {});
  }
}

/** A WebSocket with the key, which browsers can only send as a subprotocol. */
export function socket(path, protocols = []) {
  const target = address(path);
  target.protocol = target.protocol === "https:" ? "wss:" : "ws:";
  const key = keyOf(API);
  return new WebSocket(target, key ? [...protocols, KEY_PROTOCOL + key] : protocols);
}

async function send(path, options) {
  try {
    const response = await fetch(address(path), { ...options, credentials: "omit", cache: "no-store" });
    noticeSuccess();
    return response;
  } catch (error) {
    if (error.name === "AbortError") throw error;
    noticeFailure();
    throw new ApiError("the server does not answer");
  }
}

/**
 * Reject what the server would. It answers before it has read a body that is too large and closes the connection, and
 * browsers then report a broken connection instead of its answer.
 */
function checkSize(content) {
  const known = limits.peek();
  if (!known) return;
  const most = content instanceof FormData ? known.recording : known.json;
  const parts = content instanceof FormData ? [...content.values()].filter((value) => value instanceof Blob) : [content];
  const size = parts.reduce((sum, part) => sum + sizeOf(part), 0);
  if (size <= most) return;
  const what = content instanceof FormData ? "file" : "request";
  const message = `the ${what} has ${whole(size)} bytes; this server takes at most ${whole(most)}`;
  throw new ApiError(message, { status: 413, code: "body_too_large" });
}

const sizeOf = (part) => (part instanceof Blob ? part.size : typeof part === "string" ? new Blob([part]).size : 0);

function needsAdmin(method, path) {
  const route = `/${path.replace(/^\//, "")}`;
  return route.startsWith("/admin") || (method === "DELETE" && route.startsWith("/v1/models/"));
}

async function errorOf(response) {
  let told = {};
  try {
    told = (await response.json()).error ?? {};
  } catch {
    // A proxy's error page, for instance.
  }
  const message = told.message ?? `the server answered with status ${response.status}`;
  const requestId = response.headers.get("x-request-id") ?? "";
  return new ApiError(message, { status: response.status, code: told.code ?? "", requestId });
}
