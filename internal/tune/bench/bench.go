// Package bench measures recipes for package tune: it builds indexes of a set's documents in this process and asks them
// the questions of one part, through the same gateway as in a cluster.
package bench

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"quarry.dev/quarry/api/v1alpha1"
	"quarry.dev/quarry/internal/artifact"
	"quarry.dev/quarry/internal/embed"
	"quarry.dev/quarry/internal/eval"
	"quarry.dev/quarry/internal/local"
	"quarry.dev/quarry/internal/tune"
)

// Parts are the answerable questions of a set, each in one part, in the order of the set.
type Parts struct {
	Dev, Gate []eval.Question
	// Hashed tells that the set names no part: half of the questions, by a hash of their ids, are then Dev.
	Hashed bool
}

// Divide puts the answerable questions into parts. Each part needs tune.MinQuestions.
func Divide(questions []eval.Question) (Parts, error) {
	var p Parts
	p.Hashed = !slices.ContainsFunc(questions, func(q eval.Question) bool { return q.Part != "" })
	for _, q := range questions {
		if q.Kind != eval.Answerable {
			continue
		}
		dev := q.Part == eval.Dev
		if p.Hashed {
			dev = sha256.Sum256([]byte(q.ID))[0]%2 == 0
		}
		q.Part = ""
		if dev {
			p.Dev = append(p.Dev, q)
		} else {
			p.Gate = append(p.Gate, q)
		}
	}
	if len(p.Dev) < tune.MinQuestions || len(p.Gate) < tune.MinQuestions {
		return p, fmt.Errorf("the parts Dev and Gate have %d and %d answerable questions: at least %d are needed in each, or hardly any difference can be told from chance: write more questions", len(p.Dev), len(p.Gate), tune.MinQuestions)
	}
	return p, nil
}

// Digests name the parts by their questions.
func (p Parts) Digests() (dev, gate string) { return digest(p.Dev), digest(p.Gate) }

// Quotes tells whether any question labels quotes: it then counts passages, not documents.
func (p Parts) Quotes() bool {
	return slices.ContainsFunc(append(slices.Clone(p.Dev), p.Gate...), eval.Question.Passages)
}

// Models are the builtin models that this binary can load.
func Models() []string {
	var models []string
	for _, m := range []string{embed.Static256, embed.MiniLM} {
		if _, err := embed.Builtin(m); err == nil {
			models = append(models, m)
		}
	}
	return models
}

// Bench implements tune.Measurer.
type Bench struct {
	Set    local.Set
	Parts  Parts
	Access v1alpha1.AccessSpec
	// Out is the folder of the indexes.
	Out      string
	Progress local.Progress
	Log      *slog.Logger

	key   string
	stack *local.Stack
}

// Subject names everything that a measurement depends on beside the recipe and the questions: the documents, who may read
// them, the models with the kernels of this machine, and the program.
func (b *Bench) Subject(ctx context.Context) (string, error) {
	var listing []string
	err := b.Set.Documents.List(ctx, "", func(i artifact.Info) error {
		listing = append(listing, fmt.Sprintf("%q %s %d", i.Key, i.ETag, i.Size))
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("list the documents: %w", err)
	}
	slices.Sort(listing)
	var models []string
	for _, name := range Models() {
		m, err := embed.Builtin(name)
		if err != nil {
			return "", err
		}
		models = append(models, name, m.Digest(), m.Kernels())
	}
	program, err := programDigest()
	return digest(listing, b.Access, models, program), err
}

// programDigest is over the executable: whatever is changed in the code that measures is changed there.
func programDigest() (string, error) {
	path, err := os.Executable()
	if err != nil {
		return "", err
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	_, err = io.Copy(h, f)
	return hex.EncodeToString(h.Sum(nil)), err
}

func digest(parts ...any) string {
	body, err := json.Marshal(parts)
	if err != nil {
		panic(err) // plain data structures
	}
	return artifact.Digest(body)
}

// Measure implements tune.Measurer. The index of the recipe before stays open, for the next recipe that needs it too.
func (b *Bench) Measure(ctx context.Context, r tune.Recipe, part eval.Part) (m tune.Measurement, err error) {
	start := time.Now()
	if err := b.open(ctx, r); err != nil {
		return m, err
	}
	m.Documents, m.Chunks = b.stack.Report.Documents-b.stack.Report.Failed, b.stack.Report.Chunks
	m.IndexSeconds = time.Since(start).Seconds()
	start = time.Now()
	stack, err := b.stack.Vary(ctx, r.Indexing.BM25, r.Retrieval)
	if err != nil {
		return m, err
	}
	system := local.Hybrid
	if t := r.Retrieval.Rerank.Type; t != "" && t != v1alpha1.RerankNone {
		system = local.HybridRerank
	}
	set := b.Set
	set.Questions = b.Parts.Gate
	if part == eval.Dev {
		set.Questions = b.Parts.Dev
	}
	report, err := stack.Measure(ctx, set, system, nil)
	if err != nil {
		return m, err
	}
	m.AskSeconds = time.Since(start).Seconds()
	return m, collect(report, &m)
}

// open makes the index of the recipe the current one.
func (b *Bench) open(ctx context.Context, r tune.Recipe) error {
	if key := r.IndexKey(); b.stack == nil || key != b.key {
		if err := b.Close(); err != nil {
			return err
		}
		indexing := r.Indexing
		indexing.BM25.K1, indexing.BM25.B = "", "" // one index for all
		stack, err := b.Set.Open(ctx, b.Out, local.Recipe{Access: b.Access, Indexing: indexing, Retrieval: r.Retrieval}, b.Progress, b.Log)
		if err != nil {
			return err
		}
		b.stack, b.key = stack, key
	}
	return nil
}

// Close unloads the current index.
func (b *Bench) Close() error {
	if b.stack == nil {
		return nil
	}
	err := b.stack.Close()
	b.stack = nil
	return err
}

// passages are as many as a language model would be given.
const passages = 10

// collect takes the values of each question, in the order of the set, and the mean length of the answers.
func collect(report eval.Report, m *tune.Measurement) error {
	if report.Invalid != "" {
		return errors.New(report.Invalid)
	}
	m.Values = map[string][]float64{}
	measured, characters := 0, 0
	for _, q := range report.Questions {
		if q.Values == nil {
			continue
		}
		measured++
		for name, v := range q.Values {
			m.Values[name] = append(m.Values[name], v)
		}
		for _, h := range q.Hits[:min(passages, len(q.Hits))] {
			characters += h.End - h.Start
		}
	}
	if measured < tune.MinQuestions {
		return fmt.Errorf("%d questions have evidence that their asker may read: at least %d are needed in each part", measured, tune.MinQuestions)
	}
	m.Stale = len(report.Stale)
	m.Characters = float64(characters) / float64(measured)
	return nil
}

// ParseMetric finds a metric by its name, such as ndcg@10, among those that local eval measures.
func ParseMetric(name string) (eval.Metric, error) {
	var names []string
	for _, m := range local.Metrics() {
		if names = append(names, local.Name(m)); local.Name(m) == strings.ToLower(name) {
			return m, nil
		}
	}
	return eval.Metric{}, fmt.Errorf("metric %q is not known: use one of %s", name, strings.Join(names, ", "))
}
