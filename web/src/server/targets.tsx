// Targets: what the server scrapes, and whether it answers.
import { useMemo } from "preact/hooks";
import { ask, json, useLoaded } from "../api";
import { type Column, formatValue } from "../component";
import { orderOf, Rows } from "../table";
import { Notice } from "../ui";
import { go } from "../url";
import { Refresh, useTick } from "./selection";
import { type PageProps, Shell } from "./shell";
import { ago } from "./timeline";

interface Target {
  scrapePool: string;
  profile: string;
  scrapeUrl: string;
  labels: Record<string, string>;
  health: "up" | "down" | "unknown";
  lastError: string;
  lastScrapeMs: number;
  lastScrapeDuration: number; // seconds
}

const STATES = { up: "up", down: "down", unknown: "not yet asked" };
const ORDER = { down: 2, unknown: 1, up: 0 };

function columnsOf(targets: Target[], now: number): Column[] {
  const text = (key: "scrapePool" | "profile", label: string): Column => ({ key, label, value: (i) => targets[i][key], text: (i) => targets[i][key] });
  return [
    { key: "name", label: "Address", value: (i) => targets[i].scrapeUrl, text: (i) => targets[i].scrapeUrl },
    { key: "state", label: "State", value: (i) => ORDER[targets[i].health], text: (i) => STATES[targets[i].health],
      mark: (i) => ({ up: "less", down: "more", unknown: "pale" })[targets[i].health] },
    text("scrapePool", "Job"), text("profile", "Profile"),
    { key: "last", label: "Last scrape", value: (i) => targets[i].lastScrapeMs, text: (i) => (targets[i].lastScrapeMs ? ago(now - targets[i].lastScrapeMs) : "") },
    { key: "took", label: "Took", value: (i) => targets[i].lastScrapeDuration, text: (i) => (targets[i].lastScrapeMs ? formatValue(targets[i].lastScrapeDuration * 1e9, "nanoseconds") : "") },
    { key: "error", label: "Last error", value: (i) => targets[i].lastError, text: (i) => targets[i].lastError },
  ];
}

function Details({ target }: { target: Target }) {
  return (
    <section class="details" aria-label="Chosen target">
      <h2>{target.scrapeUrl}</h2>
      <p class={target.lastError ? "problem" : "faint"}>{target.lastError || (target.health === "up" ? "The last scrape went well." : "It was not asked yet.")}</p>
      <p class="chips">{Object.entries(target.labels).map(([name, value]) => <span class="chip" key={name}><span class="edit">{name} = <b>{value}</b></span></span>)}</p>
    </section>
  );
}

export function TargetsPage(props: PageProps) {
  const { params } = props;
  const { tick, again } = useTick(params);
  const { data, error, retry } = useLoaded(`targets ${tick}`, async () => {
    // What is kept is of another time.
    const answer = await ask(`api/v1/targets?at=${tick}`, json<{ data: { activeTargets: Target[] } }>);
    return { targets: answer.data.activeTargets, at: Date.now() };
  });
  const targets = data?.targets ?? [];
  const columns = useMemo(() => columnsOf(targets, data?.at ?? 0), [data]);
  const rows = useMemo(() => targets.flatMap(({ health }, i) => (params.state && health !== params.state ? [] : [i])), [data, params.state]);
  const picked = targets.findIndex((t) => t.scrapeUrl === params.target);
  const count = (state: string) => targets.filter((t) => t.health === state).length;
  const buttons: [state: string, label: string][] = [["", `All ${targets.length}`], ["up", `Up ${count("up")}`], ["down", `Down ${count("down")}`]];
  return (
    <Shell page="targets" props={props} about={data && <><b>{count("up")}</b> of {targets.length} up</>}
      bars={
        <div class="bar selection pills">
          {buttons.map(([state, label]) => <button key={state} aria-pressed={(params.state ?? "") === state} onClick={() => go({ state })}>{label}</button>)}
          <span class="fill" />
          <Refresh params={params} again={again} />
        </div>
      }>
      <main class="list targets">
        {error ? <Notice title="This cannot be shown" actions={[["Try again", retry]]}>{error}</Notice>
          : data && targets.length === 0 ? <Notice title="Nothing is scraped">The server’s configuration has no scrape_configs with targets. Services may also send their profiles themselves.</Notice>
          : data && <>
            {picked >= 0 && <Details target={targets[picked]} />}
            <Rows label="Targets" columns={columns} rows={rows} order={orderOf(columns, params.o, "-state")} onOrder={(o) => go({ o }, undefined, true)} picked={picked}
              onPick={(i) => go({ target: i === picked ? "" : targets[i].scrapeUrl }, undefined, true)} empty="None is in this state." />
          </>}
      </main>
    </Shell>
  );
}
