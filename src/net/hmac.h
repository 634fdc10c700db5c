// SHA-256 (FIPS 180-4) and HMAC with it (RFC 2104), for signed requests. Neither branches nor
// indices depend on the key or the text.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

enum { SHA256_SIZE = 32 };

void sha256(struct str text, uint8_t digest[SHA256_SIZE]);
// Of the parts one after the other.
void hmac_sha256(struct str key, const struct str *parts, size_t n, uint8_t digest[SHA256_SIZE]);
