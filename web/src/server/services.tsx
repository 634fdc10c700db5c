// Services: what profiles there are, from whom, and how much each burns.
import { useEffect, useMemo } from "preact/hooks";
import { useLoaded } from "../api";
import { type Column, formatPercent, signed } from "../component";
import { orderOf, Rows } from "../table";
import { link, Notice } from "../ui";
import { go } from "../url";
import { labelValues, type ProfileType, profileTypes, type Range, selectSeries, series, type Series } from "./querier";
import { RangeChoice, Refresh, useTick, useTimes } from "./selection";
import { formatSelector } from "./selector";
import { type PageProps, Shell } from "./shell";
import { ago, formatRate, rates, span, sparkline } from "./timeline";

interface Measure {
  type: ProfileType;
  now: number; // per second, on the average
  before: number; // in the range before
  points: Series["points"];
}
interface Service {
  name: string;
  types: ProfileType[];
  cpu?: Measure;
  memory?: Measure;
  seen: number; // ms since 1970
}

const POINTS = 60;

function measure(one: Series, type: ProfileType, range: Range, step: number): Measure {
  const [{ points }] = rates([one], type, step);
  const mean = (list: Series["points"]) => list.reduce((sum, { value }) => sum + value, 0) / (list.length || 1);
  const now = points.filter(({ timestamp }) => Number(timestamp) > range.start);
  return { type, now: mean(now), before: mean(points.filter((p) => !now.includes(p))), points: now };
}

async function load(range: Range): Promise<Service[]> {
  const length = range.end - range.start;
  const both = { start: range.start - length, end: range.end };
  const step = Math.max(10, Math.ceil(length / 1000 / POINTS));
  const [types, sets, names] = await Promise.all([profileTypes(range), series(["service_name", "__profile_type__"], range), labelValues("service_name", [], range)]);
  const services = new Map(names.map((name): [string, Service] => [name, { name, types: [], seen: 0 }]));
  for (const set of sets) {
    const type = types.find((t) => t.ID === set.__profile_type__);
    if (type) services.get(set.service_name)?.types.push(type);
  }
  const find = (...sampleTypes: string[]) => sampleTypes.map((s) => types.find((t) => t.sampleType === s)).find(Boolean);
  const cpu = find("cpu");
  const memory = find("inuse_space", "alloc_space");
  // Those that have neither were seen by what they have.
  const others = [...services.values()].filter((s) => !s.types.some((t) => t === cpu || t === memory)).map((s) => s.types[0]);
  const asked = [...new Set([cpu, memory, ...others].filter((t) => t !== undefined))];
  const answers = await Promise.all(asked.map((type) => selectSeries(type.ID, "{}", both, step, ["service_name"])));
  answers.forEach((list, i) => list.forEach((one) => {
    const service = services.get(one.labels.find((l) => l.name === "service_name")?.value ?? "");
    if (!service || !one.points.length) return;
    service.seen = Math.max(service.seen, Number(one.points[one.points.length - 1].timestamp));
    if (asked[i] === cpu) service.cpu = measure(one, cpu, range, step);
    if (asked[i] === memory) service.memory = measure(one, memory, range, step);
  }));
  return [...services.values()];
}

function columnsOf(services: Service[], range: Range): Column[] {
  const rate = (key: "cpu" | "memory", label: string): Column => ({
    key, label, value: (i) => services[i][key]?.now ?? -1, text: (i) => {
      const measured = services[i][key];
      return measured ? formatRate(measured.now, measured.type) : "";
    },
  });
  const change = ({ cpu }: Service) => (cpu && cpu.before ? cpu.now / cpu.before - 1 : 0);
  return [
    { key: "name", label: "Service", value: (i) => services[i].name, text: (i) => services[i].name },
    { key: "line", label: "CPU over time", value: (i) => services[i].cpu?.now ?? -1, text: () => "",
      node: (i) => (services[i].cpu ? sparkline(services[i].cpu!.points, range) : null) },
    rate("cpu", "CPU"),
    { key: "change", label: "Change", value: (i) => change(services[i]),
      text: (i) => (!services[i].cpu ? "" : services[i].cpu!.before ? signed(change(services[i]), formatPercent(Math.abs(change(services[i])))) : "new") },
    ...(services.some((s) => s.memory) ? [rate("memory", "Memory")] : []),
    { key: "seen", label: "Last seen", value: (i) => services[i].seen, text: (i) => (services[i].seen ? ago(Date.now() - services[i].seen) : "") },
    { key: "types", label: "Profiles", value: (i) => services[i].types.length, text: () => "", node: (i) => {
      const box = document.createElement("span");
      const { name, types } = services[i];
      box.append(...types.slice(0, 5).map((type) => link(type.sampleType, `${name}: ${type.name}, ${type.sampleType}`, "explore", { query: queryOf(name), type: type.ID, q: "" })));
      if (types.length > 5) box.append(` +${types.length - 5}`);
      return box;
    } },
  ];
}

