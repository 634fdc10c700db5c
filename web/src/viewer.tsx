// The local viewer: one profile, or two to compare.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { type Answer, ask, json, text, useAnswer, useBusy } from "./api";
import { CodeView, SourceView } from "./code";
import {
  type Action, type Flame, type FlameData, type Tree, decode, formatPercent, formatValue, graft, signed,
} from "./component";
import { ApplySearch, Chips, FilterPanel, FILTERS } from "./filters";
import { CallGraph, type Graph } from "./graph";
import { meta } from "./meta";
import { FlamePane, FloatingMenu, frameActions, functionActions, Notes, useShaped } from "./pane";
import { type Peek, PeekView } from "./peek";
import { FunctionTable, type Top } from "./table";
import { ConfigPanel, ExportPanel, Keys, useTheme, ViewPanel } from "./panels";
import { AwayBanner, Notice, Popover } from "./ui";
import { exactly, follow, go, href, type Params, REPORT_KEYS, request, usePlace } from "./url";

const VIEWS: [view: string, label: string][] = [
  ["flamegraph", "Flame graph"], ["both", "Both"], ["top", "Table"], ["graph", "Graph"], ["peek", "Peek"], ["source", "Source"],
  ["disasm", "Disassembly"],
];

interface FlameAnswer {
  notes: string[];
  tree: Tree;
}

async function readFlame(answer: Response): Promise<FlameAnswer> {
  const { notes, flame } = await answer.json() as { notes: string[]; flame: FlameData };
  return { notes, tree: decode(flame) };
}

const clearFilters = () => go(Object.fromEntries([...FILTERS.map(([key]) => [key, ""]), ["p", ""], ["z", ""]]));

function Failure({ answer }: { answer: Answer<unknown> }) {
  return (
    <Notice title="This cannot be shown" actions={[["Try again", answer.retry], ["Clear filters", clearFilters]]}>
      {answer.error}
    </Notice>
  );
}

