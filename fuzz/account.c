/* account.c -- connection strings. A refusal never shows a key. */
#include "fuzz.h"
#include "store/azure/account.h"

#define KEY "c2VjcmV0LXNlY3JldC1zZWNyZXQ="

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *text = fuzz_text(data, size);
    struct account account;
    struct error err;
    error_clear(&err);
    if (account_parse(&account, text, &err)) {
        must(account.blob.path_at <= strlen(account.blob.base));
        must(account.queue.path_at <= strlen(account.queue.base));
        must(account.table.path_at <= strlen(account.table.base));
    } else {
        must(err.code != ERR_OK);
        must(!strstr(error_sentence(&err), KEY));
    }
    account_release(&account);
    free(text);
    return 0;
}
