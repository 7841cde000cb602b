package faults

import (
	"fmt"
	"slices"
	"strings"
)

// Finding is a plan that makes a test fail.
type Finding struct {
	// Err is the test's error.
	Err error
	// Plan makes the test fail, with as few faults as could be found.
	Plan Plan
	// Repeats reports whether the plan alone made the test fail again. If not, the result depends on more than the
	// test's requests.
	Repeats bool
	// Tries is how many plans were tried before one made the test fail.
	Tries int
}

// attempts is how often a plan is tried before it counts as harmless: requests that a program sends at the same moment
// have no fixed order.
const attempts = 3

// Search runs a test with one seed after the other until a plan makes it fail repeatedly or all tries are used. Then it
// removes all faults that are not needed. It returns nil if the test has passed every time.
//
// The test runs a program whose requests go through the transport, heals the transport, gives the program time, and
// returns what is wrong then.
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

// again reports whether a plan makes the test fail, and stores the error.
func (f *Finding) again(p Plan, test func(*Transport) error) bool {
	for range attempts {
		if err := test(New(p)); err != nil {
			f.Err = err
			return true
		}
	}
	return false
}

// Assumptions returns the program's wrong assumptions, as shown by the plan.
func (f *Finding) Assumptions() []string {
	var out []string
	for _, r := range f.Plan.Rules {
		if a := r.Fault.Assumption(); !slices.Contains(out, a) {
			out = append(out, a)
		}
	}
	return out
}

// String describes the error, the plan that causes it, and the wrong assumptions.
func (f *Finding) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v\n", f.Err)
	if f.Repeats {
		fmt.Fprintf(&b, "shortest plan that causes it: %s\n", f.Plan)
	} else {
		fmt.Fprintf(&b, "it did not happen again with the same faults, so it depends on more than requests: %s\n", f.Plan)
	}
	for _, a := range f.Assumptions() {
		fmt.Fprintf(&b, "the program assumes %s\n", a)
	}
	return b.String()
}
