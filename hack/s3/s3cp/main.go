// Command s3cp makes buckets and moves objects, for the demo and the end-to-end tests. The server and the credentials
// come from S3_ENDPOINT, S3_ACCESS_KEY and S3_SECRET_KEY (`hack/s3/s3 env` prints them).
//
//	s3cp mb BUCKET...             make buckets; those that exist are left alone
//	s3cp put FOLDER BUCKET[/P]    upload the folder's files; a key is P/ and the path inside the folder, with slashes
//	s3cp cp FILE BUCKET/KEY       upload one file
//	s3cp rm BUCKET/KEY...         delete objects
//	s3cp empty BUCKET...          delete every object of the buckets that exist
//	s3cp ls BUCKET[/PREFIX]       list size and key of every object
//	s3cp cat BUCKET/KEY           print one object
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "s3cp:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) < 2 {
		return errors.New("usage: s3cp mb BUCKET... | put FOLDER BUCKET[/PREFIX] | cp FILE BUCKET/KEY | rm BUCKET/KEY... | ls BUCKET[/PREFIX] | cat BUCKET/KEY")
	}
	client, err := connect(os.Getenv("S3_ENDPOINT"))
	if err != nil {
		return err
	}
	command, rest := args[0], args[1:]
	switch {
	case command == "mb":
		return each(rest, func(bucket string) error { return makeBucket(ctx, client, bucket) })
	case command == "empty":
		return each(rest, func(bucket string) error { return emptyBucket(ctx, client, bucket) })
	case command == "rm":
		return each(rest, func(target string) error {
			bucket, key := split(target)
			return client.RemoveObject(ctx, bucket, key, minio.RemoveObjectOptions{})
		})
	case command == "put" && len(rest) == 2:
		bucket, prefix := split(rest[1])
		return putFolder(ctx, client, rest[0], bucket, prefix)
	case command == "cp" && len(rest) == 2:
		bucket, key := split(rest[1])
		return putFile(ctx, client, rest[0], bucket, key)
	case command == "ls" && len(rest) == 1:
		bucket, prefix := split(rest[0])
		return list(ctx, client, bucket, prefix)
	case command == "cat" && len(rest) == 1:
		bucket, key := split(rest[0])
		return cat(ctx, client, bucket, key)
	}
	return fmt.Errorf("unknown command or wrong number of arguments: %q", args)
}

func connect(endpoint string) (*minio.Client, error) {
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

// split cuts BUCKET/KEY; the key is empty when there is none.
func split(target string) (bucket, key string) {
	bucket, key, _ = strings.Cut(target, "/")
	return bucket, key
}

func each(targets []string, do func(string) error) error {
	for _, target := range targets {
		if err := do(target); err != nil {
			return fmt.Errorf("%s: %w", target, err)
		}
	}
	return nil
}

func makeBucket(ctx context.Context, client *minio.Client, bucket string) error {
	exists, err := client.BucketExists(ctx, bucket)
	if err != nil || exists {
		return err
	}
	return client.MakeBucket(ctx, bucket, minio.MakeBucketOptions{})
}

func emptyBucket(ctx context.Context, client *minio.Client, bucket string) error {
	exists, err := client.BucketExists(ctx, bucket)
	if err != nil || !exists {
		return err
	}
	for object := range client.ListObjects(ctx, bucket, minio.ListObjectsOptions{Recursive: true}) {
		if object.Err != nil {
			return object.Err
		}
		if err := client.RemoveObject(ctx, bucket, object.Key, minio.RemoveObjectOptions{}); err != nil {
			return err
		}
	}
	return nil
}

func putFolder(ctx context.Context, client *minio.Client, folder, bucket, prefix string) error {
	return filepath.WalkDir(folder, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		if !entry.Type().IsRegular() { // a link may lead out of the folder, to what nobody meant to publish
			fmt.Fprintf(os.Stderr, "%s is left out: it is no regular file\n", file)
			return nil
		}
		relative, err := filepath.Rel(folder, file)
		if err != nil {
			return err
		}
		return putFile(ctx, client, file, bucket, path.Join(prefix, filepath.ToSlash(relative)))
	})
}

func putFile(ctx context.Context, client *minio.Client, file, bucket, key string) error {
	if key == "" || strings.HasSuffix(key, "/") {
		key += filepath.Base(file)
	}
	if _, err := client.FPutObject(ctx, bucket, key, file, minio.PutObjectOptions{}); err != nil {
		return fmt.Errorf("%s to %s/%s: %w", file, bucket, key, err)
	}
	return nil
}

func list(ctx context.Context, client *minio.Client, bucket, prefix string) error {
	for object := range client.ListObjects(ctx, bucket, minio.ListObjectsOptions{Prefix: prefix, Recursive: true}) {
		if object.Err != nil {
			return object.Err
		}
		fmt.Printf("%10d  %s\n", object.Size, object.Key)
	}
	return nil
}

func cat(ctx context.Context, client *minio.Client, bucket, key string) error {
	object, err := client.GetObject(ctx, bucket, key, minio.GetObjectOptions{})
	if err != nil {
		return err
	}
	defer func() { _ = object.Close() }() // only read from
	_, err = io.Copy(os.Stdout, object)
	return err
}
