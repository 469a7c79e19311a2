package pod

import (
	"time"

	"quarry.dev/quarry/internal/artifact"
)

// SetBucket lets a test serve from a folder.
func (o *Options) SetBucket(b artifact.Bucket) { o.bucket = b }

// SetKeysInterval lets a test look at the keys more often.
func (o *Options) SetKeysInterval(every time.Duration) { o.keysInterval = every }
