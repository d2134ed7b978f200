// member: a member of the same fleet, written with the official client and the classic recipe alone.
//
//   AZURE_STORAGE_CONNECTION_STRING=... node member.js NUMBER PARTIES
"use strict";

globalThis.crypto ??= require("crypto").webcrypto; // Node 18 has it, but not there
const { BlobServiceClient } = require("@azure/storage-blob");

const FLAG = "startupWorkDone_";
const FLAG_BYTES = 512;
const LOOK_EACH_MS = 200;
const LOOKS_MAX = 300;

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function flagsUp(container) {
  let count = 0;
  for await (const item of container.listBlobsFlat({ prefix: FLAG })) {
    if (/^startupWorkDone_\d+$/.test(item.name)) count += 1;
  }
  return count;
}

async function main(number, parties) {
  const service = BlobServiceClient.fromConnectionString(process.env.AZURE_STORAGE_CONNECTION_STRING);
  const container = service.getContainerClient("flags");
  await container.createIfNotExists();
  await pause(1000); // the start-up work
  await container.getPageBlobClient(FLAG + number).create(FLAG_BYTES);
  for (let look = 0; look < LOOKS_MAX; look += 1) {
    if ((await flagsUp(container)) >= parties) {
      console.log(`member ${number}: all ${parties} are ready`);
      return;
    }
    await pause(LOOK_EACH_MS);
  }
  throw new Error("somebody did not come");
}

main(process.argv[2], Number(process.argv[3])).catch((error) => {
  console.error(error.message);
  process.exit(1);
});
