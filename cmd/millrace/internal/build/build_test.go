package build

import (
	"runtime/debug"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// built returns what the Go command notes in a program.
func built(version string, settings ...string) *debug.BuildInfo {
	b := &debug.BuildInfo{Main: debug.Module{Version: version}}
	for i := 0; i < len(settings); i += 2 {
		b.Settings = append(b.Settings, debug.BuildSetting{Key: settings[i], Value: settings[i+1]})
	}
	return b
}

func TestTheVersionComesFromTheTagOrIsTheNextOne(t *testing.T) {
	const commit = "b1871e98aaaabbbbccccddddeeeeffff00001111"
	for name, is := range map[string]struct {
		of   *debug.BuildInfo
		want Info
	}{
		"go run":                  {built("(devel)"), Info{Version: next}},
		"go test":                 {built(""), Info{Version: next}},
		"go install of a release": {built("v0.2.0"), Info{Version: "0.2.0"}},
		"of a preview":            {built("v0.2.0-rc.1"), Info{Version: "0.2.0-rc.1"}},
		"of a commit":             {built("v0.0.0-20261129184000-b1871e98aaaa"), Info{Version: next, Commit: "b1871e98aaaa", Date: "2026-11-29T18:40:00Z"}},
		"of a commit with a tag":  {built("v0.1.1-0.20261129184000-b1871e98aaaa"), Info{Version: next, Commit: "b1871e98aaaa", Date: "2026-11-29T18:40:00Z"}},
		"of one after a preview":  {built("v0.2.0-rc.1.0.20261129184000-b1871e98aaaa"), Info{Version: next, Commit: "b1871e98aaaa", Date: "2026-11-29T18:40:00Z"}},
		"go build in a clone":     {built("v0.0.0-20261129184000-b1871e98aaaa+dirty", "vcs.revision", commit, "vcs.time", "2026-11-29T18:40:00Z", "vcs.modified", "true"), Info{Version: next, Commit: commit, Date: "2026-11-29T18:40:00Z", Modified: true}},
		"go build where a tag is": {built("v0.2.0", "vcs.revision", commit, "vcs.time", "2026-11-29T18:40:00Z"), Info{Version: "0.2.0", Commit: commit, Date: "2026-11-29T18:40:00Z"}},
		"the same with a change":  {built("v0.2.0+dirty", "vcs.revision", commit, "vcs.modified", "true"), Info{Version: "0.2.0", Commit: commit, Modified: true}},
	} {
		got := read(is.of)
		if got.Kubernetes != "1.37" || !strings.HasPrefix(got.Go, "go1.") || !strings.Contains(got.Platform, "/") {
			t.Errorf("%s: %+v", name, got)
		}
		got.Kubernetes, got.Go, got.Platform = "", "", ""
		if got != is.want {
			t.Errorf("%s: %+v, want %+v", name, got, is.want)
		}
	}
}

func TestWhatAReleaseSetsComesFirst(t *testing.T) {
	defer func(v, c, d string) { version, commit, date = v, c, d }(version, commit, date)
	version, commit, date = "0.3.0", "abc", "2027-01-01T00:00:00Z"
	got := read(built("v0.0.0-20261129184000-b1871e98aaaa", "vcs.revision", "def", "vcs.modified", "true"))
	if got.Version != "0.3.0" || got.Commit != "abc" || got.Date != date || got.Modified {
		t.Errorf("%+v", got)
	}
}

func TestTheVersionIsPrintedForPeopleAndPrograms(t *testing.T) {
	i := Info{Version: "0.3.0", Commit: "abc", Modified: true, Kubernetes: "1.37", Go: "go1.26", Platform: "linux/amd64"}
	for _, format := range []string{"json", "yaml"} {
		var out strings.Builder
		var back Info
		if err := i.Print(&out, format); err != nil {
			t.Fatal(err)
		}
		if err := yaml.UnmarshalStrict([]byte(out.String()), &back); err != nil || back != i {
			t.Errorf("%s: %v, %s", format, err, out.String())
		}
	}
	var out strings.Builder
	if err := i.Print(&out, ""); err != nil || !strings.HasPrefix(out.String(), "millrace    0.3.0\ncommit      abc, and changes\ndate        unknown\nKubernetes  1.37\n") {
		t.Errorf("%v, %s", err, out.String())
	}
	if err := i.Print(&out, "wide"); err == nil || !strings.Contains(err.Error(), `"wide" is neither json nor yaml`) {
		t.Error(err)
	}
}
