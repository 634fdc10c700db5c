// Profiles fetched from services: who is scraped when, and how that went.
#pragma once

#include "server/call.h"

struct scraper;

// NULL if there is no memory; works with no targets as well.
struct scraper *scraper_start(struct server *s, const struct server_config *config);
// Takes config: targets that stay keep their state.
void scraper_reload(struct scraper *scraper, struct server_config *config);
void scraper_stop(struct scraper *scraper);

// GET /api/v1/targets
void scrape_targets(struct call *c);
