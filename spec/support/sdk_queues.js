// The official queue client as the other party:
//   send QUEUE JSON           makes the queue and puts each text of a list
//   peek QUEUE                the texts of all visible messages, a line of JSON each
//   receive QUEUE             takes one for 100 s: its text and dequeue count, in JSON
//   delete QUEUE ID RECEIPT   deletes; prints "ok" or the code it was refused with
"use strict";

const { QueueServiceClient } = require("@azure/storage-queue");

async function main([what, name, ...args]) {
  const queue = QueueServiceClient.fromConnectionString(process.env.AZURE_STORAGE_CONNECTION_STRING)
    .getQueueClient(name);
  if (what === "send") {
    await queue.createIfNotExists();
    for (const text of JSON.parse(args[0])) await queue.sendMessage(text);
  } else if (what === "peek") {
    const answer = await queue.peekMessages({ numberOfMessages: 32 });
    for (const item of answer.peekedMessageItems) console.log(JSON.stringify(item.messageText));
  } else if (what === "receive") {
    const [item] = (await queue.receiveMessages({ visibilityTimeout: 100 })).receivedMessageItems;
    console.log(JSON.stringify(item ? [item.messageText, item.dequeueCount] : null));
  } else if (what === "delete") {
    console.log(await queue.deleteMessage(args[0], args[1]).then(() => "ok", (error) => error.code));
  } else {
    throw new Error("unknown: " + what);
  }
}

main(process.argv.slice(2)).catch((error) => {
  console.error(error.message);
  process.exit(1);
});
