// What all pages of the server share: the head with the way to the others, search, keys.
import type { ComponentChildren, RefObject } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { forgetToken, hasToken, useBusy } from "../api";
import type { Flame } from "../component";
import { ApplySearch, Chips, FilterPanel, FRAME_FILTERS } from "../filters";
import { AllTypes, ExportPanel, FlameChecks, GraphSize, Keys } from "../panels";
import { AwayBanner, Choice, Popover } from "../ui";
import { follow, go, href, type Params, read } from "../url";

export interface PageProps {
  params: Params;
  theme: string;
  nextTheme(): void;
}

// Labels live at /tags: /labels is an old question of Pyroscope's clients.
const PAGES: [page: string, label: string][] = [["services", "Services"], ["explore", "Explore"], ["tags", "Labels"], ["compare", "Compare"], ["diff", "Diff"],
  ["changes", "Changes"], ["targets", "Targets"], ["files", "Files"]];

const VIEWS: [view: string, label: string][] = [["flame", "Flame graph"], ["both", "Both"], ["table", "Table"], ["graph", "Graph"], ["peek", "Peek"]];

// The flame graph that search and keys are about, and what it says.
export interface Tools {
  flame: RefObject<Flame | null>;
  matched: string;
  moved: boolean;
  diff: boolean;
  views: string[]; // that the page has
  view: string; // one of them
  setMatched(text: string): void;
  setMoved(moved: boolean): void;
  show(view: string, changes: Params): void;
  changes(view: string): Params; // of the address, that show a view
}

export function useTools(params: Params, { usual = "both", diff = false } = {}): Tools {
  const [matched, setMatched] = useState("");
  const [moved, setMoved] = useState(false);
  // Of a difference the call graph has no picture.
  const views = VIEWS.map(([view]) => view).filter((view) => !diff || view !== "graph" && view !== "peek");
  const changes = (view: string) => ({ view: view === usual ? "" : view });
  return {
    flame: useRef<Flame | null>(null), matched, moved, diff, setMatched, setMoved, views, view: views.includes(params.view) ? params.view : usual, changes,
    show: (view, more) => go({ ...more, ...changes(view) }),
  };
}

// What leaves a page.
export interface Exports {
  title: string;
  command: string;
  link?: string; // this address with fixed times
  file(format: string): Promise<Blob>;
}

const isFlame = (view: string) => view === "flame" || view === "both";

function ViewOptions({ params, tools: { view, diff }, types }: { params: Params; tools: Tools; types: number }) {
  return (
    <div class="options">
      {isFlame(view) && <FlameChecks params={params} diff={diff} palette={false} />}
      {(view === "table" || view === "both") && types > 1 && !diff && <AllTypes params={params} />}
      {view === "graph" && <GraphSize params={params} />}
      <Choice label="A frame is" value={params.g ?? ""} set={(g) => go({ g, z: "" })}
        options={[["", "a function"], ["files", "a file"], ["lines", "a line"], ["addresses", "an address"]]} />
    </div>
  );
}

function FlameBar({ params, tools, exports, types }: { params: Params; tools: Tools; exports?: Exports; types: number }) {
  return (
    <>
      <div class="bar">
        <nav class="tabs" aria-label="Views">
          {VIEWS.filter(([v]) => tools.views.includes(v)).map(([v, label]) => (
            <a key={v} href={href(read().view, { ...params, ...tools.changes(v) })} aria-current={v === tools.view ? "page" : undefined}
              onClick={(event) => follow(event, tools.changes(v))}>{label}</a>
          ))}
        </nav>
        <div class="find">
          <input type="search" placeholder="Search: text or regex" aria-label="Search functions: text or a regular expression" spellcheck={false}
            autocomplete="off" value={params.q ?? ""} onInput={(event) => go({ q: event.currentTarget.value }, undefined, true)} />
          <kbd>/</kbd>
        </div>
        <ApplySearch params={params} />
        <output class="matched">{params.q && isFlame(tools.view) ? tools.matched : ""}</output>
        <span class="fill" />
        {isFlame(tools.view) && <button disabled={!tools.moved} onClick={() => tools.flame.current?.zoomTo(0)} title="Whole profile (Home)">Reset zoom</button>}
        <Popover label="Filters" title="Which stacks and frames are shown"><FilterPanel params={params} filters={FRAME_FILTERS} /></Popover>
        <Popover label="View" title="How they are shown"><ViewOptions params={params} tools={tools} types={types} /></Popover>
        {exports && <Popover label="Export">{(close) => <ExportPanel flame={tools.flame.current} close={close} {...exports} />}</Popover>}
      </div>
      <Chips params={params} />
    </>
  );
}

