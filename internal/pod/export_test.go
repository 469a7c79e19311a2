package pod

import "quarry.dev/quarry/internal/artifact"

// SetBucket lets a test serve from a folder.
func (o *Options) SetBucket(b artifact.Bucket) { o.bucket = b }
