// SHA-256 (FIPS 180-4) and HMAC-SHA-256 (RFC 2104), for signed requests. Constant time: neither
// branches nor indices depend on the contents of key and text.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

enum { SHA256_SIZE = 32 };

// Computes the hash of text.
void sha256(struct str text, uint8_t digest[SHA256_SIZE]);
// Computes the HMAC of the concatenated parts.
void hmac_sha256(struct str key, const struct str *parts, size_t n, uint8_t digest[SHA256_SIZE]);
