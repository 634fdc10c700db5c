// Debug files over HTTP.
#pragma once

#include "server/call.h"

void debuginfo_api_upload(struct call *c);
void debuginfo_api_list(struct call *c);
void debuginfo_api_delete(struct call *c);
