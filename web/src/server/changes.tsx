// Changes: functions that became more or less expensive, as the server found them, and what somebody said about each.
import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { ask, hasToken, json, Refusal, send, text, useLoaded } from "../api";
import { formatPercent, formatValue, signed } from "../component";
import { Notice, Popover } from "../ui";
import { exactly, follow, go, href, type Params } from "../url";
import { labelValues, typeOf } from "./querier";
import { Refresh, useTick } from "./selection";
import { type PageProps, Shell } from "./shell";
import { ago, clock, formatCores } from "./timeline";

interface Side {
  from: number;
  until: number;
  labelSelector: string;
}

interface Change {
  id: string;
  serviceName: string;
  profileTypeID: string;
  function?: string; // without: the whole service
  measured: "service" | "self" | "total";
  time: number; // ms since 1970, as all times
  low: number;
  high: number;
  before: number;
  after: number;
  valueUnit: string;
  cost: number;
  costUnit: string;
  q: number;
  deploy?: { time: number; text: string };
  versions?: { label: string; before: string; after: string; part: number }; // that ran at the same time; part: of the profiles, the new one's
  baseline?: Side;
  comparison?: Side;
  found: number;
  gone?: number;
  state: "open" | "acknowledged" | "muted" | "gone";
  marked?: number;
  until?: number;
  by?: string;
  comment?: string;
}

interface Found {
  changes: Change[];
  next?: string; // the cursor of those that follow
  enabled: boolean;
  window: number; // ms
  lasting: number;
}

const PAGE = 50;
const [HOUR, DAY] = [3.6e6, 8.64e7];
const HISTORY = 336; // windows

const STATES: [state: string, label: string][] = [["", "Open"], ["acknowledged", "Acknowledged"], ["muted", "Muted"], ["gone", "Gone"], ["any", "Any"]];

async function load(service: string, state: string, pages: number, tick: number): Promise<Found & { at: number }> {
  const asked = new URLSearchParams({ limit: String(PAGE), state, ...(service && { service_name: service }), at: String(tick) });
  const changes: Change[] = [];
  for (;;) {
    const answer = await ask(`api/v1/changes?${asked}`, json<Found>);
    changes.push(...answer.changes);
    if (--pages === 0 || !answer.next) return { ...answer, changes, at: Date.now() };
    asked.set("cursor", answer.next);
  }
}

// --- words ---

const TYPES: Record<string, string> = {
  cpu: "CPU time", wall: "wall time", samples: "samples", inuse_space: "memory in use", inuse_objects: "objects in use", alloc_space: "memory allocated",
  alloc_objects: "allocations", contentions: "lock contentions", delay: "time waiting for locks", goroutines: "goroutines", goroutine: "goroutines",
};
function typeName(id: string): string {
  const type = typeOf(id);
  return type ? TYPES[type.sampleType] ?? `${type.name}: ${type.sampleType}` : id;
}

const isRate = ({ costUnit }: Change) => costUnit === "cores" || costUnit.endsWith("/s");

function amount(value: number, unit: string): string {
  if (unit === "share") return formatPercent(value);
  if (unit === "cores") return formatCores(value);
  const [, base, rate] = /^(.*?)(\/s)?$/.exec(unit)!;
  return formatValue(value, base) + (rate ?? "");
}

const nameOf = (change: Change) => change.function ?? "The whole service";
const moment = (ms: number) => clock(ms / 1000, 2 * DAY / 1000);
const length = (ms: number) => (ms % DAY === 0 ? `${ms / DAY} d` : ms % HOUR === 0 ? `${ms / HOUR} h` : `${Math.round(ms / 6e4)} min`);

// At a false discovery rate q, a part q of what is listed is false.
function certainty(q: number): string {
  const one = 1 / Math.max(q, 1e-6);
  const round = 10 ** Math.floor(Math.log10(one));
  return q < 1 ? `at most 1 in ${(Math.floor(one / round) * round).toLocaleString("en-US")} is a false alarm` : "uncertain";
}

function stateOf({ state, marked, until, by, gone }: Change, now: number): string {
  const who = (marked ? ` ${ago(now - marked)}` : "") + (by ? ` by ${by}` : "");
  const end = gone && state !== "gone" ? `, gone since ${moment(gone)}` : "";
  switch (state) {
    case "open": return "Open";
    case "gone": return `Gone since ${moment(gone!)}`;
    case "acknowledged": return `Acknowledged${who}${end}`;
    case "muted": return `Muted${who}${until ? `, until ${moment(until)}` : ""}${end}`;
  }
}

// The diff of both sides, at times that stay.
function diffOf(change: Change): Params | null {
  const { profileTypeID, function: name, versions, baseline, comparison } = change;
  if (!baseline || !comparison) return null;
  // Versions have different numbers of pods, so only shares can be compared.
  return {
    left_query: baseline.labelSelector, left_from: String(baseline.from), left_until: String(baseline.until),
    query: comparison.labelSelector, from: String(comparison.from), until: String(comparison.until),
    type: profileTypeID, ...(name && { q: exactly(name) }), ...(!isRate(change) && !versions && { abs: "1" }),
  };
}

