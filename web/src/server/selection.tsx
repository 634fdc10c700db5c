// What is looked at: a service, a profile type, labels, a range of time. It is in the URL; a page
// with two of them gives each a prefix.
import type { ComponentChildren } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { useLoaded } from "../api";
import { Notice, Popover } from "../ui";
import { go, type Params } from "../url";
import { labelNames, labelValues, type ProfileType, profileTypes, type Range, selectSeries, type Series, typeOf } from "./querier";
import { formatSelector, type Matcher, parseSelector, parseTime, PRESETS } from "./selector";
import { clock } from "./timeline";

export interface Selection {
  prefix: string;
  from: string;
  until: string;
  range: Range;
  matchers: Matcher[];
  services: string[];
  types: ProfileType[];
  type: ProfileType | undefined;
  selector: string; // that is asked for; empty as long as there is no service
  empty: boolean; // no profile is in the range
  error: string;
}

const DEFAULT = "now-15m";
const BEFORE = "before"; // of the left side: as long as the right one, and right before it

// The left side is what the right one is, before; with a query of its own at the same time.
function timesOf(params: Params, prefix: string): { from: string; until: string } {
  const [from, until] = [params[prefix + "from"], params[prefix + "until"]];
  if (from || !prefix) return { from: from ?? DEFAULT, until: until ?? "now" };
  if (!params[prefix + "query"]) return { from: BEFORE, until: "" };
  return timesOf(params, "");
}

function rangeOf(params: Params, tick: number, prefix: string): Range {
  const { from, until } = timesOf(params, prefix);
  if (from !== BEFORE) return { start: parseTime(from, tick), end: parseTime(until, tick) };
  const { start, end } = rangeOf(params, tick, "");
  return { start: start - (end - start), end: start };
}

const usualType = (types: ProfileType[], id?: string) => types.find((t) => t.ID === id) ?? types.find((t) => t.sampleType === "cpu") ?? types[0];

// The service with the largest value of the usual type.
async function busiest(services: string[], types: ProfileType[], range: Range): Promise<string> {
  const type = usualType(types);
  if (services.length < 2 || !type) return services[0] ?? "";
  const all = await selectSeries(type.ID, "{}", range, Math.max(1, (range.end - range.start) / 1000), ["service_name"]);
  const sum = ({ points }: Series) => points.reduce((s, { value }) => s + value, 0);
  const most = all.reduce((a, b) => (sum(b) > sum(a) ? b : a), { labels: [], points: [] } as Series);
  return most.labels[0]?.value ?? services[0];
}

// The time that "now" stands for: of the last look. A page that nobody sees does not ask.
export function useTick(params: Params) {
  const [tick, setTick] = useState(() => Date.now());
  const again = () => setTick(Date.now());
  useEffect(() => {
    const every = Number(params.refresh) || 0;
    if (!every) return;
    const timer = setInterval(() => document.hidden || again(), every * 1000);
    return () => clearInterval(timer);
  }, [params.refresh]);
  return { tick, again };
}

export function Refresh({ params, again }: { params: Params; again(): void }) {
  return (
    <>
      <select aria-label="Refresh" value={params.refresh ?? ""} onChange={(event) => go({ refresh: event.currentTarget.value })}>
        <option value="">no refresh</option>
        <option value="10">every 10 s</option>
        <option value="30">every 30 s</option>
      </select>
      <button onClick={again}>Refresh</button>
    </>
  );
}

