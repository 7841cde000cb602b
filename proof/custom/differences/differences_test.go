package differences_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/millrace/millrace/internal/randomly"
)

var (
	peer   = flag.String("peer", "", "URL of a kube-apiserver with which this server is compared")
	bearer = flag.String("bearer", "", "token of its administrator")
	many   = flag.Int("stories", 50, "how many random stories are told to both")
	record = flag.Bool("record", false, "keep the answers of the kube-apiserver")
)

const (
	recordedRandom  = "testdata/random.json"
	recordedHostile = "testdata/hostile.json"
	// recordedBytes bounds what is kept of the stories in a file.
	recordedBytes = 850_000
	// atOnce is how many stories are told at the same time.
	atOnce = 4
)

// exchange is a step, and what came of it.
type exchange struct {
	step
	Outcome outcome `json:"outcome"`
}

// story is what was sent about one definition, and what was answered.
type story struct {
	Name      string     `json:"name"`
	Exchanges []exchange `json:"exchanges"`
}

func TestRandomRequestsAreAnsweredAsByKubernetes(t *testing.T) {
	if *peer != "" {
		compareWithPeer(t)
		return
	}
	server := ours(t)
	for _, s := range read(t, recordedRandom) {
		for i, e := range s.Exchanges {
			compare(t, fmt.Sprint(s.Name, ", request ", i), e.step, e.Outcome, server.do(e.step))
		}
	}
}

func TestHostileRequestsAreAnsweredAsByKubernetes(t *testing.T) {
	if *peer != "" {
		keep(t, recordedHostile, tellHostile(t, ours(t), theirs(t, *peer, *bearer)))
		return
	}
	server, recorded := ours(t), map[string]story{}
	for _, s := range read(t, recordedHostile) {
		recorded[s.Name] = s
	}
	for _, s := range hostile() {
		if len(recorded[s.name].Exchanges) != len(s.steps) {
			t.Errorf("%s was recorded with other requests", s.name)
			continue
		}
		for i, e := range recorded[s.name].Exchanges {
			compare(t, fmt.Sprint(s.name, ", request ", i), s.steps[i], e.Outcome, server.do(s.steps[i]))
		}
	}
}

// tellHostile tells the hostile stories to both servers. Their requests are not kept: they are in the code, and large.
func tellHostile(t *testing.T, our, their *server) []story {
	var out []story
	for _, s := range hostile() {
		now := story{Name: s.name}
		for i, one := range s.steps {
			want := their.do(one)
			compare(t, fmt.Sprint(s.name, ", request ", i), one, want, our.do(one))
			now.Exchanges = append(now.Exchanges, exchange{step{Method: one.Method, Path: one.Path}, want})
		}
		out = append(out, now)
	}
	return out
}

// read reads recorded stories.
func read(t *testing.T, path string) (out []story) {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	d := json.NewDecoder(bytes.NewReader(content))
	d.UseNumber()
	if err := d.Decode(&out); err != nil {
		t.Fatal(err)
	}
	return out
}

// keep records stories if that is wanted.
func keep(t *testing.T, path string, stories []story) {
	t.Helper()
	if !*record {
		return
	}
	if err := os.WriteFile(path, lines(stories), 0o644); err != nil {
		t.Fatal(err)
	}
}

// compareWithPeer tells random stories to both servers.
func compareWithPeer(t *testing.T) {
	seed := randomly.Seed(t)
	server := ours(t)
	var (
		told    = make([]story, *many)
		numbers = make(chan int)
		tellers sync.WaitGroup
	)
	for range atOnce {
		tellers.Go(func() {
			one, two := *server, theirs(t, *peer, *bearer)
			one.seen = map[string]string{}
			for i := range numbers {
				told[i] = tellBoth(t, seed+uint64(i), &one, two)
			}
		})
	}
	for i := range told {
		numbers <- i
	}
	close(numbers)
	tellers.Wait()
	requests := 0
	for _, s := range told {
		requests += len(s.Exchanges)
	}
	t.Logf("%d stories with %d requests were compared", len(told), requests)
	keep(t, recordedRandom, told)
}

// tellBoth tells one story to both servers.
func tellBoth(t *testing.T, seed uint64, our, their *server) story {
	out := story{Name: fmt.Sprint("seed ", seed)}
	teller := &teller{dice: dice{rand.New(rand.NewPCG(seed, 1))}, send: func(s step) outcome {
		want := their.do(s)
		compare(t, fmt.Sprint(out.Name, ", request ", len(out.Exchanges)), s, want, our.do(s))
		out.Exchanges = append(out.Exchanges, exchange{s, want})
		return want
	}}
	teller.tell(fmt.Sprintf("g%d.example.com", seed))
	return out
}

