package artifact

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"
)

const tempPrefix = ".quarry-tmp-"

// dir is a Bucket over a local folder: a key is a relative path with slashes. ETags are content digests. Conditions hold
// within one process.
type dir struct {
	root string
	mu   *sync.Mutex
}

// NewDir returns the folder at path as a Bucket, for local runs and tests. The folder is made by the first Put.
func NewDir(path string) Bucket { return &dir{root: path, mu: &sync.Mutex{}} }

func (d *dir) path(key string) (string, error) {
	if !fs.ValidPath(key) || key == "." || strings.Contains(key, `\`) || strings.Contains(key, "\x00") {
		return "", fmt.Errorf("key %q: is no relative path of a local folder: rename it, without empty, . or .. parts", key)
	}
	return filepath.Join(d.root, filepath.FromSlash(key)), nil
}

func (d *dir) load(key string) ([]byte, Info, error) {
	path, err := d.path(key)
	if err != nil {
		return nil, Info{}, err
	}
	return load(path, key)
}

func load(path, key string) ([]byte, Info, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, Info{}, fmt.Errorf("get %q: %w", key, ErrNotFound)
	}
	if err != nil {
		return nil, Info{}, err
	}
	stat, err := os.Stat(path)
	if err != nil {
		return nil, Info{}, err
	}
	etag := Digest(data)[len(digestPrefix):]
	return data, Info{Key: key, ETag: etag, Size: int64(len(data)), Modified: stat.ModTime().UTC()}, nil
}

func (d *dir) Get(ctx context.Context, key string) ([]byte, Info, error) {
	return ReadAll(ctx, d, key, Read{})
}

func (d *dir) Open(ctx context.Context, key string, r Read) (io.ReadCloser, Info, error) {
	if err := ctx.Err(); err != nil {
		return nil, Info{}, err
	}
	data, info, err := d.load(key)
	if err != nil {
		return nil, Info{}, err
	}
	if r.IfMatch != "" && r.IfMatch != info.ETag {
		return nil, Info{}, fmt.Errorf("get %q: %w", key, ErrPrecondition)
	}
	part, err := r.window(key, data)
	return openBytes(part), info, err
}

func (d *dir) Head(ctx context.Context, key string) (Info, error) {
	_, info, err := d.load(key)
	return info, err
}

func (d *dir) Put(ctx context.Context, key string, body []byte, c Condition) (string, error) {
	path, err := d.path(key)
	if err != nil {
		return "", err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if c != (Condition{}) {
		_, info, err := d.load(key)
		exists := err == nil
		if err != nil && !errors.Is(err, ErrNotFound) {
			return "", err
		}
		if (c.IfNoneMatch && exists) || (c.IfMatch != "" && info.ETag != c.IfMatch) {
			return "", fmt.Errorf("put %q: %w", key, ErrPrecondition)
		}
	}
	if err := writeAtomically(path, body); err != nil {
		return "", err
	}
	return Digest(body)[len(digestPrefix):], nil
}

// writeAtomically replaces path whole: a reader sees the old bytes or the new ones.
func writeAtomically(path string, body []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), tempPrefix)
	if err != nil {
		return err
	}
	_, err = f.Write(body)
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		err = errors.Join(err, os.Remove(f.Name()))
	}
	return err
}

func (d *dir) List(ctx context.Context, prefix string, yield func(Info) error) error {
	var keys []string
	err := filepath.WalkDir(d.root, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(d.root, path)
		if err != nil {
			return err
		}
		key := filepath.ToSlash(rel)
		if e.Type().IsRegular() && !strings.HasPrefix(e.Name(), tempPrefix) && strings.HasPrefix(key, prefix) {
			keys = append(keys, key)
		}
		return ctx.Err()
	})
	if err != nil {
		return fmt.Errorf("list: %w", err)
	}
	slices.Sort(keys)
	for _, key := range keys {
		_, info, err := d.load(key)
		if !utf8.ValidString(key) { // no key, but listed all the same: who lists tells of it, and of the others
			_, info, err = load(filepath.Join(d.root, filepath.FromSlash(key)), key)
		}
		if err != nil {
			return err
		}
		if err := yield(info); err != nil {
			return err
		}
	}
	return nil
}

func (d *dir) Delete(ctx context.Context, key string) error {
	path, err := d.path(key)
	if err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return ctx.Err()
}
