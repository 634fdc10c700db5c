// The server's pages.
import { usePlace } from "../url";
import { DiffPage } from "./diff";
import { Explore } from "./explore";

export function Server() {
  const { view, params } = usePlace();
  return view === "diff" ? <DiffPage params={params} /> : <Explore params={params} />;
}
