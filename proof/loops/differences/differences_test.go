package differences_test

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

var (
	peers    = flag.String("peers", "", "directory of kube-controller-manager and kube-scheduler, whose work is recorded")
	selected = flag.String("scenarios", "", "an expression: only scenarios with such names")
	worlds   = flag.Int("worlds", 3, "in how many clusters scenarios that make nodes are recorded at the same time")
	all      = flag.Bool("all", false, "play all scenarios, and not only every fourth")
	dump     = flag.String("dump", "", "file to which the states of ours are written")
)

// part says which scenarios are played in an ordinary run: one of so many.
const part = 4

// atOnce is how many scenarios are played at the same time.
const atOnce = 40

// chosen are the scenarios that -scenarios chooses.
func chosen(t testing.TB, alone bool) (out []*scenario) {
	t.Helper()
	e, err := regexp.Compile(*selected)
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, s := range scenarios() {
		if names[s.name] {
			t.Fatalf("two scenarios are called %q", s.name)
		}
		names[s.name] = true
		if s.alone == alone && e.MatchString(s.name) {
			out = append(out, &s)
		}
	}
	return out
}

// playAll plays scenarios, some at the same time.
func (w *world) playAll(all []*scenario, atOnce int, want map[string]recording) map[string][]state {
	var (
		mu      sync.Mutex
		out     = map[string][]state{}
		next    = make(chan int)
		players sync.WaitGroup
	)
	for range atOnce {
		players.Go(func() {
			for i := range next {
				r := want[all[i].name]
				states := w.play(all[i], fmt.Sprintf("case%03d", i), r.states())
				mu.Lock()
				out[all[i].name] = states
				mu.Unlock()
			}
		})
	}
	for i := range all {
		next <- i
	}
	close(next)
	players.Wait()
	return out
}

func TestRecord(t *testing.T) {
	if *peers == "" {
		t.Skip("-peers does not say where the programs of Kubernetes are")
	}
	recordings := readRecordings(t)
	runs := []map[string][]state{{}, {}}
	for i := range runs {
		playTheirs(t, fmt.Sprint("run", i), chosen(t, false), chosen(t, true), runs[i])
	}
	for _, s := range slices.Concat(chosen(t, false), chosen(t, true)) {
		recordings[s.name] = recordingOf(s, runs[0][s.name], runs[1][s.name])
	}
	for name := range recordings {
		if !slices.ContainsFunc(scenarios(), func(s scenario) bool { return s.name == name }) {
			delete(recordings, name)
		}
	}
	writeRecordings(t, recordings)
}

func TestLoopsDoAsKubernetesDoes(t *testing.T) {
	replay(t, chosen(t, false), hollowNodes, atOnce)
}

func TestLoopsAndSchedulerDoAsKubernetesDoesWithNodesOfAScenario(t *testing.T) {
	replay(t, chosen(t, true), 0, 1)
}

// replay plays scenarios with ours, and compares.
func replay(t *testing.T, chosen []*scenario, nodes, atOnce int) {
	recordings := readRecordings(t)
	if !*all && *selected == "" {
		for i, s := range chosen {
			chosen[i/part] = s
		}
		chosen = chosen[:(len(chosen)+part-1)/part]
	}
	chosen = slices.DeleteFunc(chosen, func(s *scenario) bool {
		r, there := recordings[s.name]
		if !there || r.Digest != s.digest() || len(r.Steps) != len(s.steps) {
			t.Errorf("%s: it was not recorded with these requests", s.name)
			return true
		}
		return false
	})
	against(t, recordings, chosen, nodes, atOnce)
}

// against plays scenarios with ours, and compares with recordings.
func against(t *testing.T, recordings map[string]recording, chosen []*scenario, nodes, atOnce int) {
	var got map[string][]state
	for range 3 { // what differs only at times is chance: who is first
		synctest.Test(t, func(t *testing.T) {
			w := ours(t, nodes)
			time.Sleep(10 * time.Second) // until the nodes are ready
			got = w.playAll(chosen, atOnce, recordings)
		})
		chosen = slices.DeleteFunc(chosen, func(s *scenario) bool { return fulfilled(s, recordings[s.name], got[s.name]) })
	}
	for _, s := range chosen {
		report(t, s, recordings[s.name], got[s.name])
	}
	if *dump != "" {
		write(t, *dump, got)
	}
}

// fulfilled tells that nothing differs.
func fulfilled(s *scenario, r recording, got []state) bool {
	for i, want := range r.states() {
		if len(differences(s.name, want, got[i])) > 0 {
			return false
		}
	}
	return true
}

// report tells the differences of a scenario: those of its first step that differs.
func report(t *testing.T, s *scenario, r recording, got []state) {
	for i, want := range r.states() {
		if all := differences(s.name, want, got[i]); len(all) > 0 {
			t.Errorf("%s, step %d:\n%s", s.name, i, strings.Join(all, "\n"))
			return
		}
	}
}

// differences returns the differences between a recorded state and ours that are not known.
func differences(scenario string, want, got state) (out []string) {
	var chance []string // events of which only some are known
	for key, value := range want {
		if about, _, is := strings.Cut(key, ": "); is && value == unknown && strings.HasPrefix(key, "event ") {
			chance = append(chance, about)
		}
	}
	all := keys(want)
	for _, key := range keys(got) {
		if _, there := want[key]; !there {
			all = append(all, key)
		}
	}
	slices.Sort(all)
	for _, key := range all {
		w, wanted := want[key]
		g, there := got[key]
		about, _, _ := strings.Cut(key, ": ")
		switch {
		case w == unknown, w == g && wanted == there, slices.Contains(chance, about), known(scenario, key, w, g):
		case !wanted:
			out = append(out, fmt.Sprintf("  only ours: %s = %s", key, g))
		case !there:
			out = append(out, fmt.Sprintf("  only Kubernetes: %s = %s", key, w))
		default:
			out = append(out, fmt.Sprintf("  %s = %s, want %s", key, g, w))
		}
	}
	return out
}

// write writes states for a reader.
func write(t *testing.T, path string, all map[string][]state) {
	var b strings.Builder
	for _, name := range keys(all) {
		for i, s := range all[name] {
			fmt.Fprintf(&b, "== %s, step %d\n", name, i)
			for _, key := range keys(s) {
				fmt.Fprintf(&b, "%s = %s\n", key, s[key])
			}
		}
	}
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		t.Error(err)
	}
}
