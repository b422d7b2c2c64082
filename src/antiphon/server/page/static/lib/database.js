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

/** Store a record. Resolves to false if the record only lasts until the page is closed. */
export async function putRecord(store, record) {
  try {
    await run(store, "readwrite", (records) => records.put(record));
    return true;
  } catch {
    held(store).set(record.id, record);
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
