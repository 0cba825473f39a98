// The AWS SDK for JavaScript against a store: put and get of strings, buffers and streams, presigned PUT and GET, multipart by
// lib-storage, listing, deletion. Usage: main.mjs URL BUCKET; keys come from the environment. Prints "done" at the end.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { Readable } from "node:stream";
import {
  CopyObjectCommand, DeleteObjectsCommand, GetObjectCommand, HeadObjectCommand, ListObjectsV2Command, PutObjectCommand,
  S3Client, paginateListObjectsV2,
} from "@aws-sdk/client-s3";
import { Upload } from "@aws-sdk/lib-storage";
import { getSignedUrl } from "@aws-sdk/s3-request-presigner";

const [endpoint, Bucket] = process.argv.slice(2);
const client = new S3Client({ endpoint, region: "us-east-1", forcePathStyle: true });
const bytes = (size) => {
  const piece = createHash("sha256").update(String(size)).digest();
  return Buffer.alloc(size, piece);
};
const got = async (Key) =>
  Buffer.from(await (await client.send(new GetObjectCommand({ Bucket, Key }))).Body.transformToByteArray());

// A string, a buffer, a stream of known and of unknown length.
await client.send(new PutObjectCommand({ Bucket, Key: "text", Body: "Grüße", Metadata: { Author: "somebody" } }));
assert.equal((await got("text")).toString(), "Grüße");
const head = await client.send(new HeadObjectCommand({ Bucket, Key: "text" }));
assert.equal(head.Metadata.author, "somebody");
await client.send(new PutObjectCommand({ Bucket, Key: "buffer +%", Body: bytes(100_000) }));
assert.deepEqual(await got("buffer +%"), bytes(100_000));
await client.send(new PutObjectCommand({ Bucket, Key: "empty", Body: "" }));
assert.equal((await got("empty")).length, 0);
const stream = bytes(700_000);
await client.send(new PutObjectCommand({
  Bucket, Key: "stream", Body: Readable.from([stream.subarray(0, 300_000), stream.subarray(300_000)]),
  ContentLength: stream.length,
}));
assert.deepEqual(await got("stream"), stream);

// Presigned URLs, used by something that knows nothing of S3.
const putUrl = await getSignedUrl(client, new PutObjectCommand({ Bucket, Key: "presigned" }), { expiresIn: 60 });
const put = await fetch(putUrl, { method: "PUT", body: bytes(50_000) });
assert.equal(put.status, 200, `presigned PUT: ${await put.text()}`);
const getUrl = await getSignedUrl(client, new GetObjectCommand({ Bucket, Key: "presigned" }), { expiresIn: 60 });
const answer = await fetch(getUrl);
assert.equal(answer.status, 200);
assert.deepEqual(Buffer.from(await answer.arrayBuffer()), bytes(50_000));
assert.equal((await fetch(getUrl.replace("presigned?", "text?"))).status, 403);

// Multipart from a stream whose length nobody knows.
const large = bytes(17 * 1024 * 1024);
const pieces = [];
for (let i = 0; i < large.length; i += 100_000) pieces.push(large.subarray(i, i + 100_000));
const upload = new Upload({ client, params: { Bucket, Key: "large", Body: Readable.from(pieces) } });
const done = await upload.done();
assert.match(done.ETag, /-4"$/);
assert.deepEqual(await got("large"), large);
const part = await client.send(new GetObjectCommand({ Bucket, Key: "large", Range: "bytes=6000000-6000099" }));
assert.deepEqual(Buffer.from(await part.Body.transformToByteArray()), large.subarray(6000000, 6000100));

// Copy with a source that the SDK sends unescaped, conditional put, errors, listing, deletion.
await client.send(new CopyObjectCommand({ Bucket, Key: "copy", CopySource: `/${Bucket}/buffer%20%2B%25` }));
assert.deepEqual(await got("copy"), bytes(100_000));
await assert.rejects(client.send(new PutObjectCommand({ Bucket, Key: "text", Body: "x", IfNoneMatch: "*" })),
  { name: "PreconditionFailed" });
await assert.rejects(client.send(new GetObjectCommand({ Bucket, Key: "nothing" })), { name: "NoSuchKey" });
const keys = [];
for await (const page of paginateListObjectsV2({ client, pageSize: 3 }, { Bucket })) {
  keys.push(...page.Contents.map((o) => o.Key));
}
assert.deepEqual(keys, ["buffer +%", "copy", "empty", "large", "presigned", "stream", "text"]);
const deleted = await client.send(new DeleteObjectsCommand({ Bucket, Delete: { Objects: keys.map((Key) => ({ Key })) } }));
assert.equal(deleted.Deleted.length, keys.length);
assert.equal((await client.send(new ListObjectsV2Command({ Bucket }))).KeyCount, 0);
console.log("done");
