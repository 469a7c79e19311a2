package main

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"golang.org/x/sync/errgroup"

	"quarry.dev/quarry/internal/beir"
	"quarry.dev/quarry/internal/local"
)

// requests are under way at once.
const requests = 16

func connect() (*minio.Client, error) {
	endpoint := os.Getenv("S3_ENDPOINT")
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" {
		return nil, fmt.Errorf("S3_ENDPOINT %q is not a URL like http://HOST:PORT: source the output of hack/s3/s3 env", endpoint)
	}
	return minio.New(u.Host, &minio.Options{
		Creds:        credentials.NewStaticV4(os.Getenv("S3_ACCESS_KEY"), os.Getenv("S3_SECRET_KEY"), ""),
		Secure:       u.Scheme == "https",
		Region:       "us-east-1",
		BucketLookup: minio.BucketLookupPath,
	})
}

// put writes the documents, and then deletes what else is below the prefix.
func put(ctx context.Context, dir, target string) error {
	set, err := beir.Read(dir)
	if err != nil {
		return err
	}
	client, err := connect()
	if err != nil {
		return err
	}
	bucket, prefix, _ := strings.Cut(target, "/")
	meter, wanted := local.NewMeter(os.Stderr, false), map[string]bool{}
	var done atomic.Int64
	started := time.Now()
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(requests)
	for _, d := range set.Documents {
		wanted[prefix+d.Key] = true
		group.Go(func() error {
			_, err := client.PutObject(ctx, bucket, prefix+d.Key, strings.NewReader(d.Text), int64(len(d.Text)), minio.PutObjectOptions{ContentType: "text/plain"})
			if err != nil {
				return fmt.Errorf("put %s/%s%s: %w", bucket, prefix, d.Key, err)
			}
			meter.Progress("objects", int(done.Add(1)), len(set.Documents))
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	removed, err := remove(context.WithoutCancel(ctx), client, bucket, prefix, func(key string) bool { return !wanted[key] })
	fmt.Printf("   %d objects in %.1f s, %d others deleted\n", len(set.Documents), time.Since(started).Seconds(), removed)
	return err
}

func clearPrefix(ctx context.Context, target string) error {
	client, err := connect()
	if err != nil {
		return err
	}
	bucket, prefix, _ := strings.Cut(target, "/")
	_, err = remove(ctx, client, bucket, prefix, func(string) bool { return true })
	return err
}

// remove deletes the objects below the prefix that unwanted names.
func remove(ctx context.Context, client *minio.Client, bucket, prefix string, unwanted func(key string) bool) (n int, err error) {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(requests)
	for object := range client.ListObjects(ctx, bucket, minio.ListObjectsOptions{Prefix: prefix, Recursive: true}) {
		if object.Err != nil {
			return n, object.Err
		}
		if !unwanted(object.Key) {
			continue
		}
		n++
		group.Go(func() error { return client.RemoveObject(ctx, bucket, object.Key, minio.RemoveObjectOptions{}) })
	}
	return n, group.Wait()
}
