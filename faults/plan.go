package faults

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Fault is what happens to a request.
type Fault string

// The faults.
const (
	// Error answers 500 without asking the server.
	Error Fault = "error"
	// Conflict answers 409, as if somebody else had written first.
	Conflict Fault = "conflict"
	// Busy answers 429 with Retry-After.
	Busy Fault = "busy"
	// LostRequest fails before the server hears of the request.
	LostRequest Fault = "lost-request"
	// LostAnswer lets the server do what was asked, and fails.
	LostAnswer Fault = "lost-answer"
	// Delay holds the request back for a while.
	Delay Fault = "delay"
	// Cut breaks a watch off after its first bytes. Other answers are cut in the middle.
	Cut Fault = "cut"
	// Hold lets nothing of an answer arrive for a while: a cache that is behind.
	Hold Fault = "hold"
	// Expire answers 410, as a server does that has forgotten where a watch was: it has compacted its store.
	Expire Fault = "expire"
	// Full answers writes as a server does whose store has no room.
	Full Fault = "full"
	// Down is a restart of the server: watches are cut, and for a while no request reaches it.
	Down Fault = "down"
	// Crash is the end of the client: the request is done, and from then on the client's process is gone, until it is started again.
	// See [Transport.Run].
	Crash Fault = "crash"
	// CrashBefore is the same before the request is done.
	CrashBefore Fault = "crash-before"
)

// assumptions say of each fault what a program takes for granted that does not stand it.
var assumptions = map[Fault]string{
	Error:       "that a request succeeds, or that a failed one need not be tried again",
	Conflict:    "that nobody else writes between its reading and its writing",
	Busy:        "that the server has room for every request",
	LostRequest: "that a request arrives, or that a failed one need not be tried again",
	LostAnswer:  "that a request which failed has done nothing",
	Delay:       "that requests are done in the order and at the time in which it sends them",
	Cut:         "that a watch goes on for ever, or that it shows every change",
	Hold:        "that its cache shows what it has just written",
	Expire:      "that a watch can always be continued where it ended",
	Full:        "that there is always room for a write",
	Down:        "that the server is always there",
	Crash:       "that what it does after a write is done as well",
	CrashBefore: "that what it has begun is done, or that it hears again of what it was about to do",
}

// Assumption says what a program takes for granted that does not stand a fault.
func (f Fault) Assumption() string { return assumptions[f] }

func known(f Fault) bool { return assumptions[f] != "" }

// faults are their names, sorted.
func faults() []Fault { return slices.Sorted(maps.Keys(assumptions)) }

// Plan is what goes wrong. The first rule that strikes counts. A rule with Nth strikes always, any other by chance.
type Plan struct {
	Seed  uint64
	Rules []Rule
}

// Usual is a plan of everything that happens to programs in production, more often than there.
func Usual(seed uint64) Plan {
	return Plan{Seed: seed, Rules: []Rule{
		{Verb: "create", Chance: 0.1, Fault: Crash},
		{Verb: "update", Chance: 0.1, Fault: Crash},
		{Verb: "patch", Chance: 0.1, Fault: Crash},
		{Verb: "delete", Chance: 0.1, Fault: Crash},
		{Verb: "delete", Chance: 0.2, Fault: CrashBefore},
		{Verb: "update", Chance: 0.05, Fault: CrashBefore},
		{Verb: "create", Chance: 0.2, Fault: LostAnswer},
		{Verb: "update", Chance: 0.2, Fault: LostAnswer},
		{Verb: "update", Chance: 0.3, Fault: Conflict},
		{Verb: "watch", Chance: 0.3, Fault: Hold, For: 20 * time.Second},
		{Verb: "watch", Chance: 0.2, Fault: Cut},
		{Verb: "watch", Chance: 0.2, Fault: Expire},
		{Chance: 0.05, Fault: Error},
		{Chance: 0.05, Fault: LostRequest},
		{Chance: 0.02, Fault: Full},
		{Chance: 0.02, Fault: Busy},
		{Chance: 0.02, Fault: Down, For: 5 * time.Second},
	}}
}

// String is one line that Parse reads.
func (p Plan) String() string {
	words := []string{"seed=" + strconv.FormatUint(p.Seed, 10)}
	for _, r := range p.Rules {
		words = append(words, r.String())
	}
	return strings.Join(words, " ")
}

// Parse reads what Plan.String writes.
func Parse(line string) (Plan, error) {
	var p Plan
	for _, word := range strings.Fields(line) {
		if seed, ok := strings.CutPrefix(word, "seed="); ok {
			n, err := strconv.ParseUint(seed, 10, 64)
			if err != nil {
				return p, fmt.Errorf("seed %q: %w", seed, err)
			}
			p.Seed = n
			continue
		}
		r, err := parseRule(word)
		if err != nil {
			return p, fmt.Errorf("rule %q: %w", word, err)
		}
		p.Rules = append(p.Rules, r)
	}
	return p, nil
}

// Shrink leaves rules out of a plan for as long as the test that it makes fail still fails, and returns what cannot be
// left out. It is meant for plans from [Transport.Happened], whose rules strike once each.
func Shrink(p Plan, fails func(Plan) bool) Plan {
	for size := max(1, len(p.Rules)/2); size >= 1; {
		shrunk := false
		for at := 0; at < len(p.Rules); {
			less := Plan{Seed: p.Seed}
			less.Rules = append(append(less.Rules, p.Rules[:at]...), p.Rules[min(at+size, len(p.Rules)):]...)
			if fails(less) {
				p, shrunk = less, true
			} else {
				at += size
			}
		}
		if size == 1 && !shrunk {
			break
		}
		size = max(1, size/2)
	}
	return p
}
