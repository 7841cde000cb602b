package loop

import (
	"cmp"
	"context"
	"fmt"
	"slices"
)

// Entry describes a loop in a list, so that it can be run by name.
type Entry struct {
	// Name and Aliases are the names that [Select] accepts.
	Name    string
	Aliases []string
	// Source is the source of its events; empty means Name.
	Source string
	// New makes the loop. The clients record events with Source. A nil Runner without an error means that the loop has
	// nothing to do here.
	New func(c *Clients) (Runner, error)
	// OffByDefault loops run only if they are named explicitly.
	OffByDefault bool
	// Unelected loops run in every process, not only in the leader.
	Unelected bool
}

// Group runs a selection of loops.
type Group struct {
	Clients *Clients
	Entries []Entry
	// Select names the loops that run; nil means all that are not off by default. See [Select] for the syntax.
	Select []string
	// Election, if set, makes the loops run only in the leader.
	Election *Election
	// Identify, if set, returns the context in which a loop runs, so that a transport can see which loop a request
	// belongs to. What loops share (informers, events) runs with the context of [Run].
	Identify func(ctx context.Context, name string) context.Context
	// Runs, if set, is called when a loop begins to run and when it has ended, for metrics.
	Runs func(name string, runs bool)
}

// Run makes the selected loops and runs them until ctx ends or one fails.
func (g *Group) Run(ctx context.Context) error {
	entries, err := Select(g.Entries, g.Select)
	if err != nil {
		return err
	}
	var elected, unelected []Runner
	for _, entry := range entries {
		runner, err := g.make(entry)
		switch {
		case err != nil:
			return err
		case runner == nil:
		case entry.Unelected:
			unelected = append(unelected, runner)
		default:
			elected = append(elected, runner)
		}
	}
	if g.Election == nil || len(elected) == 0 {
		return Join(append(unelected, elected...)...).Run(ctx)
	}
	leader := Elected(g.Clients, *g.Election, Join(elected...))
	return Join(append(unelected, leader)...).Run(ctx)
}

// Make makes the loop, with clients that have its name.
func (e Entry) Make(c *Clients) (Runner, error) { return e.New(c.Named(cmp.Or(e.Source, e.Name))) }

// make makes a loop, puts its name into its requests' contexts and its errors, and tells when it runs.
func (g *Group) make(e Entry) (Runner, error) {
	runner, err := e.Make(g.Clients)
	if err != nil {
		return nil, fmt.Errorf("make %s: %w", e.Name, err)
	}
	if runner == nil {
		return nil, nil
	}
	return Func(func(ctx context.Context) error {
		if g.Identify != nil {
			ctx = g.Identify(ctx, e.Name)
		}
		if g.Runs != nil {
			g.Runs(e.Name, true)
			defer g.Runs(e.Name, false)
		}
		if err := runner.Run(ctx); err != nil {
			return fmt.Errorf("run %s: %w", e.Name, err)
		}
		return nil
	}), nil
}

// Select selects entries as --controllers of kube-controller-manager does: "foo" selects foo, "-foo" leaves it out, "*"
// selects all that are not off by default. The first word that applies to an entry decides. No words mean "*". A word
// that names no entry is an error.
func Select(entries []Entry, words []string) ([]Entry, error) {
	if len(words) == 0 {
		words = []string{"*"}
	}
	for _, word := range words {
		known := func(e Entry) bool { return e.named(word) || word != "" && word[0] == '-' && e.named(word[1:]) }
		if word != "*" && !slices.ContainsFunc(entries, known) {
			return nil, fmt.Errorf("%q is not in the list of known controllers", word)
		}
	}
	var selected []Entry
	for _, entry := range entries {
		if entry.selected(words) {
			selected = append(selected, entry)
		}
	}
	return selected, nil
}

func (e Entry) named(name string) bool {
	return name == e.Name || slices.Contains(e.Aliases, name)
}

func (e Entry) selected(words []string) bool {
	for _, word := range words {
		if e.named(word) {
			return true
		}
		if word != "" && word[0] == '-' && e.named(word[1:]) {
			return false
		}
	}
	return !e.OffByDefault && slices.Contains(words, "*")
}

// Names lists the names of all entries, and of those that are off by default, both sorted: for the help of a
// --controllers flag.
func Names(entries []Entry) (all, offByDefault []string) {
	for _, e := range entries {
		all = append(all, e.Name)
		if e.OffByDefault {
			offByDefault = append(offByDefault, e.Name)
		}
	}
	slices.Sort(all)
	slices.Sort(offByDefault)
	return all, offByDefault
}
