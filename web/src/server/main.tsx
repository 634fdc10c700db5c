// The server's pages.
import { useTheme } from "../panels";
import { usePlace } from "../url";
import { DiffPage } from "./diff";
import { Explore } from "./explore";
import { LabelsPage } from "./labels";

export function Server() {
  const { view, params } = usePlace();
  const page = { params, ...useTheme() };
  if (view === "diff") return <DiffPage {...page} />;
  if (view === "tags") return <LabelsPage {...page} />;
  return <Explore {...page} />;
}
