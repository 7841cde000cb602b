package envtest

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/millrace/millrace"
)

func TestFlagsOfKubeAPIServerSetOptions(t *testing.T) {
	var o millrace.Options
	a := EmptyArguments().Set("authorization-mode", "AlwaysAllow").Append("service-cluster-ip-range", "fd00::/108").
		Set("max-requests-inflight", "7").Append("feature-gates", "Some=true").Disable("disable-admission-plugins").Enable("allow-privileged")
	if err := a.apply(&o); err != nil {
		t.Fatal(err)
	}
	want := millrace.Options{Authorization: []string{"AlwaysAllow"}, ServiceRange: "10.0.0.0/24,fd00::/108", AllowPrivileged: true}
	want.Serving.MaxInFlight = 7
	if !reflect.DeepEqual(o, want) {
		t.Errorf("%+v", o)
	}
	for flag, value := range map[string]string{"no-such-flag": "1", "allow-privileged": "perhaps", "disable-admission-plugins": "LimitRanger", "secure-port": "1"} {
		if err := EmptyArguments().Set(flag, value).apply(&millrace.Options{}); err == nil || !strings.Contains(err.Error(), "--"+flag) {
			t.Errorf("--%s=%s: %v", flag, value, err)
		}
	}
}

func TestArgumentsAreRenderedAsACommandLine(t *testing.T) {
	defaults := map[string][]string{"kept": {"1"}, "more": {"1"}, "other": {"1"}, "out": {"1"}, "name": {"1"}}
	a := EmptyArguments().Append("more", "2").Append("more", "3").Set("other", "2").AppendNoDefaults("new", "1").Disable("out").Enable("name").
		SetRaw("made", FuncArg(func([]string) []string { return []string{"late"} }))
	want := []string{"--kept=1", "--made=late", "--more=1", "--more=2", "--more=3", "--name", "--new=1", "--other=2"}
	if got := a.AsStrings(defaults); !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
	if got := a.Append("out", "2").AsStrings(defaults); !slices.Contains(got, "--out=2") || slices.Contains(got, "--out=1") {
		t.Errorf("%v", got)
	}
}

func TestDeprecatedArgsAreTemplates(t *testing.T) {
	s := &APIServer{Args: []string{"--cert-dir={{.CertDir}}", "--allow-privileged"}, CertDir: "/some/directory"}
	if err := s.addArgs(); err != nil {
		t.Fatal(err)
	}
	if got := s.Configure().AsStrings(nil); !slices.Equal(got, []string{"--allow-privileged", "--cert-dir=/some/directory"}) {
		t.Errorf("%v", got)
	}
	for _, wrong := range []string{"cert-dir=x", "--x={{.Nothing}}", "--x={{"} {
		if err := (&APIServer{Args: []string{wrong}}).addArgs(); err == nil {
			t.Errorf("%q was accepted", wrong)
		}
	}
}
