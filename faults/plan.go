package faults

import (
	"fmt"
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
	// Expire answers 410, as a server does that has forgotten where a watch was.
	Expire Fault = "expire"
)

var all = []Fault{Error, Conflict, Busy, LostRequest, LostAnswer, Delay, Cut, Hold, Expire}

// Rule says when a fault happens. Empty fields match anything.
type Rule struct {
	Verb     string // get, list, watch, create, update, patch, delete, deletecollection
	Resource string // pods, or pods/status
	Name     string // namespace/name or name
	Nth      int    // of the requests about the same thing, from 1: the one that is struck. Zero: any
	Chance   float64
	For      time.Duration // of Delay and Hold; zero: a second
	Fault    Fault
}

// Plan is what goes wrong. The first rule that strikes counts. A rule with Nth strikes always, any other by chance.
type Plan struct {
	Seed  uint64
	Rules []Rule
}

// String is one line that Parse reads.
func (p Plan) String() string {
	words := []string{"seed=" + strconv.FormatUint(p.Seed, 10)}
	for _, r := range p.Rules {
		words = append(words, r.String())
	}
	return strings.Join(words, " ")
}

// String is fault:verb:resource:name:when, with * for any, where when is #N, or a chance such as 0.2, and @DURATION may
// follow the fault.
func (r Rule) String() string {
	fault := string(r.Fault)
	if r.For > 0 {
		fault += "@" + r.For.String()
	}
	when := strconv.FormatFloat(r.Chance, 'g', -1, 64)
	if r.Nth > 0 {
		when = "#" + strconv.Itoa(r.Nth)
	}
	return strings.Join([]string{fault, star(r.Verb), star(r.Resource), star(r.Name), when}, ":")
}

func star(s string) string {
	if s == "" {
		return "*"
	}
	return s
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

func parseRule(word string) (r Rule, err error) {
	parts := strings.Split(word, ":")
	if len(parts) != 5 {
		return r, fmt.Errorf("it has %d parts, not 5: fault:verb:resource:name:when", len(parts))
	}
	fault, lasts, _ := strings.Cut(parts[0], "@")
	if lasts != "" {
		if r.For, err = time.ParseDuration(lasts); err != nil {
			return r, err
		}
	}
	if r.Fault = Fault(fault); !known(r.Fault) {
		return r, fmt.Errorf("there is no fault %q; there are %v", fault, all)
	}
	r.Verb, r.Resource, r.Name = unstar(parts[1]), unstar(parts[2]), unstar(parts[3])
	if nth, ok := strings.CutPrefix(parts[4], "#"); ok {
		r.Nth, err = strconv.Atoi(nth)
	} else {
		r.Chance, err = strconv.ParseFloat(parts[4], 64)
	}
	return r, err
}

func known(f Fault) bool {
	for _, one := range all {
		if f == one {
			return true
		}
	}
	return false
}

func unstar(s string) string {
	if s == "*" {
		return ""
	}
	return s
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
