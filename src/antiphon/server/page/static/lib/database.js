// Records in the browser's database. If storing fails (private window, full disk), records last until the page closes.

const NAME = "antiphon";
const VERSION = 1;
/** Stores of records by their `id`. A new store needs a higher VERSION. */
const STORES = ["conversations"];

let opening = null;
const inMemory = new Map();

function open() {
  opening ??= new Promise((resolve, reject) => {
    const request = indexedDB.open(NAME, VERSION);
    request.onupgradeneeded = () => {
      for (const store of STORES)
        if (!request.result.objectStoreNames.contains(store)) request.result.createObjectStore(store, { keyPath: "id" });
    };
    request.onsuccess = () => {
      request.result.onversionchange = () => request.result.close(); // another tab has a newer page
      resolve(request.result);
    };
    request.onerror = () => reject(request.error);
    request.onblocked = () => reject(new Error("another tab keeps an old database open"));
  });
  return opening;
}

async function run(store, mode, work) {
  const database = await open();
  return new Promise((resolve, reject) => {
    const transaction = database.transaction(store, mode);
    const request = work(transaction.objectStore(store));
    transaction.oncomplete = () => resolve(request.result);
    transaction.onerror = transaction.onabort = () => reject(transaction.error);
  });
}

const held = (store) => inMemory.get(store) ?? inMemory.set(store, new Map()).get(store);

export async function allRecords(store) {
  try {
    return await run(store, "readonly", (records) => records.getAll());
  } catch {
    return [...held(store).values()];
  }
}

export async function getRecord(store, id) {
  try {
    return await run(store, "readonly", (records) => records.get(id));
  } catch {
    return held(store).get(id);
  }
}

/**
 * Store what `change` makes of the stored record of an id, in one transaction, so that tabs do not overwrite each
 * other. `change` receives undefined if the database has no such record, and null if the database cannot be used; it
 * returns null to store nothing. Resolves to false if the record only lasts until the page is closed.
 */
export async function changeRecord(store, id, change) {
  try {
    const database = await open();
    return await new Promise((resolve, reject) => {
      const transaction = database.transaction(store, "readwrite");
      const records = transaction.objectStore(store);
      records.get(id).onsuccess = ({ target }) => {
        const made = change(target.result);
        if (made) records.put(made);
      };
      transaction.oncomplete = () => resolve(true);
      transaction.onerror = transaction.onabort = () => reject(transaction.error);
    });
  } catch {
    const made = change(held(store).get(id) ?? null);
    if (made) held(store).set(id, made);
    return false;
  }
}

export async function deleteRecord(store, id) {
  held(store).delete(id);
  try {
    await run(store, "readwrite", (records) => records.delete(id));
  } catch {
    // The record was in memory only.
  }
}
