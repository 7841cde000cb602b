// Package corpus holds recorded responses of kube-apiserver 1.36.3, with which tests compare ours.
//
// A story is a sequence of requests and the responses of a new server, without controllers and without service account
// admission, with the service range 10.0.0.0/24, to a user named admin in system:masters. In the story "versions" all
// beta versions are on. Each line of a file is one request. Values that differ between runs (times, UIDs, resource
// versions) are replaced by placeholders.
package corpus

import (
	"embed"
	"encoding/json"
	"fmt"
	"path"
	"strings"
)

//go:embed stories/*.json
var files embed.FS

// Story is a sequence of requests.
type Story []Step

// Step is one request and its recorded response.
type Step struct {
	Name    string            `json:"name"`
	Method  string            `json:"method"`
	Path    string            `json:"path"`
	Headers map[string]string `json:"headers"`
	Body    json.RawMessage   `json:"body"`
	// Watch is how many events to read, if the request is a watch.
	Watch int `json:"watch"`
	// Save names parts of the response to which later steps refer as {NAME} in their path or body.
	Save map[string]string `json:"save"`
	Want Answer            `json:"want"`
}

// Answer is kube-apiserver's response. The body of a watch is the list of its events.
type Answer struct {
	Status   int             `json:"status"`
	Body     json.RawMessage `json:"body"`
	Warnings []string        `json:"warnings"`
}

// Stories returns all recorded stories by name.
func Stories() map[string]Story {
	entries, err := files.ReadDir("stories")
	if err != nil {
		panic(fmt.Sprintf("corpus: %v", err)) // the files are embedded in the program
	}
	all := map[string]Story{}
	for _, e := range entries {
		text, err := files.ReadFile(path.Join("stories", e.Name()))
		if err != nil {
			panic(fmt.Sprintf("corpus: %v", err))
		}
		var s Story
		if err := json.Unmarshal(text, &s); err != nil {
			panic(fmt.Sprintf("corpus: %s: %v", e.Name(), err))
		}
		all[strings.TrimSuffix(e.Name(), ".json")] = s
	}
	return all
}
