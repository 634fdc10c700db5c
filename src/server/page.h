// The web pages of the server: one document for all of them, and the files that it loads. They are
// for anybody: what they show is asked of the API, with its access.
#pragma once

#include "server/call.h"

void page_document(struct call *c);
// A file below /ui/. False if there is none; the call has not ended then.
bool page_file(struct call *c, struct str path);
