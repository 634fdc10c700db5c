// Explore: one service, one profile type, a range of time; its timeline, flame graph and table.
import { useEffect, useRef, useState } from "preact/hooks";
import { fromFlamebearer } from "../bearer";
import { type Flame, formatValue, type Tree } from "../component";
import { useTheme } from "../panels";
import { Notice } from "../ui";
import { go, type Params } from "../url";
import { mergeStacktraces, type Range, selectSeries, type Series } from "./querier";
import { Result } from "./result";
import { SelectorBar, useSelection } from "./selection";
import { formatSelector } from "./selector";
import { Shell } from "./shell";
import { clock, stepOf, Timeline } from "./timeline";

export function span({ start, end }: Range): string {
  const seconds = (end - start) / 1000;
  return `${clock(start / 1000, seconds)} – ${clock(end / 1000, seconds)}`;
}

interface Loaded {
  series: Series[];
  tree: Tree | null;
  error: string;
  range: Range;
  step: number;
}

export function Explore({ params }: { params: Params }) {
  const { theme, nextTheme } = useTheme();
  const [tick, setTick] = useState(() => Date.now());
  const [matched, setMatched] = useState("");
  const [moved, setMoved] = useState(false);
  const flame = useRef<Flame | null>(null);
  const selection = useSelection(params, tick);
  const { range, selector, type, services, matchers } = selection;

  const [loaded, setLoaded] = useState<Loaded | null>(null);
  const latest = useRef("");
  const key = type && selector ? [type.ID, selector, range.start, range.end].join("\n") : "";
  useEffect(() => {
    latest.current = key;
    if (!key || !type) return;
    const step = stepOf(range);
    Promise.all([selectSeries(type.ID, selector, range, step), mergeStacktraces(type.ID, selector, range)]).then(
      ([series, bearer]) => {
        // An old answer never overwrites a newer one.
        if (latest.current !== key) return;
        const tree = bearer && Number(bearer.total) > 0 ? fromFlamebearer(bearer, type.sampleType, type.sampleUnit) : null;
        setLoaded({ series, tree, error: "", range, step });
      },
      (error: Error) => latest.current === key && setLoaded({ series: [], tree: null, error: error.message, range, step }),
    );
  }, [key]);

  useEffect(() => {
    const every = Number(params.refresh) || 0;
    if (!every) return;
    const timer = setInterval(() => setTick(Date.now()), every * 1000);
    return () => clearInterval(timer);
  }, [params.refresh]);

  const total = loaded?.tree?.total[0][0] ?? 0;
  return (
    <Shell page="explore" params={params} theme={theme} nextTheme={nextTheme} flame={flame} matched={matched} moved={moved}
      about={type && loaded && <>{type.sampleType} <b>{formatValue(total, type.sampleUnit)}</b> · {span(loaded.range)}</>}
      bars={<>
        <SelectorBar selection={selection} onRange={() => setTick(Date.now())}>
          <select aria-label="Refresh" value={params.refresh ?? ""} onChange={(event) => go({ refresh: event.currentTarget.value })}>
            <option value="">no refresh</option>
            <option value="10">every 10 s</option>
            <option value="30">every 30 s</option>
          </select>
          <button onClick={() => setTick(Date.now())}>Refresh</button>
        </SelectorBar>
        {loaded && loaded.series.length > 0 && type && (
          <Timeline series={loaded.series} range={loaded.range} step={loaded.step} unit={type.sampleUnit} theme={theme}
            onSelect={(start, end) => go({ from: String(start), until: String(end), z: "" })} />
        )}
      </>}>
      <main class={params.view ?? "both"}>
        {services !== null && services.length === 0 && !params.query && (
          <Notice title="No profile has arrived in this range" actions={[["Last 30 days", () => go({ from: "now-30d", until: "" })]]}>
            Send one: kiln push --label service_name=shop cpu.pb.gz
          </Notice>
        )}
        {loaded?.error && <Notice title="This cannot be shown" actions={[["Try again", () => setTick(Date.now())]]}>{loaded.error}</Notice>}
        {loaded && !loaded.error && !loaded.tree && (
          <Notice title="No samples in this range" actions={[["Last 24 hours", () => go({ from: "now-24h", until: "" })],
            ["Without labels", () => go({ query: formatSelector(matchers.filter((m) => m.name === "service_name")) })]]}>
            {selector} has nothing of {type?.name} between these times.
          </Notice>
        )}
        {loaded?.tree && <Result whole={loaded.tree} params={params} theme={theme} flame={flame} onMatched={setMatched} onMoved={setMoved} />}
      </main>
    </Shell>
  );
}
