package pod

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"time"
)

// keysInterval is how often the mounted keys of the stack are looked at; a kubelet takes about a minute to renew them.
const keysInterval = 10 * time.Second

// whileKeysLast returns a context that ends when a mounted key file is no longer what this process has started with. A pair
// that was made anew, because its Secret or its Index was deleted, reaches pods one by one, and a pod that starts meanwhile
// may still get the old half: it would be refused for ever, or refuse all. It restarts instead. A file that is gone says
// nothing: the mounted one outlives its Secret.
func (b *base) whileKeysLast(ctx context.Context, files ...string) (context.Context, context.CancelFunc, error) {
	first := make([][]byte, len(files))
	for i, file := range files {
		var err error
		if first[i], err = readFile(b.options.Etc, file); err != nil {
			return nil, nil, err
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		ticker := time.NewTicker(b.options.keysEvery())
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			for i, file := range files {
				now, err := os.ReadFile(filepath.Join(b.options.Etc, file))
				if err == nil && !bytes.Equal(now, first[i]) {
					b.options.Log.Info("the keys of this stack were made anew: ending, to start with them", "file", file)
					cancel()
					return
				}
			}
		}
	}()
	return ctx, cancel, nil
}

func (o Options) keysEvery() time.Duration {
	if o.keysInterval > 0 {
		return o.keysInterval
	}
	return keysInterval
}
