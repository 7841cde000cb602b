// Package build is `millrace version`: which release this program is, and what it was built from.
package build

import (
	"cmp"
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"

	"github.com/millrace/millrace"
)

// Set by a release, which builds without the repository: -ldflags "-X …/internal/build.version=0.1.0". Empty otherwise.
var version, commit, date string

// next is the version that is being worked on.
const next = "0.1.0-dev"

// Info says which program this is.
type Info struct {
	// Version is the release, without a v before it.
	Version string `json:"version"`
	// Commit is what it was built from, and Date when that was made. Empty: nobody knows.
	Commit string `json:"commit,omitempty"`
	Date   string `json:"date,omitempty"`
	// Modified reports that files differed from the commit.
	Modified bool `json:"modified,omitempty"`
	// Kubernetes is the version of the API.
	Kubernetes string `json:"kubernetes"`
	Go         string `json:"go"`
	Platform   string `json:"platform"`
}

// Read returns the information about this program.
var Read = sync.OnceValue(func() Info {
	b, ok := debug.ReadBuildInfo()
	if !ok {
		b = &debug.BuildInfo{}
	}
	return read(b)
})

// read completes what a release has set with what the Go command has noted.
func read(b *debug.BuildInfo) Info {
	kubernetes := millrace.Version()
	i := Info{
		Version: version, Commit: commit, Date: date,
		Kubernetes: kubernetes.Major + "." + kubernetes.Minor, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}
	settings := map[string]string{}
	for _, s := range b.Settings {
		settings[s.Key] = s.Value
	}
	number, revision, when := next, "", ""
	tag, _, _ := strings.Cut(b.Main.Version, "+") // +dirty
	if pseudo := pseudoVersion.FindStringSubmatch(tag); pseudo != nil {
		when, revision = timestamp(pseudo[1]), pseudo[2]
	} else if strings.HasPrefix(tag, "v") {
		number = tag[1:]
	}
	i.Version = cmp.Or(version, number)
	i.Commit = cmp.Or(commit, settings["vcs.revision"], revision)
	i.Date = cmp.Or(date, settings["vcs.time"], when)
	i.Modified = commit == "" && settings["vcs.modified"] == "true"
	return i
}

// pseudoVersion matches the version that the Go command makes for a commit without a tag: it ends with the time and the
// beginning of the commit.
var pseudoVersion = regexp.MustCompile(`[-.](\d{14})-([0-9a-f]{12})$`)

// timestamp returns the time of a pseudo-version in the form of RFC 3339.
func timestamp(t string) string {
	return t[:4] + "-" + t[4:6] + "-" + t[6:8] + "T" + t[8:10] + ":" + t[10:12] + ":" + t[12:] + "Z"
}
