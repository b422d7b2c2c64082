"""`ScriptedMicrophone`, which plays recordings on demand, and `Witness`, which records a conversation on the page.

The sound goes through the page's own capture, as a real microphone's would.
"""

from __future__ import annotations

import base64
import json
from typing import Any

import numpy as np
from playwright.sync_api import Locator, Page, expect

from antiphon.audio.decode import decode
from antiphon.audio.samples import Floats
from support.browser.watched_page import wait_on_page
from support.sound.sounds import silence, wav_bytes
from support.sound.speech import JFK_SPEECH, RATE, jfk

#: Indices in `JFK_SPEECH` of sentences of `jfk()`, by a word that every recogniser hears in them.
SENTENCES = {"Americans": 0, "what": 2, "country": 3}

#: Replaces `getUserMedia` by scripted sound; the page must not notice the difference.
MICROPHONE = """
(() => {
  let context, target;
  const sounds = new Map();
  navigator.mediaDevices.getUserMedia = async () => {
    context = new AudioContext();
    target = context.createMediaStreamDestination();
    return target.stream;
  };
  window.scripted = {
    async keep(name, base64) {
      const bytes = Uint8Array.from(atob(base64), (sign) => sign.charCodeAt(0));
      sounds.set(name, await context.decodeAudioData(bytes.buffer));
    },
    say(name, loop) {
      const source = new AudioBufferSourceNode(context, { buffer: sounds.get(name), loop });
      source.connect(target);
      window.scripted.source = source;
      window.scripted.isSaying = true;
      source.onended = () => (window.scripted.isSaying = false);
      source.start();
    },
    lose() {
      const [track] = target.stream.getAudioTracks();
      track.stop();
      track.dispatchEvent(new Event("ended"));
    },
  };
})();
"""

#: Records each turn state that the page shows, the peak of its answers' sound, and the events of its sockets. Sets the
#: temperature to 0, since about one sampled answer in a hundred has no words to speak.
WITNESS = """
(() => {
  const seen = (window.witness = { turns: [], loudest: 0, sent: [], received: [], sockets: [] });
  const Plain = window.WebSocket;
  window.WebSocket = class extends Plain {
    constructor(...given) {
      super(...given);
      seen.sockets.push(this);
      this.addEventListener("message", ({ data }) => {
        const event = JSON.parse(data);
        delete event.delta;
        seen.received.push(event);
      });
    }
    send(text) {
      const event = JSON.parse(text);
      if (event.type === "input_audio_buffer.append") return super.send(text);
      seen.sent.push(event);
      const isUpdate = event.type === "session.update";
      super.send(isUpdate ? JSON.stringify({ ...event, session: { ...event.session, temperature: 0 } }) : text);
    }
  };
  const look = () => {
    const turn = document.querySelector(".talk-stage")?.dataset.turn;
    if (turn && turn !== seen.turns.at(-1)) seen.turns.push(turn);
  };
  new MutationObserver(look).observe(document, { subtree: true, childList: true, attributes: true });
  const connect = AudioNode.prototype.connect;
  AudioNode.prototype.connect = function (target, ...rest) {
    // Listen to every node that leads to the speakers; the microphone's node does too, but is silent.
    if (target instanceof AudioDestinationNode && this instanceof AnalyserNode) listen(this);
    return connect.call(this, target, ...rest);
  };
  function listen(analyser) {
    const samples = new Float32Array(analyser.fftSize);
    const hear = () => {
      analyser.getFloatTimeDomainData(samples);
      for (const sample of samples) seen.loudest = Math.max(seen.loudest, Math.abs(sample));
      if (analyser.context.state !== "closed") setTimeout(hear, 40);
    };
    hear();
  }
})();
"""