// What another page does not have, or means something else by: a zoomed frame, the search, and the order and states of another table.
const ALIKE = ["explore", "compare"];
export function leave(from: string, to: string): Params {
  const same = from === to || (ALIKE.includes(from) && ALIKE.includes(to));
  return { z: "", ...(from === to ? {} : { q: "" }), ...(same ? {} : { o: "", state: "" }) };
}

export function Shell({ page, props, about, tools, exports, types = 1, bars, children }: {
  page: string;
  props: PageProps;
  about?: ComponentChildren;
  tools?: Tools; // of pages with a flame graph
  exports?: Exports;
  types?: number; // sample types that came along
  bars?: ComponentChildren; // between the head and the search
  children: ComponentChildren;
}) {
  const { params, theme, nextTheme } = props;
  const busy = useBusy();
  const [keys, setKeys] = useState(false);
  // In a narrow window not all of them are in sight.
  useEffect(() => document.querySelector(".head .tabs [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" }), [page]);
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      const target = event.target as HTMLElement;
      if (target.matches("input, select, textarea, dialog *") || event.ctrlKey || event.metaKey || event.altKey || target.closest(".menu")) return;
      const own: Record<string, () => void> = { "?": () => setKeys(true), d: nextTheme };
      const find = document.querySelector<HTMLInputElement>(".find input");
      if (find) own["/"] = () => find.select();
      const digit = PAGES[Number(event.key) - 1];
      if (tools) {
        own.f = () => go({ flip: params.flip ? "" : "1" });
        own.r = () => go({ rev: params.rev ? "" : "1", z: "" });
        own.t = () => tools.show(tools.view === "flame" ? "both" : "flame", {});
        if (tools.diff) own.n = () => go({ abs: params.abs ? "" : "1" });
      }
      if (digit) go(leave(page, digit[0]), digit[0]);
      else if (Object.hasOwn(own, event.key)) own[event.key]();
      else if (!tools?.flame.current?.key(event, target.tagName === "CANVAS" || target === document.body)) return;
      event.preventDefault();
    };
    document.addEventListener("keydown", onKey);
    return () => document.removeEventListener("keydown", onKey);
  });
  return (
    <>
      <div class={"progress" + (busy ? " busy" : "")} role="progressbar" aria-hidden={!busy} aria-label="Loading" />
      <header>
        <div class="head">
          <h1>kiln</h1>
          <nav class="tabs" aria-label="Pages">
            {PAGES.map(([p, label]) => (
              <a key={p} href={href(p, { ...params, ...leave(page, p) })} aria-current={p === page ? "page" : undefined}
                onClick={(event) => follow(event, leave(page, p), p)}>{label}</a>
            ))}
          </nav>
          <p class="about">{about}</p>
          <span class="fill" />
          {hasToken() && <button class="quiet" onClick={forgetToken} title="Forget the token of this tab">Leave</button>}
          <button class="quiet" onClick={nextTheme} title="Light or dark (d)">{theme === "dark" ? "Light" : "Dark"}</button>
          <button class="quiet" onClick={() => setKeys(true)} title="Keys (?)" aria-label="Keys">?</button>
        </div>
        <AwayBanner />
        {bars}
        {tools && <FlameBar params={params} tools={tools} exports={exports} types={types} />}
      </header>
      {children}
      <Keys open={keys} close={() => setKeys(false)} />
    </>
  );
}
