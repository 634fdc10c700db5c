// What all pages of the server share: the head with the way to the others, search, keys.
import type { ComponentChildren } from "preact";
import { type RefObject } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { useBusy } from "../api";
import type { Flame } from "../component";
import { Chips } from "../filters";
import { Keys } from "../panels";
import { go, href, type Params } from "../url";

export const PAGES: [page: string, label: string][] = [["explore", "Explore"], ["diff", "Diff"]];

export function Shell({ page, params, about, theme, nextTheme, flame, matched, moved, bars, children }: {
  page: string;
  params: Params;
  about: ComponentChildren;
  theme: string;
  nextTheme(): void;
  flame: RefObject<Flame | null>;
  matched: string;
  moved: boolean;
  bars: ComponentChildren; // between the head and the search
  children: ComponentChildren;
}) {
  const busy = useBusy();
  const [keys, setKeys] = useState(false);
  const find = useRef<HTMLInputElement>(null);
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
  return (
    <>
      <div class={"progress" + (busy ? " busy" : "")} role="progressbar" aria-hidden={!busy} aria-label="Loading" />
      <header>
        <div class="head">
          <h1>kiln</h1>
          <nav class="tabs" aria-label="Pages">
            {PAGES.map(([p, label]) => (
              <a key={p} href={href(p, params)} aria-current={p === page ? "page" : undefined} onClick={(event) => {
                if (event.ctrlKey || event.metaKey || event.shiftKey) return;
                event.preventDefault();
                go({ z: "" }, p);
              }}>{label}</a>
            ))}
          </nav>
          <p class="about">{about}</p>
          <span class="fill" />
          <button class="quiet" onClick={nextTheme} title="Light or dark (d)">{theme === "dark" ? "Light" : "Dark"}</button>
          <button class="quiet" onClick={() => setKeys(true)} title="Keys (?)" aria-label="Keys">?</button>
        </div>
        {bars}
        <div class="bar">
          <nav class="tabs" aria-label="Views">
            {[["flame", "Flame graph"], ["both", "Both"], ["table", "Table"]].map(([v, label]) => (
              <a key={v} href="#" aria-current={v === (params.view ?? "both") ? "page" : undefined} onClick={(event) => {
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
      {children}
      <Keys open={keys} close={() => setKeys(false)} />
    </>
  );
}