// other: the selector of the other side, which a side without a query of its own shares.
export function useSelection(params: Params, tick: number, prefix = "", other = ""): Selection {
  const { from, until } = timesOf(params, prefix);
  const { start, end } = rangeOf(params, tick, prefix);
  const range = useMemo(() => ({ start, end }), [start, end]);
  const query = params[prefix + "query"] ?? params.query ?? other;
  const chosen = useRef(""); // stays while newer profiles arrive
  const { data, error } = useLoaded(`${start} ${end}`, async () => {
    const [services, types] = await Promise.all([labelValues("service_name", [], range), profileTypes(range)]);
    if (!query && !services.includes(chosen.current)) chosen.current = await busiest(services, types, range);
    return { services, types };
  });
  const services = data?.services ?? [];
  const selector = query || (services.length ? formatSelector([{ name: "service_name", op: "=", value: chosen.current || services[0] }]) : "");
  const matchers = useMemo(() => parseSelector(selector) ?? [], [selector]);
  // The address may say enough not to wait for the lists.
  const type = usualType(data?.types ?? [], params.type) ?? (data ? undefined : typeOf(params.type));
  const empty = data !== null && !error && data.types.length === 0;
  return { prefix, from, until, range, matchers, services, types: data?.types ?? [], type, selector, empty, error };
}

// The times alone, of pages that are about all services.
export function useTimes(params: Params, tick: number) {
  const { start, end } = rangeOf(params, tick, "");
  return { prefix: "", ...timesOf(params, ""), range: useMemo(() => ({ start, end }), [start, end]) };
}

export function Nothing() {
  return (
    <Notice title="No profile has arrived in this range" actions={[["Last 24 hours", () => go({ from: "now-24h", until: "" })], ["Last 30 days", () => go({ from: "now-30d", until: "" })]]}>
      Send one: kiln push --label service_name=shop cpu.pb.gz
    </Notice>
  );
}

function AddLabel({ matchers, range, add }: { matchers: Matcher[]; range: Range; add(matcher: Matcher): void }) {
  const [names, setNames] = useState<string[]>([]);
  const [name, setName] = useState("");
  const [values, setValues] = useState<string[]>([]);
  const asked = [formatSelector(matchers)];
  useEffect(() => void labelNames(asked, range).then(setNames, () => setNames([])), []);
  useEffect(() => void (name && labelValues(name, asked, range).then(setValues, () => setValues([]))), [name]);
  return (
    <div class="options labels">
      <input list="label-names" placeholder="Label" aria-label="Label" value={name} onInput={(event) => setName(event.currentTarget.value)} />
      <datalist id="label-names">{names.map((n) => <option key={n} value={n} />)}</datalist>
      {values.slice(0, 50).map((value) => <button class="link" key={value} onClick={() => add({ name, op: "=", value })}>{value}</button>)}
      {name && values.length === 0 && <p class="faint">No values in this range.</p>}
    </div>
  );
}

function TypeChoice({ types, type }: Selection) {
  return (
    <select aria-label="Profile type" value={type?.ID ?? ""} onChange={(event) => go({ type: event.currentTarget.value, z: "" })}>
      {types.map((t) => <option key={t.ID} value={t.ID}>{t.name}: {t.sampleType}</option>)}
    </select>
  );
}

// Since when there are profiles of the newest version: to the hour first, then to the profile.
const WEEK = 7 * 864e5;
async function lastDeploy(type: ProfileType, matchers: Matcher[], end: number): Promise<number | null> {
  const [hour, step] = [3.6e6, 15];
  const ask = async (range: Range, seconds: number) => (await selectSeries(type.ID, formatSelector(matchers), range, seconds, ["version"]))
    .filter(({ labels, points }) => labels.length && points.length).map(({ labels, points }) => ({ version: labels[0].value, first: Number(points[0].timestamp) }));
  const latest = (list: { first: number }[]) => Math.max(...list.map(({ first }) => first));
  const all = await ask({ start: end - WEEK, end }, hour / 1000);
  if (!all.length) return null;
  const at = latest(all);
  const recent = new Set(all.filter(({ first }) => first === at).map(({ version }) => version));
  const exact = (await ask({ start: at - hour, end: Math.min(at + hour, end) }, step)).filter(({ version }) => recent.has(version));
  return (exact.length ? latest(exact) : at) - step * 1000;
}