// --- an entry ---

type Mark = (change: Change, state: string, more: { comment?: string; until?: number }) => Promise<void>;

const MUTES: [length: number, label: string][] = [[0, "for good"], [DAY, "for a day"], [7 * DAY, "for a week"], [30 * DAY, "for 30 days"]];

// A word about it, and the button that says so.
function MarkForm({ change, state, label, hint, mark }: { change: Change; state: string; label: string; hint: string; mark: Mark }) {
  const [problem, setProblem] = useState("");
  const [waits, setWaits] = useState(false);
  const field = useRef<HTMLInputElement>(null);
  useLayoutEffect(() => field.current!.focus(), []);
  return (
    <form class="mark" onSubmit={async (event) => {
      event.preventDefault();
      const given = new FormData(event.currentTarget);
      const comment = String(given.get("comment")).trim();
      const mutes = Number(given.get("length") ?? 0);
      setWaits(true);
      try {
        await mark(change, state, { ...(comment && { comment }), ...(mutes && { until: Date.now() + mutes }) });
      } catch (error) {
        setProblem((error as Error).message);
        setWaits(false);
      }
    }}>
      <p class="faint">{hint}</p>
      <input ref={field} name="comment" maxLength={1000} placeholder="Comment (optional)" aria-label="Comment" autocomplete="off" />
      {state === "muted" && <select name="length" aria-label="How long">{MUTES.map(([ms, label]) => <option key={ms} value={ms}>{label}</option>)}</select>}
      <p class="problem" role="alert">{problem}</p>
      <button type="submit" disabled={waits}>{label}</button>
    </form>
  );
}

function Reopen({ change, mark }: { change: Change; mark: Mark }) {
  const [problem, setProblem] = useState("");
  return (
    <>
      <button onClick={() => mark(change, "open", {}).catch((error: Error) => setProblem(error.message))}>Reopen</button>
      {problem && <p class="problem" role="alert">{problem}</p>}
    </>
  );
}

function Entry({ change, now, mark }: { change: Change; now: number; mark: Mark }) {
  const { serviceName, measured, time, low, high, before, after, valueUnit, cost, costUnit, q, deploy, versions, state, comment, found } = change;
  const more = cost > 0;
  const diff = diffOf(change);
  const type = typeName(change.profileTypeID);
  const open = (children: ComponentChildren, more: object) => diff && <a href={href("diff", diff)} onClick={(event) => follow(event, diff, "diff")} {...more}>{children}</a>;
  return (
    <li class={state}>
      <p class={"cost " + (more ? "more" : "less")}>
        <b>{signed(cost, amount(Math.abs(cost), costUnit))}</b>
        <span><i aria-hidden="true">{more ? "▲" : "▼"}</i> {more ? "Regression" : "Improvement"}</span>
      </p>
      <div class="what">
        <h2 title={nameOf(change)}>{open(nameOf(change), { tabIndex: -1 }) ?? nameOf(change)}</h2>
        <p><b>{serviceName}</b> · {type}{measured === "total" && ", with what it calls"}</p>
        <p class="faint">{amount(before, valueUnit)} → {amount(after, valueUnit)}{valueUnit === "share" && ` of ${type}`}</p>
        {versions && <p class="versions">
          <b>{versions.after}</b> compared with <b>{versions.before}</b> at the same time ({formatPercent(versions.part)} of the profiles were of {versions.after}); the cost is that of the whole service with {versions.after}
        </p>}
      </div>
      <div class="when">
        <p title={versions ? `Both versions ran from ${moment(low)} to ${moment(high)}; found ${moment(found)}` : `Between ${moment(low)} and ${moment(high)} (95 % interval); found ${moment(found)}`}>
          since <time dateTime={new Date(time).toISOString()}><b>{moment(time)}</b></time>, {ago(now - time)}
        </p>
        <p class={deploy ? "" : "faint"} title={deploy && `Deployed ${moment(deploy.time)}`}>{deploy ? <>deploy <b>{deploy.text}</b></> : "no deploy at that time"}</p>
        <p class="faint" title={`False discovery rate q = ${q.toPrecision(2)}: the share of false alarms to expect among changes with this rate or a lower one`}>{certainty(q)}</p>
      </div>
      <div class="act">
        {open("Show diff", { class: "button", "aria-label": `Show diff of ${nameOf(change)}` })}
        {(state === "open" || state === "gone") && <Popover label="Acknowledge">
          <MarkForm change={change} state="acknowledged" label="Acknowledge" hint="Takes this change off the list of open ones." mark={mark} />
        </Popover>}
        {state !== "muted" && <Popover label="Mute">
          <MarkForm change={change} state="muted" label="Mute" hint={`All changes of ${change.function ? "this function" : "this service’s total"} in this service and profile type, also those to come.`} mark={mark} />
        </Popover>}
        {(state === "acknowledged" || state === "muted") && <Reopen change={change} mark={mark} />}
      </div>
      {(state !== "open" || comment) && <p class="said">{stateOf(change, now)}{comment && <>: <q>{comment}</q></>}</p>}
    </li>
  );
}

