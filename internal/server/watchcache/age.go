package watchcache

import (
	"context"
	"time"

	"github.com/millrace/millrace/internal/server/store"
	"github.com/millrace/millrace/internal/sleep"
)

// Histories are bounded by age as well: after a burst of changes, a quiet server gives the memory back. Of a kind
// that rarely changes, the newest events stay however old they are, so that its watches can be resumed after hours.
const (
	ageInterval = 15 * time.Second
	// keptWhateverAge is how many events of a kind stay however old they are.
	keptWhateverAge = 128
	// ageStep is how many events are forgotten before others get the kind's lock.
	ageStep = 512
)

// ages remembers how far a history was at its last looks, the oldest first. Events need no times: those that were there
// at a look that is old enough are too old. A look only comes later than it should, so that no event goes too early.
type ages []store.Revision

// look remembers that the history has reached rev. Of n looks it returns the oldest, and zero until there were that
// many.
func (a *ages) look(rev store.Revision, n int) store.Revision {
	*a = append(*a, rev)
	if len(*a) <= n {
		return 0
	}
	oldest := (*a)[0]
	*a = append((*a)[:0], (*a)[1:]...)
	return oldest
}

// age forgets old events until ctx ends.
func (c *Cache) age(ctx context.Context) {
	for sleep.For(ctx, ageInterval) {
		for _, k := range c.Kinds() {
			k.forgetOld(max(1, int(c.options.WindowAge/ageInterval)))
		}
	}
}

// forgetOld is called every ageInterval. It forgets the events that were there at the call before n calls.
func (k *Kind) forgetOld(n int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	h := k.history
	if h == nil {
		return
	}
	old := h.ages.look(h.last, n)
	for steps := 1; k.history == h && h.oldLocked(old); steps++ {
		h.shiftLocked(endExpired)
		if steps%ageStep == 0 {
			k.mu.Unlock()
			k.mu.Lock()
		}
	}
	k.past.forgetBefore(h.since)
}

// oldLocked reports whether the oldest event may go, because old is not before it.
func (h *history) oldLocked(old store.Revision) bool {
	return h.window.len() > keptWhateverAge && h.window.at(0).revision <= old
}
