package scheduler

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/millrace/millrace/internal/scheduler/plugin"
	"github.com/millrace/millrace/loop"
)

func always(*corev1.Pod) string { return "x" }

func TestAScoreIsFromZeroToAHundred(t *testing.T) {
	for given, want := range map[int64]int64{-5: 0, 0: 0, 42: 42, 100: 100, 1 << 40: 100} {
		s := score{adapter{Rule{Name: "r", Read: always, Score: func(string, Node) int64 { return given }}}}
		if got := s.Score(new(plugin.Demand), new(plugin.Node)); got != want {
			t.Errorf("a score of %d counts as %d, want %d", given, got, want)
		}
	}
}

func TestEqualRefusalsAreOneVerdictAndTheirNumberIsBounded(t *testing.T) {
	reason := "a"
	f := &filter{adapter: adapter{Rule{Name: "r", Read: always, Filter: func(string, Node) *Refusal {
		return &Refusal{Reason: reason, Final: true}
	}}}, verdicts: make(map[Refusal]*plugin.Verdict)}
	first, second := f.Filter(new(plugin.Demand), new(plugin.Node)), f.Filter(new(plugin.Demand), new(plugin.Node))
	if first != second || first.Plugin != "r" || !first.Lasting || first.Reasons[0] != "a" {
		t.Errorf("the verdicts are %+v and %+v", first, second)
	}
	for i := range 3 * mostVerdicts {
		reason = strings.Repeat("b", i%2000+1)
		f.Filter(new(plugin.Demand), new(plugin.Node))
	}
	if len(f.verdicts) > mostVerdicts {
		t.Errorf("%d verdicts are kept, want at most %d", len(f.verdicts), mostVerdicts)
	}
}

func TestPodsThatARuleReadsNothingOfAreLeftAlone(t *testing.T) {
	var set plugin.Set
	Rule{Name: "r", Read: func(*corev1.Pod) string { return "" }, Filter: func(string, Node) *Refusal { return nil }}.addTo(&set)
	if s, ok := set.Filters[0].(plugin.Skipper); !ok || !s.Skip(new(plugin.Demand)) {
		t.Error("the rule is called for a pod that is none of its business")
	}
}

func TestARuleThatCannotWorkIsAnError(t *testing.T) {
	filter := func(string, Node) *Refusal { return nil }
	for want, rule := range map[string]Rule{
		"has no name":                        {Read: always, Filter: filter},
		`"r" has no Read`:                    {Name: "r", Filter: filter},
		`"r" has neither a Filter nor`:       {Name: "r", Read: always},
		`the weight of the rule "r" is nega`: {Name: "r", Read: always, Filter: filter, Weight: -1},
	} {
		err := New(loop.ClientsFor(fake.NewClientset()), Options{Rules: []Rule{rule}}).Run(context.Background())
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v gives the error %v, want %q", rule, err, want)
		}
	}
}
