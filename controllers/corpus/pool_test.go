package corpus

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

func TestPoolRunsOneTaskPerObjectAndNoMoreThanItsSize(t *testing.T) {
	p := newPool[int](2)
	var running, most atomic.Int32
	release := make(chan struct{})
	work := func(context.Context) int {
		now := running.Add(1)
		for old := most.Load(); now > old && !most.CompareAndSwap(old, now); old = most.Load() {
		}
		<-release
		running.Add(-1)
		return 7
	}
	keys := []types.NamespacedName{{Name: "a"}, {Name: "b"}, {Name: "c"}, {Name: "d"}}
	for _, key := range keys {
		if !p.Run(key, time.Minute, work) {
			t.Fatalf("%v was not started", key)
		}
		if p.Run(key, time.Minute, work) {
			t.Fatalf("%v was started twice", key)
		}
	}
	close(release)
	for range keys {
		got := (<-p.events).Object
		if result, ok := p.Take(got); !ok || result != 7 {
			t.Fatalf("%v: result %d, %v", got, result, ok)
		}
		if _, ok := p.Take(got); ok {
			t.Fatalf("%v: taken twice", got)
		}
	}
	if most.Load() > 2 {
		t.Fatalf("%d tasks at once", most.Load())
	}
}

func TestPoolForgetStopsTheTaskAndDropsItsResult(t *testing.T) {
	p := newPool[int](1)
	key := types.NamespacedName{Name: "a"}
	stopped := make(chan struct{})
	p.Run(key, time.Minute, func(ctx context.Context) int { <-ctx.Done(); close(stopped); return 1 })
	p.Forget(key)
	select {
	case <-stopped:
	case <-time.After(5 * time.Second):
		// The task may have been dropped before it got its slot.
	}
	if p.Running(key) {
		t.Fatal("still running")
	}
	if !p.Run(key, time.Minute, func(context.Context) int { return 2 }) {
		t.Fatal("a forgotten object cannot run again")
	}
	<-p.events
	if result, ok := p.Take(key); !ok || result != 2 {
		t.Fatalf("result %d, %v", result, ok)
	}
}

func TestPoolEndsWithTheManager(t *testing.T) {
	p := newPool[int](1)
	ctx, cancel := context.WithCancel(context.Background())
	p.Run(types.NamespacedName{Name: "a"}, time.Minute, func(ctx context.Context) int { <-ctx.Done(); return 1 })
	p.Run(types.NamespacedName{Name: "b"}, time.Minute, func(ctx context.Context) int { <-ctx.Done(); return 1 })
	ended := make(chan struct{})
	go func() { _ = p.Start(ctx); close(ended) }()
	cancel()
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		t.Fatal("the pool does not end")
	}
	if p.Run(types.NamespacedName{Name: "c"}, time.Minute, func(context.Context) int { return 0 }) {
		t.Fatal("a stopped pool starts work")
	}
}
