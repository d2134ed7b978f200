'use strict';
// sdk_cycle.js: the same requests through the official SDK, again and again.
//
//   node sdk_cycle.js blob CYCLES            writes a blob and reads it
//   node sdk_cycle.js lease CYCLES           renews a blob's lease
//   node sdk_cycle.js heads TIMES AT_ONCE    looks at a blob, so many at once
//
// On AZURE_STORAGE_CONNECTION_STRING; prints the CPU time of the cycles alone.
const { BlobServiceClient } = require('@azure/storage-blob');

const WARM_UP = 200;
const BODY = 'a flag, a lock, a few bytes of state: what coordination writes..';
const service = BlobServiceClient.fromConnectionString(process.env.AZURE_STORAGE_CONNECTION_STRING);
const blob = service.getContainerClient('bench').getBlockBlobClient('cycle');

const kinds = {
  async blob() {
    return { requests: 2, warmUp: WARM_UP, once: async () => {
      await blob.upload(BODY, BODY.length);
      const answer = await blob.download();
      let text = '';
      for await (const part of answer.readableStreamBody) text += part;
      if (text !== BODY) throw new Error('the blob came back changed');
    } };
  },
  async lease() {
    const lease = blob.getBlobLeaseClient();
    await lease.acquireLease(60);
    return { requests: 1, warmUp: WARM_UP, once: () => lease.renewLease() };
  },
  async heads(atOnce) {
    const once = () => Promise.all(Array.from({ length: atOnce }, () => blob.getProperties()));
    return { requests: atOnce, warmUp: 1, once };
  },
};

async function main() {
  const [what, count, atOnce] = process.argv.slice(2);
  const kind = await kinds[what](Number(atOnce));
  for (let i = 0; i < kind.warmUp; i++) await kind.once();
  const cpu = process.cpuUsage(), wall = performance.now();
  for (let i = 0; i < Number(count); i++) await kind.once();
  const used = process.cpuUsage(cpu);
  console.log(JSON.stringify({
    requests: Number(count) * kind.requests, cpu_ms: (used.user + used.system) / 1e3, wall_ms: performance.now() - wall,
  }));
}

main();