export function Viewer() {
  const { view, params } = usePlace();
  const { theme, nextTheme } = useTheme();
  const busy = useBusy();
  const [matched, setMatched] = useState("");
  const [moved, setMoved] = useState(false);
  const [keys, setKeys] = useState(false);
  const [menu, setMenu] = useState<{ actions: Action[]; x: number; y: number } | null>(null);
  const find = useRef<HTMLInputElement>(null);
  const flame = useRef<Flame | null>(null);

  const withFlame = view === "flamegraph" || view === "both";
  const withTable = view === "top" || view === "both";
  const wantsName = view === "source" || view === "disasm";
  const more: Params = { ...(params.rev ? { rev: "1" } : {}), ...(params.nodes ? { nodes: params.nodes } : {}) };
  const flameUrl = request("flame", params, more);
  const flames = useAnswer(withFlame ? flameUrl : null, readFlame);
  const top = useAnswer(withTable || (wantsName && !params.f) ? request("top", params, params.all ? { all: "1" } : {}) : null, json<Top>);
  const graph = useAnswer(view === "graph" ? request("graph", params, params.own ? { own: "1" } : {}) : null, json<Graph>);
  const peek = useAnswer(view === "peek" ? request("peek", params) : null, json<Peek>);
  const source = useAnswer(view === "source" && params.f ? request("source", params) : null, text);
  const disasm = useAnswer(view === "disasm" && params.f ? request("disasm", params) : null, text);

  // What "other" stood for, once it was opened.
  const [opened, setOpened] = useState<{ url: string; tree: Tree } | null>(null);
  const whole = opened && opened.url === flameUrl ? opened.tree : flames.data?.tree ?? null;
  const shaped = useShaped(whole, params);
  const sandwich = shaped?.sandwich;

  async function openOther(tree: Tree, node: number) {
    const parent = tree.parent[node];
    const path: string[] = [];
    for (let i = parent; i > 0; i = tree.parent[i]) path.unshift(tree.name(i));
    const joined = path.join("\x1f");
    if (joined.length > 3000) return;
    const sub = await ask(request("flame", params, { ...more, path: joined }), readFlame);
    // Only in the tree as it came: what was made of it follows.
    if (whole && tree === whole) setOpened({ url: flameUrl, tree: graft(whole, parent, sub.tree) });
  }

  const actionsOf = (name: string): Action[] => [
    ...functionActions(name, params, {
      flame: (changes) => go(changes, view === "both" ? view : "flamegraph"),
      table: withTable ? undefined : (changes) => go(changes, "top"),
      peek: (changes) => go(changes, "peek"),
    }),
    ["Open source", () => go({ f: exactly(name) }, "source")], ["Disassembly", () => go({ f: exactly(name) }, "disasm")],
  ];
  const onMenu = (name: string, x: number, y: number) => setMenu({ actions: actionsOf(name), x, y });

  const total = useMemo(() => {
    if (withFlame && whole) {
      const { data } = whole;
      const [type, unit] = data.types[0];
      const all = whole.total[0][0];
      const part = sandwich?.callees.total[0][0];
      if (!data.diff && part !== undefined) return [type, `${formatValue(part, unit)} of ${formatValue(all, unit)} (${formatPercent(all ? part / all : 0)})`];
      if (!data.diff) return [type, formatValue(all, unit)];
      const [l, r] = [whole.total[0][0], whole.total[1][0]];
      const change = l ? ` (${signed(r - l, formatPercent(Math.abs(r - l) / l))})` : "";
      return [type, `${formatValue(l, unit)} → ${formatValue(r, unit)}${change}`];
    }
    const c = top.data?.columns?.[0] ?? graph.data ?? peek.data;
    return c ? [meta.types[Number(params.si) || meta.type]?.[0] ?? "", formatValue(c.total, c.unit)] : null;
  }, [whole, sandwich, withFlame, top.data, graph.data, peek.data]);

  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      const target = event.target as HTMLElement;
      const typing = target.matches("input, select, textarea, dialog *");
      if (typing && target === find.current && (event.key === "Escape" || event.key === "Enter")) {
        if (event.key === "Escape") go({ q: "" }, undefined, true);
        document.querySelector<HTMLElement>(".flame canvas")?.focus();
        event.preventDefault();
      }
      if (typing || event.altKey || target.closest(".menu")) return;
      const finding = (event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "f";
      if ((event.ctrlKey || event.metaKey) && !finding) return;
      const own: Record<string, () => void> = {
        "/": () => find.current!.select(),
        "?": () => setKeys(true),
        d: nextTheme,
        f: () => go({ flip: params.flip ? "" : "1" }),
        r: () => go({ rev: params.rev ? "" : "1", z: "" }),
        t: () => go({}, view === "flamegraph" ? "both" : "flamegraph"),
      };
      if (meta.diff) own.n = () => go({ norm: params.norm ? "" : "t" });
      const digit = VIEWS[Number(event.key) - 1];
      if (finding) find.current!.select();
      else if (digit) go({}, digit[0]);
      else if (Object.hasOwn(own, event.key)) own[event.key]();
      else if (!flame.current?.key(event, target.tagName === "CANVAS" || target === document.body)) return;
      event.preventDefault();
    };
    document.addEventListener("keydown", onKey);
    return () => document.removeEventListener("keydown", onKey);
  });

  const body = () => {
    if (withFlame && flames.error) return <Failure answer={flames} />;
    if (withTable && top.error) return <Failure answer={top} />;
    for (const answer of [graph, peek, source, disasm]) if (answer.error) return <Failure answer={answer} />;
    if (wantsName && !params.f) {
      return top.data && (
        <div class="pick">
          <Notice title={view === "source" ? "Source of which function?" : "Machine code of which function?"}>
            Choose one here, or from the menu of a frame.
          </Notice>
          <FunctionTable top={top.data} filter={params.q ?? ""} order={params.o ?? ""} onOrder={(o) => go({ o }, undefined, true)} picked=""
            onPick={(name) => go({ f: exactly(name), q: "" })} onOpen={(name) => go({ f: exactly(name), q: "" })} />
        </div>
      );
    }
    return (
      <>
        {withFlame && shaped && (
          <FlamePane shaped={shaped} params={params} theme={theme} notes={flames.data?.notes ?? []} onMatched={setMatched} onMoved={setMoved} onOther={openOther}
            control={(f) => (flame.current = f)} actions={(tree, node) => frameActions(tree, node, flame.current, params, actionsOf)}>
            <Notice title="No samples are left" actions={[["Clear filters", clearFilters]]}>
              {flames.data!.notes.join("; ") || "The profile has no value above zero of this type."}
            </Notice>
          </FlamePane>
        )}
        {withTable && top.data && (
          <div class="side-pane">
            {view === "top" && <Notes notes={top.data.notes} />}
            <FunctionTable top={top.data} filter={params.q && !/^\^.*\$$/.test(params.q) ? params.q : view === "top" ? params.q ?? "" : ""}
              order={params.o ?? ""} onOrder={(o) => go({ o }, undefined, true)} onMenu={onMenu}
              picked={top.data.names.find((name) => params.q && exactly(name) === params.q) ?? ""}
              onPick={(name) => go({ q: params.q === exactly(name) ? "" : exactly(name) }, undefined, true)}
              onOpen={(name) => go({ p: exactly(name), q: "", z: "" }, view === "both" ? "both" : "flamegraph")} />
          </div>
        )}
        {view === "graph" && graph.data && <CallGraph graph={graph.data} search={params.q ?? ""} onMenu={onMenu} />}
        {view === "peek" && peek.data && (peek.data.nodes.length
          ? <PeekView peek={peek.data} open={(name) => go({ f: exactly(name.replace(/ \S+:\d+$/, "")) })} />
          : <Notice title="No function matches" actions={[["Clear filters", clearFilters]]}>{peek.data.notes.join("; ")}</Notice>)}
        {view === "source" && source.data !== null && <SourceView html={source.data} />}
        {view === "disasm" && disasm.data !== null && <CodeView text={disasm.data} />}
      </>
    );
  };

  return (
    <>
      <div class={"progress" + (busy ? " busy" : "")} role="progressbar" aria-hidden={!busy} aria-label="Loading" />
      <header>
        <AwayBanner />
        <div class="head">
          <h1 title={meta.title}>{meta.title}</h1>
          <p class="about">
            {total && <>{total[0]} <b>{total[1]}</b></>}
            {meta.duration > 0 && <> over {formatValue(meta.duration, "nanoseconds")}</>}
            {meta.time > 0 && <span class="when"> · {new Date(meta.time).toISOString().replace("T", " ").slice(0, 16)} UTC</span>}
          </p>
          <span class="fill" />
          <button class="quiet" onClick={nextTheme} title="Light or dark (d)">{theme === "dark" ? "Light" : "Dark"}</button>
          <button class="quiet" onClick={() => setKeys(true)} title="Keys (?)" aria-label="Keys">?</button>
        </div>
        <nav class="tabs" aria-label="Views">
          {VIEWS.map(([v, label]) => (
            <a key={v} href={href(v, params)} aria-current={v === view ? "page" : undefined} onClick={(event) => follow(event, {}, v)}>{label}</a>
          ))}
        </nav>
        <div class="bar">
          {meta.types.length > 1 && (
            <select aria-label="Sample type" value={params.si ?? String(meta.type)} onChange={(event) => go({ si: event.currentTarget.value })}>
              {meta.types.map(([type, unit], i) => (
                <option key={i} value={meta.types.findIndex(([t]) => t === params.si) === i ? params.si : String(i)}>
                  {type}{unit && unit !== "count" ? ` (${unit})` : ""}
                </option>
              ))}
            </select>
          )}
          <div class="find">
            <input ref={find} type="search" placeholder="Search: text or regex" aria-label="Search functions: text or a regular expression"
              spellcheck={false} autocomplete="off" value={params.q ?? ""} onInput={(event) => go({ q: event.currentTarget.value }, undefined, true)} />
            <kbd>/</kbd>
          </div>
          <ApplySearch params={params} />
          <output class="matched">{params.q && withFlame ? matched : ""}</output>
          <span class="fill" />
          {withFlame && <button disabled={!moved} onClick={() => flame.current?.zoomTo(0)} title="Whole profile (Home)">Reset zoom</button>}
          <Popover label="Filters" title="Which stacks and frames are shown"><FilterPanel params={params} filters={FILTERS} /></Popover>
          <Popover label="View" title="How they are shown"><ViewPanel params={params} view={view} /></Popover>
          <Popover label="Export">{(close) => <ExportPanel flame={flame.current} title={meta.title} close={close}
            file={(format) => ask(request("export", params, { format, ...(params.rev ? { rev: "1" } : {}) }), (answer) => answer.blob())}
            download={href("download", Object.fromEntries(REPORT_KEYS.filter((key) => params[key]).map((key) => [key, params[key]])))} />}</Popover>
          <Popover label="Saved" title="Named settings, shared with pprof"><ConfigPanel params={params} /></Popover>
        </div>
        <Chips params={params} />
      </header>
      <main class={view}>{body()}</main>
      {menu && <FloatingMenu at={menu} close={() => setMenu(null)} />}
      <Keys open={keys} close={() => setKeys(false)} />
    </>
  );
}
