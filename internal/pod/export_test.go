package pod

import (
	"time"

	"quarry.dev/quarry/internal/artifact"
)

// SetBucket lets a test serve from a folder.
func (o *Options) SetBucket(b artifact.Bucket) { o.bucket = b }

// SetRerankerPatience lets a test wait less for a reranker that does not come.
func (o *Options) SetRerankerPatience(d time.Duration) { o.rerankerPatience = d }

// SetKeysInterval lets a test look at the keys more often.
func (o *Options) SetKeysInterval(every time.Duration) { o.keysInterval = every }
