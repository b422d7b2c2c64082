// Links between views.

export const hrefOf = (view, path = "") => `#/${view}${path ? `/${encodeURIComponent(path)}` : ""}`;

/** Open a view; with `isReplaced`, replace the current history entry. */
export function navigate(view, path = "", isReplaced = false) {
  const href = hrefOf(view, path);
  if (location.hash === href) return;
  if (isReplaced) location.replace(href);
  else location.hash = href;
}
