// What is looked at: a service, a profile type, labels, a range of time. It is in the URL; a page
// with two of them gives each a prefix.
import type { ComponentChildren } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { Popover } from "../ui";
import { go, type Params } from "../url";
import { labelNames, labelValues, type ProfileType, profileTypes, type Range } from "./querier";
import { formatSelector, type Matcher, parseSelector, parseTime, PRESETS } from "./selector";

export interface Selection {
  prefix: string;
  from: string;
  until: string;
  range: Range;
  matchers: Matcher[];
  services: string[] | null; // until they are known
  types: ProfileType[];
  type: ProfileType | undefined;
  selector: string; // that is asked for; empty as long as there is no service
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

export function useSelection(params: Params, tick: number, prefix = ""): Selection {
  const from = params[prefix + "from"] ?? "now-15m";
  const until = params[prefix + "until"] ?? "now";
  const range = useMemo(() => ({ start: parseTime(from, tick), end: parseTime(until, tick) }), [from, until, tick]);
  const query = params[prefix + "query"] ?? "";
  const [services, setServices] = useState<string[] | null>(null);
  const [types, setTypes] = useState<ProfileType[]>([]);
  useEffect(() => {
    void labelValues("service_name", [], range).then(setServices, () => setServices([]));
    void profileTypes(range).then(setTypes, () => setTypes([]));
  }, [range]);
  const selector = query || (services?.length ? formatSelector([{ name: "service_name", op: "=", value: services[0] }]) : "");
  const matchers = useMemo(() => parseSelector(selector) ?? [], [selector]);
  const type = types.find((t) => t.ID === params.type) ?? types.find((t) => t.sampleType === "cpu") ?? types[0];
  return { prefix, from, until, range, matchers, services, types, type, selector };
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

const HINT = 'a selector looks like {service_name="shop", region=~"eu.*"}';

// withType: also which profile; a second selection on a page shares the first one's.
export function SelectorBar({ selection, withType = true, title, onRange, children }: {
  selection: Selection;
  children?: ComponentChildren; // at its end
  withType?: boolean;
  title?: string;
  onRange(): void; // "now" is to mean now
}) {
  const { prefix, from, until, range, matchers, services, types, type, selector } = selection;
  const service = matchers.find((m) => m.name === "service_name" && m.op === "=")?.value ?? "";
  const others = matchers.filter((m) => m.name !== "service_name");
  const set = (next: Matcher[]) => go({ [prefix + "query"]: formatSelector(next), z: "" });
  const preset = until === "now" ? from.replace("now-", "") : "custom";
  return (
    <div class="bar selection" role="group" aria-label={title ?? "What is looked at"}>
      {title && <b class="side">{title}</b>}
      <select aria-label="Service" value={service} onChange={(event) => set([{ name: "service_name", op: "=", value: event.currentTarget.value }, ...others])}>
        {[...new Set([...(services ?? []), ...(service ? [service] : [])])].map((name) => <option key={name} value={name}>{name}</option>)}
      </select>
      {withType && (
        <select aria-label="Profile type" value={type?.ID ?? ""} onChange={(event) => go({ type: event.currentTarget.value, z: "" })}>
          {types.map((t) => <option key={t.ID} value={t.ID}>{t.name}: {t.sampleType}</option>)}
        </select>
      )}
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
      <input class="selector" aria-label="Selector" spellcheck={false} key={selector} defaultValue={selector} onInput={(event) => event.currentTarget.setCustomValidity("")}
        onChange={(event) => {
          const field = event.currentTarget;
          if (parseSelector(field.value)) go({ [prefix + "query"]: field.value, z: "" });
          else {
            field.setCustomValidity(HINT);
            field.reportValidity();
          }
        }} />
      <span class="fill" />
      <select aria-label="Range" value={preset} onChange={(event) => {
        onRange();
        go({ [prefix + "from"]: "now-" + event.currentTarget.value, [prefix + "until"]: "" });
      }}>
        {PRESETS.map((p) => <option key={p} value={p}>last {p}</option>)}
        {!PRESETS.includes(preset) && <option value={preset}>chosen range</option>}
      </select>
      {children}
    </div>
  );
}
