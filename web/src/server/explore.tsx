// Explore: one service, one profile type, a range of time; its timeline, flame graph and table.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { useBusy } from "../api";
import { fromFlamebearer, functionsOf } from "../bearer";
import { type Action, type Flame, filterTree, formatValue, matcher, type Tree } from "../component";
import { Chips } from "../filters";
import { FlameGraph } from "../flame";
import { Keys, useTheme } from "../panels";
import { FunctionTable, type Top } from "../table";
import { Notice, Popover } from "../ui";
import { exactly, go, usePlace } from "../url";
import { labelNames, labelValues, mergeStacktraces, type ProfileType, profileTypes, type Range, selectSeries, type Series } from "./querier";
import { formatSelector, type Matcher, parseSelector, parseTime, PRESETS } from "./selector";
import { clock, Timeline } from "./timeline";

const POINTS = 300; // of a timeline, about
const VIEWS: [view: string, label: string][] = [["flame", "Flame graph"], ["both", "Both"], ["table", "Table"]];

function stepOf(range: Range): number {
  const least = (range.end - range.start) / 1000 / POINTS;
  return [10, 15, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 86400].find((s) => s >= least) ?? 86400;
}

function span({ start, end }: Range): string {
  const seconds = (end - start) / 1000;
  return `${clock(start / 1000, seconds)} – ${clock(end / 1000, seconds)}`;
}

