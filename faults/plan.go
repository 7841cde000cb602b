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
	// Conflict answers 409, as if another client had written first.
	Conflict Fault = "conflict"
	// Busy answers 429 with Retry-After.
	Busy Fault = "busy"
	// LostRequest fails before the request reaches the server.
	LostRequest Fault = "lost-request"
	// LostAnswer fails after the server has processed the request.
	LostAnswer Fault = "lost-answer"
	// Delay delays the request.
	Delay Fault = "delay"
	// Cut ends a watch after its first bytes. Other answers are cut in the middle.
	Cut Fault = "cut"
	// Hold delays all of an answer, so that a cache falls behind.
	Hold Fault = "hold"
	// Expire answers 410, like a server that has compacted the resource version of a watch.
	Expire Fault = "expire"
	// Full answers writes like a server whose store has no space left.
	Full Fault = "full"
	// Down is a restart of the server: watches are cut, and for a while no request reaches it.
	Down Fault = "down"
	// Crash is a crash of the client after the request was processed: from then on the client is gone until it is
	// started again. See [Transport.Run].
	Crash Fault = "crash"
	// CrashBefore is a crash of the client before the request is sent.
	CrashBefore Fault = "crash-before"
)

// assumptions has the wrong assumption of a program that a fault breaks.
var assumptions = map[Fault]string{
	Error:       "that a request succeeds, or that a failed one need not be retried",
	Conflict:    "that no other client writes between its read and its write",
	Busy:        "that the server has capacity for every request",
	LostRequest: "that a request arrives, or that a failed one need not be retried",
	LostAnswer:  "that a failed request has changed nothing",
	Delay:       "that requests are processed in the order and at the time in which it sends them",
	Cut:         "that a watch never ends, or that it shows every change",
	Hold:        "that its cache shows what it has just written",
	Expire:      "that a watch can always be continued where it ended",
	Full:        "that the store always has space for a write",
	Down:        "that the server can always be reached",
	Crash:       "that what it does after a write is always done as well",
	CrashBefore: "that what it has begun is always completed, or that the event comes again",
}

// Assumption returns the wrong assumption of a program that the fault breaks.
func (f Fault) Assumption() string { return assumptions[f] }

func known(f Fault) bool { return assumptions[f] != "" }

// faults returns the names of all faults, sorted.
func faults() []Fault { return slices.Sorted(maps.Keys(assumptions)) }

// Plan has the faults to inject. The first rule that matches decides. A rule with Nth always applies; any other by
// chance.
type Plan struct {
	Seed  uint64
	Rules []Rule
}

// Usual returns a plan of everything that happens in production, only more often.
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

// String returns the plan as one line that Parse reads.
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

// Shrink removes rules from a plan as long as the test still fails with it, and returns the rest. It is meant for plans
// from [Transport.Happened], whose rules apply once each.
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
