// WAV files of samples.

const HEADER_BYTES = 44;

/** Return a mono WAV file of chunks of 16-bit samples. */
export function wavOf(chunks, sampleRate) {
  const size = chunks.reduce((total, chunk) => total + chunk.byteLength, 0);
  const header = new DataView(new ArrayBuffer(HEADER_BYTES));
  const write = (offset, text) => [...text].forEach((letter, index) => header.setUint8(offset + index, letter.charCodeAt(0)));
  write(0, "RIFF");
  header.setUint32(4, HEADER_BYTES - 8 + size, true);
  write(8, "WAVEfmt ");
  header.setUint32(16, 16, true); // bytes of the format chunk
  header.setUint16(20, 1, true); // integer samples
  header.setUint16(22, 1, true); // channels
  header.setUint32(24, sampleRate, true);
  header.setUint32(28, sampleRate * 2, true);
  header.setUint16(32, 2, true);
  header.setUint16(34, 16, true);
  write(36, "data");
  header.setUint32(40, size, true);
  return new Blob([header, ...chunks], { type: "audio/wav" });
}