// compare tells a difference that is not known.
func compare(t *testing.T, where string, s step, want, got outcome) {
	t.Helper()
	slices.Sort(want.Warnings) // Kubernetes finds unknown formats in the order of a map
	slices.Sort(got.Warnings)
	w, g := text(want), text(got)
	if w == g {
		return
	}
	for _, known := range knownDifferences {
		if known.is(s, w, g) {
			return
		}
	}
	t.Errorf("%s: %s %s %s %.2000s\n got %s\nwant %s", where, s.Method, s.Path, s.Type, s.Body, g, w)
}

// lines are stories as JSON, each exchange on a line, as many as may be kept.
func lines(stories []story) []byte {
	var b bytes.Buffer
	for _, s := range stories {
		var one bytes.Buffer
		for i, e := range s.Exchanges {
			if i > 0 {
				one.WriteString(",\n")
			}
			one.WriteString(" " + text(e))
		}
		if b.Len()+one.Len() > recordedBytes {
			continue
		}
		if b.Len() > 0 {
			b.WriteString(",\n")
		}
		fmt.Fprintf(&b, "{\"name\":%s,\"exchanges\":[\n%s]}", text(s.Name), one.Bytes())
	}
	return fmt.Appendf(nil, "[\n%s\n]\n", b.Bytes())
}

// knownDifference is a deliberate one.
type knownDifference struct {
	why string
	is  func(s step, want, got string) bool
}

// both tells that two texts contain a third.
func both(a, b, text string) bool { return strings.Contains(a, text) && strings.Contains(b, text) }

var knownDifferences = []knownDifference{
	{"the peer panics, and gives no answer", func(_ step, want, _ string) bool { return want == `{"code":0}` }},
	{"what a caller applies by mistake is a 400, not a 500", func(s step, want, got string) bool {
		return s.Type == applyPatch && got == strings.NewReplacer(`"code":500`, `"code":400`, `"metadata":{},`, `"metadata":{},"reason":"BadRequest",`).Replace(want)
	}},
	{"the owner of a scale is known also where Kubernetes loses it, because nobody owned the number before", func(_ step, want, got string) bool {
		return strings.Contains(got, `"subresource":"scale"`) && !strings.Contains(want, `"subresource":"scale"`)
	}},
	{"errors of patches show who owns a scale: here nobody, and of the object itself somebody since a time", func(_ step, want, got string) bool {
		return both(want, got, "json: cannot unmarshal ") && (both(want, got, "Go struct field ScaleSpec.") || both(want, got, `\\\"scale\\\"`))
	}},
	{"other words are said of a missing kind if fields are not validated", func(s step, want, got string) bool {
		return strings.Contains(s.Path, "fieldValidation=Ignore") && both(want, got, "Object 'Kind' is missing in")
	}},
	{"of two mistakes in an object, its kind is found first, and before it gets a name", func(_ step, want, got string) bool {
		return strings.Contains(got, `"field":"kind","message":"Invalid value`) && !strings.HasPrefix(want, `{"code":2`)
	}},
	{"of two mistakes in an object, its version is found first", func(_ step, want, got string) bool {
		return strings.Contains(got, "the API version in the data (") && (strings.Contains(want, "Object 'apiVersion' is missing in") || strings.Contains(want, "duplicate field"))
	}},
	{"a selector of a scale that is no text is the caller's mistake", func(_ step, want, got string) bool {
		return strings.HasPrefix(want, `{"code":500`) && both(want, got, "accessor error: ")
	}},
	{"the time of a deletion has an owner even if an update leaves it out", func(_ step, want, got string) bool {
		return strings.Contains(got, `"f:deletionTimestamp":{}`) && !strings.Contains(want, `"f:deletionTimestamp":{}`)
	}},
	{"a value that is too large is the caller's mistake", func(_ step, want, got string) bool {
		return strings.HasPrefix(want, `{"code":500`) && strings.HasPrefix(got, `{"code":413`)
	}},
	{"a definition that is deleted again has no grace period", func(s step, want, got string) bool {
		return strings.HasPrefix(s.Path, definitions) && strings.Contains(want, `"deletionGracePeriodSeconds":0`) && !strings.Contains(got, "deletionGracePeriodSeconds")
	}},
	{"the owners of conditions are others where a client has replaced them", func(_ step, want, got string) bool {
		return both(want, got, `"type":"Mine"`)
	}},
	{"other words are said of a converter's answer that makes no sense", func(_ step, want, got string) bool {
		return strings.HasPrefix(want, `{"code":500`) && strings.HasPrefix(got, `{"code":500`) && strings.Contains(got, "conversion webhook for ")
	}},
	{"a table shows the labels that are stored, and not those that a webhook made", func(s step, want, got string) bool {
		return s.Accept == asTable && strings.Contains(s.Path, "abels.convert.example.com")
	}},
	{"1.37 has other words for owners that are incomplete", func(_ step, want, got string) bool {
		return strings.Contains(want, "metadata.ownerReferences.") && strings.Contains(got, "metadata.ownerReferences[0].")
	}},
}
