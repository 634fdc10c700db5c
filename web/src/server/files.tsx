// Files: a profile, or two to compare, from this machine. The server reads them and keeps nothing; they stay
// in this tab, so that a reload shows them again.
import { useEffect, useMemo, useState } from "preact/hooks";
import { send, useLoaded } from "../api";
import { formatPercent, formatValue, signed } from "../component";
import { Check, Notice } from "../ui";
import { go } from "../url";
import { fileCommand } from "./command";
import { keep, type Kept, recall } from "./keep";
import { isFiltered, readDrawn, type Shape, shapeOf } from "./querier";
import { Result } from "./result";
import { type PageProps, Shell, useTools } from "./shell";

function form([base, file]: (Kept | null)[], type: string, shape: Shape, path: string[] = []): FormData {
  const parts = new FormData();
  parts.append("profile", file!.content);
  if (base) parts.append("base", base.content);
  if (type) parts.append("type", type);
  for (const [name, value] of Object.entries(shape)) if (value) parts.append(name, String(value));
  for (const name of path) parts.append("path", name);
  return parts;
}

function Chooser({ title, file, choose, clear }: { title: string; file: Kept | null; choose(file: File): void; clear?(): void }) {
  const [over, setOver] = useState(false);
  return (
    <label class={"drop" + (over ? " over" : "")} onDragOver={(event) => {
      event.preventDefault();
      setOver(true);
    }} onDragLeave={() => setOver(false)} onDrop={(event) => {
      event.preventDefault();
      setOver(false);
      const dropped = event.dataTransfer?.files[0];
      if (dropped) choose(dropped);
    }}>
      <b>{title}</b>
      <span class="file">{file ? `${file.name} · ${formatValue(file.content.size, "bytes")}` : "Drop a file here, or choose one"}</span>
      <input type="file" aria-label={title} onChange={(event) => {
        const chosen = event.currentTarget.files?.[0];
        if (chosen) choose(chosen);
      }} />
      {file && clear && <button class="remove" aria-label={"Remove " + file.name} onClick={(event) => {
        event.preventDefault();
        clear();
      }}>×</button>}
    </label>
  );
}

export function FilesPage(props: PageProps) {
  const { params, theme } = props;
  const tools = useTools(params, { diff: Boolean(params.base_file) });
  const [files, setFiles] = useState<(Kept | null)[]>([null, null]);
  const ids = [params.base_file ?? "", params.file ?? ""];
  useEffect(() => void Promise.all(ids.map((id) => (id ? recall(id) : null))).then(setFiles), [ids.join()]);
  const choose = (key: string) => async (file: File) => go({ [key]: await keep(file), z: "", type: "" });
  const [base, file] = files;
  const shape = shapeOf(params, tools.view);
  const type = params.type ?? "";
  const key = file && file.id === params.file && (base?.id ?? "") === ids[0] ? [file.id, ids[0], type, JSON.stringify(shape)].join(" ") : null;
  const { data: loaded, error, retry } = useLoaded(key, async () => {
    const read = (path?: string[]) => send("api/v1/flame", readDrawn, form(files, type, shape, path));
    return { drawn: await read(), open: read };
  });
  const normalize = !params.abs;
  const tree = useMemo(() => loaded && { ...loaded.drawn.tree, data: { ...loaded.drawn.tree.data, normalize: normalize ? 1 : 0 } }, [loaded, normalize]);
  const shown = key && tree && (isFiltered(shape) || tree.total[0][0] || (tree.data.diff && tree.total[1][0])) ? tree : null;
  const types = loaded?.drawn.types ?? [];
  const [name, unit] = types[loaded?.drawn.type ?? 0] ?? ["", ""];
  const [l, r] = shown ? [shown.total[0][0], shown.total[1]?.[0] ?? 0] : [0, 0];
  const gone = params.file && !file;
  const chosen = [base, file].filter((f) => f !== null);
  const title = chosen.map((f) => f.name).join(" \u2192 ");
  return (
    <Shell page="files" props={props} tools={shown ? tools : undefined} types={types.length}
      exports={shown ? {
        title, command: fileCommand(params, tools.view, type, chosen.map((f) => f.name)),
        file: (format) => send("api/v1/flame", (answer) => answer.blob(), form(files, type, { ...shape, format, title, normalize })),
      } : undefined}
      about={shown && (shown.data.diff
        ? <>{name} <b>{formatValue(l, unit)} → {formatValue(r, unit)}</b>{l > 0 && ` (${signed(r - l, formatPercent(Math.abs(r - l) / l))})`}</>
        : <>{name} <b>{formatValue(l, unit)}</b></>)}
      bars={
        <div class="bar selection files">
          <Chooser title="Profile" file={file} choose={choose("file")} clear={() => go({ file: "", z: "" })} />
          <Chooser title="Compare with" file={base} choose={choose("base_file")} clear={() => go({ base_file: "", z: "" })} />
          {types.length > 1 && (
            <select aria-label="Sample type" value={name} onChange={(event) => go({ type: event.currentTarget.value, z: "" })}>
              {types.map(([t]) => <option key={t} value={t}>{t}</option>)}
            </select>
          )}
          {shown && Boolean(shown.data.diff) && <>
            <Check label="Compare shares" on={normalize} set={(on) => go({ abs: on ? "" : "1" })} />
            <Check label="Blue instead of green" on={Boolean(params.cb)} set={(on) => go({ cb: on ? "1" : "" })} />
          </>}
        </div>
      }>
      <main class={shown ? tools.view : ""}>
        {error ? <Notice title="This cannot be read" actions={[["Try again", retry]]}>{error}</Notice>
          : shown ? <Result drawn={{ tree: shown, notes: loaded!.drawn.notes }} params={params} theme={theme} tools={tools} open={loaded!.open} />
          : loaded && key ? <Notice title="No samples">The profile has no value above zero of this type.</Notice>
          : <Notice title={gone ? "Choose the file again" : "A profile from this machine"}>
            {gone ? "It was chosen in another tab or browser; files are not kept on the server."
              : "Any format that kiln reads: pprof, perf script, folded stacks, speedscope, jemalloc. With a second file: what changed. The server keeps neither."}
          </Notice>}
      </main>
    </Shell>
  );
}
