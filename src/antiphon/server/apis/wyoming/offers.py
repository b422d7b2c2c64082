"""`Offers`: the transcription models and voices that a server announces, and the choice among them for a request."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from antiphon.runtime.residency.resident import ModelState, Resident
from antiphon.runtime.voices.aliases import parts_of
from antiphon.runtime.voices.names import catalog_voices, voice_language
from antiphon.server.apis.wyoming.events import WantedVoice
from antiphon.server.serving.model_card import task_of
from antiphon.server.serving.model_names import untagged
from antiphon.server.serving.serving import Serving
from antiphon.server.serving.setup.config import LoadOnUse
from antiphon.server.web.http.errors import ApiError, invalid
from antiphon.text.tokenization.whisper_tokens import ALIASES, LANGUAGES
from antiphon.text.tokenization.whisper_vocab import WhisperTokenizer
from antiphon.weights.catalog.catalog import HubSource, ModelEntry, catalog
from antiphon.weights.catalog.model_tasks import models_for
from antiphon.weights.catalog.store import ModelStore

#: Separator of model and voice in a name of both.
SEPARATOR = "/"
#: Languages of Whisper's multilingual models; large-v3 has one more.
WHISPER_LANGUAGES = tuple(LANGUAGES[:-1])


@dataclass(frozen=True)
class OfferedModel:
    name: str
    title: str
    author: str
    #: Whether the model is on this machine, or configured and thus downloaded at startup.
    is_installed: bool
    #: Languages of a transcription model.
    languages: tuple[str, ...] = ()
    #: Voices of a speech model as (name, language), the default first.
    voices: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class OfferedVoice:
    """A voice; clients call it `name`, which includes the model if an earlier model has a voice of the same name."""

    name: str
    voice: str
    language: str
    model: OfferedModel


class Offers:
    """Models and voices available at one moment, the default of each task first."""

    def __init__(self, recognisers: list[OfferedModel], speakers: list[OfferedModel]) -> None:
        self.recognisers = recognisers
        self.speakers = speakers
        self.voices: list[OfferedVoice] = []
        taken: set[str] = set()
        for model in speakers:
            for voice, language in model.voices:
                name = voice if voice not in taken else f"{model.name}{SEPARATOR}{voice}"
                taken.add(name)
                self.voices.append(OfferedVoice(name, voice, language, model))

    @classmethod
    def of(cls, serving: Serving) -> Offers:
        return cls(
            [_recogniser(model, present) for model, present in _models(serving, "transcribe")],
            [_speaker(model, present) for model, present in _models(serving, "synthesize")],
        )

    def recogniser_for(self, language: str | None) -> str | None:
        """Return the first model that knows the language, or None if there is no transcription model.

        Without a language, the default model is chosen; also for a language that no model knows, so that its error
        lists the known ones.
        """
        if language is None:
            fitting = self.recognisers
        else:
            fitting = [model for model in self.recognisers if whisper_code(language) in model.languages]
        chosen = next(iter(fitting or self.recognisers), None)
        return None if chosen is None else chosen.name

    def speaker_for(self, wanted: WantedVoice) -> tuple[str | None, str | None]:
        """Return (model, voice); None is the default. The voice may be an alias, a mixture, or unknown to the model.

        Raises `ApiError` if no voice speaks the language.
        """
        if wanted.name is not None:
            return self._named(wanted.name, wanted.speaker)
        if wanted.language is None:
            return self._default, wanted.speaker
        asked = plain_language(wanted.language)
        same = [voice for voice in self.voices if plain_language(voice.language) == asked]
        near = [voice for voice in self.voices if plain_language(voice.language)[:2] == asked[:2]]
        chosen = next(iter(same or near), None)
        if chosen is None:
            known = ", ".join(dict.fromkeys(voice.language for voice in self.voices)) or "none"
            raise invalid(
                f"no voice speaks {wanted.language!r}; the languages are: {known}", "voice", "voice_not_found"
            )
        return chosen.model.name, chosen.voice

    @property
    def _default(self) -> str | None:
        return self.speakers[0].name if self.speakers else None

    def _named(self, name: str, speaker: str | None) -> tuple[str | None, str | None]:
        for voice in self.voices:
            if voice.name == name:
                return voice.model.name, voice.voice
        if any(model.name == untagged(name) for model in self.speakers):
            return untagged(name), speaker
        model, _, voice_name = name.rpartition(SEPARATOR)
        if any(known.name == model for known in self.speakers):
            return model, voice_name
        parts = {part for part, _ in parts_of(name)}
        for known in self.speakers:
            if parts <= {voice_name for voice_name, _ in known.voices}:
                return known.name, name
        return self._default, name


def plain_language(language: str) -> str:
    return language.strip().lower().replace("_", "-")


def whisper_code(language: str) -> str:
    """Return Whisper's code of a language, such as `en` for `en-GB`."""
    code = plain_language(language).split("-")[0]
    return ALIASES.get(code, code)


