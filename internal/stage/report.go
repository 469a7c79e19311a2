package stage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"quarry.dev/quarry/internal/artifact"
)

// Reasons of failures that are not the parser's.
const (
	ReasonChanged      = "Changed"
	ReasonAccessDenied = "AccessDenied"
	ReasonMalformed    = "Malformed"
	ReasonTooLarge     = "TooLarge"
	ReasonEmpty        = "Empty"
	ReasonNoChunks     = "NoChunks"
)

// Failure is one document in quarantine.
type Failure struct {
	Document string `json:"document"`
	Reason   string `json:"reason"`
	Message  string `json:"message"`
}

// Report is what one completion of a stage leaves at reports/<index>/<stage>/<shard>.json. Documents counts all of the
// shard, Failed those of them in quarantine, Reused the chunks (or vectors) that were there already.
type Report struct {
	Stage          string    `json:"stage"`
	Shard          int       `json:"shard"`
	Documents      int64     `json:"documents"`
	Failed         int64     `json:"failed"`
	Chunks         int64     `json:"chunks"`
	Tokens         int64     `json:"tokens"`
	Reused         int64     `json:"reused"`
	Failures       []Failure `json:"failures,omitempty"`
	Manifest       string    `json:"manifest,omitempty"`
	ManifestDigest string    `json:"manifestDigest,omitempty"`
}

// NoChunksError: no document gave a chunk, so there is no index to serve.
type NoChunksError struct{ Documents, Failed int }

func (e *NoChunksError) Error() string {
	return fmt.Sprintf("%s: none of %d documents gave a chunk (%d failed): look at the failures, and at include and exclude of the Corpus",
		ReasonNoChunks, e.Documents, e.Failed)
}

// Env is what the stages of one Index run in.
type Env struct {
	Config Config
	// Source is needed by the chunk stage alone.
	Source    artifact.Bucket
	Artifacts artifact.Bucket
	// Out gets a line of progress every few seconds.
	Out io.Writer
	// Progress, where set, is told of each step: how many documents are chunked, or how many chunks are past a later stage.
	Progress func(stage string, done, total int)
}

func (e Env) shards() int { return max(int(e.Config.Shards), 1) }

// Options of a Job's process.
type Options struct {
	Etc            string
	TerminationLog string
	// Shard is the completion index of the pod; -1 reads JOB_COMPLETION_INDEX.
	Shard int
	Out   io.Writer
}

// Names of the stages, also in report keys and as sub-commands.
const (
	NameChunk         = "chunk"
	NameContextualize = "contextualize"
	NameEmbed         = "embed"
	NameBuild         = "build"
)

// Run is the process of one pod: it opens what the stage needs, runs it, and leaves the termination message, which is
// {"report","digest"} or, after an error, its sentence.
func Run(ctx context.Context, name string, o Options) error {
	key, digest, err := run(ctx, name, o)
	message := []byte(nil)
	if err == nil {
		message, err = json.Marshal(map[string]string{"report": key, "digest": digest})
	}
	if err != nil {
		message = []byte(err.Error())
	}
	if o.TerminationLog == "" {
		return err
	}
	const maxMessage = 4096 // Kubernetes keeps no more
	return errors.Join(err, os.WriteFile(o.TerminationLog, message[:min(len(message), maxMessage)], 0o644))
}

func run(ctx context.Context, name string, o Options) (key, digest string, err error) {
	if o.Shard < 0 {
		if o.Shard, err = strconv.Atoi(os.Getenv("JOB_COMPLETION_INDEX")); err != nil {
			return "", "", fmt.Errorf("JOB_COMPLETION_INDEX: %w: run the stage as an Indexed Job, or pass --shard", err)
		}
	}
	env := Env{Out: o.Out}
	if env.Config, err = ReadConfig(o.Etc); err != nil {
		return "", "", err
	}
	if env.Artifacts, err = env.Config.OpenArtifacts(); err != nil {
		return "", "", err
	}
	var report Report
	switch name {
	case NameChunk:
		if env.Source, err = env.Config.OpenSource(); err != nil {
			return "", "", err
		}
		report, err = Chunk(ctx, env, o.Shard)
	case NameContextualize:
		report, err = Contextualize(ctx, env, o.Shard)
	case NameEmbed:
		report, err = Embed(ctx, env, o.Shard)
	case NameBuild:
		report, err = Build(ctx, env)
	default:
		err = fmt.Errorf("stage: is %q: use chunk, contextualize, embed or build", name)
	}
	if err != nil {
		return "", "", err
	}
	return artifact.ReportKey(env.Config.Index, name, report.Shard), reportDigest(report), nil
}

func reportDigest(r Report) string {
	body, err := json.Marshal(r)
	if err != nil {
		return ""
	}
	return artifact.Digest(body)
}

// leave writes the report; it replaces that of an earlier try.
func (e Env) leave(ctx context.Context, r Report) (Report, error) {
	slices.SortFunc(r.Failures, func(a, b Failure) int { return strings.Compare(a.Document, b.Document) })
	body, err := json.Marshal(r)
	if err != nil {
		return r, err
	}
	_, err = e.Artifacts.Put(ctx, artifact.ReportKey(e.Config.Index, r.Stage, r.Shard), body, artifact.Condition{})
	return r, err
}

func (e Env) readReport(ctx context.Context, stage string, shard int) (r Report, err error) {
	key := artifact.ReportKey(e.Config.Index, stage, shard)
	body, _, err := e.Artifacts.Get(ctx, key)
	if err != nil {
		return Report{}, fmt.Errorf("report of stage %s, shard %d: %w: run that stage first", stage, shard, err)
	}
	if err := json.Unmarshal(body, &r); err != nil {
		return Report{}, fmt.Errorf("report %s: %w: run the stage again", key, err)
	}
	return r, nil
}

const progressInterval = 5 * time.Second

// progress writes one line now and then, and one at the end.
type progress struct {
	out    io.Writer
	tell   func(stage string, done, total int)
	report *Report
	total  int
	last   time.Time
}

func (p *progress) line(done int) {
	if p.tell != nil {
		p.tell(p.report.Stage, done, p.total)
	}
	if p.out == nil || (done < p.total && time.Since(p.last) < progressInterval) {
		return
	}
	p.last = time.Now()
	r := p.report
	fmt.Fprintf(p.out, "Progress %s shard %d: %d of %d documents, %d failed, %d chunks, %d reused\n", r.Stage, r.Shard, done, p.total, r.Failed, r.Chunks, r.Reused)
}