const queryOf = (service: string) => formatSelector([{ name: "service_name", op: "=", value: service }]);

function Welcome() {
  const here = new URL(".", location.href).href.replace(/\/$/, "");
  return (
    <div class="welcome" role="status">
      <h2>No profile has arrived in this range</h2>
      <p>This page looks for one every five seconds. Three ways to send some:</p>
      <dl>
        <dt>A file, in any format that kiln reads</dt>
        <dd><code>kiln push --server {here} --label service_name=shop cpu.pb.gz</code></dd>
        <dt>Pyroscope’s SDKs and agents</dt>
        <dd><code>PYROSCOPE_SERVER_ADDRESS={here}</code></dd>
        <dt>Services with /debug/pprof: in the server’s configuration</dt>
        <dd><code>{'scrape_configs: [{job_name: shop, static_configs: [{targets: ["127.0.0.1:6060"]}]}]'}</code></dd>
      </dl>
      <p class="row"><button onClick={() => go({ from: "now-24h", until: "" })}>Last 24 hours</button><button onClick={() => go({ from: "now-30d", until: "" })}>Last 30 days</button></p>
    </div>
  );
}

export function ServicesPage(props: PageProps) {
  const { params } = props;
  const { tick, again } = useTick(params);
  const times = useTimes(params, tick);
  const { range } = times;
  const { data, error, retry } = useLoaded(`services ${range.start} ${range.end}`, async () => ({ services: await load(range), range }));
  const services = data?.services ?? [];
  const empty = data !== null && !error && services.length === 0;
  useEffect(() => {
    if (!empty || params.refresh) return;
    const timer = setInterval(again, 5000);
    return () => clearInterval(timer);
  }, [empty, params.refresh]);
  const columns = useMemo(() => columnsOf(services, data?.range ?? range), [data]);
  const rows = useMemo(() => {
    const wanted = (params.q ?? "").toLowerCase();
    return services.flatMap(({ name }, i) => (name.toLowerCase().includes(wanted) ? [i] : []));
  }, [data, params.q]);
  const open = (i: number) => go({ query: queryOf(services[i].name), q: "", o: "" }, "explore");
  return (
    <Shell page="services" props={props} about={data && <><b>{services.length}</b> {services.length === 1 ? "service" : "services"} · {span(data.range)}</>}
      bars={
        <div class="bar selection">
          <div class="find">
            <input type="search" placeholder="Find a service" aria-label="Find a service" spellcheck={false} autocomplete="off" value={params.q ?? ""}
              onInput={(event) => go({ q: event.currentTarget.value }, undefined, true)} />
            <kbd>/</kbd>
          </div>
          <span class="fill" />
          <RangeChoice selection={times} onRange={again} />
          <Refresh params={params} again={again} />
        </div>
      }>
      <main class="list">
        {error ? <Notice title="This cannot be shown" actions={[["Try again", retry]]}>{error}</Notice>
          : empty ? <Welcome />
          : data && <Rows label="Services" columns={columns} rows={rows} order={orderOf(columns, params.o, "-cpu")} onOrder={(o) => go({ o }, undefined, true)} onPick={open} onOpen={open} empty="No service has that in its name." />}
      </main>
    </Shell>
  );
}
