package concern

import (
	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/tree"
)

// Rounds are what a plugin remembers of a change: which of its webhooks or policies want to be asked again if the
// object changes after them, and for which of them it has.
type Rounds struct {
	change   *registry.Change
	invoked  []string
	required map[string]bool
	last     resource.Object // as it was after the last of them
}

// Begin begins a round of a plugin.
func Begin(plugin string, c *registry.Change) *Rounds {
	r, ok := c.Kept[plugin].(*Rounds)
	if !ok {
		r = &Rounds{change: c, required: map[string]bool{}}
		c.Keep(plugin, r)
	}
	if c.Round > 0 && !tree.Alike(r.last, c.Object) {
		r.requireAll() // plugins in between have changed the object
	}
	return r
}

// Due tells whether somebody is to be asked in this round.
func (r *Rounds) Due(id string) bool { return r.change.Round == 0 || r.required[id] }

// Changed says that the object has changed: all that were asked so far, and want to, are asked again.
func (r *Rounds) Changed() {
	r.requireAll()
	r.change.AskAgain()
}

// Asked says that somebody was asked who wants to be asked again if the object changes after that.
func (r *Rounds) Asked(id string) { r.invoked = append(r.invoked, id) }

// End ends a round.
func (r *Rounds) End() {
	if o := r.change.Object; o != nil {
		r.last = o.DeepCopyObject().(resource.Object)
	}
}

func (r *Rounds) requireAll() {
	for _, id := range r.invoked {
		r.required[id] = true
	}
	r.invoked = nil
}
