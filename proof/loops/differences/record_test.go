package differences_test

import (
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"testing"
)

const recorded = "testdata/kubernetes.json.gz"

// recording is what Kubernetes made of a scenario.
type recording struct {
	// Digest is that of the requests.
	Digest string `json:"digest"`
	// Steps are the changes of each step's state against the one before; null is a value that is gone.
	Steps []map[string]*string `json:"steps"`
}

// digest tells scenarios apart that differ in their requests.
func (s *scenario) digest() string {
	h := sha256.New()
	for _, one := range s.steps {
		for _, r := range one.requests {
			fmt.Fprintf(h, "%q %q %q %q\n", r.method, r.resource, r.contentType, r.body)
		}
		fmt.Fprintln(h)
	}
	return hex.EncodeToString(h.Sum(nil)[:4])
}

// states are the states of a recording.
func (r *recording) states() []state {
	var out []state
	now := state{}
	for _, changes := range r.Steps {
		now = maps.Clone(now)
		for key, value := range changes {
			if value == nil {
				delete(now, key)
			} else {
				now[key] = *value
			}
		}
		out = append(out, newer(now))
	}
	return out
}

// recordingOf keeps of two runs what they have in common.
func recordingOf(s *scenario, one, other []state) recording {
	out := recording{Digest: s.digest()}
	before := state{}
	for i := range s.steps {
		now, changes := common(one[i], other[i]), map[string]*string{}
		for key, value := range now {
			if was, there := before[key]; !there || was != value {
				changes[key] = &value
			}
		}
		for key := range before {
			if _, there := now[key]; !there {
				changes[key] = nil
			}
		}
		out.Steps, before = append(out.Steps, changes), now
	}
	return out
}

// common returns what two states have in common; the rest is unknown.
func common(one, other state) state {
	out := maps.Clone(one)
	for key, value := range other {
		if was, there := out[key]; !there || was != value {
			out[key] = unknown
		}
	}
	for key := range one {
		if _, there := other[key]; !there {
			out[key] = unknown
		}
	}
	return out
}

// readRecordings reads what was recorded, by the names of scenarios.
func readRecordings(t testing.TB) map[string]recording {
	t.Helper()
	out := map[string]recording{}
	file, err := os.Open(recorded)
	if os.IsNotExist(err) {
		return out
	}
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	unpacked, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.NewDecoder(unpacked).Decode(&out); err != nil {
		t.Fatal(err)
	}
	return out
}

func writeRecordings(t testing.TB, all map[string]recording) {
	t.Helper()
	file, err := os.Create(recorded)
	if err != nil {
		t.Fatal(err)
	}
	packed, err := gzip.NewWriterLevel(file, gzip.BestCompression)
	if err == nil {
		err = json.NewEncoder(packed).Encode(all)
	}
	if err == nil {
		err = packed.Close()
	}
	if err == nil {
		err = file.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
}
