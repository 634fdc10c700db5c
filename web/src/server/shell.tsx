// What all pages of the server share: the head with the way to the others, search, keys.
import type { ComponentChildren, RefObject } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { forgetToken, hasToken, useBusy } from "../api";
import type { Flame } from "../component";
import { Chips } from "../filters";
import { Keys } from "../panels";
import { follow, go, href, type Params, read } from "../url";

export interface PageProps {
  params: Params;
  theme: string;
  nextTheme(): void;
}

// Labels live at /tags: /labels is an old question of Pyroscope's clients.
const PAGES: [page: string, label: string][] = [["services", "Services"], ["explore", "Explore"], ["tags", "Labels"], ["compare", "Compare"], ["diff", "Diff"],
  ["targets", "Targets"], ["files", "Files"]];

// The flame graph that search and keys are about, and what it says.
export interface Tools {
  flame: RefObject<Flame | null>;
  matched: string;
  moved: boolean;
  view: string; // flame, table or both
  usual: string;
  setMatched(text: string): void;
  setMoved(moved: boolean): void;
}

export function useTools(params: Params, usual = "both"): Tools {
  const [matched, setMatched] = useState("");
  const [moved, setMoved] = useState(false);
  return { flame: useRef<Flame | null>(null), matched, moved, setMatched, setMoved, view: params.view ?? usual, usual };
}

function FlameBar({ params, tools }: { params: Params; tools: Tools }) {
  return (
    <>
      <div class="bar">
        <nav class="tabs" aria-label="Views">
          {[["flame", "Flame graph"], ["both", "Both"], ["table", "Table"]].map(([v, label]) => {
            const changes = { view: v === tools.usual ? "" : v };
            return (
              <a key={v} href={href(read().view, { ...params, ...changes })} aria-current={v === tools.view ? "page" : undefined}
                onClick={(event) => follow(event, changes)}>{label}</a>
            );
          })}
        </nav>
        <div class="find">
          <input type="search" placeholder="Search: text or regex" aria-label="Search functions: text or a regular expression" spellcheck={false}
            autocomplete="off" value={params.q ?? ""} onInput={(event) => go({ q: event.currentTarget.value }, undefined, true)} />
          <kbd>/</kbd>
        </div>
        <output class="matched">{params.q ? tools.matched : ""}</output>
        <span class="fill" />
        <button disabled={!tools.moved} onClick={() => tools.flame.current?.zoomTo(0)}>Reset zoom</button>
      </div>
      <Chips params={params} />
    </>
  );
}

export function Shell({ page, props, about, tools, bars, children }: {
  page: string;
  props: PageProps;
  about?: ComponentChildren;
  tools?: Tools; // of pages with a flame graph
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
      if (digit) go({ z: "" }, digit[0]);
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
              <a key={p} href={href(p, { ...params, z: "" })} aria-current={p === page ? "page" : undefined}
                onClick={(event) => follow(event, { z: "" }, p)}>{label}</a>
            ))}
          </nav>
          <p class="about">{about}</p>
          <span class="fill" />
          {hasToken() && <button class="quiet" onClick={forgetToken} title="Forget the token of this tab">Leave</button>}
          <button class="quiet" onClick={nextTheme} title="Light or dark (d)">{theme === "dark" ? "Light" : "Dark"}</button>
          <button class="quiet" onClick={() => setKeys(true)} title="Keys (?)" aria-label="Keys">?</button>
        </div>
        {bars}
        {tools && <FlameBar params={params} tools={tools} />}
      </header>
      {children}
      <Keys open={keys} close={() => setKeys(false)} />
    </>
  );
}
