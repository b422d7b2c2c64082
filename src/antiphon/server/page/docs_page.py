"""`GET /docs`: the OpenAPI document as a self-contained page, with a form to try each route."""

from __future__ import annotations

import base64
import hashlib

from fastapi import APIRouter, Response

router = APIRouter()

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
summary { cursor: pointer; padding: .3rem 0; font-family: ui-monospace, monospace; }
details { border-bottom: 1px solid #8884; }
table { border-collapse: collapse; margin: .5rem 0; }
td { padding: .1rem .8rem .1rem 0; vertical-align: top; }
code, pre, textarea { font-family: ui-monospace, monospace; font-size: 13px; }
textarea { width: 100%; box-sizing: border-box; min-height: 6rem; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; max-height: 30rem; overflow: auto; }
"""

SCRIPT = """
const make = (tag, text, ...children) => {
  const node = document.createElement(tag);
  if (text) node.textContent = text;
  node.append(...children);
  return node;
};
const key = document.getElementById("key");
const routes = document.getElementById("routes");
const headers = () => key.value ? { authorization: "Bearer " + key.value } : {};

const resolve = (schemas, schema) =>
  schema && schema.$ref ? schemas[schema.$ref.split("/").pop()] : schema || {};

const typeOf = (schema) => {
  if (schema.$ref) return schema.$ref.split("/").pop();
  const forms = schema.anyOf || schema.oneOf;
  if (forms) return forms.filter((form) => form.type !== "null").map(typeOf).join(" | ");
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" | ");
  if (schema.type === "array") return typeOf(schema.items || {}) + "[]";
  return schema.type || "any";
};

const fieldsOf = (schema) => {
  const required = new Set(schema.required || []);
  const table = make("table");
  for (const [name, field] of Object.entries(schema.properties || {})) {
    const mark = required.has(name) ? " *" : "";
    table.append(make("tr", "", make("td", "", make("code", name + mark)), make("td", typeOf(field))));
  }
  return table;
};

const EXAMPLES = {
  messages: [{ role: "user", content: "Hello." }], prompt: "Hello", input: "Hello.", tokens: [1],
};

const tryIt = (method, path, schema) => {
  const place = make("div");
  const url = make("input");
  url.value = path.replace(/^[/]/, "");
  url.size = 60;
  const button = make("button", "Send");
  const answer = make("pre");
  place.append(make("p", "", method.toUpperCase() + " ", url, " ", button));
  let body = null;
  if (schema) {
    body = make("textarea");
    const example = {};
    for (const name of schema.required || []) example[name] = EXAMPLES[name] ?? null;
    body.value = JSON.stringify(example, null, 2);
    place.append(body);
  }
  place.append(answer);
  button.onclick = async () => {
    answer.textContent = "";
    try {
      const request = { method: method.toUpperCase(), headers: headers() };
      if (body) {
        request.headers["content-type"] = "application/json";
        request.body = body.value;
      }
      const response = await fetch(url.value, request);
      answer.textContent = response.status + "\\n";
      const reader = response.body.getReader();
      const decoder = new TextDecoder();
      for (;;) {
        const { done, value } = await reader.read();
        if (done) break;
        answer.textContent += decoder.decode(value, { stream: true });
      }
    } catch (error) {
      answer.textContent += String(error);
    }
  };
  return place;
};

const show = (pages) => {
  routes.replaceChildren();
  document.getElementById("version").textContent = pages.info.version;
  const schemas = pages.components.schemas;
  for (const [path, methods] of Object.entries(pages.paths)) {
    for (const [method, page] of Object.entries(methods)) {
      const node = make("details", "", make("summary", method.toUpperCase() + " " + path));
      if (page.description) node.append(make("p", page.description));
      const content = page.requestBody ? page.requestBody.content : {};
      const kind = Object.keys(content)[0];
      const schema = kind ? resolve(schemas, content[kind].schema) : null;
      for (const given of page.parameters || [])
        node.append(make("p", "", make("code", given.name), " (" + given.in + "): " + typeOf(given.schema)));
      if (schema) node.append(make("p", kind), fieldsOf(schema));
      node.append(make("p", "Answers: " + Object.keys(page.responses["200"].content).join(", ")));
      if (!kind || kind === "application/json") node.append(tryIt(method, path, schema));
      routes.append(node);
    }
  }
};

const load = async () => {
  try {
    const response = await fetch("openapi.json", { headers: headers() });
    if (response.status === 401) routes.replaceChildren(make("p", "This server needs an API key."));
    else show(await response.json());
  } catch (error) {
    routes.replaceChildren(make("p", String(error)));
  }
};
key.onchange = load;
load();
"""

PAGE = f"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Antiphon: API</title>
<style>{STYLE}</style>
<h1>Antiphon <span id="version"></span></h1>
<p><label>API key <input id="key" type="password" autocomplete="off"></label></p>
<div id="routes"></div>
<script>{SCRIPT}</script>
</html>
"""


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


#: Allows only the page's own script and style, and connections to this server.
POLICY = (
    f"default-src 'none'; script-src {_hash(SCRIPT)}; style-src {_hash(STYLE)}; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


@router.get("/docs", include_in_schema=False)
async def docs() -> Response:
    return Response(PAGE, media_type="text/html", headers={"content-security-policy": POLICY})
