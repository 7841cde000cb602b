package differences_test

import (
	"flag"
	"testing"

	"github.com/millrace/millrace/internal/randomly"
)

// kept are the seeds of random scenarios that are recorded as the others are.
var kept = []uint64{7002, 7016, 7025, 7030, 7044, 7047, 7061, 7074, 7085, 7089, 7092, 9057}

func keptScenarios() (out []scenario) {
	for _, seed := range kept {
		out = append(out, randomScenario(seed))
	}
	return out
}

var random = flag.Int("random", 100, "how many random scenarios are played with -peers")

// TestRandomScenariosEndAsWithKubernetes plays random scenarios twice with the programs of Kubernetes, and with ours.
func TestRandomScenariosEndAsWithKubernetes(t *testing.T) {
	if *peers == "" {
		t.Skip("-peers does not say where the programs of Kubernetes are")
	}
	seed := randomly.Seed(t)
	var chosen []*scenario
	for i := range *random {
		s := randomScenario(seed + uint64(i))
		chosen = append(chosen, &s)
	}
	var runs [2]map[string][]state
	for i := range runs {
		runs[i] = theirs(t, *peers, hollowNodes).playAll(chosen, atOnce, nil)
	}
	recordings := map[string]recording{}
	for _, s := range chosen {
		recordings[s.name] = recordingOf(s, runs[0][s.name], runs[1][s.name])
	}
	if *dump != "" {
		write(t, *dump+".peer", runs[0])
	}
	against(t, recordings, chosen, hollowNodes, atOnce)
}
