// Client of the server's API: requests with the user's key, streams of events and sound, and WebSockets.
import { ADMIN, API, askForKey, keyOf, requestAdminKey, setKey } from "./keys.js";
import { limits, noticeFailure, noticeSuccess } from "./connection.js";
import { whole } from "./format.js";
import { sseEvents } from "./sse.js";

const KEY_PROTOCOL = "openai-insecure-api-key.";

/** Error of a request; `status` is the HTTP status, or 0 if the server did not answer. */
export class ApiError extends Error {
  constructor(message, { status = 0, code = "", requestId = "" } = {}) {
    super(message);
    this.name = "ApiError";
    this.status = status;
    this.code = code;
    this.requestId = requestId;
  }
}

/** Return the address of a route, also if a proxy serves the page below a path. */
export function address(path) {
  return new URL(path.replace(/^\//, ""), document.baseURI);
}

/**
 * Send a request, and resolve to its response once a successful status has arrived. The body is `json`, encoded, or
 * `body` (a FormData, a Blob). If the server requires a key, asks the server for its admin key once, then the user.
 * Throws ApiError, or AbortError if `signal` aborts.
 */
export async function request(path, { method, json, body, headers = {}, signal } = {}) {
  const verb = method ?? (json !== undefined || body !== undefined ? "POST" : "GET");
  const kind = needsAdmin(verb, path) ? ADMIN : API;
  const content = json !== undefined ? JSON.stringify(json) : body;
  checkSize(content);
  let refusal = null;
  for (;;) {
    if (kind === ADMIN && refusal === null && !keyOf(ADMIN)) refusal = await requestAdminKey();
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
    if (keyOf(kind) !== key) continue; // the user entered a key for another request meanwhile
    setKey(kind, null);
    if (kind === ADMIN && refusal === null) {
      refusal = await requestAdminKey(); // a server that was started again has another key
      if (!refusal) continue;
    }
    const message = [key && "The server does not accept this key.", refusal].filter(Boolean).join(" ");
    if (!(await askForKey(kind, message))) throw error;
  }
}

export const getJson = async (path, options) => (await request(path, options)).json();
export const postJson = async (path, json, options) => (await request(path, { ...options, json })).json();

/** Yield a stream's events `{event, data}`, with parsed data, until `[DONE]`. Throws ApiError on an error event. */
export async function* events(path, options) {
  const response = await request(path, options);
  for await (const { event, data } of sseEvents(readBody(response))) {
    if (data === "[DONE]") return;
    const parsed = JSON.parse(data);
    if (parsed.error) {
      const { message, code } = parsed.error;
      noticeFailure(); // the engine may have failed
      throw new ApiError(message, { status: response.status, code, requestId: response.headers.get("x-request-id") });
    }
    yield { event, data: parsed };
  }
}

/** Yield the chunks of a body. Throws ApiError if the connection breaks. */
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

/** Open a WebSocket with the key as a subprotocol, the only way for browsers to send it. */
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
 * Reject a body that is too large. The server would answer and close the connection before reading the body, and
 * browsers would then report a broken connection instead of the answer.
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
    // Not JSON: a proxy's error page, for instance.
  }
  const message = told.message ?? `the server answered with status ${response.status}`;
  const requestId = response.headers.get("x-request-id") ?? "";
  return new ApiError(message, { status: response.status, code: told.code ?? "", requestId });
}
