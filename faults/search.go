package faults

import (
	"fmt"
	"slices"
	"strings"
)

// Finding is a way to make a test fail.
type Finding struct {
	// Err is what was wrong.
	Err error
	// Plan makes it happen, with as few faults as could be found.
	Plan Plan
	// Repeats tells whether the plan alone made the test fail again. If not, the test depends on more than its requests.
	Repeats bool
	// Tries is how many plans were tried before one made the test fail.
	Tries int
}

// attempts are how often a plan is tried before it is believed to do no harm: what a program does at the same moment, it does in any
// order.
const attempts = 3

// Search tries a test with one seed after the other, until a plan makes it fail again and again or all have been tried; it then leaves out
// of what had happened whatever can be left out. It returns nil if the test has stood everything.
//
// The test runs a program whose requests go through the transport, heals the transport, gives the program time, and returns what is
// wrong then.
func Search(tries int, plan Plan, test func(*Transport) error) *Finding {
	var found *Finding
	for i := range tries {
		transport := New(Plan{Seed: plan.Seed + uint64(i), Rules: plan.Rules})
		err := test(transport)
		if err == nil {
			continue
		}
		f := &Finding{Err: err, Plan: transport.Happened(), Tries: i + 1}
		if f.Repeats = f.again(f.Plan, test); f.Repeats {
			f.Plan = Shrink(f.Plan, func(p Plan) bool { return f.again(p, test) })
			return f
		}
		if found == nil {
			found = f
		}
	}
	return found
}

// again tells whether a plan makes the test fail, and notes how.
func (f *Finding) again(p Plan, test func(*Transport) error) bool {
	for range attempts {
		if err := test(New(p)); err != nil {
			f.Err = err
			return true
		}
	}
	return false
}

// Assumptions are what the program takes for granted, as the plan shows.
func (f *Finding) Assumptions() []string {
	var out []string
	for _, r := range f.Plan.Rules {
		if a := r.Fault.Assumption(); !slices.Contains(out, a) {
			out = append(out, a)
		}
	}
	return out
}

// String says in a few lines what was wrong, what makes it happen, and what the program takes for granted.
func (f *Finding) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v\n", f.Err)
	if f.Repeats {
		fmt.Fprintf(&b, "the shortest plan that does it: %s\n", f.Plan)
	} else {
		fmt.Fprintf(&b, "it did not happen again with the same faults, so it depends on more than requests: %s\n", f.Plan)
	}
	for _, a := range f.Assumptions() {
		fmt.Fprintf(&b, "the program takes for granted %s\n", a)
	}
	return b.String()
}