function topOf(tree: Tree): Top {
  const { self, total } = functionsOf(tree);
  const [type, unit] = tree.data.types[0];
  const rows = tree.data.names.map((_, f) => f).filter((f) => f > 1 && (total[0][f] || self[0][f]));
  return {
    notes: [], names: rows.map((f) => tree.data.names[f]),
    columns: [{ type, unit, total: tree.total[0][0], flat: rows.map((f) => self[0][f]), cum: rows.map((f) => total[0][f]) }],
  };
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

interface Loaded {
  key: string;
  series: Series[];
  tree: Tree | null;
  error: string;
  range: Range;
  step: number;
}

export function Explore() {
  const { params } = usePlace();
  const { theme, nextTheme } = useTheme();
  const busy = useBusy();
  const [tick, setTick] = useState(() => Date.now());
  const [keys, setKeys] = useState(false);
  const [matched, setMatched] = useState("");
  const [moved, setMoved] = useState(false);
  const flame = useRef<Flame | null>(null);
  const find = useRef<HTMLInputElement>(null);
  const view = params.view ?? "both";

  const from = params.from ?? "now-15m";
  const until = params.until ?? "now";
  const range = useMemo(() => ({ start: parseTime(from, tick), end: parseTime(until, tick) }), [from, until, tick]);
  const selector = params.query ?? "";
  const matchers = useMemo(() => parseSelector(selector) ?? [], [selector]);

  // Services and types, and the first of them where the URL names none.
  const [services, setServices] = useState<string[] | null>(null);
  const [types, setTypes] = useState<ProfileType[]>([]);
  useEffect(() => {
    void labelValues("service_name", [], range).then(setServices, () => setServices([]));
    void profileTypes(range).then(setTypes, () => setTypes([]));
  }, [range]);
  const type = types.find((t) => t.ID === params.type) ?? types.find((t) => t.sampleType === "cpu") ?? types[0];
  const asked = selector || (services?.length ? formatSelector([{ name: "service_name", op: "=", value: services[0] }]) : "");

  const [loaded, setLoaded] = useState<Loaded | null>(null);
  const latest = useRef("");
  const key = type && asked ? [type.ID, asked, range.start, range.end].join("\n") : "";
  useEffect(() => {
    latest.current = key;
    if (!key) return;
    const step = stepOf(range);
    Promise.all([selectSeries(type.ID, asked, range, step), mergeStacktraces(type.ID, asked, range)]).then(
      ([series, bearer]) => {
        // An old answer never overwrites a newer one.
        if (latest.current !== key) return;
        const tree = bearer && Number(bearer.total) > 0 ? fromFlamebearer(bearer, type.sampleType, type.sampleUnit) : null;
        setLoaded({ key, series, tree, error: "", range, step });
      },
      (error: Error) => latest.current === key && setLoaded({ key, series: [], tree: null, error: error.message, range, step }),
    );
  }, [key]);

  useEffect(() => {
    const every = Number(params.refresh) || 0;
    if (!every) return;
    const timer = setInterval(() => setTick(Date.now()), every * 1000);
    return () => clearInterval(timer);
  }, [params.refresh]);

  const tree = useMemo(() => {
    if (!loaded?.tree) return null;
    const test = (text?: string) => (text ? matcher(text) : undefined);
    if (!params.f && !params.i && !params.h) return loaded.tree;
    return filterTree(loaded.tree, { focus: test(params.f), ignore: test(params.i), hide: test(params.h) });
  }, [loaded?.tree, params.f, params.i, params.h]);
  const top = useMemo(() => (tree ? topOf(tree) : null), [tree]);

  const setMatchers = (next: Matcher[]) => go({ query: formatSelector(next), z: "" });
  const actions = (t: Tree, node: number): Action[] => {
    const zoom: Action = ["Zoom", () => flame.current?.zoomTo(node)];
    if (t.frame[node] < 2) return [zoom];
    const re = exactly(t.name(node));
    return [zoom, ["Focus: only stacks through it", () => go({ f: re, z: "" })], ["Ignore: no stacks through it", () => go({ i: re, z: "" })],
      ["Hide: leave it out of stacks", () => go({ h: re, z: "" })], ["Highlight", () => go({ q: re })],
      ["Copy name", () => void navigator.clipboard?.writeText(t.name(node))]];
  };

  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      const target = event.target as HTMLElement;
      if (target.matches("input, select, textarea, dialog *") || event.ctrlKey || event.metaKey || event.altKey || target.closest(".menu")) return;
      const own: Record<string, () => void> = { "/": () => find.current!.select(), "?": () => setKeys(true), d: nextTheme };
      if (Object.hasOwn(own, event.key)) own[event.key]();
      else if (!flame.current?.key(event, target.tagName === "CANVAS" || target === document.body)) return;
      event.preventDefault();
    };
    document.addEventListener("keydown", onKey);
    return () => document.removeEventListener("keydown", onKey);
  });

  const service = matchers.find((m) => m.name === "service_name" && m.op === "=")?.value ?? services?.[0] ?? "";
  const others = matchers.filter((m) => m.name !== "service_name");
  const total = loaded?.tree?.total[0][0] ?? 0;
  const first = services !== null && services.length === 0 && !selector;
  return (
    <>
      <div class={"progress" + (busy ? " busy" : "")} role="progressbar" aria-hidden={!busy} aria-label="Loading" />
      <header>
        <div class="head">
          <h1>kiln</h1>
          <p class="about">
            {type && loaded && <>{type.sampleType} <b>{formatValue(total, type.sampleUnit)}</b> · {span(loaded.range)}</>}
          </p>
          <span class="fill" />
          <button class="quiet" onClick={nextTheme} title="Light or dark (d)">{theme === "dark" ? "Light" : "Dark"}</button>
          <button class="quiet" onClick={() => setKeys(true)} title="Keys (?)" aria-label="Keys">?</button>
        </div>
        <div class="bar">
          <select aria-label="Service" value={service} onChange={(event) => setMatchers([{ name: "service_name", op: "=", value: event.currentTarget.value }, ...others])}>
            {[...new Set([...(services ?? []), ...(service ? [service] : [])])].map((name) => <option key={name} value={name}>{name}</option>)}
          </select>
          <select aria-label="Profile type" value={type?.ID ?? ""} onChange={(event) => go({ type: event.currentTarget.value, z: "" })}>
            {types.map((t) => <option key={t.ID} value={t.ID}>{t.name}: {t.sampleType}</option>)}
          </select>
          {others.map((m) => (
            <span class="chip" key={m.name + m.op + m.value}>
              <span class="edit">{m.name} {m.op} <b>{m.value}</b></span>
              <button class="remove" aria-label={`Remove ${m.name} ${m.value}`} onClick={() => setMatchers(matchers.filter((o) => o !== m))}>×</button>
            </span>
          ))}
          <Popover label="Label">{(close) => <AddLabel matchers={matchers.length ? matchers : parseSelector(asked) ?? []} range={range} add={(m) => {
            close();
            setMatchers([...(matchers.length ? matchers : parseSelector(asked) ?? []), m]);
          }} />}</Popover>
          <input class="selector" aria-label="Selector" spellcheck={false} key={asked} defaultValue={asked} onChange={(event) => {
            if (parseSelector(event.currentTarget.value)) go({ query: event.currentTarget.value, z: "" });
            else event.currentTarget.setCustomValidity('a selector looks like {service_name="shop", region=~"eu.*"}'), event.currentTarget.reportValidity();
          }} onInput={(event) => event.currentTarget.setCustomValidity("")} />
          <span class="fill" />
          <select aria-label="Range" value={until === "now" ? from.replace("now-", "") : "custom"} onChange={(event) => {
            setTick(Date.now());
            go({ from: "now-" + event.currentTarget.value, until: "" });
          }}>
            {PRESETS.map((p) => <option key={p} value={p}>last {p}</option>)}
            {(until !== "now" || !PRESETS.includes(from.replace("now-", ""))) && <option value={until === "now" ? from.replace("now-", "") : "custom"}>chosen range</option>}
          </select>
          <select aria-label="Refresh" value={params.refresh ?? ""} onChange={(event) => go({ refresh: event.currentTarget.value })}>
            <option value="">no refresh</option>
            <option value="10">every 10 s</option>
            <option value="30">every 30 s</option>
          </select>
          <button onClick={() => setTick(Date.now())}>Refresh</button>
        </div>
        {loaded && loaded.series.length > 0 && type && (
          <Timeline series={loaded.series} range={loaded.range} step={loaded.step} unit={type.sampleUnit} theme={theme}
            onSelect={(start, end) => go({ from: String(start), until: String(end), z: "" })} />
        )}
        <div class="bar">
          <nav class="tabs" aria-label="Views">
            {VIEWS.map(([v, label]) => (
              <a key={v} href="#" aria-current={v === view ? "page" : undefined} onClick={(event) => {
                event.preventDefault();
                go({ view: v === "both" ? "" : v });
              }}>{label}</a>
            ))}
          </nav>
          <div class="find">
            <input ref={find} type="search" placeholder="Search: text or regex" aria-label="Search functions: text or a regular expression" spellcheck={false}
              autocomplete="off" value={params.q ?? ""} onInput={(event) => go({ q: event.currentTarget.value }, undefined, true)} />
            <kbd>/</kbd>
          </div>
          <output class="matched">{params.q ? matched : ""}</output>
          <span class="fill" />
          <button disabled={!moved} onClick={() => flame.current?.zoomTo(0)}>Reset zoom</button>
        </div>
        <Chips params={params} />
      </header>
      <main class={view}>
        {first && <Notice title="No profile has arrived yet">Send one: kiln push --label service_name=shop cpu.pb.gz</Notice>}
        {loaded?.error && <Notice title="This cannot be shown" actions={[["Try again", () => setTick(Date.now())]]}>{loaded.error}</Notice>}
        {loaded && !loaded.error && !loaded.tree && (
          <Notice title="No samples in this range" actions={[["Last 24 hours", () => go({ from: "now-24h", until: "" })], ["Without labels", () => setMatchers(matchers.filter((m) => m.name === "service_name"))]]}>
            {asked} has nothing of {type?.name} between these times.
          </Notice>
        )}
        {tree && view !== "table" && (
          <div class="main-pane">
            <FlameGraph tree={tree} label="Flame graph" flip={Boolean(params.flip)} search={params.q ?? ""} byModule={false} blue={false} zoom={params.z ?? ""} theme={theme}
              onZoom={(z) => go({ z })} onMatched={setMatched} onMoved={setMoved} actions={actions} control={(f) => (flame.current = f)} />
          </div>
        )}
        {top && view !== "flame" && (
          <div class="side-pane">
            <FunctionTable top={top} filter={params.q && !/^\^.*\$$/.test(params.q) ? params.q : ""} order={params.o ?? ""} onOrder={(o) => go({ o }, undefined, true)}
              picked={top.names.find((name) => params.q && exactly(name) === params.q) ?? ""}
              onPick={(name) => go({ q: params.q === exactly(name) ? "" : exactly(name) }, undefined, true)} onOpen={(name) => go({ f: exactly(name), q: "", z: "" })} />
          </div>
        )}
      </main>
      <Keys open={keys} close={() => setKeys(false)} />
    </>
  );
}
