// Data from the server this page came from. Answers are kept for a while; a later question is
// never answered by an earlier one.
import { useEffect, useRef, useState } from "preact/hooks";

const kept = new Map<string, Promise<unknown>>();
const MOST = 12;
const RETRY = 5; // seconds between attempts while the server cannot be reached
let busy = 0;
let answered: Date | null = null; // when the last answer came
let away = false;
const watchers = new Set<() => void>();

function count(step: number) {
  busy += step;
  for (const tell of watchers) tell();
}

export class Refusal extends Error {
  constructor(message: string, readonly status: number) {
    super(message);
  }
}

class Unreachable extends Error {}

function setAway(now: boolean) {
  if (!now) answered = new Date();
  if (away === now) return;
  away = now;
  for (const tell of watchers) tell();
}

// A token, where the server wants one, is kept as long as the tab is.
const TOKEN = "kiln-token";
function token(): string {
  try {
    return sessionStorage.getItem(TOKEN) ?? "";
  } catch {
    return "";
  }
}
let locked = false;

async function load<T>(url: string, read: (answer: Response) => Promise<T>, body?: string | FormData, as = token()): Promise<T> {
  count(1);
  try {
    const headers: Record<string, string> = {
      "X-Requested-With": "kiln", Accept: "*/*; allow-utf8-labelnames=true", ...(typeof body === "string" ? { "Content-Type": "application/json" } : {}), ...(as ? { Authorization: "Bearer " + as } : {}),
    };
    const answer = await fetch(url, { headers, ...(body === undefined ? {} : { method: "POST", body }) }).catch(() => {
      setAway(true);
      throw new Unreachable("Can't reach the server.");
    });
    setAway(false);
    if (answer.status === 401) locked = true;
    if (!answer.ok) throw new Refusal(sentence((await answer.text()).trim()), answer.status);
    return await read(answer);
  } finally {
    count(-1);
  }
}

// A refusal is a sentence, or JSON that has one.
function sentence(text: string): string {
  try {
    return (JSON.parse(text) as { message?: string }).message ?? text;
  } catch {
    return text;
  }
}

// What is not kept: files, and what changes something.
export const send = <T>(url: string, read: (answer: Response) => Promise<T>, body: string | FormData): Promise<T> => load(url, read, body);

// Keeps the token if the server takes it; otherwise says why not.
export async function tryToken(entered: string): Promise<string> {
  try {
    await load("querier.v1.QuerierService/ProfileTypes", text, '{"start":1,"end":2}', entered);
    sessionStorage.setItem(TOKEN, entered);
    return "";
  } catch (error) {
    return (error as Error).message;
  }
}
export function forgetToken() {
  sessionStorage.removeItem(TOKEN);
  location.reload();
}
export const hasToken = () => token() !== "";

// With a body it is posted.
export function ask<T>(url: string, read: (answer: Response) => Promise<T>, body?: string): Promise<T> {
  const question = body === undefined ? url : url + " " + body;
  const had = kept.get(question);
  if (had) return had as Promise<T>;
  const asked = load(url, read, body);
  asked.catch(() => kept.delete(question));
  kept.set(question, asked);
  for (const key of kept.keys()) {
    if (kept.size <= MOST) break;
    kept.delete(key);
  }
  return asked;
}

export interface Answer<T> {
  data: T | null; // of the last answer, until the next is there
  error: string;
  retry(): void;
}

export const json = <T>(answer: Response) => answer.json() as Promise<T>;
export const text = (answer: Response) => answer.text();

// What load gives for a key; nothing is asked without one. An old answer never overwrites a newer one. While the server
// cannot be reached the last data stays, and load is tried again.
export function useLoaded<T>(key: string | null, load: () => Promise<T>): Answer<T> {
  const [answer, set] = useState<{ key: string | null; data: T | null; error: string }>({ key: null, data: null, error: "" });
  const [tries, setTries] = useState(0);
  const latest = useRef<string | null>(null);
  latest.current = key;
  useEffect(() => {
    if (!key) return;
    let timer = 0;
    load().then(
      (data) => latest.current === key && set({ key, data, error: "" }),
      (error: Error) => {
        if (latest.current !== key) return;
        const lost = error instanceof Unreachable;
        if (lost) timer = window.setTimeout(() => setTries((n) => n + 1), RETRY * 1000);
        set(({ data }) => ({ key, data: lost ? data : null, error: lost && data !== null ? "" : error.message || "The server gave no reason." }));
      },
    );
    return () => clearTimeout(timer);
  }, [key, tries]);
  return { data: answer.data, error: answer.key === key ? answer.error : "", retry: () => setTries(tries + 1) };
}

export const useAnswer = <T>(url: string | null, read: (answer: Response) => Promise<T>): Answer<T> =>
  useLoaded(url, () => ask(url!, read));

function useWatched(look: () => boolean): boolean {
  const [now, set] = useState(look);
  useEffect(() => {
    const tell = () => set(look());
    watchers.add(tell);
    tell();
    return () => {
      watchers.delete(tell);
    };
  }, []);
  return now;
}
// Whether something is being waited for, and whether the server wants a token first.
export const useBusy = () => useWatched(() => busy > 0);
export const useLocked = () => useWatched(() => locked);
// Why the data may be old, while the server cannot be reached; "" otherwise.
export function useAway(): string {
  const now = useWatched(() => away);
  const since = answered ? ` Showing data from ${answered.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", hour12: false })}.` : "";
  return now ? `Can't reach the server.${since} Retrying every ${RETRY} s…` : "";
}
