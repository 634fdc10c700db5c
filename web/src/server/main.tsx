// The server's pages.
import type { ComponentType } from "preact";
import { useLocked } from "../api";
import { useTheme } from "../panels";
import { ErrorBoundary } from "../ui";
import { href, usePlace } from "../url";
import { ChangesPage } from "./changes";
import { ComparePage } from "./compare";
import { DiffPage } from "./diff";
import { Explore } from "./explore";
import { FilesPage } from "./files";
import { LabelsPage } from "./labels";
import { ServicesPage } from "./services";
import type { PageProps } from "./shell";
import { TargetsPage } from "./targets";
import { TokenForm } from "./token";

const PAGES: Record<string, ComponentType<PageProps>> = {
  explore: Explore, tags: LabelsPage, compare: ComparePage, diff: DiffPage, changes: ChangesPage, targets: TargetsPage, files: FilesPage,
};

export function Server() {
  const { view, params } = usePlace();
  const theme = useTheme();
  const Page = PAGES[view] ?? ServicesPage;
  return useLocked() ? <TokenForm /> : <ErrorBoundary place={href(view, params)}><Page params={params} {...theme} /></ErrorBoundary>;
}
