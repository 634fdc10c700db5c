// Explore: one service, one profile type, a range of time; its timeline, flame graph and table.
import { useLoaded } from "../api";
import { fromFlamebearer } from "../bearer";
import { formatValue } from "../component";
import { Notice } from "../ui";
import { go } from "../url";
import { mergeStacktraces, selectSeries } from "./querier";
import { Result } from "./result";
import { Refresh, SelectorBar, useSelection, useTick } from "./selection";
import { formatSelector } from "./selector";
import { type PageProps, Shell, useTools } from "./shell";
import { rates, span, stepOf, Timeline } from "./timeline";

export function Explore(props: PageProps) {
  const { params, theme } = props;
  const { tick, again } = useTick(params);
  const tools = useTools();
  const selection = useSelection(params, tick);
  const { range, selector, type, services, matchers } = selection;
  const key = type && selector ? [type.ID, selector, range.start, range.end].join("\n") : null;
  const { data: loaded, error, retry } = useLoaded(key, async () => {
    const step = stepOf(range);
    const [series, bearer] = await Promise.all([selectSeries(type!.ID, selector, range, step), mergeStacktraces(type!.ID, selector, range)]);
    const tree = bearer && Number(bearer.total) > 0 ? fromFlamebearer(bearer, type!.sampleType, type!.sampleUnit) : null;
    return { series: rates(series, type!, step), tree, range, step };
  });

  return (
    <Shell page="explore" props={props} tools={tools}
      about={type && loaded && <>{type.sampleType} <b>{formatValue(loaded.tree?.total[0][0] ?? 0, type.sampleUnit)}</b> · {span(loaded.range)}</>}
      bars={<>
        <SelectorBar selection={selection} onRange={again}><Refresh params={params} again={again} /></SelectorBar>
        {loaded && loaded.series.length > 0 && type && (
          <Timeline series={loaded.series} range={loaded.range} step={loaded.step} type={type} theme={theme}
            onSelect={(start, end) => go({ from: String(start), until: String(end), z: "" })} />
        )}
      </>}>
      <main class={params.view ?? "both"}>
        {services !== null && services.length === 0 && !params.query && (
          <Notice title="No profile has arrived in this range" actions={[["Last 30 days", () => go({ from: "now-30d", until: "" })]]}>
            Send one: kiln push --label service_name=shop cpu.pb.gz
          </Notice>
        )}
        {error && <Notice title="This cannot be shown" actions={[["Try again", retry]]}>{error}</Notice>}
        {loaded && !error && !loaded.tree && (
          <Notice title="No samples in this range" actions={[["Last 24 hours", () => go({ from: "now-24h", until: "" })],
            ["Without labels", () => go({ query: formatSelector(matchers.filter((m) => m.name === "service_name")) })]]}>
            {selector} has nothing of {type?.name} between these times.
          </Notice>
        )}
        {loaded?.tree && <Result whole={loaded.tree} params={params} theme={theme} tools={tools} />}
      </main>
    </Shell>
  );
}
