// The official table client as the other party:
//   list TABLE            each entity as it came, types beside values, a line of JSON each
//   put TABLE JSON        creates the table and an entity; bytes are {"type":"Binary","value":BASE64}
//   batch TABLE JSON      submits a list of [ACTION, ENTITY]
"use strict";

const { TableClient } = require("@azure/data-tables");

async function main([what, name, text]) {
  const table = TableClient.fromConnectionString(process.env.AZURE_STORAGE_CONNECTION_STRING, name, {
    allowInsecureConnection: true,
  });
  if (what === "list") {
    for await (const entity of table.listEntities({ disableTypeConversion: true })) {
      const { etag, timestamp, ...rest } = entity;
      if (!etag || !timestamp) throw new Error("an entity without its version");
      console.log(JSON.stringify(rest, Object.keys(rest).concat("type", "value").sort()));
    }
  } else if (what === "put") {
    await table.createTable();
    await table.createEntity(JSON.parse(text));
  } else if (what === "batch") {
    await table.submitTransaction(JSON.parse(text));
  } else {
    throw new Error("unknown: " + what);
  }
}

main(process.argv.slice(2)).catch((error) => {
  console.error(error.message);
  process.exit(1);
});
