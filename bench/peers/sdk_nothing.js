'use strict';
// sdk_nothing.js: a client made with the official SDK, which asks for nothing and ends.
const { BlobServiceClient } = require('@azure/storage-blob');

BlobServiceClient.fromConnectionString('UseDevelopmentStorage=true');
