package corpus

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/event"
)

// pool runs long work outside Reconcile: at most one task per object, at most `size` at once. What a task found is
// kept until Take, and its end is announced on Events, which a channel source turns into a reconcile.
type pool[R any] struct {
	events chan event.TypedGenericEvent[types.NamespacedName]
	slots  chan struct{}

	mu      sync.Mutex
	tasks   map[types.NamespacedName]*task[R]
	ctx     context.Context
	cancel  context.CancelFunc
	waiting sync.WaitGroup
}

// task is one object's running or finished work.
type task[R any] struct {
	done   bool
	result R
	cancel context.CancelFunc
}

// newPool makes a pool of that many workers.
func newPool[R any](size int) *pool[R] {
	ctx, cancel := context.WithCancel(context.Background())
	return &pool[R]{
		events: make(chan event.TypedGenericEvent[types.NamespacedName], 128),
		slots:  make(chan struct{}, size),
		tasks:  map[types.NamespacedName]*task[R]{},
		ctx:    ctx, cancel: cancel,
	}
}

// Run starts the work unless a task of this object is running or its result was not taken yet. It never blocks.
// The context of the work ends after timeout, on Forget, and when the manager stops.
func (p *pool[R]) Run(key types.NamespacedName, timeout time.Duration, work func(context.Context) R) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.tasks[key] != nil || p.ctx.Err() != nil {
		return false
	}
	ctx, cancel := context.WithCancel(p.ctx)
	t := &task[R]{cancel: cancel}
	p.tasks[key] = t
	p.waiting.Go(func() { p.run(ctx, key, t, timeout, work) })
	return true
}

func (p *pool[R]) run(ctx context.Context, key types.NamespacedName, t *task[R], timeout time.Duration, work func(context.Context) R) {
	defer t.cancel()
	select {
	case p.slots <- struct{}{}:
	case <-ctx.Done():
		return
	}
	defer func() { <-p.slots }()
	// The time in the queue does not count.
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("not finished within %s", timeout))
	defer cancel()
	result := work(ctx)
	p.mu.Lock()
	t.done, t.result = true, result
	wanted := p.tasks[key] == t
	p.mu.Unlock()
	if !wanted {
		return
	}
	select {
	case p.events <- event.TypedGenericEvent[types.NamespacedName]{Object: key}:
	case <-p.ctx.Done():
	}
}

// Running tells whether a task of the object is queued or at work.
func (p *pool[R]) Running(key types.NamespacedName) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.tasks[key]
	return t != nil && !t.done
}

// Take returns a finished task's result once.
func (p *pool[R]) Take(key types.NamespacedName) (result R, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.tasks[key]
	if t == nil || !t.done {
		return result, false
	}
	delete(p.tasks, key)
	return t.result, true
}

// Forget stops the object's task, if any, and drops its result.
func (p *pool[R]) Forget(key types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if t := p.tasks[key]; t != nil {
		t.cancel()
		delete(p.tasks, key)
	}
}

// Start waits for the manager to stop, then for the tasks to end. It is a manager.Runnable.
func (p *pool[R]) Start(ctx context.Context) error {
	<-ctx.Done()
	p.cancel()
	p.waiting.Wait()
	return nil
}
