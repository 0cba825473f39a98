// minio-go against a store: put and get with and without a known length, multipart, presigned URLs, copy, compose, listing,
// removal. Usage: e2e URL BUCKET; keys come from the environment. Prints "done" at the end.
package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

func must(what string, err error) {
	if err != nil {
		fmt.Printf("%s: %v\n", what, err)
		os.Exit(1)
	}
}

func expect(what string, good bool) {
	if !good {
		fmt.Println("wrong: " + what)
		os.Exit(1)
	}
}

func content(size int) []byte {
	seed := sha256.Sum256([]byte(fmt.Sprint(size)))
	return bytes.Repeat(seed[:], size/32+1)[:size]
}

// unknown hides the length of a reader from the client.
type unknown struct{ io.Reader }

func main() {
	endpoint, err := url.Parse(os.Args[1])
	must("URL", err)
	bucket, ctx := os.Args[2], context.Background()
	client, err := minio.New(endpoint.Host, &minio.Options{
		Creds:        credentials.NewStaticV4(os.Getenv("AWS_ACCESS_KEY_ID"), os.Getenv("AWS_SECRET_ACCESS_KEY"), ""),
		Secure:       endpoint.Scheme == "https",
		BucketLookup: minio.BucketLookupPath,
	})
	must("New", err)

	there, err := client.BucketExists(ctx, bucket)
	must("BucketExists", err)
	expect("the bucket exists", there)
	must("MakeBucket", client.MakeBucket(ctx, bucket+"-2", minio.MakeBucketOptions{}))
	must("RemoveBucket", client.RemoveBucket(ctx, bucket+"-2"))

	get := func(key string) []byte {
		object, err := client.GetObject(ctx, bucket, key, minio.GetObjectOptions{})
		must("GetObject "+key, err)
		body, err := io.ReadAll(object)
		must("read "+key, err)
		return body
	}
	for key, size := range map[string]int{"empty": 0, "small file+é": 4096, "middle": 3_000_000, "parts": 40 << 20} {
		info, err := client.PutObject(ctx, bucket, key, bytes.NewReader(content(size)), int64(size),
			minio.PutObjectOptions{UserMetadata: map[string]string{"Size": fmt.Sprint(size)}})
		must("PutObject "+key, err)
		expect("size of "+key, info.Size == int64(size))
		expect("bytes of "+key, bytes.Equal(get(key), content(size)))
		stat, err := client.StatObject(ctx, bucket, key, minio.StatObjectOptions{})
		must("StatObject", err)
		expect("metadata of "+key, stat.UserMetadata["Size"] == fmt.Sprint(size))
	}
	_, err = client.PutObject(ctx, bucket, "stream", unknown{bytes.NewReader(content(18 << 20))}, -1,
		minio.PutObjectOptions{PartSize: 5 << 20})
	must("PutObject of unknown length", err)
	expect("bytes of the stream", bytes.Equal(get("stream"), content(18<<20)))
	object, err := client.GetObject(ctx, bucket, "parts", minio.GetObjectOptions{})
	must("GetObject", err)
	piece := make([]byte, 1000)
	_, err = object.ReadAt(piece, 33_000_000)
	must("ReadAt", err)
	expect("a piece in the middle", bytes.Equal(piece, content(40 << 20)[33_000_000:33_001_000]))

	get2, err := client.PresignedGetObject(ctx, bucket, "middle", time.Minute, nil)
	must("PresignedGetObject", err)
	answer, err := http.Get(get2.String())
	must("GET of a presigned URL", err)
	body, _ := io.ReadAll(answer.Body)
	expect("presigned GET", answer.StatusCode == 200 && bytes.Equal(body, content(3_000_000)))
	put, err := client.PresignedPutObject(ctx, bucket, "presigned", time.Minute)
	must("PresignedPutObject", err)
	request, _ := http.NewRequest(http.MethodPut, put.String(), bytes.NewReader(content(5000)))
	answer, err = http.DefaultClient.Do(request)
	must("PUT to a presigned URL", err)
	expect("presigned PUT", answer.StatusCode == 200 && bytes.Equal(get("presigned"), content(5000)))

	_, err = client.CopyObject(ctx, minio.CopyDestOptions{Bucket: bucket, Object: "copy"},
		minio.CopySrcOptions{Bucket: bucket, Object: "small file+é"})
	must("CopyObject", err)
	expect("bytes of the copy", bytes.Equal(get("copy"), content(4096)))
	_, err = client.ComposeObject(ctx, minio.CopyDestOptions{Bucket: bucket, Object: "composed"},
		minio.CopySrcOptions{Bucket: bucket, Object: "stream"}, minio.CopySrcOptions{Bucket: bucket, Object: "middle"})
	must("ComposeObject", err)
	expect("bytes of the composition", bytes.Equal(get("composed"), append(content(18<<20), content(3_000_000)...)))

	_, err = client.StatObject(ctx, bucket, "nothing", minio.StatObjectOptions{})
	expect("NoSuchKey", minio.ToErrorResponse(err).Code == "NoSuchKey")
	keys := ""
	for info := range client.ListObjects(ctx, bucket, minio.ListObjectsOptions{Recursive: true, MaxKeys: 3}) {
		must("ListObjects", info.Err)
		keys += info.Key + ","
	}
	expect("keys "+keys, keys == "composed,copy,empty,middle,parts,presigned,small file+é,stream,")
	objects := make(chan minio.ObjectInfo)
	go func() {
		defer close(objects)
		for info := range client.ListObjects(ctx, bucket, minio.ListObjectsOptions{Recursive: true}) {
			objects <- info
		}
	}()
	for problem := range client.RemoveObjects(ctx, bucket, objects, minio.RemoveObjectsOptions{}) {
		must("RemoveObjects "+problem.ObjectName, problem.Err)
	}
	for info := range client.ListObjects(ctx, bucket, minio.ListObjectsOptions{Recursive: true}) {
		expect("left: "+info.Key, false)
	}
	fmt.Println("done")
}