// A function that gives that time, where profiles carry a version.
function useDeploy({ matchers, type, range }: Selection): (() => Promise<number | null>) | undefined {
  const of = matchers.filter((m) => m.name === "service_name");
  const end = Math.ceil(range.end / 6e5) * 6e5;
  const { data } = useLoaded(of.length ? `versions ${formatSelector(of)} ${end}` : null, () => labelValues("version", [formatSelector(of)], { start: end - WEEK, end }));
  return type && data?.length ? () => lastDeploy(type, of, Math.min(end, Date.now())) : undefined;
}

export function RangeChoice({ selection: { prefix, from, until }, onRange, deploy }: {
  selection: Pick<Selection, "prefix" | "from" | "until">;
  onRange(): void;
  deploy?(): Promise<number | null>;
}) {
  const preset = from === BEFORE ? BEFORE : until === "now" ? from.replace("now-", "") : "custom";
  const set = (start: string) => go({ [prefix + "from"]: start, [prefix + "until"]: "", z: "" });
  const other = until !== "now" ? "chosen range" : /^\d+$/.test(from) ? "since " + clock(Number(from) / 1000, (Date.now() - Number(from)) / 1000) : "last " + preset;
  return (
    <select aria-label="Range" value={preset} onChange={(event) => {
      const { value } = event.currentTarget;
      onRange();
      if (value !== "deploy") return set(value === BEFORE ? value : "now-" + value);
      event.currentTarget.value = preset; // until it is known
      void deploy!().then((start) => start && set(String(start)), () => {});
    }}>
      {PRESETS.map((p) => <option key={p} value={p}>last {p}</option>)}
      {prefix && <option value={BEFORE}>the time before</option>}
      {deploy && <option value="deploy">since deploy</option>}
      {!PRESETS.includes(preset) && preset !== BEFORE && <option value={preset}>{other}</option>}
    </select>
  );
}

// A second selection on a page shares the first one's type; where there is one bar for what two share
// it has the type alone.
export function SelectorBar({ selection, withType = true, onlyType = false, title, onRange, children }: {
  selection: Selection;
  children?: ComponentChildren; // at its end
  withType?: boolean;
  onlyType?: boolean;
  title?: string;
  onRange(): void; // "now" is to mean now
}) {
  const { prefix, range, matchers, services, selector } = selection;
  const deploy = useDeploy(selection);
  if (onlyType) return <div class="bar selection"><TypeChoice {...selection} /><span class="fill" />{children}</div>;
  const service = matchers.find((m) => m.name === "service_name" && m.op === "=")?.value ?? "";
  const others = matchers.filter((m) => m.name !== "service_name");
  const set = (next: Matcher[]) => go({ [prefix + "query"]: formatSelector(next), z: "" });
  return (
    <div class="bar selection" role="group" aria-label={title ?? "Selection"}>
      {title && <b class="side">{title}</b>}
      <select aria-label="Service" value={service} onChange={(event) => set([{ name: "service_name", op: "=", value: event.currentTarget.value }, ...others])}>
        {[...new Set([...services, ...(service ? [service] : [])])].map((name) => <option key={name} value={name}>{name}</option>)}
      </select>
      {withType && <TypeChoice {...selection} />}
      {others.map((m) => (
        <span class="chip" key={m.name + m.op + m.value}>
          <span class="edit">{m.name} {m.op} <b>{m.value}</b></span>
          <button class="remove" aria-label={`Remove ${m.name} ${m.value}`} onClick={() => set(matchers.filter((o) => o !== m))}>×</button>
        </span>
      ))}
      <Popover label="Label">{(close) => <AddLabel matchers={matchers} range={range} add={(m) => {
        close();
        set([...matchers, m]);
      }} />}</Popover>
      <input class="selector" aria-label="Selector" spellcheck={false} key={selector} defaultValue={selector} aria-invalid={parseSelector(selector) === null}
        onChange={(event) => go({ [prefix + "query"]: event.currentTarget.value, z: "" })} />
      <span class="fill" />
      <RangeChoice selection={selection} onRange={onRange} deploy={deploy} />
      {children}
    </div>
  );
}
