// Microphone as frames of 16-bit samples, with errors that users understand.
import { audioContext } from "./player.js";

const CONSTRAINTS = { channelCount: 1, echoCancellation: true, noiseSuppression: true, autoGainControl: true };

const CAUSES = {
  NotAllowedError: "The browser did not allow the microphone. Allow it for this page, beside the address, and try again.",
  SecurityError: "The browser did not allow the microphone. Allow it for this page, beside the address, and try again.",
  NotFoundError: "No microphone was found. Connect one and try again.",
  NotReadableError: "The microphone could not be opened. Another program may be using it.",
};

const INSECURE =
  "Browsers give a page the microphone only over HTTPS, or on the server's own machine at localhost. " +
  "This page came over plain HTTP from another machine.";

/** The microphone is not available; `message` is a sentence for the user. */
export class MicrophoneError extends Error {}

/**
 * Open the microphone, asking the user. `onFrame` receives Int16Arrays of 20 ms at `rate`; `onLost` is called once if
 * the microphone is disconnected. Call only after the user has interacted with the page. Throws MicrophoneError.
 */
export async function openMicrophone({ rate, onFrame, onLost }) {
  if (!window.isSecureContext || !navigator.mediaDevices) throw new MicrophoneError(INSECURE);
  const context = audioContext();
  let stream;
  try {
    stream = await navigator.mediaDevices.getUserMedia({ audio: CONSTRAINTS });
  } catch (error) {
    throw new MicrophoneError(CAUSES[error.name] ?? `The microphone could not be opened: ${error.message}`);
  }
  try {
    await loadWorklet(context);
  } catch (error) {
    for (const track of stream.getTracks()) track.stop();
    throw new MicrophoneError(`The microphone could not be opened: ${error.message}`);
  }
  return new Microphone(context, stream, { rate, onFrame, onLost });
}

let loading = null;

function loadWorklet(context) {
  loading ??= context.audioWorklet.addModule(new URL("./capture_worklet.js", import.meta.url));
  loading.catch(() => (loading = null));
  return loading;
}

/** Open microphone, with an `analyser` of its sound; while muted, its frames are silent. */
class Microphone {
  constructor(context, stream, { rate, onFrame, onLost }) {
    this.stream = stream;
    this.track = stream.getAudioTracks()[0];
    this.track.onended = () => onLost?.();
    this.source = context.createMediaStreamSource(stream);
    this.analyser = context.createAnalyser();
    this.source.connect(this.analyser);
    this.capture = new AudioWorkletNode(context, "capture", {
      numberOfOutputs: 1,
      channelCount: 1,
      channelCountMode: "explicit",
      processorOptions: { rate },
    });
    this.capture.port.onmessage = ({ data }) => onFrame(data);
    this.source.connect(this.capture);
    this.capture.connect(context.destination); // silent output; browsers may skip a node that is not connected
  }

  set isMuted(isMuted) {
    this.track.enabled = !isMuted;
  }

  close() {
    this.track.onended = null;
    this.capture.port.onmessage = null;
    this.source.disconnect();
    this.capture.disconnect();
    for (const track of this.stream.getTracks()) track.stop();
  }
}
