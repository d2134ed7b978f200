// The official client as the other party:
//   list CONTAINER        name, type, length and metadata of each blob, a line of JSON each
//   put CONTAINER NAME TEXT [KEY=VALUE]      writes a block blob
//   flag CONTAINER NAME   makes an empty page blob of 512 bytes, as the classic start-up recipe does
//   lease ACTION CONTAINER NAME ID [ID]      acquire (60 s), renew, change, release, break; prints "ok" or the refusal
//   write CONTAINER NAME ID      writes the blob under a lease id, "-": without; prints the same
//   blocks CONTAINER NAME PART...  writes a block blob of these blocks
//   get CONTAINER NAME    the length and the content of a blob
//   sign KEY TEXT         the signature of a text
"use strict";

globalThis.crypto ??= require("crypto").webcrypto; // Node 18 has it, but not there
const { BlobServiceClient, StorageSharedKeyCredential } = require("@azure/storage-blob");

const refusal = (error) => error.code || (error.details && error.details.errorCode) || error.message;

async function lease(service, [action, container, name, id, next]) {
  const client = service.getContainerClient(container);
  const holder = (name === "-" ? client : client.getBlobClient(name)).getBlobLeaseClient(id);
  const calls = {
    acquire: () => holder.acquireLease(60),
    renew: () => holder.renewLease(),
    change: () => holder.changeLease(next),
    release: () => holder.releaseLease(),
    break: () => holder.breakLease(0),
  };
  await calls[action]().then(() => console.log("ok"), (error) => console.log(refusal(error)));
}

async function write(service, [container, name, id]) {
  const conditions = id === "-" ? undefined : { leaseId: id };
  const blob = service.getContainerClient(container).getBlockBlobClient(name);
  await blob.upload("x", 1, { conditions }).then(() => console.log("ok"), (error) => console.log(refusal(error)));
}

async function main([what, ...args]) {
  if (what === "sign") {
    console.log(new StorageSharedKeyCredential("account", args[0]).computeHMACSHA256(args[1]));
    return;
  }
  const service = BlobServiceClient.fromConnectionString(process.env.AZURE_STORAGE_CONNECTION_STRING);
  const container = service.getContainerClient(args[0]);
  if (what === "lease") {
    await lease(service, args);
  } else if (what === "write") {
    await write(service, args);
  } else if (what === "list") {
    for await (const item of container.listBlobsFlat({ includeMetadata: true })) {
      const { blobType, contentLength } = item.properties;
      console.log(JSON.stringify([item.name, blobType, contentLength, item.metadata || {}]));
    }
  } else if (what === "flag") {
    await container.getPageBlobClient(args[1]).create(512, { conditions: { ifNoneMatch: "*" } });
  } else if (what === "blocks") {
    const blob = container.getBlockBlobClient(args[1]);
    const ids = args.slice(2).map((_, i) => Buffer.from("block" + String(i).padStart(3, "0")).toString("base64"));
    for (const [i, id] of ids.entries()) await blob.stageBlock(id, args[2 + i], Buffer.byteLength(args[2 + i]));
    await blob.commitBlockList(ids);
  } else if (what === "get") {
    const content = await container.getBlobClient(args[1]).downloadToBuffer();
    console.log(content.length + "\n" + content);
  } else if (what === "put") {
    const [, name, text, pair] = args;
    const metadata = pair ? Object.fromEntries([pair.split("=")]) : undefined;
    await container.getBlockBlobClient(name).upload(text, Buffer.byteLength(text), { metadata });
  } else {
    throw new Error("unknown: " + what);
  }
}

main(process.argv.slice(2)).catch((error) => {
  console.error(error.message);
  process.exit(1);
});
