// Profiles fetched from services: which targets are scraped when, and how that went.
//
// scrape.c           start, stop, and the thread that sends requests when they are due
// scrape_find.c      the thread that finds targets: files, answers of http_sd URLs, relabeling
// scrape_work.c      the threads that decode answers
// kube_watch.c       lists and watches of Kubernetes API servers, for the two threads above
// scrape_discover.c, scrape_relabel.c   from a configuration to targets
// kube_objects.c, kube_targets.c        from objects of Kubernetes to targets
// scrape_take.c      from an answer to the store
// scrape_api.c       what is shown of it
//
// A target belongs to a tenant: its profiles go there, and nobody else sees it. No target can delay
// another: requests share nothing but the thread that waits for all of them at once, answers are
// bounded in size and time, and those that are expensive to decode wait for those that are not.
#pragma once

#include "server/call.h"

struct scraper;

// NULL if there is no memory; works with no targets as well.
struct scraper *scraper_start(struct server *s, const struct server_config *config);
// Takes config: targets that stay keep their state. If its targets cannot be used, nothing changes.
void scraper_reload(struct scraper *scraper, struct server_config *config);
void scraper_stop(struct scraper *scraper);

// GET /api/v1/targets: those of the caller's tenant.
void scrape_targets(struct call *c);
// The metrics of scraping: totals, and the targets that the caller may see.
void scrape_metrics(struct call *c);