// --- instead of entries ---

function Off() {
  return (
    <div class="welcome" role="status">
      <h2>The server does not look for changes</h2>
      <p>It can watch every service and list functions that became more or less expensive: since when, since which deploy, and at what cost. To turn that on, add this
        to the file that <b>kiln server</b> reads with <b>--config</b>, then restart the server or send it SIGHUP:</p>
      <p><code>changes: {"{enabled: true}"}</code></p>
    </div>
  );
}

function Quiet({ found: { window, lasting }, service, state }: { found: Found; service: string; state: string }) {
  const history = HISTORY * window > 4 * DAY ? "four days of history" : "some history before it";
  const actions: [string, () => void][] = [
    ...(state !== "any" ? [["Any state", () => go({ state: "any" })] as [string, () => void]] : []), ...(service ? [["All services", () => go({ service: "" })] as [string, () => void]] : []),
  ];
  return (
    <Notice title={`No changes${service && ` of ${service}`}${state === "any" ? "" : ` are ${state}`}`} actions={actions}>
      The server watches the total of every service and profile type, and the share of its functions, in windows of {length(window)}. A change is listed once it has lasted {length(lasting)},
      or {length((lasting * 2) / 3)} if it began at a deploy, and the service has {history}. Versions that run at the same time are compared with each other after {length(2 * window)}.
    </Notice>
  );
}

// --- the page ---

const SAID: Record<string, string> = { open: "is reopened", acknowledged: "is acknowledged", muted: "is muted" };

export function ChangesPage(props: PageProps) {
  const { params } = props;
  const { tick, again } = useTick(params);
  const [service, state] = [params.service ?? "", params.state || "open"];
  const filter = JSON.stringify([service, state]);
  const [shown, setShown] = useState({ filter, pages: 1 });
  const pages = shown.filter === filter ? shown.pages : 1;
  const { data, error, retry } = useLoaded(`changes ${tick} ${filter} ${pages}`, () => load(service, state, pages, tick));
  const hour = Math.floor(tick / HOUR) * HOUR;
  const { data: names } = useLoaded(`services ${hour}`, () => labelValues("service_name", [], { start: hour - 30 * DAY, end: hour + HOUR }));
  const [last, setLast] = useState<{ change: Change; state: string; filter: string } | null>(null);
  const told = useRef<HTMLParagraphElement>(null);
  // What had the focus may have left the list.
  useEffect(() => told.current?.focus({ preventScroll: true }), [last]);
  const mark: Mark = async (change, to, more) => {
    try {
      await send("api/v1/changes/state", text, JSON.stringify({ id: change.id, state: to, ...more }));
    } catch (error) {
      if (!(error instanceof Refusal) || error.status !== 403) throw error;
      throw new Error(`Not saved: acknowledging and muting changes needs the admin scope${hasToken() ? "; Leave lets you enter another token" : ""}.`);
    }
    setLast({ change, state: to, filter });
    again();
  };
  const changes = data?.changes ?? [];
  const services = [...new Set([...(names ?? []), ...changes.map(({ serviceName }) => serviceName), ...(service ? [service] : [])])].sort();
  return (
    <Shell page="changes" props={props} about={data && <><b>{changes.length}{data.next && "+"}</b> {changes.length === 1 && !data.next ? "change" : "changes"}</>}
      bars={
        <div class="bar selection pills">
          <select aria-label="Service" value={service} onChange={(event) => go({ service: event.currentTarget.value })}>
            <option value="">All services</option>
            {services.map((name) => <option key={name} value={name}>{name}</option>)}
          </select>
          {STATES.map(([s, label]) => <button key={s} aria-pressed={(s || "open") === state} onClick={() => go({ state: s })}>{label}</button>)}
          <span class="fill" />
          <Refresh params={params} again={again} />
        </div>
      }>
      <main class="changes">
        {last?.filter === filter && <p class="notes marked" role="status" ref={told} tabIndex={-1}>
          <span>{nameOf(last.change)} of {last.change.serviceName} {SAID[last.state]}.</span>
          {last.state !== "open" && !last.change.marked && <button class="quiet" onClick={() => mark(last.change, "open", {}).catch(again)}>Undo</button>}
        </p>}
        {error ? <Notice title="This cannot be shown" actions={[["Try again", retry]]}>{error}</Notice>
          : data && changes.length === 0 ? (data.enabled ? <Quiet found={data} service={service} state={state} /> : <Off />)
          : data && <>
            {!data.enabled && <p class="notes">The server does not look for changes any more; these were found before.</p>}
            <ol aria-label="Changes">{changes.map((change) => <Entry key={change.id} change={change} now={data.at} mark={mark} />)}</ol>
            {data.next && <p class="row"><button onClick={() => setShown({ filter, pages: pages + 1 })}>Load more</button></p>}
          </>}
      </main>
    </Shell>
  );
}
