// Package corpus holds recorded answers of kube-apiserver 1.36.3, for tests that hold ours against them.
//
// A story is a list of requests with the answers to them, in order, given by a server that had just started: without controllers
// and without service account admission, with services in 10.0.0.0/24, to a caller named admin in system:masters. In the files one
// line is one request. What changes from run to run (times, UIDs, resource versions) is replaced by placeholders.
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

// Story is a list of requests that follow each other.
type Story []Step

// Step is one request and its recorded answer.
type Step struct {
	Name    string            `json:"name"`
	Method  string            `json:"method"`
	Path    string            `json:"path"`
	Headers map[string]string `json:"headers"`
	Body    json.RawMessage   `json:"body"`
	// Watch is how many events to read, if the request is a watch.
	Watch int `json:"watch"`
	// Save names parts of the answer that later steps refer to: {NAME} in their path or body.
	Save map[string]string `json:"save"`
	Want Answer            `json:"want"`
}

// Answer is what kube-apiserver answered. The body of a watch is the list of its events.
type Answer struct {
	Status   int             `json:"status"`
	Body     json.RawMessage `json:"body"`
	Warnings []string        `json:"warnings"`
}

// Stories are all that were recorded, by name.
func Stories() map[string]Story {
	entries, err := files.ReadDir("stories")
	if err != nil {
		panic(fmt.Sprintf("corpus: %v", err)) // they are part of the program
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