def sentence(word: str, before: float = 0.0, after: float = 0.0) -> Floats:
    """Return the sentence of `SENTENCES` for `word`, with `before` and `after` seconds of silence, at 16 kHz."""
    start, end = JFK_SPEECH[SENTENCES[word]]
    sound = decode(jfk(), rate=RATE).values[round((start - 0.05) * RATE) : round((end + 0.05) * RATE)]
    return np.concatenate([silence(before), sound, silence(after)])


class ScriptedMicrophone:
    """Microphone that plays sentences on demand.

    Construct it before the page is opened, and call `keep` once the microphone is open.
    """

    def __init__(self, page: Page) -> None:
        self._page = page
        page.add_init_script(MICROPHONE)

    def keep(self, *words: str) -> None:
        """Load the sentences with these words into the page."""
        for word in words:
            data = base64.b64encode(wav_bytes(sentence(word))).decode()
            self._page.evaluate("([name, data]) => scripted.keep(name, data)", [word, data])

    def say(self, word: str, is_repeated: bool = False) -> None:
        """Start playing the sentence with this word, once or repeatedly until `finish`."""
        self._page.evaluate("([name, loop]) => scripted.say(name, loop)", [word, is_repeated])

    def finish(self) -> None:
        """Let a repeated sentence play to its end, then stop."""
        self._page.evaluate("scripted.source.loop = false")

    def wait_until_said(self) -> None:
        wait_on_page(self._page, "!scripted.isSaying")

    def lose(self) -> None:
        """End the track, as if the microphone were unplugged."""
        self._page.evaluate("scripted.lose()")


class Witness:
    """Record of a conversation on the page. Construct it before the page is opened."""

    def __init__(self, page: Page) -> None:
        self._page = page
        page.add_init_script(WITNESS)

    @property
    def turns(self) -> list[str]:
        """Turn states that the page has shown, in order."""
        found: list[str] = self._page.evaluate("witness.turns")
        return found

    def sent(self, kind: str) -> list[dict[str, Any]]:
        """Return the events of this type that the page sent."""
        found: list[dict[str, Any]] = self._page.evaluate(
            "(kind) => witness.sent.filter((event) => event.type === kind)", kind
        )
        return found

    def received(self, kind: str) -> list[dict[str, Any]]:
        """Return the events of this type that the server sent."""
        found: list[dict[str, Any]] = self._page.evaluate(
            "(kind) => witness.received.filter((event) => event.type === kind)", kind
        )
        return found

    def wait_until_heard(self) -> None:
        """Wait until sound of an answer has reached the speakers."""
        wait_on_page(self._page, "witness.loudest > 0.02", seen=self._seen)

    def wait_for(self, kind: str, number: int = 1) -> None:
        """Wait until the server has sent `number` events of this type."""
        expression = f"witness.received.filter((event) => event.type === '{kind}').length >= {number}"
        wait_on_page(self._page, expression, seen=self._seen)

    def _seen(self) -> object:
        return self.turns, self._page.evaluate("witness.received.slice(-5)")

    def drop_socket(self) -> None:
        """Close the WebSocket as a network failure would, without involving the page's code."""
        self._page.evaluate("witness.sockets.at(-1).close()")


def stage(page: Page) -> Locator:
    """Return the element that shows whose turn it is, in `data-turn`."""
    return page.locator(".talk-stage")


def begin(page: Page) -> None:
    """Start a conversation and wait until the server listens."""
    page.get_by_role("button", name="Start talking").click()
    expect(stage(page)).to_have_attribute("data-turn", "listening")


def type_in(page: Page, text: str) -> None:
    page.get_by_label("Say something by typing").fill(text)
    page.get_by_role("button", name="Send").click()


def preset(page: Page, **settings: object) -> None:
    """Store settings of the view Talk, as if the user had chosen them on an earlier visit."""
    script = "".join(
        f"localStorage.setItem({json.dumps('antiphon.talk.' + name)}, {json.dumps(json.dumps(value))});"
        for name, value in settings.items()
    )
    page.add_init_script(script)
