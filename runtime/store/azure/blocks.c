/* blocks.c -- blobs from blocks, and copies, in the service's words.
 *
 * The service wants the ids of a blob's blocks in Base64 and of one length. An upload's name and the number
 * of the block in eight digits are that already: letters and digits, a multiple of four of them. */

#include "store/azure/impl.h"

static void append_id(struct buf *out, const char *upload, int64_t block) {
    buf_printf(out, "%s%08lld", upload, (long long)block);
}

void azure_block_query(const struct store_request *req, struct buf *url) {
    buf_puts(url, "?blockid=");
    append_id(url, req->upload, req->block);
    buf_puts(url, "&comp=block");
}

/* "Latest", not "Uncommitted": when the answer is lost and the list is sent again, they are committed. */
bool azure_block_list(const struct store_request *req, struct azure_call *call) {
    struct buf *out = &call->body;
    buf_clear(out);
    buf_puts(out, "<?xml version=\"1.0\" encoding=\"utf-8\"?><BlockList>");
    for (int64_t i = 0; i < req->count; i++) {
        buf_puts(out, "<Latest>");
        append_id(out, req->upload, i);
        buf_puts(out, "</Latest>");
    }
    buf_puts(out, "</BlockList>");
    call->http.body = buf_str(out);
    call->http.body_len = out->len;
    return !out->failed;
}

bool azure_copy_source(struct azure *az, struct http_call *http, const struct store_request *req) {
    struct buf url;
    buf_init(&url, AZURE_URL_MAX);
    buf_puts(&url, az->account.blob.base);
    buf_putc(&url, '/');
    append_encoded(&url, req->source_container, false);
    buf_putc(&url, '/');
    append_encoded(&url, req->source_name, true);
    const struct credential *c = &az->account.credential;
    if (c->kind == CREDENTIAL_SAS && c->sas[SERVICE_BLOB]) { /* the source is read with it, too */
        buf_putc(&url, '?');
        buf_puts(&url, c->sas[SERVICE_BLOB]);
    }
    bool ok = !url.failed && http_call_field(http, "x-ms-copy-source", buf_str(&url));
    buf_release(&url);
    return ok;
}
