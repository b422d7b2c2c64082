// Files that the page makes for the user.

/** Save content (text or a Blob) under a name. */
export function download(name, content, type = "text/plain") {
  const blob = content instanceof Blob ? content : new Blob([content], { type });
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000); // the browser may still be reading it
}

/** A name that every file system takes. */
export function fileName(text, suffix) {
  const plain = text.normalize("NFKD").replace(/[^\w -]+/g, "").trim().replace(/\s+/g, "-").slice(0, 60);
  return `${plain || "antiphon"}.${suffix}`;
}
