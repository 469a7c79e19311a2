package rollout

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"
)

// scenarios are whole rollouts; their traces lie in testdata. UPDATE_GOLDEN=1 writes them anew.
var scenarios = map[string]func(*world){
	"first-rollout": func(w *world) {
		w.until(20) // no snapshot yet
		w.want("r1", "s1")
		w.until(140)
	},
	"bad-recipe-blocked": func(w *world) {
		w.want("r1", "s1")
		w.until(150)
		w.verdicts["bad-s1"] = []string{"Failed"}
		w.want("bad", "s1")
		w.until(300)
		w.want("r2", "s1")
		w.until(500)
	},
	"broken-build": func(w *world) {
		w.want("r1", "s1")
		w.until(150)
		w.want("broken", "s1")
		w.until(250)
		w.want("r1", "s1")
		w.until(300)
	},
	"overtaken-candidate": func(w *world) {
		w.want("r1", "s1")
		w.until(150)
		w.want("r1", "s2")
		w.until(170)
		w.want("r1", "s3")
		w.until(180)
		w.want("r1", "s4") // s3 is never built
		w.until(400)
	},
	"changed-recipe-cancels": func(w *world) {
		w.want("r1", "s1")
		w.until(150)
		w.want("r2", "s1")
		w.until(210)
		w.want("r3", "s1")
		w.until(350)
	},
	"rollback": func(w *world) {
		w.want("r1", "s1")
		w.until(150)
		w.want("r2", "s1")
		w.until(350)
		w.in.RollbackTo = "r1-s1"
		w.until(380)
		w.want("r3", "s1") // built and judged, not promoted
		w.until(500)
		w.in.RollbackTo = ""
		w.until(600)
	},
	"rollback-refused": func(w *world) {
		w.want("r1", "s1")
		w.until(150)
		w.verdicts["bad-s1"] = []string{"Failed"}
		w.want("bad", "s1")
		w.until(300)
		w.in.RollbackTo = "bad-s1"
		w.until(320)
		w.in.RollbackTo = "gone"
		w.until(330)
	},
	"hold": func(w *world) {
		w.in.Hold = "fair week"
		w.want("r1", "s1")
		w.until(120)
		w.in.Hold = ""
		w.until(150)
	},
	"error-retries": func(w *world) {
		w.verdicts["r1-s1"] = []string{"Error"}
		w.verdicts["r1-s2"] = []string{"Error", "Passed"}
		w.want("r1", "s1")
		w.until(300)
		w.want("r1", "s2") // the next version is its successor
		w.until(450)
	},
	"override": func(w *world) {
		w.verdicts["r1-s1"] = []string{"Inconclusive"}
		w.want("r1", "s1")
		w.until(120)
		w.override = "r1-s1"
		w.until(150)
		w.verdicts["r2-s1"] = []string{"Failed"}
		w.want("r2", "s1")
		w.until(300)
		w.override = "r2-s1" // its stack is gone by now, and starts again
		w.until(360)
	},
	"min-interval": func(w *world) {
		w.in.MinInterval = 5 * time.Minute
		w.want("r1", "s1")
		w.until(150)
		w.want("r1", "s2")
		w.until(250)
		w.want("r1", "s3") // s2 keeps its place
		w.until(500)
	},
	"no-eval-set": func(w *world) {
		w.in.EvalRequired = false
		w.want("r1", "s1")
		w.until(100)
	},
	"ever-changing-corpus": func(w *world) {
		for i := range 60 {
			w.want("r1", fmt.Sprintf("s%02d", i))
			w.until((i + 1) * 10)
		}
		if w.promotions < 4 {
			w.t.Errorf("only %d promotions in ten minutes", w.promotions)
		}
	},
}

func TestGoldenTraces(t *testing.T) {
	for name, play := range scenarios {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			play(w)
			path := filepath.Join("testdata", name+".golden")
			if os.Getenv("UPDATE_GOLDEN") != "" {
				if err := os.WriteFile(path, []byte(w.trace.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if w.trace.String() != string(want) {
				t.Errorf("the trace differs from %s; got\n%s", path, w.trace.String())
			}
		})
	}
}

// Whatever people and the corpus do, the invariants hold at every step, and once all is quiet the desired version serves.
func TestInvariants(t *testing.T) {
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 1))
		w := newWorld(t)
		w.in.EvalRequired = seed%10 != 0
		second := 0
		for range 60 {
			disturb(w, random)
			second += 10 * random.IntN(6)
			w.until(second)
		}
		w.in.Hold, w.in.RollbackTo = "", ""
		w.want("final", "final")
		w.until(second + 600)
		if w.in.Active != "final-final" {
			t.Fatalf("seed %d: %s serves\n%s", seed, w.in.Active, w.trace.String())
		}
	}
}

// disturb does one of the things that happen to a tenant.
func disturb(w *world, random *rand.Rand) {
	recipes := []string{"r1", "r2", "broken", "bad"}
	switch random.IntN(8) {
	case 0, 1, 2:
		w.want(recipes[random.IntN(len(recipes))], fmt.Sprintf("s%d", random.IntN(5)))
		if name := w.in.Desired.Name; w.verdicts[name] == nil {
			all := []string{"Passed", "Passed", "Failed", "Inconclusive", "Error"}
			w.verdicts[name] = []string{all[random.IntN(len(all))], all[random.IntN(len(all))]}
		}
	case 3, 4:
		w.in.RollbackTo = ""
		if n := len(w.in.Indexes); n > 0 && random.IntN(2) == 0 {
			w.in.RollbackTo = w.in.Indexes[random.IntN(n)].Name
		}
	case 5:
		w.in.Hold = []string{"", "", "reason"}[random.IntN(3)]
	case 6:
		w.in.MinInterval = time.Duration(random.IntN(3)) * time.Minute
	case 7:
		if n := len(w.in.Indexes); n > 0 {
			w.override = w.in.Indexes[random.IntN(n)].Name
		}
	}
}

// Planning twice from the same facts gives the same plan, and a plan that was carried out is not made again.
func TestPlanIsDeterministic(t *testing.T) {
	w := newWorld(t)
	w.want("r1", "s1")
	w.until(100)
	if a, b := Next(w.in), Next(w.in); !reflect.DeepEqual(a, b) {
		t.Errorf("got %+v and %+v", a, b)
	}
}

func TestLostFactsDeleteNothing(t *testing.T) {
	w := newWorld(t)
	w.want("r1", "s1")
	w.until(150)
	w.in.Desired = nil
	w.in.SoakUntil = time.Time{}
	if plan := Next(w.in); len(plan.DeleteIndexes) > 0 || len(plan.EnsureStacks) != 1 || plan.Reason != ReasonNoSnapshot {
		t.Errorf("got %+v", plan)
	}
	w.want("r2", "s1")
	w.in.Indexes[0].Deleting = true // the active index is on its way out: nothing to compare with, but nothing to wait for
	if plan := Next(w.in); plan.CreateIndex == nil || len(plan.EnsureStacks) != 0 {
		t.Errorf("got %+v", plan)
	}
}
