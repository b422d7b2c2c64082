// Files that the page saves for the user.

/** Save text or a Blob as a file. */
export function download(name, content, type = "text/plain") {
  const blob = content instanceof Blob ? content : new Blob([content], { type });
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000); // the browser may still be reading it
}

/** Return a name, derived from `text`, that is valid in every file system. */
export function fileName(text, suffix) {
  const plain = text.normalize("NFKD").replace(/[^\w -]+/g, "").trim().replace(/\s+/g, "-").slice(0, 60);
  return `${plain || "antiphon"}.${suffix}`;
}
