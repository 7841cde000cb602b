package differences_test

import (
	"flag"
	"fmt"
	"regexp"
	"sync"
	"testing"

	"github.com/millrace/millrace/internal/randomly"
)

// kept, keptMore and keptNodes are the seeds of random scenarios that are recorded as the others are.
var (
	kept      = []uint64{7002, 7016, 7025, 7030, 7044, 7047, 7061, 7072, 7074, 7085, 7089, 7092, 9057}
	keptMore  = []uint64{7003, 7005, 7027, 7049, 7063, 7087, 7109}
	keptNodes = []uint64{7010, 7040, 7050, 7080, 7090, 7100}
)

func keptScenarios() (out []scenario) {
	for _, seed := range kept {
		out = append(out, randomScenario(seed))
	}
	for _, seed := range keptMore {
		out = append(out, moreScenario(seed))
	}
	for _, seed := range keptNodes {
		out = append(out, nodesScenario(seed))
	}
	return out
}

var random = flag.Int("random", 100, "how many random scenarios are played with -peers: half of them have CronJobs, claims or autoscalers. A tenth of that number, which is played as well, is about nodes")

// TestRandomScenariosEndAsWithKubernetes plays random scenarios twice with the programs of Kubernetes, and with ours.
func TestRandomScenariosEndAsWithKubernetes(t *testing.T) {
	if *peers == "" {
		t.Skip("-peers does not say where the programs of Kubernetes are")
	}
	only := regexp.MustCompile(*selected)
	seed := randomly.Seed(t)
	var together, apart []*scenario
	add := func(to *[]*scenario, s scenario) {
		if only.MatchString(s.name) {
			*to = append(*to, &s)
		}
	}
	for i := range *random {
		if i%2 == 0 {
			add(&together, randomScenario(seed+uint64(i)))
		} else {
			add(&together, moreScenario(seed+uint64(i)))
		}
		if i%10 == 0 {
			add(&apart, nodesScenario(seed+uint64(i)))
		}
	}
	recordings, both := map[string]recording{}, [2]map[string][]state{}
	for i := range both {
		both[i] = map[string][]state{}
		playTheirs(t, fmt.Sprint("run", i), together, apart, both[i])
	}
	for _, s := range append(together, apart...) {
		recordings[s.name] = recordingOf(s, both[0][s.name], both[1][s.name])
	}
	if *dump != "" {
		write(t, *dump+".peer", both[0])
	}
	against(t, recordings, together, hollowNodes, atOnce)
	against(t, recordings, apart, 0, 1)
}

// playTheirs plays scenarios with the programs of Kubernetes: some of them together, those that make nodes one after
// the other, in several clusters.
func playTheirs(t *testing.T, name string, together, apart []*scenario, into map[string][]state) {
	var mu sync.Mutex
	t.Run(name, func(t *testing.T) {
		play := func(name string, scenarios []*scenario, nodes, atOnce int) {
			if len(scenarios) == 0 {
				return
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				states := theirs(t, *peers, nodes).playAll(scenarios, atOnce, nil)
				mu.Lock()
				defer mu.Unlock()
				for name, all := range states {
					into[name] = all
				}
			})
		}
		play("together", together, hollowNodes, atOnce)
		for i := range *worlds {
			var mine []*scenario
			for j := i; j < len(apart); j += *worlds {
				mine = append(mine, apart[j])
			}
			play(fmt.Sprint("alone", i), mine, 0, 1)
		}
	})
}
