package faults

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Rule says when a fault happens. Empty fields match anything.
type Rule struct {
	Verb     string // get, list, watch, create, update, patch, delete, deletecollection
	Resource string // pods, or pods/status
	Name     string // namespace/name or name
	User     string // the impersonated user, or the name given to WrapAs
	Nth      int    // which of the requests with the same subject fails, from 1; zero means any
	Chance   float64
	Times    int           // how often the rule applies at most, whatever the subject; zero means without a limit
	For      time.Duration // duration of Delay, Hold and Down; zero means one second
	Fault    Fault
}

// escapes protects the separators in names such as system:node:a.
var (
	escapes   = strings.NewReplacer("%", "%25", ":", "%3A", " ", "%20", "*", "%2A")
	unescapes = strings.NewReplacer("%25", "%", "%3A", ":", "%20", " ", "%2A", "*")
)

// String formats a rule as fault:verb:resource:name:user:when. * means any. when is #N or a chance such as 0.2.
// @DURATION may follow the fault, and xTIMES may follow when. A colon in a name is written as %3A.
func (r Rule) String() string {
	fault := string(r.Fault)
	if r.For > 0 {
		fault += "@" + r.For.String()
	}
	when := strconv.FormatFloat(r.Chance, 'g', -1, 64)
	if r.Nth > 0 {
		when = "#" + strconv.Itoa(r.Nth)
	}
	if r.Times > 0 {
		when += "x" + strconv.Itoa(r.Times)
	}
	return strings.Join([]string{fault, star(r.Verb), star(r.Resource), star(r.Name), star(r.User), when}, ":")
}

func star(s string) string {
	if s == "" {
		return "*"
	}
	return escapes.Replace(s)
}

func unstar(s string) string {
	if s == "*" {
		return ""
	}
	return unescapes.Replace(s)
}

func parseRule(word string) (r Rule, err error) {
	parts := strings.Split(word, ":")
	if len(parts) != 6 {
		return r, fmt.Errorf("it has %d parts, not 6: fault:verb:resource:name:user:when", len(parts))
	}
	fault, lasts, _ := strings.Cut(parts[0], "@")
	if lasts != "" {
		if r.For, err = time.ParseDuration(lasts); err != nil {
			return r, err
		}
	}
	if r.Fault = Fault(fault); !known(r.Fault) {
		return r, fmt.Errorf("there is no fault %q; there are %v", fault, faults())
	}
	r.Verb, r.Resource, r.Name, r.User = unstar(parts[1]), unstar(parts[2]), unstar(parts[3]), unstar(parts[4])
	when, times, limited := strings.Cut(parts[5], "x")
	if limited {
		if r.Times, err = strconv.Atoi(times); err != nil {
			return r, err
		}
	}
	if nth, ok := strings.CutPrefix(when, "#"); ok {
		r.Nth, err = strconv.Atoi(nth)
	} else {
		r.Chance, err = strconv.ParseFloat(when, 64)
	}
	return r, err
}

// writes are the verbs that change objects.
var writes = []string{"create", "update", "patch", "delete", "deletecollection"}

func (r Rule) matches(s subject) bool {
	if r.Fault == Full && !slices.Contains(writes, s.verb) {
		return false
	}
	return s.verb != "" && (r.Verb == "" || r.Verb == s.verb) && (r.Resource == "" || r.Resource == s.resource) &&
		(r.Name == "" || r.Name == s.name) && (r.User == "" || r.User == s.user)
}
