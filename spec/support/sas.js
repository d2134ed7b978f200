// Makes an account's SAS with the emulator's key, by the official client: expires=SECONDS from now, permissions=, services=,
// types= as they stand in it.
"use strict";

const storage = require("@azure/storage-blob");

const given = Object.fromEntries(process.argv.slice(2).map((word) => word.split("=")));
const key = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
const credential = new storage.StorageSharedKeyCredential("devstoreaccount1", key);
const now = Date.now();

console.log(storage.generateAccountSASQueryParameters({
  startsOn: new Date(now - 7200 * 1000),
  expiresOn: new Date(now + Number(given.expires || 3600) * 1000),
  permissions: storage.AccountSASPermissions.parse(given.permissions || "rwdxlacup"),
  services: given.services || "bqt",
  resourceTypes: given.types || "sco",
  version: "2021-12-02",
}, credential).toString());
