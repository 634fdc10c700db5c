// The static program (docs/decisions/0041-static-program.md) has no loader. These replacements of
// dlopen and dlsym, which ld's --wrap puts into place, find the libraries that other builds load on
// first use inside the program.
#include <dlfcn.h>
#include <libdeflate.h>
#include <lzma.h>
#include <nss.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>
#include <zstd.h>

#include "net/curl_library.h"
#include "net/web_server.h"

void *__wrap_dlopen(const char *name, int mode);
void *__wrap_dlsym(void *handle, const char *name);
char *__wrap_dlerror(void);

// Distributions keep the certificates of authorities in different files.
static CURL *new_transfer_with_authorities(void)
{
    static const char *const files[] = {
        "/etc/ssl/certs/ca-certificates.crt", // Debian, Alpine, Arch
        "/etc/pki/tls/certs/ca-bundle.crt",   // Fedora, RHEL
        "/etc/ssl/ca-bundle.pem",             // SUSE
        "/etc/ssl/cert.pem",
    };
    CURL *curl = curl_easy_init();
    for (size_t i = 0; curl && i < sizeof files / sizeof *files; i++)
        if (access(files[i], R_OK) == 0) {
            curl_easy_setopt(curl, CURLOPT_CAINFO, files[i]);
            break;
        }
    return curl;
}

#define CURL_ENTRY(name) {"curl_" #name, (void *)curl_##name},
#define WEB_ENTRY(name) {"MHD_" #name, (void *)MHD_##name},
static const struct entry {
    const char *name;
    void *address;
} entries[] = {
    {"curl_easy_init", (void *)new_transfer_with_authorities}, // before the next line's
    CURL_FUNCTIONS(CURL_ENTRY){"curl_easy_perform", (void *)curl_easy_perform},
    WEB_FUNCTIONS(WEB_ENTRY){"ZSTD_decompress", (void *)ZSTD_decompress},
    {"lzma_stream_buffer_decode", (void *)lzma_stream_buffer_decode},
    {"libdeflate_alloc_decompressor", (void *)libdeflate_alloc_decompressor},
    {"libdeflate_zlib_decompress", (void *)libdeflate_zlib_decompress},
    {"libdeflate_free_decompressor", (void *)libdeflate_free_decompressor},
};

void *__wrap_dlopen(const char *name, int mode)
{
    static const char *const names[] = {"libcurl.so.4", "libmicrohttpd.so.12", "libzstd.so.1",
                                        "liblzma.so.5"};
    for (size_t i = 0; name && i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i], name) == 0)
            return (void *)names[i];
    return NULL;
}

void *__wrap_dlsym(void *handle, const char *name)
{
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++)
        if (strcmp(entries[i].name, name) == 0)
            return entries[i].address;
    return NULL;
}

char *__wrap_dlerror(void)
{
    return (char *)"a static program cannot load libraries";
}

// nsswitch.conf may name modules that only the machine's own libc can load.
__attribute__((constructor)) static void use_built_in_name_services(void)
{
    static const char *const databases[][2] = {
        {"hosts", "files dns"}, {"passwd", "files"}, {"group", "files"}, {"services", "files"}};
    for (size_t i = 0; i < sizeof databases / sizeof *databases; i++)
        __nss_configure_lookup(databases[i][0], databases[i][1]);
}