def language_tag(language: str) -> str:
    """Return the language as clients write it, such as `en-US`."""
    first, dash, region = language.partition("-")
    return f"{first}{dash}{region.upper()}"


def nothing_for(task: str) -> ApiError:
    kind = {"transcribe": "transcription", "synthesize": "speech"}[task]
    return ApiError(404, f"this server has no {kind} model", code="model_not_found")


def _models(serving: Serving, task: str) -> Iterator[tuple[Resident | ModelEntry, bool]]:
    """Yield a task's models and whether they are installed: the default, configured and loaded, then the catalog's."""
    models, store = serving.models, ModelStore.default()
    default = models.names().get({"transcribe": "default-transcription", "synthesize": "default-speech"}[task])
    own = [model for model in models if model.base is None and not model.is_companion and task_of(model) == task]
    seen: set[str] = set()
    for model in [*filter(None, [default]), *own]:
        entry = catalog().get(model.reference.lower())
        present = entry is None or store.is_present(entry) or model.state is ModelState.READY
        is_known = present or model.is_configured or not serving.config.offline
        if model.name not in seen and is_known and model.failure is None:
            seen.add(model.name)
            yield model, present or model.is_configured
    if serving.config.load_on_use is not LoadOnUse.CONFIGURED:
        for name in models_for(task):
            entry = catalog()[name]
            if name not in seen and store.is_present(entry):
                yield entry, True


def _facts(model: Resident | ModelEntry) -> tuple[str, str]:
    """Return title and author of a model, as far as known."""
    entry = model if isinstance(model, ModelEntry) else catalog().get(model.reference.lower())
    if entry is None:
        return model.name, "unknown"
    sources = [source for file in entry.files for source in file.sources if isinstance(source, HubSource)]
    return entry.title, sources[0].repository.split("/")[0] if sources else "unknown"


def _recogniser(model: Resident | ModelEntry, is_installed: bool) -> OfferedModel:
    text = None if isinstance(model, ModelEntry) else model.text
    if text is not None and isinstance(text.tokenizer, WhisperTokenizer):
        tokens = text.tokenizer.whisper
        languages = tuple(LANGUAGES[: tokens.num_languages]) if tokens.is_multilingual else ("en",)
    else:
        languages = ("en",) if model.name.endswith(".en") else WHISPER_LANGUAGES
    return OfferedModel(model.name, *_facts(model), is_installed, languages=languages)


def _speaker(model: Resident | ModelEntry, is_installed: bool) -> OfferedModel:
    loaded = None if isinstance(model, ModelEntry) else model.loaded
    if loaded is not None:
        voices, default = [(voice.name, voice.language) for voice in loaded.voices], loaded.default_voice
    else:
        reference = model.name if isinstance(model, ModelEntry) else model.reference
        voices = [(name, voice_language(name)) for name in catalog_voices(reference) or ()]
        default = "af_heart"
    voices.sort(key=lambda voice: voice[0] != default)
    return OfferedModel(model.name, *_facts(model), is_installed, voices=tuple(voices))
