// Options of transcriptions: model, language and prompt.
import { setting } from "../../lib/settings.js";
import { html } from "../../lib/ui.js";
import { Select, TextArea } from "../../components/fields.js";

export const model = setting("transcribe.model", "");
const language = setting("transcribe.language", "");
const prompt = setting("transcribe.prompt", "");

/** Codes of Whisper's languages. */
const CODES =
  "af am ar as az ba be bg bn bo br bs ca cs cy da de el en es et eu fa fi fo fr gl gu ha haw he hi hr ht hu hy id is it ja jw " +
  "ka kk km kn ko la lb ln lo lt lv mg mi mk ml mn mr ms mt my ne nl nn no oc pa pl ps pt ro ru sa sd si sk sl sn so sq sr " +
  "su sv sw ta te tg th tk tl tr tt uk ur uz vi yi yo zh";

const NAMES = new Intl.DisplayNames(["en"], { type: "language" });
const nameOf = (code) => NAMES.of(code === "jw" ? "jv" : code); // Whisper uses an old code for Javanese
const LANGUAGES = CODES.split(" ")
  .map((code) => ({ value: code, label: nameOf(code) }))
  .sort((one, other) => one.label.localeCompare(other.label, "en"));

/** Return whether a name is that of an English-only Whisper model. */
const isEnglishOnly = (name) => /\.en\b/.test(name);

/** Return the current options. English-only models ignore the chosen language, which is kept for other models. */
export const options = () => ({
  model: model.peek(),
  language: isEnglishOnly(model.peek()) ? "" : language.peek(),
  prompt: prompt.peek().trim(),
});

const summary = (isEnglish) => {
  const spoken = isEnglish ? "English" : language.value ? nameOf(language.value) : "Language detected";
  return prompt.value.trim() ? `${spoken}, with a prompt` : spoken;
};

export function Options() {
  const isEnglish = isEnglishOnly(model.value);
  return html`<details class="options">
    <summary>Language and prompt <span class="hint">${summary(isEnglish)}</span></summary>
    <div class="options-body">
      ${isEnglish
        ? html`<${Select} label="Language" value="en" onChange=${() => {}} hint=${`${model.value} knows English only.`}
            options=${[{ value: "en", label: nameOf("en") }]} />`
        : html`<${Select} label="Language" value=${language.value} onChange=${(value) => (language.value = value)}
            options=${[{ value: "", label: "Detect it" }, ...LANGUAGES]} />`}
      <${TextArea} label="Prompt" rows="2" value=${prompt.value} onChange=${(value) => (prompt.value = value)}
        hint="Names, spellings and style that the recording may have." />
    </div>
  </details>`;
}
