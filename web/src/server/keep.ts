// Chosen files, kept by the browser until it is closed or the page has others: an address that names
// them survives a reload.
export interface Kept {
  id: string;
  name: string;
  content: Blob;
}

const MOST = 8;
const here = new Map<string, Kept>();

function store<T>(mode: IDBTransactionMode, act: (files: IDBObjectStore) => IDBRequest<T>): Promise<T> {
  return new Promise((done, fail) => {
    const opening = indexedDB.open("kiln-files", 1);
    opening.onupgradeneeded = () => opening.result.createObjectStore("files", { keyPath: "id" });
    opening.onerror = () => fail(opening.error);
    opening.onsuccess = () => {
      const asked = act(opening.result.transaction("files", mode).objectStore("files"));
      asked.onsuccess = () => done(asked.result);
      asked.onerror = () => fail(asked.error);
    };
  });
}

export async function keep(file: File): Promise<string> {
  const id = Date.now().toString(36) + Math.random().toString(36).slice(2, 6);
  const kept = { id, name: file.name, content: new Blob([await file.arrayBuffer()]) };
  here.set(id, kept);
  try {
    await store("readwrite", (files) => files.put(kept));
    const ids = await store("readonly", (files) => files.getAllKeys());
    // Ids begin with the time.
    for (const old of ids.slice(0, -MOST)) await store("readwrite", (files) => files.delete(old));
  } catch {
    // A browser that keeps nothing: it holds until the page is left.
  }
  return id;
}

export async function recall(id: string): Promise<Kept | null> {
  const kept = here.get(id);
  if (kept) return kept;
  try {
    return await store<Kept | undefined>("readonly", (files) => files.get(id)) ?? null;
  } catch {
    return null;
  }
}
