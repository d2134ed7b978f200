'use strict';
// sdk_lock.js: a blob's lease as a lock, through the official SDK.
//
//   node sdk_lock.js cycle COUNT           takes the lease and gives it back, again and again
//   node sdk_lock.js hold TTL_S POLL_S     says that it holds the lease, and renews it until it is killed
//
// On AZURE_STORAGE_CONNECTION_STRING. This is the loop that programs write with it: no fence, no holder in the
// metadata, nothing that stops the work when the lease is lost; who does not get it asks again each POLL_S.
const { BlobServiceClient, StorageRetryPolicyType } = require('@azure/storage-blob');

const WARM_UP = 50;
const LEASE_S = 15;
const service = BlobServiceClient.fromConnectionString(process.env.AZURE_STORAGE_CONNECTION_STRING,
  { retryOptions: { retryPolicyType: StorageRetryPolicyType.FIXED, maxTries: 1 } });
const blob = service.getContainerClient('bench').getBlockBlobClient('lock');
const sleep = (seconds) => new Promise((resolve) => setTimeout(resolve, seconds * 1e3));

async function make() {
  await service.getContainerClient('bench').createIfNotExists();
  await blob.upload('', 0, { conditions: { ifNoneMatch: '*' } }).catch((err) => {
    if (err.statusCode !== 409 && err.statusCode !== 412) throw err;
  });
}

const kinds = {
  async cycle(count) {
    let requests = 0;
    const lease = blob.getBlobLeaseClient();
    const once = async () => {
      await lease.acquireLease(LEASE_S);
      await lease.releaseLease();
      requests += 2;
    };
    for (let i = 0; i < WARM_UP; i++) await once();
    requests = 0;
    const each = [];
    const cpu = process.cpuUsage(), began = performance.now();
    for (let i = 0; i < count; i++) {
      const at = performance.now();
      await once();
      each.push(performance.now() - at);
    }
    const used = process.cpuUsage(cpu), wall = performance.now() - began;
    each.sort((a, b) => a - b);
    console.log(JSON.stringify({
      cycles: count, median_ms: each[count >> 1], worst_ms: each[count - 1], cpu_ms: (used.user + used.system) / 1e3,
      wall_ms: wall, requests,
    }));
  },
  async hold(ttl, poll) {
    const lease = blob.getBlobLeaseClient();
    const take = () => lease.acquireLease(ttl).then(() => true, (err) => {
      if (err.statusCode !== 409) throw err;
      return false;
    });
    while (!await take()) await sleep(poll);
    console.log('{"holds":true}');
    for (;;) {
      await sleep(ttl / 3);
      await lease.renewLease();
    }
  },
};

async function main() {
  const [what, ...numbers] = process.argv.slice(2);
  await make();
  await kinds[what](...numbers.map(Number));
}

main();
