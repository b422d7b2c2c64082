// The model, the language and the prompt of transcriptions.
import { setting } from "../../lib/settings.js";
import { html } from "../../lib/ui.js";
import { Select, TextArea } from "../../components/fields.js";

export const model = setting("transcribe.model", "");
const language = setting("transcribe.language", "");
const prompt = setting("transcribe.prompt", "");

/** Whisper's languages, by their codes. */
const CODES =
  "af am ar as az ba be bg bn bo br bs ca cs cy da de el en es et eu fa fi fo fr gl gu ha haw he hi hr ht hu hy id is it ja jw " +
  "ka kk km kn ko la lb ln lo lt lv mg mi mk ml mn mr ms mt my ne nl nn no oc pa pl ps pt ro ru sa sd si sk sl sn so sq sr " +
  "su sv sw ta te tg th tk tl tr tt uk ur uz vi yi yo zh";

const NAMES = new Intl.DisplayNames(["en"], { type: "language" });
const nameOf = (code) => NAMES.of(code === "jw" ? "jv" : code); // Whisper's code of Javanese is an old one
const LANGUAGES = CODES.split(" ")
  .map((code) => ({ value: code, label: nameOf(code) }))
  .sort((one, other) => one.label.localeCompare(other.label, "en"));

/** As they are now. */
export const options = () => ({ model: model.peek(), language: language.peek(), prompt: prompt.peek().trim() });

const summary = () => {
  const spoken = language.value ? nameOf(language.value) : "language detected";
  return prompt.value.trim() ? `${spoken}, with a prompt` : spoken;
};

export function Options() {
  return html`<details class="options">
    <summary>Language and prompt <span class="hint">${summary()}</span></summary>
    <div class="options-body">
      <${Select} label="Language" value=${language.value} onChange=${(value) => (language.value = value)}
        hint="Models whose names end in .en know English only."
        options=${[{ value: "", label: "Detect it" }, ...LANGUAGES]} />
      <${TextArea} label="Prompt" rows="2" value=${prompt.value} onChange=${(value) => (prompt.value = value)}
        hint="Names, spellings and style that the recording may have." />
    </div>
  </details>`;
}
