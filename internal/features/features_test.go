package features_test

import (
	"slices"
	"testing"

	"github.com/millrace/millrace/internal/features"
)

func TestGatesAreThoseOfKubernetes(t *testing.T) {
	all := features.All()
	if len(all) < 200 {
		t.Fatalf("there are %d gates", len(all))
	}
	none := features.Set{}
	for _, g := range all {
		if !slices.Contains([]string{"alpha", "beta", "ga", "deprecated"}, g.Stage) {
			t.Errorf("%s has the stage %q", g.Name, g.Stage)
		}
		if none.Enabled(g.Name) != g.On {
			t.Errorf("%s is not as it is by default", g.Name)
		}
	}
	for _, name := range []string{features.Identity, features.FlagsPage, features.StatusPage} {
		if !none.Enabled(name) {
			t.Errorf("%s is not on", name)
		}
	}
}

func TestWhatIsSaidOfAStageIsForTheGatesThatAreNotNamed(t *testing.T) {
	s := features.Set{}
	if err := s.Parse("kube:AllBeta=false, APIServerIdentity=true,AllAlpha=true,"); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{
		features.Identity: true, features.FlagsPage: false, "WatchList": false, "CSIVolumeHealth": true, "DynamicResourceAllocation": true,
		"AllBeta": false, "AllAlpha": true,
	} {
		if got := s.Enabled(name); got != want {
			t.Errorf("%s is %v", name, got)
		}
	}
	if got := s.NotFollowed(features.Identity); !slices.Equal(got, []string{"AllAlpha=true"}) {
		t.Errorf("not followed are %v", got)
	}
}

func TestGatesThatCannotBeSetAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		"NoSuchGate=true": "unrecognized feature gate: NoSuchGate", "wardle:AllAlpha=true": "component not registered: wardle",
		"Some": "missing bool value for Some", "Some=x": `invalid value of Some=x, err: strconv.ParseBool: parsing "x": invalid syntax`,
		"DynamicResourceAllocation=false": "cannot set feature gate DynamicResourceAllocation to false, feature is locked to true",
		"DynamicResourceAllocation=true":  "",
	} {
		got := ""
		if err := (features.Set{}).Parse(text); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: %q", text, got)
		}
	}
}
